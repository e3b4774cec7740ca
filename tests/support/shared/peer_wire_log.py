"""What the tests of wire log share in several layers."""

from __future__ import annotations

from trio_mcp import (
    Context,
    Server,
)

WIRE = "trio_mcp.wire"


def make_server() -> Server:
    server = Server("shown")

    @server.tool
    async def login(password: str, *, ctx: Context) -> str:
        async with ctx.progress(total=1) as progress:
            await progress.advance()
        return f"welcome, {len(password)}"

    return server
