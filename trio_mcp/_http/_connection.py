"""One HTTP/1.1 connection: h11 knows the protocol, Trio moves the bytes, and this says when it can be used again.

A connection serves one request at a time, and one task. It is used again only after a request and its response
were complete and regular; in every other case what is still in flight could be taken for the next response.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import Final, cast, final

import h11
import trio

from .._core._headers import HeaderField, Headers
from .._errors import ConnectionLost, LocalProtocolError, McpError, RemoteProtocolError
from .._version import __version__
from ._request import HttpRequest
from ._response import HttpResponse

__all__ = ["HttpConnection"]

_OURS: Final = (
    (b"User-Agent", f"trio-mcp/{__version__}".encode("ascii")),
    (b"Accept-Encoding", b"identity"),
)
"""What a request says where nobody has said anything else."""

READ_BYTES: Final = 64 * 1024
SENT_AT_ONCE: Final = 64 * 1024
"""A request up to this size fits into the buffers on its way. A larger one may only go while somebody reads its
answer: a server that refuses it does not read it."""

MAX_INFORMATIONAL: Final = 32
"""Interim responses (1xx) before the real one. A server has no use for more than one or two."""


@final
class HttpConnection:
    """One connection, from its stream to its end.

    Args:
        stream: Connected, and over TLS if that is wanted.
        description: What is at the other end, for errors.
        max_head_bytes: The largest head of a response.
        through_proxy: Fields for a proxy that forwards single requests. Then the request line has the whole URL.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        description: str,
        *,
        max_head_bytes: int,
        through_proxy: Sequence[HeaderField] | None = None,
    ) -> None:
        self._stream = stream
        self._description = description
        self._max_head_bytes = max_head_bytes
        self._through_proxy = through_proxy
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=max_head_bytes)
        self._sent_all = False
        self._told_end = False

    @property
    def is_stale(self) -> bool:
        """Whether the other side has ended an idle connection, or said something that nobody asked for."""
        stream: object = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = cast("trio.SSLStream[trio.abc.Stream]", stream).transport_stream
        return isinstance(stream, trio.SocketStream) and _is_readable(stream.socket.fileno())

    def renew(self) -> bool:
        """Make ready for the next request. Returns whether there can be one. Never waits."""
        try:
            # What is complete and only has not been asked for, such as the end of a response without a body.
            while self._h11.their_state is h11.SEND_BODY and isinstance(self._h11.next_event(), h11.Event):
                pass
        except h11.RemoteProtocolError:
            return False
        if not self._sent_all or self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        if self._h11.trailing_data[0]:
            return False  # a response to nothing
        self._h11.start_next_cycle()
        self._sent_all = False
        self._told_end = False
        return True

    async def aclose(self) -> None:
        """Close at once. Polite closing may wait for the other side, and nobody waits here."""
        await trio.aclose_forcefully(self._stream)

    async def start(self, request: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of its response. Cancelled, the connection is good for nothing.

        Raises:
            ConnectionLost: The other side hung up. It may have done what was asked.
            RemoteProtocolError: What came is not HTTP.
        """
        data = self._encode(request)
        if len(data) <= SENT_AT_ONCE:
            await self._send(data, request)
            return await self._receive_head(request)
        response: HttpResponse | None = None
        failure: McpError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, data, request, name=f"sending to {self._description}")
            try:
                response = await self._receive_head(request)
            except McpError as error:
                failure = error
            if response is None or response.status >= 400:
                nursery.cancel_scope.cancel(reason="the server has answered and does not want the rest")
        if failure is not None:
            raise failure
        assert response is not None
        return response

    def _encode(self, request: HttpRequest) -> bytes:
        target = request.target
        headers: list[HeaderField] = [(b"Host", target.authority.encode("ascii"))]
        path = target.path
        if self._through_proxy is not None:
            path = target.url
            headers += self._through_proxy
        chosen = {name.lower() for name, _ in request.headers}
        headers += [field for field in _OURS if field[0].lower() not in chosen]
        headers += request.headers
        if request.body or request.method not in ("GET", "HEAD", "DELETE"):
            headers.append((b"Content-Length", b"%d" % len(request.body)))
        try:
            parts = [self._h11.send(h11.Request(method=request.method, target=path, headers=headers))]
        except h11.LocalProtocolError as error:
            raise LocalProtocolError(f"the request to {target.origin} is not HTTP: {error}") from error
        if request.body:
            parts.append(self._h11.send(h11.Data(data=request.body)))
        parts.append(self._h11.send(h11.EndOfMessage()))
        return b"".join([part for part in parts if part])

    async def _send(self, data: bytes, request: HttpRequest) -> None:
        last = memoryview(data)[-SENT_AT_ONCE:]
        try:
            if len(data) > len(last):
                await self._stream.send_all(memoryview(data)[: -len(last)])
            # Before and not after: until this task runs again, the server may have had it all for long.
            if request.on_sent is not None:
                request.on_sent()
            await self._stream.send_all(last)
            self._sent_all = True
        except trio.BrokenResourceError:
            pass  # the server may have said why before it hung up: reading tells

    async def _receive_head(self, request: HttpRequest) -> HttpResponse:
        informational = 0
        await self._receive_more()  # nothing can be here, or the connection had been no good
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Response):
                break
            informational += 1
            if informational > MAX_INFORMATIONAL:
                raise RemoteProtocolError(f"{self._description} sends interim responses without end")
        headers = Headers(event.headers.raw_items())
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        if size > self._max_head_bytes:
            # h11 holds heads that come in pieces against its limit, and those that come at once against none.
            raise RemoteProtocolError(
                f"{self._description} sent a head of {size} bytes; max_head_bytes is {self._max_head_bytes}"
            )
        return HttpResponse(
            request, event.status_code, headers, self, reason=bytes(event.reason).decode("latin-1")
        )

    async def receive_some(self) -> bytes:
        """Wait for some of the body; see `HttpResponse.receive_some`."""
        while self._h11.their_state is h11.SEND_BODY:
            event = await self._next_event()
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
        if self._told_end:
            await trio.lowlevel.checkpoint()
        self._told_end = True
        return b""  # noqa: ASYNC910 - who asks again waits, for the first time it saves a turn of the event loop

    async def _next_event(self) -> h11.Event:
        """Wait for what comes next; a connection that ends is an error."""
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise self._failure(error) from error
            if isinstance(event, h11.ConnectionClosed):
                raise self._hung_up()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:  # a response to nothing, or to a switch of protocols that nobody asked for
                raise RemoteProtocolError(f"{self._description} sent what is no response to a request")
            await self._receive_more()

    async def _receive_more(self) -> None:
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError as error:
            raise self._hung_up() from error
        self._h11.receive_data(bytes(data))

    def _failure(self, error: h11.RemoteProtocolError) -> McpError:
        if self._h11.trailing_data[1]:  # what could not be understood is that nothing more comes
            return self._hung_up()
        return RemoteProtocolError(f"{self._description} does not speak HTTP/1.1: {error}")

    def _hung_up(self) -> ConnectionLost:
        where = "the middle of a response" if self._h11.their_state is h11.SEND_BODY else "place of a response"
        return ConnectionLost(f"{self._description} closed the connection in {where}")


def _is_readable(fd: int) -> bool:
    if sys.platform != "win32":  # where `select` knows no descriptors above 1023
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        readable = bool(poll.poll(0))
    else:
        readable = bool(select.select([fd], [], [], 0)[0])
    return readable
