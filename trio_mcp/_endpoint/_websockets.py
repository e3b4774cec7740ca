"""Clients whose connection has become a WebSocket: one session for each, which ends with it.

The request is admitted like every other (`_endpoint`); here its session is served. How the handshake is
completed, and who reads and writes the frames, is up to the host (`WebSocketCall`).

Spec: RFC 6455, section 4.2; 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from .._channel import Origin
from .._core._account import Loan, Overdrawn, Pool
from .._core._frames import GOING_AWAY, POLICY_VIOLATION, TOO_BIG, TRY_AGAIN_LATER, FrameRefused
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._errors import SERVER_BUSY, McpError, RequestError
from .._limits import Limits
from .._logs import Log
from .._server._lifetimes import Shutdown, open_background
from .._server._parking import Service
from .._server._server import Hosted
from .._trio import LightParkingLot
from ._call import SMALL, STEP, HttpCall, RequestLoans, RequestSlot
from ._session_channel import SessionLoans, session_places, too_many

if TYPE_CHECKING:  # a server without WebSockets does not load the library for them
    from .._bindings._websocket import WebSocketEnd

_log: Final = Log("trio_mcp.websocket")

GOODBYE: Final = FrameRefused(GOING_AWAY, "the server stops")

EXPIRED: Final = "what this session was authorized by has expired"
REFUSED: Final = "what this session was authorized by is not accepted any more"


class WebSocketCall(HttpCall):
    """A request that asks to become a WebSocket. Hosts implement it."""

    is_websocket = True

    @abc.abstractmethod
    def check_handshake(self) -> None:
        """Check what the client has sent for it, as far as the host has not.

        Raises:
            HttpRefused: It is not valid (400), or of another version (426).
        """

    @abc.abstractmethod
    def make_channel(
        self,
        limits: Limits,
        settings: HttpServerSettings,
        origin_of: Callable[[bytes], Origin | None],
        on_kept: Callable[[int], object],
    ) -> WebSocketEnd:
        """Return its channel, which is opened by `open_channel`; see `WebSocketEnd` for what is given.

        The end of the session closes it with `GOODBYE`, and otherwise what it is closed with says why.
        """

    @abc.abstractmethod
    def open_channel(self) -> AbstractAsyncContextManager[object]:
        """Accept the WebSocket, and close it in the end.

        Raises:
            McpError: The client has left.
        """

    def work(self) -> None:
        """Note that a request of the client is open."""

    def rest(self) -> None:
        """Note that none is open: the connection gives way to others first."""


@final
@attrs.define(eq=False)
class WebSocketSessions:
    """All sessions of one endpoint over WebSockets.

    Args:
        server: The server.
        service: The run of it.
        settings: How many sessions there may be, and when clients are asked for a sign of life.
    """

    _server: Hosted
    _service: Service[Any]
    _settings: HttpServerSettings
    _shutdown: Shutdown = attrs.field(factory=Shutdown, init=False)
    _count: int = attrs.field(default=0, init=False)
    _ended: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    def __len__(self) -> int:
        return self._count

    async def serve(self, call: HttpCall, slot: RequestSlot) -> None:
        """Let the connection of a request become a WebSocket, and serve its client until that ends.

        Raises:
            HttpRefused: The handshake is not valid (400, 426), or there is no room for another session (429,
                503).
        """
        del slot  # it is left by `on_standing`
        if not isinstance(call, WebSocketCall):
            problem = "a WebSocket is served here; send Upgrade and Connection, as RFC 6455 says"
            raise HttpRefused(426, problem, [("upgrade", "websocket"), ("connection", "upgrade")])
        call.check_handshake()
        if self._shutdown.is_draining:
            raise HttpRefused(503, "serving is about to end", [("retry-after", "1")], code=SERVER_BUSY)
        session = _Session(call, self._service.account.bytes, self._server.limits.max_decoded_bytes)
        try:
            places = session_places(self._service.account, self._settings)
            session.loans = SessionLoans(places, session.pool, call.key, session.let_go)
        except Overdrawn as error:
            raise too_many(error) from None
        call.on_standing()  # it counts as a session from here on
        self._count += 1
        try:
            await self._serve(call, session)
        finally:
            session.end()
            self._count -= 1
            self._ended.unpark_all()

    async def _serve(self, call: WebSocketCall, session: _Session) -> None:
        channel = session.channel = call.make_channel(
            self._server.limits, self._settings, session.origin_of, session.keep
        )
        try:
            async with (
                call.open_channel(),
                open_background(f"the session with {channel.description}") as background,
            ):
                session.begin()
                try:
                    await self._server.serve_beside(
                        background,
                        self._service,
                        channel,
                        self._shutdown,
                        keep=partial(session.loans.keep, "subscriptions"),
                        client=call.key,
                    )
                finally:
                    if trio.current_time() >= call.valid_until:
                        channel.lose(EXPIRED if math.isfinite(call.valid_until) else REFUSED, POLICY_VIOLATION)
        except McpError as error:
            _log.info("no WebSocket: %s", error)

    async def drain(self) -> None:
        """Begin no more sessions; let requests be answered, and close the others in good order."""
        self._shutdown.drain()
        while self._count:
            await self._ended.park()


# When a session rests.
#
# Kept true: `_Session.open` is the origins of its messages that are not done with; each message has one of its
# own. A session without any rests. When it ends, what they have borrowed is given back at once.


@final
class _SessionOrigin:
    """One message of a session as its origin; see `Origin`.

    Attributes:
        principal: Who has sent it.
        client_key: The client that is counted.
        headers: The header fields of the handshake.
        client: The address of who has sent it.
    """

    __slots__ = ("_answers", "_kept", "_messages", "_served", "_session", "client_key", "headers", "principal")

    def __init__(self, session: _Session, served: Loan | None) -> None:
        self.principal = session.call.principal
        self.client_key = session.call.key
        self.headers = session.call.headers
        self._session = session
        self._served = served
        self._answers: Loan | None = None
        self._kept = 0
        self._messages = 1  # with its parts that last by themselves

    @property
    def client(self) -> str | None:
        return self._session.call.client

    def keep_answer(self, size: int) -> None:
        """Count an answer until it is written. A message with many requests has many.

        Raises:
            RequestError: There is no room for it.
        """
        if self not in self._session.open:
            return  # it is answered already, or nobody reads it
        kept = self._kept + size
        amount = 0 if kept <= SMALL else -(-kept // STEP) * STEP
        session = self._session
        try:
            if self._answers is not None:
                self._answers.change(amount)
            elif amount:
                self._answers = session.pool.lend(self.client_key, "answers", amount)
        except Overdrawn as problem:
            what = f"an answer of {size} bytes"
            raise RequestError(SERVER_BUSY, f"there is no room for {what}: {problem}") from None
        self._kept = kept

    def hold(self) -> None:
        """A part of the message lasts by itself; see `Origin`."""
        self._messages += 1

    def done(self) -> None:
        """The message is done with; see `Origin`."""
        self._messages -= 1
        if not self._messages:
            self._session.note_done(self)

    def give_back(self) -> None:
        """Give back what was lent for it."""
        for loan in (self._served, self._answers):
            if loan is not None:
                loan.give_back()


@final
class _Session:
    """One session, and what it borrows.

    Args:
        call: Its handshake.
        pool: Lends bytes.
        max_decoded_bytes: What one message may take decoded.

    Attributes:
        open: The origins of the messages that are not done with.
    """

    loans: SessionLoans

    def __init__(self, call: WebSocketCall, pool: Pool, max_decoded_bytes: int) -> None:
        self.call: Final = call
        self.pool: Final = pool
        self.channel: WebSocketEnd | None = None
        self._max_decoded_bytes = max_decoded_bytes
        self.open: dict[_SessionOrigin, None] = {}
        self._is_over = False

    def begin(self) -> None:
        """Note that it is served; it rests until its first message."""
        self.call.rest()

    def end(self) -> None:
        """Give everything back."""
        self._is_over = True
        self.loans.give_back()
        for origin in self.open:
            origin.give_back()
        self.open.clear()

    def origin_of(self, data: bytes) -> Origin:
        """Return the origin of a message, and borrow for a large one until it is done with.

        If there is no room for it, the connection is closed.
        """
        loans = None
        if len(data) > SMALL:
            loans = RequestLoans(self.pool, self.call.key)
            try:
                loans.serve(data, self._max_decoded_bytes)
            except HttpRefused as refused:
                self._lose(refused.error.message, TOO_BIG if refused.status == 413 else TRY_AGAIN_LATER)
        if not self.open:
            self.call.work()
            self.loans.hold()
        origin = _SessionOrigin(self, None if loans is None else loans.served)
        self.open[origin] = None
        return origin

    def note_done(self, origin: _SessionOrigin) -> None:
        """One message is done with, and nothing is kept for it."""
        origin.give_back()
        self.open.pop(origin, None)
        if not (self.open or self._is_over):
            self.call.rest()
            self.loans.rest()

    def keep(self, more: int) -> None:
        """Borrow for what has arrived and is not served yet, or give back."""
        self.loans.unread(more)

    def let_go(self, everything: bool, why: str) -> None:  # noqa: FBT001 - as `SessionLoans` calls it
        """End it. What has arrived of a message cannot be dropped without the rest."""
        del everything
        self._lose(why, TRY_AGAIN_LATER)

    def _lose(self, reason: str, code: int) -> None:
        if self.channel is not None:
            self.channel.lose(reason, code)
