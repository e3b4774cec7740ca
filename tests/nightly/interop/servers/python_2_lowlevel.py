"""A server on the low-level interface of the Python SDK, version 2."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN003, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import sys

import anyio
import mcp_types as types
from hosting import run_lowlevel
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PAGE_SIZE = 3

a_block_ended = anyio.Event()


def tool(name, properties, output=None):
    schema = {"type": "object", "properties": properties}
    return types.Tool(name=name, description=f"The tool {name}", input_schema=schema, output_schema=output)


TOOLS = [
    tool("add", {"a": {"type": "integer"}, "b": {"type": "integer"}}),
    tool("picture", {}),
    tool("fail", {}),
    tool("count", {"to": {"type": "integer"}}),
    tool("block", {}),
    tool("ended", {}),
    tool("measure", {}, {"type": "object", "properties": {"celsius": {"type": "number"}}}),
]


def text(said, **extra):
    return types.CallToolResult(content=[types.TextContent(text=said)], **extra)


async def call_tool(context, params):
    name, arguments = params.name, params.arguments or {}
    if name == "add":
        return text(str(arguments["a"] + arguments["b"]))
    if name == "picture":
        image = types.ImageContent(data=PNG, mime_type="image/png")
        return types.CallToolResult(content=[types.TextContent(text="Look:"), image])
    if name == "fail":
        return text("it failed, as it should", is_error=True)
    if name == "count":
        for step in range(1, arguments["to"] + 1):
            await context.session.send_log_message(
                "info", f"step {step}", "count", related_request_id=context.request_id
            )
            await context.session.report_progress(step, arguments["to"])
        return text(f"counted to {arguments['to']}")
    if name == "block":
        try:
            await context.session.report_progress(1)
            await anyio.sleep_forever()
        finally:
            a_block_ended.set()
    if name == "ended":
        await a_block_ended.wait()
        return text("a block ended")
    if name == "measure":
        return text('{"celsius": 21.5}', structured_content={"celsius": 21.5})
    raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")


async def list_tools(context, params):
    start = int((params.cursor if params else None) or 0)
    after = start + PAGE_SIZE
    cursor = str(after) if after < len(TOOLS) else None
    return types.ListToolsResult(tools=TOOLS[start:after], next_cursor=cursor)


async def set_level(context, params):
    return types.EmptyResult()


server = Server(
    "python low-level",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_set_logging_level=set_level,
)
print("ready to serve", file=sys.stderr, flush=True)
run_lowlevel(server)
