"""Servers of ours at sockets, and connections to them that are spoken to by hand, line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import pytest
import trio
from raw import modern

from trio_mcp import Server, Shutdown, SocketServerSettings, serve_tcp, serve_unix

__all__ = ["KINDS", "Kind", "Line", "connect", "serving_at"]

Kind: TypeAlias = Literal["tcp", "unix"]
KINDS: Final = pytest.mark.parametrize("kind", ["tcp", "unix"])
ENOUGH: Final = 280
"""Seconds in which anything is over, on a machine that is busy with other things."""


@asynccontextmanager
async def serving_at(
    kind: Kind,
    server: Server[Any],
    folder: Path,
    settings: SocketServerSettings | None = None,
    shutdown: Shutdown | None = None,
) -> AsyncGenerator[str]:
    """Serve, and yield where; nothing is served any more, and no task is left, after it."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        serve: Any = (
            partial(serve_tcp, server, port=0)
            if kind == "tcp"
            else partial(serve_unix, server, folder / "socket")
        )
        (url,) = await nursery.start(partial(serve, settings=settings, shutdown=shutdown))
        yield url
        nursery.cancel_scope.cancel()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not (folder / "socket").exists()


@final
class Line:
    """A connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, *messages: dict[str, Any]) -> None:
        """Send messages."""
        await self.stream.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def ask(self, id: int, method: str, **params: Any) -> dict[str, Any]:
        """Send a request of the modern era, and return its answer."""
        await self.send(modern(id, method, **params))
        return await self.receive()

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        while b"\n" not in self._buffer:
            data = await self.stream.receive_some()
            assert data, "the server has closed the connection"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    async def wait_end(self) -> bytes:
        """Wait until the server closes or resets it; return what came before."""
        try:
            while data := await self.stream.receive_some():
                self._buffer += data
        except trio.BrokenResourceError:
            pass
        return self._buffer


@asynccontextmanager
async def connect(url: str) -> AsyncGenerator[Line]:
    """Connect to a server."""
    scheme, _, where = url.partition("://")
    if scheme == "unix":
        stream = await trio.open_unix_socket(where)
    else:
        host, _, port = where.rpartition(":")
        stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        yield Line(stream)
