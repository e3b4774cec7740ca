"""Scripted HTTP servers on real sockets: each connection is a function that reads and writes what it likes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import final

import attrs
import h11
import trio
from inside_core import Headers
from inside_http import HttpTarget, parse_target

__all__ = ["HttpScript", "ReceivedRequest", "ServerConnection", "serve_http_script"]


@final
@attrs.frozen
class ReceivedRequest:
    method: str
    target: str
    headers: Headers
    body: bytes


@final
class ServerConnection:
    """The server's end: reads requests with h11, writes whatever bytes the script says."""

    def __init__(self, stream: trio.abc.Stream, number: int) -> None:
        self.stream = stream
        self.number = number
        self._h11 = h11.Connection(h11.SERVER)

    async def read(self) -> ReceivedRequest | None:
        """Return the next request; `None` once the client has hung up."""
        if self._h11.our_state is h11.SEND_RESPONSE and self._h11.their_state is h11.DONE:
            self._h11 = h11.Connection(h11.SERVER)  # the script has answered on its own
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = Headers(head.headers.raw_items())
                return ReceivedRequest(head.method.decode(), head.target.decode(), headers, bytes(body))
            elif isinstance(event, h11.ConnectionClosed):
                return None
            else:
                try:
                    self._h11.receive_data(bytes(await self.stream.receive_some(65536)))
                except trio.BrokenResourceError:
                    return None

    async def write(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(
        self, body: bytes = b"", status: str = "200 OK", *headers: str, content_type: str = "application/json"
    ) -> None:
        """Send a whole response with a length."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
        await self.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    async def start_chunked(self, *headers: str, content_type: str = "text/event-stream") -> None:
        lines = ["HTTP/1.1 200 OK", f"Content-Type: {content_type}", "Transfer-Encoding: chunked", *headers]
        await self.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one is the end."""
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def wait_gone(self) -> None:
        """Wait until the client has hung up."""
        try:
            while await self.stream.receive_some(65536):
                pass
        except trio.BrokenResourceError:
            pass


Handler = Callable[[ServerConnection], Awaitable[None]]


@final
class HttpScript:
    """A running server."""

    def __init__(self, target: HttpTarget, listener: trio.SocketListener) -> None:
        self.target = target
        self.listener = listener
        self.connections = 0
        self.open = 0

    async def wait_all_gone(self) -> None:
        while self.open:
            await trio.sleep(0.001)


@asynccontextmanager
async def serve_http_script(
    handler: Handler, *, wrap: Callable[[trio.SocketStream], trio.abc.Stream] | None = None, path: str = "/mcp"
) -> AsyncGenerator[HttpScript]:
    """Run a script for each connection on a port of its own until the block is left."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    scheme = "http" if wrap is None else "https"
    script = HttpScript(parse_target(f"{scheme}://127.0.0.1:{port}{path}"), listener)

    async def serve(stream: trio.SocketStream) -> None:
        script.connections += 1
        script.open += 1
        try:
            async with stream if wrap is None else wrap(stream) as wrapped:
                await handler(ServerConnection(wrapped, script.connections))
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            pass
        finally:
            script.open -= 1

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, [listener])
        yield script
        nursery.cancel_scope.cancel()
