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

from .._core._http1 import BODILESS, HeaderField, fastest_fields
from .._core._http_rules import HttpServerSettings
from .._endpoint._call import HttpCall
from .._endpoint._endpoint import Endpoint
from .._errors import LocalProtocolError
from .._logs import Log
from .._oauth._principal import ClientCertificate
from ._connections import HostConnection, OpenConnection
from ._requests import CHUNKED, CLOSE, CONTINUE, LAST_CHUNK, ConnectionIO, RequestBody, RequestHead, encode_head

_log: Final = Log("trio_mcp.http")


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
    """

    _call: LeanCall | None = attrs.field(default=None, init=False)

    async def _begin(self, head: RequestHead) -> RequestBody:
        self._call = call = LeanCall(self, head, self._settings)
        self.begin(self._serve, call)
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
        is_whole = call.body.is_complete and call.is_finished and not call.is_misdeclared
        self._is_irregular = not is_whole or (call.is_last and bool(self._buffer))
        if call.is_last or self._is_irregular:
            self.stop_reading("the connection cannot be used again")
            return
        self.rest()
        await self._take_next()

    async def send(self, *parts: bytes) -> None:
        """Send bytes of an answer; note it if the client is gone."""
        try:
            await self.io.send(*parts)
        except trio.BrokenResourceError:
            self._lose()

    def send_nowait(self, data: bytes) -> bool:
        """Send bytes of an answer as far as the system takes them now; see `ConnectionIO.send_nowait`."""
        try:
            return self.io.send_nowait(data)
        except trio.BrokenResourceError:
            self._lose()
            return True

    def _lose(self) -> None:
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
            target=head.target,
        )
        self._connection = connection
        self._head = head
        self.body: Final = RequestBody(settings, head.length)
        self.body.is_complete = head.length == 0
        self._waiting_head = b""
        self._has_begun = False
        self._has_body = True
        self._is_chunked = False
        self.is_finished = False
        self.is_last = not head.keeps_alive
        self.sends_now = connection.io.sends_now

    def end(self) -> None:
        """Note that the client is gone."""
        self.body.end()
        self.gone()

    async def read_body(self) -> bytes:
        if self._head.expects_continue and not (self.body.is_complete or self.body.has_begun):
            self.body.check_length()
            await self._connection.send(CONTINUE)
        return await self.body.read(self.loans)

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        # It is sent together with the first piece of the body, which follows at once.
        self._has_body = self.method != "HEAD" and status not in BODILESS
        is_declared = any(name.lower() == b"content-length" for name, _ in headers)
        self._is_chunked = self._has_body and self._head.is_one_one and not is_declared
        self._waiting_head = self._head_of(status, [*headers, CHUNKED] if self._is_chunked else headers)

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._connection.io.certificate

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,)

    def _head_of(self, status: int, headers: Sequence[HeaderField]) -> bytes:
        if self._has_begun:  # it would be read as the answer to the next request
            raise LocalProtocolError("the request has an answer already")
        closes = CLOSE in headers
        self.is_last = self.is_last or closes or not self.body.is_complete or self._connection.is_draining
        head = encode_head(status, [*headers, CLOSE] if self.is_last and not closes else headers)
        self._has_begun = True
        return head

    async def send(self, data: bytes) -> None:
        if not (self.is_gone or self.is_finished):
            if self.left is not None:
                data = self.within(data)
            await self._send(data, b"\r\n" if self._is_chunked and data else b"")
        await trio.lowlevel.checkpoint()

    def send_nowait(self, data: bytes) -> bool:
        if self.is_gone or self.is_finished:
            return True
        if self.left is not None:
            data = self.within(data)
        if not self._has_body:
            data = b""
        head, self._waiting_head = self._waiting_head, b""
        if self._is_chunked and data:  # an empty chunk would be the last
            data = b"%b%x\r\n%b\r\n" % (head, len(data), data)
        elif head:
            data = head + data
        return self._connection.send_nowait(data)

    async def send_rest(self) -> None:
        await self._connection.send(b"")

    async def finish(self, data: bytes = b"") -> None:
        if self.is_gone or self.is_finished:
            return
        self.is_finished = True
        if self.left is not None:
            data = self.within(data, is_last=True)
        end = b"\r\n" + LAST_CHUNK if data else LAST_CHUNK
        await self._send(data, end if self._is_chunked else b"")

    async def _send(self, data: bytes, end: bytes) -> None:
        """Send a piece of the body, what is to be sent before it, and what ends it as a chunk."""
        begin, self._waiting_head = self._waiting_head, b""
        if not self._has_body:
            data = b""
        if self._is_chunked and data:
            begin += b"%x\r\n" % len(data)
        await self._connection.send(begin, data, end)

    async def send_whole(self, status: int, headers: Sequence[HeaderField], body: bytes) -> None:
        head = self._head_of(status, headers)
        self.is_finished = True
        if self.method == "HEAD":
            body = b""
        elif self.left is not None:
            body = self.within(body, is_last=True)
        if self.is_gone:
            return
        await self._connection.send(head, body)

    def cut(self) -> None:
        self.gone()
        self._connection.io.cut()
