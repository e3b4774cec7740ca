"""What the tests of routes share in several layers."""

from __future__ import annotations

from typing import Any

from trio_mcp import (
    Context,
    Server,
)


def make_server() -> Server[Any]:
    server: Server[Any] = Server("beside")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal)

    return server
