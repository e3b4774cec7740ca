"""The interface of transports: `Channel`, and the messages that go through it.

A `Channel` is one end of a connection that carries JSON-RPC messages. It frames and delivers them, knows how its
wire cancels a request, and from where a message came. It looks at no method and no parameter, and starts no
handler. Nothing here knows what uses a channel.
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
from ._errors import TRANSPORT_FAILED, McpError, RequestError
from ._printable import excerpt


class Origin(Protocol):
    """Where a message came from, as far as the transport knows.

    A pipe has one origin. Over HTTP each POST is one, and the messages that belong to its request go back to it.

    An origin may also have a `client_key`, a string: what its client is called where something is kept or counted
    for it. Without it, that is the principal, or the connection if there is no principal. Where the transport
    knows the address of the sender, it has that as `client`, whoever is counted. (Elsewhere, where nothing has to
    be said of the address, the client that is counted is just `client`.) And an origin may have a method
    `keep_answer`, which is called with the size of each larger answer before it waits to be written, and may
    refuse it with a `RequestError`.

    What is counted for a message lasts until the message is done with: a request when its answer is written or
    will never be, a notification when it was handled or dropped, anything else when it was taken, and what
    complains of it is written. An origin that counts has two methods: `hold`, called by whatever goes on with a
    message, and `done`, called once for each message that was received with it and once for each `hold`. Neither
    may wait or raise. When the connection ends, nothing is called for what is left: who has made the origins
    gives all of it back then.
    """

    @property
    def principal(self) -> str | None:
        """Who sent it, if the transport authenticates; equal strings are equal senders."""
        ...


def client_key_of(origin: Origin | None, connection: str) -> str:
    """Return the client that something is kept or counted for which a message asks for.

    Args:
        origin: Where the message came from.
        connection: The name of the connection, for an origin with neither a `client_key` nor a principal.
    """
    if origin is None:
        return connection
    client_key = getattr(origin, "client_key", None)
    if isinstance(client_key, str):
        return client_key
    return connection if origin.principal is None else f"principal {origin.principal}"


def owner_of(origin: Origin | None) -> str | None:
    """Return whose a message is, as plain text to be kept; `None` where nobody authenticates."""
    return None if origin is None or origin.principal is None else str(origin.principal)


def client_of(origin: Origin | None) -> str | None:
    """Return the address of the sender of a message, if its origin knows that."""
    client = None if origin is None else getattr(origin, "client", None)
    return client if isinstance(client, str) else None


@runtime_checkable
class ReleasableOrigin(Origin, Protocol):
    """An origin whose connection can be closed before its answer, because the client can fetch that later."""

    def release(self, retry_after: float | None) -> None:
        """Close the connection, and ask the client to come back after so many seconds."""
        ...


@final
@attrs.define
class Incoming:
    """A received message, or a batch of them.

    Attributes:
        data: Its bytes.
        origin: Where it came from, if the transport has more than one origin.
        failure: Why a request has no result, if the transport can fail one request and go on. Then `data` is an
            error response for it: the peer's own (a `RequestError`), or one that the transport has made instead
            (any other `McpError`, with the code `TRANSPORT_FAILED`). If its id is null, the failure is that of
            the connection as a whole. Any other exception is what the peer's handler has raised, in this process;
            `data` is then the answer that does not show it.
        value: The decoded message, if the transport had to decode it.
        cancellation: Beside a failure: what cancels the request, if the other side may be serving it still. It is
            sent, unless the caller waits for the request no longer.
    """

    data: bytes
    origin: Origin | None = None
    failure: Exception | None = None
    value: Any = ABSENT
    cancellation: Notification | None = None

    @property
    def was_on_wire(self) -> bool:
        """Whether the other side has sent this, and not the transport in its place."""
        if isinstance(self.failure, RequestError):
            return self.failure.code != TRANSPORT_FAILED
        return not isinstance(self.failure, McpError)


@final
@attrs.define
class TooLarge:
    """A message that was larger than allowed, or for which there is no room. Only its ends were kept.

    Attributes:
        size: How large it was, in bytes.
        head: Its first bytes.
        tail: Its last bytes.
        origin: Where it came from, if the transport has more than one origin.
        refusal: The error that answers it, if it was not too large by itself.
    """

    size: int
    head: bytes
    tail: bytes
    origin: Origin | None = None
    refusal: RequestError | None = None


@final
@attrs.define
class OriginGone:
    """Nothing more will come from an origin, and it does not wait for answers any more.

    For transports on which a request and its cancellation can overtake each other.
    """

    origin: Origin


Received: TypeAlias = Incoming | TooLarge | OriginGone
"""What a channel gives when it is received from."""


class AnswerClock(Protocol):
    """The deadline of a request that stands still while a person is asked something. Stops are counted."""

    def stop(self) -> None:
        """Stop the time."""
        ...

    def start(self) -> None:
        """Let the time go on."""
        ...


@final
@attrs.define(eq=False)
class Outgoing:
    """An encoded message to send, or a batch of them.

    Attributes:
        data: Its bytes, without framing.
        request_ids: The ids of the requests in it, if any.
        answers: The ids of the requests it answers, if any.
        origin: The origin of the request it belongs to, if it belongs to one.
        clocks: The deadlines of the requests in it, which a transport stops while it has to ask a person before
            it can send them.
    """

    data: bytes
    request_ids: tuple[RequestId, ...] = ()
    answers: tuple[RequestId, ...] = ()
    origin: Origin | None = None
    clocks: tuple[AnswerClock, ...] = ()


class Channel(abc.ABC):
    """One end of a connection that carries JSON-RPC messages.

    One task calls `receive` and one calls `send`. `give_up` never waits. To carry MCP over another transport,
    subclass it and pass the object to `open_client` or `serve_channel`.

    Attributes:
        transport: The name of the transport, for records and statistics: ``"stdio"``, ``"http"``,
            ``"websocket"``, ``"tcp"``, ``"tls"``, ``"unix"``, ``"memory"``, or what a channel of yours says.
    """

    _description: str = ""
    transport: str = "custom"

    @property
    def description(self) -> str:
        """A name for errors and logs, such as ``stdio server 'python weather.py' (pid 4711)``."""
        return self._description or type(self).__name__

    @abc.abstractmethod
    async def receive(self) -> Sequence[Received]:
        """Wait for the next message or messages, in wire order.

        Cancellation loses nothing: messages that were not returned are returned by the next call.

        Raises:
            trio.EndOfChannel: The other side has ended its half in an orderly way.
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """

    @abc.abstractmethod
    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Give messages to the wire, in order, and wait until it has taken them.

        Cancelled, it may have sent a part of a message. So only a task that ends the connection may be cancelled
        here.

        Raises:
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Give messages to the wire, in order, if it takes them now. Never called while `send` is running.

        It saves waking the task that calls `send`. The default takes nothing.

        Returns:
            Whether the wire has taken all of them. If not, it has taken a part, and the channel keeps the rest:
            the next `send`, whose own messages may be none, begins with that.

        Raises:
            trio.WouldBlock: Nothing was taken.
            ConnectionLost: The connection failed, and why.
            trio.ClosedResourceError: `aclose` was called here.
        """
        del messages
        raise trio.WouldBlock

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more messages for an origin may be sent; for `None`, messages that belong to no request.

        On a transport with several streams, senders wait for the slow reader of their own stream and not for
        others. On a single wire `send` alone makes them wait, and the default is true.
        """
        del origin
        return True

    async def wait_room(self, origin: Origin | None) -> None:
        """Wait until `has_room` is true. Does not checkpoint if it is."""

    def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AbstractAsyncContextManager[None]:
        """Read before `receive` is called for the first time, to notice the end of input. Entered once, first.

        So a server whose lifespan is still being entered learns that its client has gone. `receive` returns later
        what was read. The default reads nothing.

        Args:
            on_end: Called at the end of the input. Never waits.
            max_bytes: How many bytes may be kept before reading stops until `receive` is called.
        """
        del on_end, max_bytes
        return nullcontext()

    def rests(self, wake: Callable[[], object]) -> bool:
        """Return whether the channel calls `wake` when a message comes after `may_rest` was true.

        If so, no task needs to wait in `receive` while the connection is idle: for servers with many connections
        that are idle for long. The default is false. Called once, and first.

        Args:
            wake: Called when `may_rest` is no longer true. Never waits.
        """
        del wake
        return False

    def call_on_answers(self, take: Callable[[Sequence[Received]], int]) -> None:
        """Have answers taken where they come, while a task waits in `receive`.

        That task then needs no pass of the event loop. The channel may call `take` with what the task would be
        woken with. The default never does. Called once, and first.

        Args:
            take: Returns how many of these messages it has taken, the first ones; the others are to be received.
                It never waits, runs nothing of the user's, and may be called in any task.
        """

    def call_on_release(self, released: Callable[[RequestId, float | None], object]) -> None:
        """Have a function called when the other side closes the connection of a request, to answer it later.

        The channel then fetches the answer by itself; callers need not know. The default never calls it.

        Args:
            released: Called with the id of the request, and after how many seconds the other side asks to come
                back, if it does. Never waits.

        Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" 6.
        """

    def may_rest(self) -> bool:
        """Return whether `receive` would wait, so that the reading task may end instead; see `rests`.

        Called when all messages that came before were received.
        """
        return False

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Cancel a request that was sent, because its caller does not wait for the answer any more.

        Does what the transport requires, without waiting for anything, or returns the notification that does it,
        which is then sent after the request. The default returns ``notifications/cancelled``.

        Spec: 2026-07-28, basic/patterns/cancellation, "Transport-Specific Cancellation".
        """
        params: dict[str, object] = {"requestId": request_id}
        if reason is not None:
            params["reason"] = reason
        return Notification("notifications/cancelled", params)

    def withdraw_answer(self, request_id: RequestId) -> bool:
        """Stop sending the answer to a request that the other side has cancelled, if it is still being sent.

        For transports on which `send` returns before the other side has accepted what was sent. Never waits. The
        default does nothing.

        Returns:
            Whether there was such an answer.
        """
        del request_id
        return False

    def explain_unusable(self, data: bytes, problem: str) -> str:
        """Return what to log when the other side has sent what is no message, with the beginning of it.

        Called by clients, whose servers get no answer to it. A transport on which other things can come in
        between overrides this to name them, and how to avoid them.

        Args:
            data: What has come, without framing.
            problem: Why it is no message.
        """
        return f"{self.description} sent what cannot be used: {problem}: {excerpt(data)}"

    def explain_silence(self) -> str:
        """Return what else to say of a server that has not answered while connecting: a clause that ends in "; ".

        The default says nothing.
        """
        return ""

    def about_to_close(self) -> None:
        """This end is being left: what is queued is still sent, and then `aclose` called.

        All of that may take `Limits.goodbye_timeout`, from here on. A channel that waits for more than the wire
        in `send` stops doing so. Never waits. The default does nothing.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Release everything. May be cancelled, and even then releases everything; closing again does nothing."""
