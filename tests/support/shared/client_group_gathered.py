"""What the tests of group gathered share in several layers."""

from __future__ import annotations

from typing import Any

from trio_mcp import (
    Server,
)

ENOUGH = 280


def make_server(name: str, *tools: str) -> Server[None]:
    server: Server[None] = Server(name)
    for tool in tools:

        async def whoami(tool: str = tool) -> str:
            return f"{tool} of {name}"

        server.tool(name=tool)(whoami)
    return server


def make_tool() -> Any:
    async def tool() -> str:
        return "done"

    return tool
