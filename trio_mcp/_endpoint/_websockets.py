"""Clients whose connection has become a WebSocket: one session for each, which ends with it.

The request is admitted like every other (`_endpoint`); here its handshake is checked and its session served.

Spec: RFC 6455, section 4.2; 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from .._channel import Origin
from .._core._account import Overdrawn, Pool
from .._core._frames import GOING_AWAY, TOO_BIG, TRY_AGAIN_LATER, FrameRefused, check_handshake
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._errors import SERVER_BUSY, McpError
from .._logs import Log
from .._server._lifetimes import Shutdown, open_background
from .._server._parking import Service
from .._server._server import Server
from .._trio import LightParkingLot
from ._call import SMALL, HttpCall, HttpOrigin, RequestLoans, RequestSlot
from ._session_channel import SessionLoans, session_places, too_many

if TYPE_CHECKING:  # a server without WebSockets does not load the library for them
    from .._bindings._websocket import GuardedStream, WebSocketChannel

_log: Final = Log("trio_mcp.websocket")

_GOODBYE: Final = FrameRefused(GOING_AWAY, "the server stops")


@final
@attrs.define(eq=False)
class WebSocketSessions:
    """All sessions of one endpoint over WebSockets.

    Args:
        server: The server.
        service: The run of it.
        settings: How many sessions there may be, and when clients are asked for a sign of life.
    """

    _server: Server[Any]
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
        if call.wire is None:
            problem = "a WebSocket is served here; send Upgrade and Connection, as RFC 6455 says"
            raise HttpRefused(426, problem, [("upgrade", "websocket"), ("connection", "upgrade")])
        key = check_handshake(call.headers)
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
            await self._serve(call, key, session)
        finally:
            session.loans.give_back()
            self._count -= 1
            self._ended.unpark_all()

    async def _serve(self, call: HttpCall, key: str, session: _Session) -> None:
        from .._bindings import _websocket

        assert call.wire is not None
        settings, limits = self._settings, self._server.limits
        channel = session.channel = _websocket.WebSocketChannel(
            call.wire,
            limits,
            "the client" if call.client is None else f"the client at {call.client}",
            ping_interval=settings.keep_alive_interval,
            ping_timeout=settings.ping_timeout,
            goodbye=_GOODBYE,
            origin_of=session.origin_of,
            on_kept=session.keep,
        )

        async def connect(nursery: trio.Nursery, stream: GuardedStream) -> Any:
            call.is_started = True
            return await _websocket.accept(nursery, stream, key, list(call.answer_headers))

        try:
            async with (
                _websocket.open_websocket_channel(channel, connect),
                open_background(f"the session with {channel.description}") as background,
            ):
                await self._server.serve_beside(
                    background,
                    self._service,
                    channel,
                    self._shutdown,
                    holder=call.key,
                    keep=session.loans.keep_subscriptions,
                )
        except McpError as error:
            _log.info("no WebSocket: %s", error)

    async def drain(self) -> None:
        """Begin no more sessions; let requests be answered, and close the others in good order."""
        self._shutdown.drain()
        while self._count:
            await self._ended.park()


@final
class _Session:
    """One session, and what it borrows.

    Args:
        call: Its handshake.
        pool: Lends bytes.
        max_decoded_bytes: What one message may take decoded.
    """

    loans: SessionLoans

    def __init__(self, call: HttpCall, pool: Pool, max_decoded_bytes: int) -> None:
        self.pool: Final = pool
        self.channel: WebSocketChannel | None = None
        self._principal = call.principal
        self._key = call.key
        self._max_decoded_bytes = max_decoded_bytes
        self._origin = HttpOrigin(call.principal, call.key)

    def origin_of(self, data: bytes) -> Origin:
        """Return the origin of a message, and borrow for a large one as long as anything refers to it.

        If there is no room for it, the connection is closed.
        """
        if len(data) <= SMALL:
            return self._origin
        loans = RequestLoans(self.pool, self._key)
        try:
            loans.serve(data, self._max_decoded_bytes)
        except HttpRefused as refused:
            self._lose(refused.error.message, TOO_BIG if refused.status == 413 else TRY_AGAIN_LATER)
        return HttpOrigin(self._principal, self._key, served=loans.served)

    def keep(self, more: int) -> None:
        """Borrow for what has arrived and is not served yet, or give back."""
        self.loans.unread(more)

    def let_go(self, everything: bool) -> None:  # noqa: FBT001 - as `SessionLoans` calls it
        """Give way to others. What has arrived cannot be dropped without the rest."""
        del everything
        self._lose("this session had to make room for others", TRY_AGAIN_LATER)

    def _lose(self, reason: str, code: int) -> None:
        if self.channel is not None:
            self.channel.lose(reason, code)
