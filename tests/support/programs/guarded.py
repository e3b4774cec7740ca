"""A server that lets in who brings a token."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import Context, HttpCall, HttpRefused, Server

server: Server[Any] = Server("guarded")


@server.tool
def who(ctx: Context[Any]) -> str:
    """Return who has called."""
    return str(ctx.principal)


async def authenticate(call: HttpCall) -> str:
    """Know one token."""
    await trio.lowlevel.checkpoint()
    if call.headers.get("authorization") != "Bearer sesame":
        raise HttpRefused(401, "not this token")
    return "alice"
