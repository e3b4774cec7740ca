"""A server of the library at a real port, and clients that write HTTP by hand, byte by byte if need be."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import attrs
import h11
import trio
from http_raw import Raw
from inside_http import open_http_client, parse_target

from trio_mcp import HttpServerSettings, HttpSettings, Server, Shutdown, serve_http

__all__ = ["DEFAULTS", "Served", "Wire", "head_for", "request_for", "serving"]

DEFAULTS: Final[dict[str, Any]] = {}
"""Options of `serve_http` that a test has not given: which host it is about."""


@attrs.frozen
class Served:
    """A running server.

    Attributes:
        urls: Where it is.
        raw: Sends requests to it.
        shutdown: Ends it.
        ended: Set when it has ended.
    """

    urls: tuple[str, ...]
    raw: Raw
    shutdown: Shutdown
    ended: trio.Event

    @property
    def port(self) -> int:
        return self.raw.target.port

    @asynccontextmanager
    async def wire(self) -> AsyncGenerator[Wire]:
        """Open a connection."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        try:
            yield Wire(stream)
        finally:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def serving(
    server: Server[Any],
    settings: HttpServerSettings | None = None,
    *,
    http: HttpSettings | None = None,
    host: str = "127.0.0.1",
    **options: Any,
) -> AsyncGenerator[Served]:
    """Serve while the block runs, then drain; that must end by itself."""
    shutdown, ended = Shutdown(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[tuple[str, ...]]) -> None:
        await serve_http(
            server,
            host,
            0,
            settings=settings,
            shutdown=shutdown,
            task_status=task_status,
            **{**DEFAULTS, **options},
        )
        ended.set()

    async with trio.open_nursery() as nursery:
        urls: tuple[str, ...] = await nursery.start(partial(serve))
        async with open_http_client(http) as client:
            yield Served(urls, Raw(client, parse_target(urls[0])), shutdown, ended)
        shutdown.drain()
        with trio.move_on_after(30) as scope:
            await ended.wait()
        assert not scope.cancelled_caught, "the server does not end"


def head_for(length: int, headers: Mapping[str, str] | None = None, method: str = "POST") -> bytes:
    """Return the head of a request with a body of so many bytes."""
    fields = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} /mcp HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def request_for(message: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a whole request of the modern era."""
    body = json.dumps(message).encode()
    params = message.get("params", {})
    mine = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
    if "name" in params:
        mine["Mcp-Name"] = params["name"]
    return head_for(len(body), {**mine, **(headers or {})}) + body


class Wire:
    """A connection, and what comes over it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)

    def head(self, length: int, headers: Mapping[str, str] | None = None, method: str = "POST") -> bytes:
        """Return the head of a request with a body of so many bytes."""
        return head_for(length, headers, method)

    def request(self, message: Any, headers: Mapping[str, str] | None = None) -> bytes:
        """Return a whole request."""
        return request_for(message, headers)

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer."""
        self._parser.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        self._parser.send(h11.EndOfMessage())
        status, body = 0, b""
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA:
                self._parser.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
                    self._parser.start_next_cycle()
                return status, body

    async def wait_closed(self) -> bytes:
        """Wait until the server has closed the connection; return what came before."""
        received = b""
        try:
            while data := await self.stream.receive_some():
                received += data
        except trio.BrokenResourceError:
            pass
        return received
