"""The same tools by the low level of this library, for what it costs: ``python ours_low.py stdio``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Context, RequestError, Server, open_client, types

server = Server("ours, low level")


async def tools_of(other: Server) -> types.ListToolsResult:
    """Return what another server lists, so that both send the same bytes."""
    async with open_client(other) as client:
        return types.ListToolsResult(tools=await client.list_tools())


TOOLS = trio.run(tools_of, runpy.run_path(str(Path(__file__).with_name("ours.py")))["server"])


@server.request_handler("tools/list", keep=True)
async def list_tools(_params: Any, _ctx: Context) -> types.ListToolsResult:
    """Return the same list each time."""
    return TOOLS


@server.request_handler("tools/call", resume="never")
async def call_tool(params: Any, _ctx: Context) -> dict[str, Any]:
    """Say it again, in plain JSON, as it is written of what a function returns."""
    if params["name"] != "echo":
        raise RequestError(-32602, f"there is no tool {params['name']}")
    return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}


if __name__ == "__main__":
    assert sys.argv[1] == "stdio"
    server.run()
