"""A server on MCPServer, the high-level interface of the Python SDK, version 2."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import base64
import sys

import anyio
from hosting import run_mcpserver
from mcp.server.mcpserver import Context, Image, MCPServer
from pydantic import BaseModel

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("python high-level")
a_block_ended = anyio.Event()


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def picture() -> Image:
    return Image(data=base64.b64decode(PNG), format="png")


@server.tool()
def fail() -> str:
    raise RuntimeError("it failed, as it should")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for step in range(1, to + 1):
        await ctx.info(f"step {step}", logger_name="count")
        await ctx.report_progress(step, to)
    return f"counted to {to}"


@server.tool()
async def block(ctx: Context) -> None:
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        a_block_ended.set()


@server.tool()
async def ended() -> str:
    await a_block_ended.wait()
    return "a block ended"


class Measured(BaseModel):
    celsius: float


@server.tool()
def measure() -> Measured:
    return Measured(celsius=21.5)


print("ready to serve", file=sys.stderr, flush=True)
run_mcpserver(server)
