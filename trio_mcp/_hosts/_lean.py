"""HTTP/1.1 by ourselves: one connection, its requests one after the other, straight to the endpoint.

    the wire ──> the buffer ──> a head ──> a body, as far as it has come
                                  └─────> a task for the request ──> the endpoint ──> the wire

A task reads for as long as the connection lasts, so that it is known at once when the client goes. What comes
behind a request that is being served waits, and is read when that is answered. A connection is used again only if
the request and its answer were complete and regular.

Spec: RFC 9110; RFC 9112.

One request that the lean host serves, and its answer as HTTP/1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final
from urllib.parse import unquote

import trio

from .._core._http1 import ReadFields, fastest_fields
from .._core._http_headers import HeaderField
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._endpoint._call import SMALL, HttpCall
from .._endpoint._endpoint import Endpoint
from .._logs import Log
from .._trio import LightParkingLot
from ._asgi import RequestBody
from ._connections import Connection, OpenConnection, Places
from ._heads import CLOSE, RequestBuffer, RequestHead, body_reader, encode_head, read_head
from ._wires import READ_AHEAD, Wire

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CHUNKED: Final = (b"transfer-encoding", b"chunked")


class Carrier(Protocol):
    """The connection, as a request sees it."""

    @property
    def wire(self) -> Wire:
        """What the request came over."""
        ...

    @property
    def is_draining(self) -> bool:
        """Whether no other request is to follow."""
        ...

    async def send(self, data: bytes) -> None:
        """Send something, if there is somebody to read it."""
        ...


@final
class LeanCall(HttpCall):
    """One request.

    Args:
        connection: What it came over.
        head: What it says.
        settings: What its body may cost.

    Attributes:
        is_finished: Whether the answer is complete.
        is_last: Whether no other request may follow.
    """

    def __init__(self, connection: Carrier, head: RequestHead, settings: HttpServerSettings) -> None:
        path, _, query = head.target.decode("ascii").partition("?")
        super().__init__(
            method=head.method,
            path=unquote(path) if "%" in path else path,
            headers=head.headers,
            query=query,
            client=connection.wire.client,
            scheme=connection.wire.scheme,
        )
        self._connection = connection
        self._head = head
        self._body = RequestBody(settings, head.length)
        self._reader = body_reader(head.length)
        self._body.is_complete = self._reader.is_complete
        self._waiting_head = b""
        self._is_chunked = False
        self.is_finished = False
        self.is_last = not head.keeps_alive

    # What the connection calls.

    @property
    def is_complete(self) -> bool:
        """Whether all of the request has come."""
        return self._body.is_complete

    @property
    def read_size(self) -> int:
        """How much to read next."""
        return self._body.read_size

    async def wait_body_asked(self) -> None:
        """Wait while no more of the body should be read."""
        await self._body.wait_asked()

    def feed(self, data: bytes) -> bytes:
        """Take more of the body. Returns what is behind it."""
        if self._body.has_failed:
            return b""
        try:
            piece = self._reader.feed(data)
        except ValueError as error:
            self._body.fail(f"the body cannot be read: {error}")
            return b""
        self._body.feed(piece, is_complete=self._reader.is_complete)
        return self._reader.rest

    def end(self) -> None:
        """The client is gone."""
        self._body.end()
        self.gone()

    # What the endpoint calls.

    async def read_body(self) -> bytes:
        self._body.check_length()
        if self._head.expects_continue and not (self.is_complete or self._body.has_begun):
            await self._connection.send(_CONTINUE)
        return await self._body.read(self.loans)

    async def send_head(self, status: int, headers: Sequence[HeaderField]) -> None:
        # It goes out with the first piece of the body, which follows at once.
        self._waiting_head = self._head_of(status, [*headers, _CHUNKED] if self._head.is_one_one else headers)
        self._is_chunked = self._head.is_one_one

    @property
    def closing(self) -> tuple[HeaderField, ...]:
        return (CLOSE,)

    def _head_of(self, status: int, headers: Sequence[HeaderField]) -> bytes:
        says_so = CLOSE in headers
        self.is_last = self.is_last or says_so or not self.is_complete or self._connection.is_draining
        return encode_head(status, [*headers, CLOSE] if self.is_last and not says_so else headers)

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
        if len(body) > SMALL:  # to join them would be a second copy
            await self._send_unless_gone(head)
            await self._send_unless_gone(body)
        elif not self.is_gone:
            await self._connection.send(head + body)

    async def _send_unless_gone(self, data: bytes) -> None:  # noqa: ASYNC910, ASYNC911 - as the wire
        if not self.is_gone:
            await self._connection.send(data)

    def cut(self) -> None:
        self.gone()
        self._connection.wire.cut()


_log: Final = Log("trio_mcp.http")


def lean_connections(endpoint: Endpoint, settings: HttpServerSettings) -> OpenConnection:
    """Return what makes connections on which we speak ourselves."""
    read_fields = fastest_fields()
    return lambda wire, places: LeanConnection(wire, places, settings, endpoint, read_fields)


@final
class LeanConnection(Connection):
    """One connection.

    Args:
        wire: Its bytes.
        places: Told whether it rests.
        settings: What it may cost.
        endpoint: Answers its requests.
        read_fields: Reads the fields of heads.
    """

    def __init__(
        self,
        wire: Wire,
        places: Places[Wire],
        settings: HttpServerSettings,
        endpoint: Endpoint,
        read_fields: ReadFields,
    ) -> None:
        super().__init__(wire, places)
        self._settings = settings
        self._endpoint = endpoint
        self._read_fields = read_fields
        self._buffer = RequestBuffer(settings.max_head_bytes)
        self._call: LeanCall | None = None
        self._room = LightParkingLot()
        self._is_irregular = False

    # Reading.

    async def _read(self) -> None:
        while True:
            size, call = READ_AHEAD, self._call
            if call is not None and not call.is_complete:
                await call.wait_body_asked()
                size = call.read_size
            elif call is not None and self._buffer.is_full:
                await self._room.park()
                continue
            data = await self.wire.receive(size)
            if not data:
                return
            self._take(data)
            if self._call is None:  # else it works
                self.take()

    def _take(self, data: bytes) -> None:
        """Take what has come. Never waits."""
        if self._is_irregular or self.has_stopped:  # it may have come before reading could be stopped
            return
        call = self._call
        if call is not None and not call.is_complete:
            data = call.feed(data)
        self._buffer.add(data)
        if call is None:
            self._begin()

    def _begin(self) -> None:
        """Let the next request be served, if its head has come."""
        try:
            data = self._buffer.take_head()
            if data is None:
                return
            head = read_head(data, self._read_fields)
        except HttpRefused as refused:
            self._is_irregular = True
            self.start(self.refuse, refused)
            return
        self._call = call = LeanCall(self, head, self._settings)
        if not call.is_complete and (rest := call.feed(self._buffer.take(head.length))):
            self._buffer.add(rest)  # what is behind the last chunk comes back
        self.work()
        self.start(self._serve, call)

    async def _end(self) -> None:
        if self._call is not None:
            self._call.end()
        elif self._is_irregular:
            await self.wire.linger()

    # Serving.

    async def _serve(self, call: LeanCall) -> None:
        try:
            await self._endpoint.handle(call)
        except Exception:
            # The boundary of one request.
            _log.exception("%s %s failed", call.method, call.path)
        self._call = None
        if call.is_gone:
            return
        self._is_irregular = not (call.is_complete and call.is_finished) or (call.is_last and bool(self._buffer))
        if call.is_last or self._is_irregular:
            self.stop_reading("the connection cannot be used again")
            return
        sent_ahead = bool(self._buffer)
        self.rest(sent_ahead=sent_ahead)
        if sent_ahead and not self.has_stopped:
            self._begin()
            self._room.unpark_all()

    async def send(self, data: bytes) -> None:
        """Send something, if there is somebody to read it."""
        try:
            await self.wire.send(data)
        except trio.BrokenResourceError:
            if self._call is not None:
                self._call.end()
            self.stop_reading("the client is gone")
