"""The low level: plain handlers for plain methods, and a pair of streams to serve.

Nothing is derived from signatures here. A handler gets the parameters as JSON and returns JSON, or an object of
`trio_mcp.types`. For a method of your own it is the same.

Any MCP host can start it with ``python examples/low_level_server.py``; `low_level_client.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from trio_mcp import Context, RequestError, Server, serve_stdio, types

server = Server("low-level", version="1.0")

ADD = types.Tool(
    name="add",
    description="Add two numbers.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)


@server.request_handler("tools/list")
async def list_tools(params: Mapping[str, Any], ctx: Context) -> types.ListToolsResult:
    """Say what there is."""
    return types.ListToolsResult(tools=[ADD])


@server.request_handler("tools/call")
async def call_tool(params: Mapping[str, Any], ctx: Context) -> types.CallToolResult:
    """Do it."""
    match params:
        case {"name": "add", "arguments": {"a": int() | float() as a, "b": int() | float() as b}}:
            return types.CallToolResult(content=[types.TextContent(text=f"{a + b}")])
        case {"name": "add"}:
            return types.CallToolResult(content=[types.TextContent(text="a and b are numbers")], is_error=True)
        case _:
            raise RequestError(-32602, "there is only one tool, add")


@server.request_handler("calculator/constants")
async def constants(params: Mapping[str, Any], ctx: Context) -> dict[str, float]:
    """Serve a method that the protocol does not have."""
    return {"pi": 3.14159, "e": 2.71828}


async def main() -> None:
    """Serve the client at standard input and output until it goes."""
    await serve_stdio(server)


if __name__ == "__main__":
    trio.run(main)
