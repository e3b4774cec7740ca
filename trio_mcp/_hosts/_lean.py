"""HTTP/1.1 without an HTTP library: a connection that hands its requests straight to the endpoint.

A connection is used again only if the request and its answer were complete and regular.

Spec: RFC 9110; RFC 9112.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final
from urllib.parse import unquote

import attrs
import trio

from .._core._http1 import HeaderField, ReadFields, fastest_fields
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import SMALL, HttpCall
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from .._oauth._certificates import ClientCertificate
from ._connections import HostConnection, OpenConnection
from ._requests import CLOSE, ConnectionIO, RequestBody, RequestHead, encode_head, read_head

_log: Final = Log("trio_mcp.http")

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = (b"transfer-encoding", b"chunked")


def lean_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection[ConnectionIO]:
    """Return a function that makes connections which need no HTTP library."""
    read_fields = fastest_fields()
    return lambda io, limits: LeanConnection(io, limits, settings, endpoint, read_fields)


@final
@attrs.define(eq=False)
class LeanConnection(HostConnection):
    """One connection.

    Args:
        io: Its bytes.
        limits: Notified when it rests and when it works.
        settings: What it may cost.
        endpoint: Answers its requests.
        read_fields: Parses the fields of heads.
    """

    _read_fields: ReadFields
    _call: LeanCall | None = attrs.field(default=None, init=False)

    def _read_head(self, data: bytes) -> RequestHead:
        return read_head(data, self._read_fields)

    async def _begin(self, head: RequestHead) -> RequestBody:
        self._call = call = LeanCall(self, head, self._settings)
        self.start(self._serve, call)
        return call.body

    async def _hand_over(self, piece: bytes, *, is_complete: bool) -> None:
        if self._body is not None and not self._body.has_failed:
            self._body.feed(piece, is_complete=is_complete)

    async def _end(self) -> None:
        if self._call is not None:
            self._call.end()
        elif self._is_irregular:
            await self.io.linger()

    async def _serve(self, call: LeanCall) -> None:
        try:
            await self._endpoint.handle(call)
        except Exception:
            # The boundary of one request.
            _log.exception("%s %s failed", call.method, call.path)
        self._call = None
        if call.is_gone:
            self.stop_reading("the client is gone")
            return
        is_whole = call.body.is_complete and call.is_finished
        self._is_irregular = not is_whole or (call.is_last and bool(self._buffer))
        if call.is_last or self._is_irregular:
            self.stop_reading("the connection cannot be used again")
            return
        self.rest()
        await self._take_next()

    async def send(self, data: bytes) -> None:
        """Send bytes of an answer; note it if the client is gone."""
        try:
            await self.io.send(data)
        except trio.BrokenResourceError:
            if self._call is not None:
                self._call.end()
            self.stop_reading("the client is gone")


@final
class LeanCall(HttpCall):
    """One request, and its answer as HTTP/1.1.

    Args:
        connection: Where the request was received.
        head: Its head.
        settings: What its body may cost.

    Attributes:
        body: Its body, as far as it was received.
        is_finished: Whether the answer is complete.
        is_last: Whether no other request may follow.
    """

    def __init__(self, connection: LeanConnection, head: RequestHead, settings: HttpServerSettings) -> None:
        path, _, query = head.target.decode("ascii").partition("?")
        super().__init__(
            method=head.method,
            path=unquote(path) if "%" in path else path,
            headers=head.headers,
            query=query,
            client=connection.io.client,
            scheme=connection.io.scheme,
        )
        self._connection = connection
        self._head = head
        self.body: Final = RequestBody(settings, head.length)
        self.body.is_complete = head.length == 0
        self._waiting_head = b""
        self._is_chunked = False
        self.is_finished = False
        self.is_last = not head.keeps_alive

    def end(self) -> None:
        """Note that the client is gone."""
        self.body.end()
        self.gone()

    async def read_body(self) -> bytes:
        self.body.check_length()
        if self._head.expects_continue and not (self.body.is_complete or self.body.has_begun):
            await self._connection.send(_CONTINUE)
        return await self.body.read(self.loans)

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        # It is sent together with the first piece of the body, which follows at once.
        self._waiting_head = self._head_of(status, [*headers, _CHUNKED] if self._head.is_one_one else headers)
        self._is_chunked = self._head.is_one_one

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._connection.io.certificate

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,)

    def _head_of(self, status: int, headers: Sequence[HeaderField]) -> bytes:
        closes = CLOSE in headers
        self.is_last = self.is_last or closes or not self.body.is_complete or self._connection.is_draining
        return encode_head(status, [*headers, CLOSE] if self.is_last and not closes else headers)

    async def send(self, data: bytes) -> None:
        if not (self.is_gone or self.is_finished):
            head, self._waiting_head = self._waiting_head, b""
            if self._is_chunked and data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            await self._connection.send(head + data)
        await trio.lowlevel.checkpoint()

    async def finish(self, data: bytes = b"") -> None:
        if self.is_gone or self.is_finished:
            return
        head, self._waiting_head = self._waiting_head, b""
        self.is_finished = True
        if self._is_chunked:
            data = b"%x\r\n%b\r\n%b" % (len(data), data, _LAST_CHUNK) if data else _LAST_CHUNK
        await self._connection.send(head + data)

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        head = self._head_of(status, headers)
        self.is_finished = True
        if self.method == "HEAD":
            body = b""
        if len(body) > SMALL:  # joining them would make a second copy
            await self._send_unless_gone(head)
            await self._send_unless_gone(body)
        elif not self.is_gone:
            await self._connection.send(head + body)

    async def _send_unless_gone(self, data: bytes) -> None:  # noqa: ASYNC910, ASYNC911 - as the connection
        if not self.is_gone:
            await self._connection.send(data)

    def cut(self) -> None:
        self.gone()
        self._connection.io.cut()
