"""What the tests of socket limits share in several layers."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import Context, Limits, Server


def make_server(limits: Limits | None = None) -> Server[Any]:
    server: Server[Any] = Server("limited", limits=limits)

    @server.tool
    async def echo(text: str) -> str:
        await trio.lowlevel.checkpoint()
        return text

    @server.tool
    async def sleep(seconds: float) -> str:
        await trio.sleep(seconds)
        return "slept"

    @server.tool
    async def blob(size: int) -> str:
        await trio.lowlevel.checkpoint()
        return "x" * size

    @server.tool
    async def chatter(ctx: Context[Any]) -> str:
        while True:
            await ctx.info("x" * 1000)

    return server


def kept(server: Server[Any]) -> int:
    """Return how many bytes are lent."""
    return sum(pools["bytes"].lent for pools in server.statistics())


async def none_kept(server: Server[Any]) -> bool:
    """Wait until nothing is lent: a connection that is cut ends a moment later."""
    while kept(server):
        await trio.sleep(0.01)
    return True


# Memory.
MIB = 1 << 20
