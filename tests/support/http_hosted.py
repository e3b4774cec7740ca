"""A server of the library under one of its hosts, in this process: bytes of HTTP, no sockets, any clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, final

import attrs
import trio
import trio.testing
from inside_core import HttpHost, fastest_fields
from inside_endpoint import READ_BYTES, ConnectionIO, ConnectionLimits, OpenConnection, _host
from inside_http import HttpConnection, HttpRequest, HttpResponse

from trio_mcp import HttpServerSettings, Server, open_endpoint

__all__ = ["open_hosted"]

MemoryStream: TypeAlias = "trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]"


@final
class MemoryWire(ConnectionIO):
    """One end of a pair of streams that take nothing which the other side does not read: nothing at once."""

    sends_now = True

    def __init__(self, stream: MemoryStream) -> None:
        super().__init__("127.0.0.1", 30)
        self._stream = stream
        self._rest = b""

    async def start(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self, most: int = READ_BYTES) -> bytes:
        try:
            return bytes(await self._stream.receive_some(most))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def send_nowait(self, data: bytes) -> bool:
        assert not self._rest, "the rest comes first"
        self._rest = data
        return False

    async def send(self, *parts: bytes) -> None:
        rest, self._rest = self._rest, b""
        try:
            await self._stream.send_all(b"".join((rest, *parts)))
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError from error

    async def send_eof(self) -> None:
        await trio.aclose_forcefully(self._stream.send_stream)

    def cut(self) -> None:
        ends: list[Any] = [self._stream.send_stream, self._stream.receive_stream]
        for end in ends:
            end.close()


@final
class Hosted:
    """Sends each request over a connection of its own."""

    def __init__(self, open_connection: OpenConnection[ConnectionIO], nursery: trio.Nursery) -> None:
        self._open_connection = open_connection
        self._nursery = nursery

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request; see `HttpTransport.send`."""
        del urgent  # there is no line
        fields = [(name, value.strip(b" \t")) for name, value in request.headers]  # our client sends no blanks
        request = attrs.evolve(request, headers=fields)
        near, far = trio.testing.lockstep_stream_pair()
        places = ConnectionLimits[ConnectionIO](1_000, 1_000, lambda wire: wire.cut())
        served = self._open_connection(MemoryWire(far), places)
        self._nursery.start_soon(served.serve)  # noqa: ASYNC113 - as over a network
        connection = HttpConnection(
            near, "a host in this process", max_head_bytes=1 << 20, read_fields=fastest_fields()
        )
        try:
            head = await connection.start(request)
        except BaseException:
            await connection.aclose()
            raise
        return HttpResponse(request, head.status, head.headers, connection, reason=head.reason)


@asynccontextmanager
async def open_hosted(
    server: Server[Any], settings: HttpServerSettings | None, http: HttpHost, **options: Any
) -> AsyncGenerator[Hosted]:
    """Serve while the block runs, then drain, as `serve_http` does."""
    settings = settings or HttpServerSettings()
    async with open_endpoint(server, settings, **options) as endpoint, trio.open_nursery() as nursery:
        yield Hosted(_host(http, endpoint, settings), nursery)
        await endpoint.drain()
        nursery.cancel_scope.cancel()
