"""What the tests of connections share in several layers."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import trio

from trio_mcp import Context, Server

who: ContextVar[str] = ContextVar("who", default="nobody")


def make_server(log: list[str] | None = None) -> Server[Any]:
    said = [] if log is None else log
    server: Server[Any] = Server("connected")

    @server.tool
    async def echo(text: str) -> str:
        said.append(f"echo {text[:10]}")
        return text

    @server.tool
    async def nap(seconds: float) -> str:
        said.append("nap began")
        try:
            await trio.sleep(seconds)
        finally:
            said.append("nap ended")
        return "rested"

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.log("info", "told")
        return "done"

    @server.tool
    async def enter(who_is_it: str) -> str:
        before = who.get()
        who.set(who_is_it)
        return before

    return server
