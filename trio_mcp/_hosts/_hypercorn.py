"""HTTP/1.1 by Hypercorn. The only module that imports Hypercorn; it is imported when a server starts.

Hypercorn's own `serve` is not used: one irregular client can end that server, a client that does not read delays
its end, and each request starts and stops a timer. So its stream, which makes an ASGI application of a request,
runs on our connections, which `_connections` bounds and ends; a request is served where it was read, and its
messages are passed by calls, without a channel; head and body are sent together.

    bytes ──> a head, by the rules of `_requests` ──> Hypercorn's HTTPStream ──> the request begins
         └──> its body, read strictly ──────────────┘        └──> events of the answer ──> bytes

Between bytes and events Hypercorn itself has h11, which accepts what others read differently (bare line feeds,
folded fields, a length beside chunks), and takes a third of the time of a small request. Here it is what the lean
host has, too.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, final

import attrs
import trio
from hypercorn.config import Config
from hypercorn.protocol.events import Body, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState, LifespanState

from .._core._http1 import BODILESS, HeaderField, fastest_fields
from .._core._http_rules import HttpServerSettings
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from ._asgi import AsgiCall
from ._connections import HostConnection, OpenConnection
from ._requests import CHUNKED, CLOSE, CONTINUE, LAST_CHUNK, ConnectionIO, RequestBody, RequestHead, encode_head

_log: Final = Log("trio_mcp.http")

_STREAM: Final = 1
"""The number that Hypercorn gives the only stream of a connection of HTTP/1.1."""

_FRAMEWORK: Final[Any] = None  # never called: `spawn_app` starts the endpoint
_CONTEXT: Final = WorkerContext(None)
_STATE: Final = ConnectionState(LifespanState({}))


def hypercorn_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection[ConnectionIO]:
    """Return a function that makes connections on which Hypercorn serves."""
    config = Config()
    config.accesslog = None
    config.errorlog = None  # its streams write access logs only
    read_fields = fastest_fields()
    return lambda io, limits: _HypercornConnection(io, limits, settings, endpoint, read_fields, config)


@final
@attrs.define(eq=False)
class _HypercornConnection(HostConnection):
    """One connection. What Hypercorn takes to be its task group, too (`spawn_app`)."""

    _config: Config
    _lingers: bool = attrs.field(default=False, init=False)
    # All of these belong to the request that is being served.
    _head: RequestHead | None = attrs.field(default=None, init=False)
    _stream: HTTPStream | None = attrs.field(default=None, init=False)
    _call: AsgiCall | None = attrs.field(default=None, init=False)
    _is_received: bool = attrs.field(default=False, init=False)
    _has_begun: bool = attrs.field(default=False, init=False)  # the answer
    _has_ended: bool = attrs.field(default=False, init=False)  # the answer, with what marks its end
    _has_body: bool = attrs.field(default=False, init=False)  # the answer
    _is_chunked: bool = attrs.field(default=False, init=False)
    _is_last: bool = attrs.field(default=False, init=False)
    _held: bytes = attrs.field(default=b"", init=False)

    async def _begin(self, head: RequestHead) -> RequestBody | None:
        tasks: Any = self
        io = self.io
        client = None if io.client is None else (io.client, 0)
        self._head, self._is_last = head, not head.keeps_alive
        self._is_received = self._has_begun = self._has_ended = False
        self._stream = HTTPStream(
            _FRAMEWORK, self._config, _CONTEXT, tasks, io.scheme == "https", client, None, self._answer, _STREAM
        )
        await self._stream.handle(
            Request(
                stream_id=_STREAM,
                headers=list(head.headers.fields),
                http_version="1.1" if head.is_one_one else "1.0",
                method=head.method,
                raw_path=head.target,
                state=_STATE,
            )
        )
        if head.length == 0:
            await self._hand_over(b"", is_complete=True)
        return None if self._call is None else self._call.body

    async def _hand_over(self, piece: bytes, *, is_complete: bool) -> None:
        self._is_received = is_complete
        if piece and self._stream is not None:
            await self._stream.handle(Body(stream_id=_STREAM, data=piece))
        if is_complete and self._stream is not None:  # otherwise it is answered, and the connection ends
            await self._stream.handle(EndBody(stream_id=_STREAM))

    async def _end(self) -> None:
        await self._close_stream()
        if self._lingers or (self._is_irregular and self._call is None):
            await self.io.linger()

    async def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.handle(StreamClosed(stream_id=_STREAM))

    # The answer.

    async def _answer(self, event: object) -> None:
        """Send an event of the answer; its head is sent together with what follows."""
        if isinstance(event, Response):
            self._held = self._encode_head(event.status_code, event.headers)
        elif isinstance(event, Body):
            data = event.data
            if self._is_chunked:
                await self._send(b"%b%x\r\n" % (self._take_held(), len(data)), data, b"\r\n")
            else:
                await self._send(self._take_held(), data)
        elif isinstance(event, EndBody):
            self._has_ended = True
            end = self._take_held() + LAST_CHUNK if self._is_chunked else self._take_held()
            if end:
                await self._send(end)
        elif isinstance(event, StreamClosed):
            await self._finish()

    def _encode_head(self, status: int, headers: list[HeaderField]) -> bytes:
        head = self._head
        assert head is not None
        self._has_begun = True
        has_body = status >= 200 and status not in BODILESS
        names = {name.lower() for name, _ in headers}
        is_chunked = has_body and head.is_one_one and b"content-length" not in names
        closes = CLOSE in headers
        self._is_last = self._is_last or closes or not self._is_received or self.is_draining
        self._has_body = has_body and head.method != "HEAD"
        self._is_chunked = is_chunked and self._has_body
        more: list[HeaderField] = [CHUNKED] if is_chunked else []
        if self._is_last and not closes:
            more.append(CLOSE)
        return encode_head(status, [*headers, *more])

    def _take_held(self) -> bytes:
        held, self._held = self._held, b""
        return held

    async def _send(self, *parts: bytes) -> None:
        try:
            await self.io.send(*parts)
        except trio.BrokenResourceError:
            self.stop_reading("the client is gone")
            await self._close_stream()

    async def _finish(self) -> None:
        """The answer has ended: rest, or close."""
        await self._close_stream()
        is_regular = self._call is None or not self._call.is_misdeclared
        if self._is_received and self._has_ended and is_regular and not self._is_last:
            self.rest()
        else:
            # Unread bytes of a request would make the client's system discard the answer.
            self._lingers = not self._is_received or len(self._buffer) > 0
            self.stop_reading("the connection cannot be used again")

    def send_nowait(self, data: bytes) -> bool:
        """Send a piece of the answer as far as the system takes it now; see `HttpCall.send_nowait`.

        Hypercorn would do nothing with it but hand it back; the answer begins and ends there.
        """
        self.hold(data)
        try:
            return self.io.send_nowait(self._take_held())
        except trio.BrokenResourceError:
            self.stop_reading("the client is gone")  # which Hypercorn is told of then
            if self._call is not None:
                self._call.take({"type": "http.disconnect"})
            return True

    def hold(self, data: bytes) -> None:
        """Send the last piece of the answer together with its end."""
        if self._has_body and data:  # an empty chunk would be the last
            self._held += b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data

    async def send_rest(self) -> None:
        """Send the rest of that."""
        await self._send(b"")

    async def _ask_for_body(self) -> None:
        """Send ``100 Continue`` if the client waits for it."""
        if self._head is not None and self._head.expects_continue and not self._has_begun:
            await self._send(CONTINUE)

    # The request.

    async def spawn_app(
        self, app: object, config: object, scope: Any, send: Callable[[Any], Awaitable[None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Start the task of a request, and return what takes its ASGI messages. Hypercorn calls both."""
        del app, config
        headers = None if self._head is None else self._head.headers
        self._call = call = AsgiCall(
            scope, send, self._settings, headers=headers, ask_for_body=self._ask_for_body
        )
        call.on_cut = self.io.cut
        call.find_certificate = lambda: self.io.certificate
        if self.io.sends_now:
            call.send_through(self)
        self.begin(self._serve, call, send)

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
