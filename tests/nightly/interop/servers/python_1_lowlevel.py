"""A server on the low-level interface of the Python SDK, version 1."""

# It runs in another environment, on several versions of a package that is not installed in this one.
# ruff: noqa: ANN001, ANN003, ANN201
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import inspect
import sys

import anyio
from hosting import run_lowlevel
from mcp import types
from mcp.server import Server

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PAGE_SIZE = 3
HAS_PAGES = hasattr(types, "PaginatedRequestParams")
HAS_STRUCTURED = "structuredContent" in types.CallToolResult.model_fields

server = Server("python low-level")
a_block_ended = anyio.Event()


def tool(name, properties, output=None):
    schema = {"type": "object", "properties": properties}
    extra = {"outputSchema": output} if output is not None else {}
    return types.Tool(name=name, description=f"The tool {name}", inputSchema=schema, **extra)


TOOLS = [
    tool("add", {"a": {"type": "integer"}, "b": {"type": "integer"}}),
    tool("picture", {}),
    tool("fail", {}),
    tool("count", {"to": {"type": "integer"}}),
    tool("block", {}),
    tool("ended", {}),
]
if HAS_STRUCTURED:
    TOOLS.append(tool("measure", {}, {"type": "object", "properties": {"celsius": {"type": "number"}}}))


def text(said, **extra):
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], **extra)


def related(notify):
    """Say to which request a notification belongs, over HTTP, where the version can."""
    if "related_request_id" in inspect.signature(notify).parameters:
        return {"related_request_id": server.request_context.request_id}
    return {}


async def report(progress, total):
    context = server.request_context
    token = getattr(context.meta, "progressToken", None)
    if token is not None:
        notify = context.session.send_progress_notification
        await notify(token, progress, total, **related(notify))


async def log(words):
    notify = server.request_context.session.send_log_message
    await notify("info", words, logger="count", **related(notify))


async def call(name, arguments):
    if name == "add":
        return text(str(arguments["a"] + arguments["b"]))
    if name == "picture":
        image = types.ImageContent(type="image", data=PNG, mimeType="image/png")
        return types.CallToolResult(content=[types.TextContent(type="text", text="Look:"), image])
    if name == "fail":
        return text("it failed, as it should", isError=True)
    if name == "count":
        for step in range(1, arguments["to"] + 1):
            await log(f"step {step}")
            await report(step, arguments["to"])
        return text(f"counted to {arguments['to']}")
    if name == "block":
        try:
            await report(1, None)
            await anyio.sleep_forever()
        finally:
            a_block_ended.set()
    if name == "ended":
        await a_block_ended.wait()
        return text("a block ended")
    if name == "measure" and HAS_STRUCTURED:
        return text('{"celsius": 21.5}', structuredContent={"celsius": 21.5})
    raise ValueError(f"Unknown tool: {name}")


async def call_tool(request):
    return types.ServerResult(await call(request.params.name, request.params.arguments or {}))


async def list_tools(request):
    start = int((request.params and request.params.cursor) or 0) if HAS_PAGES else 0
    after = start + PAGE_SIZE if HAS_PAGES else len(TOOLS)
    cursor = str(after) if after < len(TOOLS) else None
    return types.ServerResult(types.ListToolsResult(tools=TOOLS[start:after], nextCursor=cursor))


# Not by the decorators: only these can page, and answer with a whole result, in every version.
server.request_handlers[types.ListToolsRequest] = list_tools
server.request_handlers[types.CallToolRequest] = call_tool


@server.set_logging_level()
async def set_logging_level(level):
    pass


print("ready to serve", file=sys.stderr, flush=True)
run_lowlevel(server)
