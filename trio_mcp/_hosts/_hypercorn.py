"""HTTP/1.1 by Hypercorn. The only module that imports Hypercorn; it is imported when a server starts.

Hypercorn's own `serve` is not used: one irregular client can end that server, a client that does not read delays
its end, and each request starts and stops a timer. So its HTTP/1.1 protocol runs on our connections, which
`_connections` bounds and ends; a request is one task, and its messages are passed by calls, without a channel;
head and body are sent together.

    bytes ──> the buffer ──> a head ──> h11, and the rules of `_requests` ──> Hypercorn ──> a task for the request
                              └─────> a body, read strictly and encoded again for h11 ──> Hypercorn

Hypercorn and h11 accept what others read differently: bare line feeds, folded fields, a length beside chunks. So
they get one request at a time, split off by `_requests`, and no byte of the next one.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, final

import attrs
import h11
import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body, EndBody, Request
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState

from .._core._http1 import HeaderField, check_lengths
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import SMALL
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from ._asgi import AsgiCall
from ._connections import HostConnection, OpenConnection
from ._requests import ConnectionIO, RequestBody, RequestHead, read_head

_log: Final = Log("trio_mcp.http")


def hypercorn_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection[ConnectionIO]:
    """Return a function that makes connections on which Hypercorn serves."""
    config = Config()
    config.keep_alive_max_requests = 1_000_000_000
    config.h11_max_incomplete_size = settings.max_head_bytes  # h11 gets a head in one piece
    config.include_server_header = False
    config.accesslog = None
    config.errorlog = None  # its protocol writes access logs only
    return lambda io, limits: _HypercornConnection(io, limits, settings, endpoint, config)


@final
class _Protocol(H11Protocol):
    """HTTP/1.1 on one connection, without upgrades to HTTP/2 or a WebSocket."""

    _held = b""
    _request: h11.Request

    def read_head(self, data: bytes) -> RequestHead:
        """Read the head of the next request.

        Raises:
            HttpRefused: It is malformed (400), or of another version of HTTP (505).
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
        """Start the request whose head was read last. It is always answered by HTTP, never upgraded."""
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
        """Pass a piece of the body on."""
        if is_chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            if is_complete:
                piece += b"0\r\n\r\n"
        if self.stream is not None:  # otherwise it is answered, and the connection ends
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
        """Send ``100 Continue`` if the client waits for it."""
        if self.connection.they_are_waiting_for_100_continue:
            await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))

    async def _send_h11_event(self, event: Any) -> None:
        """Encode and send an event; a head is sent together with what follows it."""
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
        if len(data) > SMALL and held:  # joining them would make a second copy
            await self.send(RawData(data=held))
        elif held:
            data = held + data
        if data:
            await self.send(RawData(data=data))


@final
@attrs.define(eq=False)
class _HypercornConnection(HostConnection):
    """One connection. What Hypercorn takes to be its task group, too (`spawn_app`)."""

    _config: Config
    _lingers: bool = attrs.field(default=False, init=False)
    # Both belong to the request that is being served.
    _head: RequestHead | None = attrs.field(default=None, init=False)
    _call: AsgiCall | None = attrs.field(default=None, init=False)
    _protocol: _Protocol = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        framework: Any = None  # never called: `spawn_app` starts the endpoint
        tasks: Any = self
        self._protocol = _Protocol(
            framework,
            self._config,
            WorkerContext(None),
            tasks,
            ConnectionState(LifespanState({})),
            self.io.scheme == "https",
            None if self.io.client is None else (self.io.client, 0),
            None,
            self._send,
        )

    def _read_head(self, data: bytes) -> RequestHead:
        return self._protocol.read_head(data)

    async def _begin(self, head: RequestHead) -> RequestBody | None:
        self._head = head
        await self._protocol.begin(head)
        if head.length == 0:
            await self._protocol.feed(b"", is_complete=True, is_chunked=False)
        return None if self._call is None else self._call.body

    async def _hand_over(self, piece: bytes, *, is_complete: bool) -> None:
        is_chunked = self._head is not None and self._head.length is None
        await self._protocol.feed(piece, is_complete=is_complete, is_chunked=is_chunked)

    async def _end(self) -> None:
        await self._protocol.handle(Closed())
        if self._lingers or (self._is_irregular and self._call is None):
            await self.io.linger()

    async def _send(self, event: Event) -> None:
        """Send bytes, close, or rest, as Hypercorn asks."""
        if isinstance(event, RawData):
            try:
                await self.io.send(event.data)
            except trio.BrokenResourceError:
                self.stop_reading("the client is gone")
                await self._protocol.handle(Closed())
        elif isinstance(event, Closed):
            # Unread bytes of a request would make the client's system discard the answer.
            states = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
            self._lingers = self._protocol.connection.their_state not in states or len(self._buffer) > 0
            self.stop_reading("the connection cannot be used again")
            await self._protocol.handle(Closed())
        elif isinstance(event, Updated) and event.idle:
            self.rest()

    async def spawn_app(
        self,
        app: object,
        config: object,
        scope: Any,
        send: Callable[[Any], Awaitable[None]],
    ) -> Callable[[Any], Awaitable[None]]:
        """Start the task of a request, and return what takes its ASGI messages. Hypercorn calls both."""
        del app, config
        headers = None if self._head is None else self._head.headers
        ask = self._protocol.ask_for_body
        self._call = call = AsgiCall(scope, send, self._settings, headers=headers, ask_for_body=ask)
        call.on_cut = self.io.cut
        call.find_certificate = lambda: self.io.certificate
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
        self._call = self._head = None
        await self._take_next()
