"""What the tests of socket client share in several layers."""

from __future__ import annotations

from typing import Any

import trio

from trio_mcp import (
    Server,
)


def make_server() -> Server[Any]:
    server: Server[Any] = Server("met")

    @server.tool
    async def echo(text: str) -> str:
        await trio.lowlevel.checkpoint()
        return text

    @server.tool
    async def sleep() -> None:
        await trio.sleep_forever()

    return server
