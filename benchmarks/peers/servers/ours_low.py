"""The same tools by the low level of this library, for what it costs: ``python ours_low.py stdio``."""

from __future__ import annotations

import sys
from typing import Any, Final

from trio_mcp import Context, RequestError, Server, types

server = Server("ours, low level")

SCHEMA: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "What it is done to."},
        "count": {"type": "integer", "description": "How often."},
        "ratio": {"type": "number", "description": "How much of it."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "What to call it."},
        "dry_run": {"type": "boolean", "default": False, "description": "Whether to do even less."},
    },
    "required": ["name", "count", "ratio", "tags"],
}
TEXT: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: Final = types.ListToolsResult(
    tools=[
        types.Tool(name="echo", description="Say it again.", input_schema=TEXT),
        *(
            types.Tool(name=f"filler_{number}", description="Do nothing, at some length.", input_schema=SCHEMA)
            for number in range(49)
        ),
    ]
)


@server.request_handler("tools/list", keep=True)
async def list_tools(_params: Any, _ctx: Context) -> types.ListToolsResult:
    """Return the same list each time."""
    return TOOLS


@server.request_handler("tools/call", resume="never")
async def call_tool(params: Any, _ctx: Context) -> types.CallToolResult:
    """Say it again."""
    if params["name"] != "echo":
        raise RequestError(-32602, f"there is no tool {params['name']}")
    return types.CallToolResult(content=[types.TextContent(text=params["arguments"]["text"])])


if __name__ == "__main__":
    assert sys.argv[1] == "stdio"
    server.run()
