"""What a transport must give, and nothing about who uses it.

A `Channel` is one end of a connection that carries JSON-RPC messages. It frames and delivers them, says how a
request is given up on its wire, and what it knows about where a message came from. It looks at no method and no
parameter, and it never starts a handler.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio

from ._absent import ABSENT
from ._codec._jsonrpc import Notification, RequestId
from ._errors import McpError


class Origin(Protocol):
    """Where a message came from, as far as the transport knows.

    On a pipe there is one origin. Over HTTP each POST is one, and what belongs to its request goes back there.

    One may also have a `holder`, a string: in whose name a server keeps what outlives the message. Without it,
    that is the principal, or the connection where there is none.
    """

    @property
    def principal(self) -> str | None:
        """Who sent it, if the transport authenticates; equal strings are equal senders."""
        ...


def holder_of(origin: Origin | None, connection: str) -> str:
    """Return in whose name something is kept.

    Args:
        origin: Where the message came from that it is kept for.
        connection: What to call the connection, if nothing else is known.
    """
    if origin is None:
        return connection
    holder = getattr(origin, "holder", None)
    if isinstance(holder, str):
        return holder
    return connection if origin.principal is None else f"principal {origin.principal}"


@runtime_checkable
class ReleasableOrigin(Origin, Protocol):
    """An origin whose connection can be let go before its answer, because the client can fetch that later."""

    def release(self, retry_after: float | None) -> None:
        """Let it go; the client should come back after so many seconds."""
        ...


@final
@attrs.define
class Incoming:
    """A message as it came, or a batch of them.

    Attributes:
        data: Its bytes.
        origin: Where it came from, if the transport has more than one origin.
        failure: Why a request has no result, where a transport can fail one and go on. Then `data` is an error
            answer for that request: what the other side has said (a `RequestError`), or what the transport says
            in its place (any other error, and `TRANSPORT_FAILED`). If it is for no request, its id is null, and
            the failure concerns whoever uses the connection.
        value: The message, decoded, if the transport had to look into it.
    """

    data: bytes
    origin: Origin | None = None
    failure: McpError | None = None
    value: Any = ABSENT


@final
@attrs.define
class TooLarge:
    """A message that was larger than allowed and is gone, except for its ends."""

    size: int
    head: bytes
    tail: bytes
    origin: Origin | None = None


@final
@attrs.define
class OriginGone:
    """Nothing more will come from an origin, and what it has asked nobody waits for.

    For transports where a request and what cancels it can overtake each other, because each goes its own way.
    """

    origin: Origin


Received: TypeAlias = Incoming | TooLarge | OriginGone


@final
@attrs.define(eq=False)
class Outgoing:
    """A message on its way out, encoded, or a batch of them.

    Attributes:
        data: Its bytes, without framing.
        request_ids: The ids of the requests in it; none for anything else.
        answers: The ids of the requests it answers.
        origin: The origin of the request it belongs to, if it belongs to one.
    """

    data: bytes
    request_ids: tuple[RequestId, ...] = ()
    answers: tuple[RequestId, ...] = ()
    origin: Origin | None = None


class Channel(abc.ABC):
    """One end of a connection that carries JSON-RPC messages.

    One task calls `receive` and one calls `send`. `give_up` never waits. Subclass it to carry MCP over something
    new, and hand the object to `open_client` or `serve_channel`.
    """

    @property
    def description(self) -> str:
        """What this is, for errors and logs, such as ``stdio server 'python weather.py' (pid 4711)``."""
        return type(self).__name__

    @abc.abstractmethod
    async def receive(self) -> Sequence[Received]:
        """Wait for the next message or messages, in wire order.

        Cancellation loses nothing: what was not returned comes with the next call.

        Raises:
            trio.EndOfChannel: The other side has ended its half in an orderly way.
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """

    @abc.abstractmethod
    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Hand messages to the wire, in order, and wait until it has taken them.

        Cancelling this may tear a message in two, so only a task that ends the connection may be cancelled here.

        Raises:
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Hand messages to the wire, in order, if it takes them now. Never called while `send` is running.

        It saves the way through the task that calls `send`. The default takes nothing.

        Returns:
            Whether the wire has all of them. If not, it has begun to take them, and the channel keeps the rest:
            the next `send`, which may have nothing more to say, begins with that.

        Raises:
            trio.WouldBlock: Nothing was taken.
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """
        del messages
        raise trio.WouldBlock

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more may be said of what came from an origin; for `None`, of nothing in particular.

        A transport that carries several streams lets senders wait for a reader that is slow, without letting
        them wait for each other. On a single wire `send` alone does that, and the default is yes.
        """
        del origin
        return True

    async def wait_room(self, origin: Origin | None) -> None:  # noqa: B027 - right for a single wire
        """Wait until `has_room` says yes. Does not checkpoint if it does."""

    async def wait_turn(self, origin: Origin | None) -> None:  # noqa: B027 - right where nobody shares
        """Wait until a notification of what came from an origin may be sent. Awaited before each of them.

        A transport that serves many clients in one process gives each of them a share of every pass of the event
        loop. Does not checkpoint if it may be sent at once. Cancelled, it was not sent. By default nobody waits.
        """

    def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AbstractAsyncContextManager[None]:
        """Notice the end of the other side's half while nobody calls `receive` yet. Entered once, first.

        A server whose lifespan is still being entered learns in this way that its client has gone. What is read
        is kept for `receive`. The default notices nothing.

        Args:
            on_end: Called when nothing more comes. Never waits.
            max_bytes: How much may be kept before reading stops until `receive` is called.
        """
        del on_end, max_bytes
        return nullcontext()

    def rests(self, wake: Callable[[], object]) -> bool:
        """Say whether this calls something whenever `may_rest` says no after it has said yes.

        Then nobody waits in `receive` while nothing comes, and no task is there while nothing happens: for
        servers with many connections that are idle for long. The default is no. Called once, and first.

        Args:
            wake: What to call. Never waits.
        """
        del wake
        return False

    def may_rest(self) -> bool:
        """Return whether `receive` would wait, and who reads may go instead; see `rests`.

        Called when everything that came before was taken.
        """
        return False

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Signal that nobody waits for the answer to a request that was sent.

        Does what the binding does to cancel a request, without waiting for anything, or returns the notification
        that does it, which then follows the request on the wire. The default is ``notifications/cancelled``.

        Spec: 2026-07-28, basic/patterns/cancellation, "Transport-Specific Cancellation".
        """
        params: dict[str, object] = {"requestId": request_id}
        if reason is not None:
            params["reason"] = reason
        return Notification("notifications/cancelled", params)

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Release everything. May be cancelled, and even then releases everything; closing again does nothing."""
