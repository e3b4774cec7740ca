"""Hypercorn as what reads and writes HTTP on a connection. The only module that knows Hypercorn.

Hypercorn's own `serve` lets one odd client end the whole server, one that does not read hold up its end, and
every request start and stop a timer. So its HTTP/1.1 is given in another way what it asks of a server:
connections are bounded and ended by `_connections`; a request is one task, and what comes for it is handed over
without a channel; head and body go out together. It is imported when a server starts.

    the wire ──> the buffer ──> a head ──> h11, and the rules of `_heads` ──> Hypercorn ──> a task for the request
                                  └─────> a body, read strictly and written again for h11 ──> Hypercorn

Hypercorn and h11 take what others read differently: bare line feeds, fields that go on in the next line, a length
beside chunks. So they get one request at a time, taken apart by `_heads`, and nothing of the one behind it.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, final

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState

from .._core._http1 import check_lengths
from .._core._http_headers import HeaderField
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._endpoint._call import SMALL
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from .._trio import LightParkingLot
from ._asgi import AsgiCall
from ._connections import Connection, OpenConnection, Places
from ._heads import BodyReader, RequestBuffer, RequestHead, body_reader, read_head
from ._wires import READ_AHEAD, Wire

_log: Final = Log("trio_mcp.http")


def hypercorn_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection:
    """Return what makes connections on which Hypercorn speaks."""
    config = Config()
    config.keep_alive_max_requests = 1_000_000_000
    config.h11_max_incomplete_size = settings.max_head_bytes  # for what it gets in one piece
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = None  # its protocol writes access logs only
    return lambda wire, places: _HypercornConnection(wire, places, settings, endpoint, config)


@final
class _Protocol(H11Protocol):
    """HTTP/1.1 on one connection, which no client can talk into HTTP/2 or a WebSocket."""

    _held = b""
    _request: h11.Request

    def read_head(self, data: bytes) -> RequestHead:
        """Read the head of the next request.

        Raises:
            HttpRefused: It is none, or nothing that is served.
        """

        def read_fields(lines: bytes) -> Iterable[HeaderField]:
            check_lengths(lines)
            self.connection.receive_data(data)
            try:
                event = self.connection.next_event()
            except h11.RemoteProtocolError as error:
                raise ValueError(str(error)) from error
            if not isinstance(event, h11.Request):
                raise ValueError("it is not complete")
            self._request = event
            return event.headers

        return read_head(data, read_fields)

    async def begin(self, head: RequestHead) -> None:
        """Begin the request whose head was read last: always one that is answered by HTTP."""
        request = self._request
        self.stream = HTTPStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=list(head.headers.fields),
                http_version=request.http_version.decode("ascii"),
                method=head.method,
                raw_path=head.target,
                state=self.connection_state,
            )
        )

    async def feed(self, piece: bytes, *, is_complete: bool, is_chunked: bool) -> None:
        """Hand over what has come of the body."""
        if is_chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            if is_complete:
                piece += b"0\r\n\r\n"
        if self.stream is not None:  # else it is answered, and the connection ends
            if piece:
                self.connection.receive_data(piece)
            await self._handle_events()

    async def _handle_events(self) -> None:
        while self.stream is not None:
            event = self.connection.next_event()
            if isinstance(event, h11.Data):
                await self.stream.handle(Body(stream_id=STREAM_ID, data=event.data))
                continue
            if isinstance(event, h11.EndOfMessage):
                await self.stream.handle(EndBody(stream_id=STREAM_ID))
            break

    async def ask_for_body(self) -> None:
        """Ask for the body, if its sender waits for that."""
        if self.connection.they_are_waiting_for_100_continue:
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def _send_h11_event(self, event: Any) -> None:
        """Send what an event makes of bytes: a head with what follows it, and nothing if it makes none."""
        try:
            data = self.connection.send(event) or b""
        except h11.LocalProtocolError:
            if self.connection.their_state != h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._held = data
            return
        held, self._held = self._held, b""
        if len(data) > SMALL and held:  # to join them would be a second copy
            await self.send(RawData(data=held))
        elif held:
            data = held + data
        if data:
            await self.send(RawData(data=data))


@final
class _HypercornConnection(Connection):
    """One connection."""

    def __init__(
        self,
        wire: Wire,
        places: Places[Wire],
        settings: HttpServerSettings,
        endpoint: Endpoint,
        config: Config,
    ) -> None:
        super().__init__(wire, places)
        self._settings = settings
        self._endpoint = endpoint
        self._context = WorkerContext(None)
        self._lingers = False
        self._is_irregular = False
        self._buffer = RequestBuffer(settings.max_head_bytes)
        self._room = LightParkingLot()
        # The request that is being served: its head, its body as it comes, and what is made of it.
        self._head: RequestHead | None = None
        self._body: BodyReader | None = None
        self._call: AsgiCall | None = None
        framework: Any = None  # never called: `spawn_app` knows what to do
        tasks: Any = self
        client = None if wire.client is None else (wire.client, 0)
        self._protocol = _Protocol(
            framework,
            config,
            self._context,
            tasks,
            ConnectionState(LifespanState({})),
            wire.scheme == "https",
            client,
            None,
            self._send,
        )

    # Reading, as on a lean connection.

    async def _read(self) -> None:
        while True:
            while self._buffer.is_full and self._body is not None and self._body.is_complete:
                await self._room.park()
            call = self._call
            if call is not None:
                await call.wait_body_asked()
            data = await self.wire.receive(READ_AHEAD if call is None else call.read_size)
            if not data:
                return
            await self._take(data)
            self.take()

    async def _take(self, data: bytes) -> None:
        """Take what has come. Waits for nothing but Hypercorn, which hands it over at once."""
        if self._is_irregular or self.has_stopped:  # it may have come before reading could be stopped
            return
        body = self._body
        if body is not None and not body.is_complete:
            data = await self._feed(body, data)
        self._buffer.add(data)
        if body is None:
            await self._begin()

    async def _begin(self) -> None:
        """Let the next request be served, if its head has come."""
        try:
            data = self._buffer.take_head()
            if data is None:
                return
            self._head = head = self._protocol.read_head(data)
        except HttpRefused as refused:
            self._is_irregular = True
            self.start(self.refuse, refused)
            return
        self._body = body = body_reader(head.length)
        self.work()
        await self._protocol.begin(head)
        self._buffer.add(await self._feed(body, self._buffer.take(head.length)))

    async def _feed(self, body: BodyReader, data: bytes) -> bytes:
        """Take more of the body. Returns what is behind it."""
        try:
            piece = body.feed(data)
        except ValueError as error:
            self._is_irregular = True
            if self._call is not None:
                self._call.fail(f"the body cannot be read: {error}")
            return b""
        is_chunked = self._head is not None and self._head.length is None
        await self._protocol.feed(piece, is_complete=body.is_complete, is_chunked=is_chunked)
        return body.rest

    async def _end(self) -> None:
        await self._protocol.handle(Closed())
        if self._lingers or (self._is_irregular and self._call is None):
            await self.wire.linger()

    async def _send(self, event: Event) -> None:
        """Do what Hypercorn wants done with the connection."""
        if isinstance(event, RawData):
            try:
                await self.wire.send(event.data)
            except trio.BrokenResourceError:
                self.stop_reading("the client is gone")
                await self._protocol.handle(Closed())
        elif isinstance(event, Closed):
            # What it has not read of a request would make its system throw the answer away.
            states = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
            self._lingers = self._protocol.connection.their_state not in states or len(self._buffer) > 0
            self.stop_reading("the connection cannot be used again")
            await self._protocol.handle(Closed())
        elif isinstance(event, Updated) and event.idle:
            self.rest(sent_ahead=len(self._buffer) > 0)

    async def spawn_app(
        self,
        app: object,
        config: object,
        scope: Any,
        send: Callable[[Any], Awaitable[None]],
    ) -> Callable[[Any], Awaitable[None]]:
        """Start what answers a request, and return what takes the rest of it. Hypercorn calls both."""
        del app, config
        headers = None if self._head is None else self._head.headers
        ask = self._protocol.ask_for_body
        self._call = call = AsgiCall(scope, send, self._settings, headers=headers, ask_for_body=ask)
        call.on_cut = self.wire.cut
        self.start(self._serve, call, send)

        async def take(message: Any) -> None:  # noqa: ASYNC124 - Hypercorn awaits it
            call.take(message)

        return take

    async def _serve(self, call: AsgiCall, send: Callable[[Any], Awaitable[None]]) -> None:
        try:
            await self._endpoint.handle(call)
        except Exception:
            # The boundary of one request.
            _log.exception("%s %s failed", call.method, call.path)
        await send(None)
        self._call = self._head = self._body = None
        if len(self._buffer) and not (self._is_irregular or self.has_stopped):
            await self._begin()
        self._room.unpark_all()
