"""What the tests of other threads share in several layers."""

from __future__ import annotations

from typing import Final

import trio

from trio_mcp import (
    Server,
)

ENOUGH: Final = 280


def make_server() -> Server[None]:
    server: Server[None] = Server("threads")

    @server.tool
    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    return server
