"""One call, one question, one cancellation over each transport that is real: to see that it works on this machine."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from lines import LEGACY, MODERN, open_line

from trio_mcp import Context, Server
from trio_mcp.types import TextContent

TRANSPORTS = (
    "stdio",
    "tcp",
    "tls",
    "unix",
    "http-hypercorn",
    "http-lean",
    "websocket-hypercorn",
    "websocket-lean",
)


@pytest.mark.parametrize(
    ("binding", "revision"),
    [
        *((each, revision) for each in TRANSPORTS for revision in (LEGACY, MODERN)),
        ("sse-hypercorn", "2024-11-05"),
    ],
)
async def test_it_works(binding: str, revision: str) -> None:
    """What the deadline does is seen in the handler, which is in this process."""
    begun, ended = trio.Event(), trio.Event()
    server: Server[Any] = Server("here")

    @server.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool
    async def greet(ctx: Context) -> str:
        (root,) = await ctx.list_roots()
        return f"you work in {root.uri}"

    @server.tool
    async def wait() -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def call(name: str, **arguments: Any) -> str:
        (block,) = (await line.client.call_tool(name, arguments)).content
        assert isinstance(block, TextContent)
        return block.text

    async with open_line(server, binding, revision, roots=["file:///home/ann"]) as line:
        assert await call("add", a=1, b=2) == "3"
        assert await call("greet") == "you work in file:///home/ann"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "wait")
            await begun.wait()
            nursery.cancel_scope.cancel()
        await ended.wait()
        assert await call("add", a=2, b=3) == "5"
    assert sum(line.goodbyes().values()) == 1
