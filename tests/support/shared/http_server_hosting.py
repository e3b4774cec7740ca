"""What the tests of hosting share in several layers."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import (
    Context,
    Server,
)


def make_server(log: list[str] | None = None, **options: Any) -> Server[Any]:
    said = [] if log is None else log
    server: Server[Any] = Server("hosted", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def hang(ctx: Context, text: str = "") -> str:
        said.append("began")
        try:
            if text:
                await ctx.log("info", text)
            await trio.sleep_forever()
        finally:
            said.append("ended")
        raise AssertionError

    @server.tool
    async def nap(seconds: float) -> str:
        said.append("napping")
        await trio.sleep(seconds)
        return "rested"

    @server.tool
    async def flood(ctx: Context) -> str:
        said.append("began")
        try:
            while True:
                await ctx.log("info", "x" * 60_000)
        finally:
            said.append("ended")

    return server
