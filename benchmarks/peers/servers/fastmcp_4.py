"""What is measured of FastMCP 4, which stands on the Python SDK 2: ``fastmcp_4.py BINDING``."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys
import time
import warnings
from pathlib import Path

import anyio
import fastmcp
from fastmcp import Context, FastMCP
from fastmcp.prompts import Message

warnings.simplefilter("ignore")  # log messages are deprecated, and it says so
fastmcp.settings.log_level = "ERROR"
server = FastMCP("fastmcp")
ended_at = {}


def tool(**options):
    return server.tool(output_schema=None, **options)


@tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool()
async def report(text: str, ctx: Context) -> str:
    """Say it again, and report progress once."""
    await ctx.report_progress(1, 1)
    return text


@tool()
async def flood(count: int, ctx: Context) -> str:
    """Report progress so many times."""
    for step in range(1, count + 1):
        await ctx.report_progress(step, count)
    return "done"


@tool()
async def shout(count: int, ctx: Context) -> str:
    """Send so many log messages."""
    for _ in range(count):
        await ctx.info("a message")
    return "done"


@tool()
async def blob(size: int) -> str:
    """Return so much text."""
    return "x" * size


@tool()
async def swallow(text: str) -> str:
    """Return how long a text is."""
    return str(len(text))


@tool()
async def ask(ctx: Context) -> str:
    """Ask the user."""
    return (await ctx.elicit("What is your name?", str)).data


@tool()
async def hold(key: str, ctx: Context) -> None:
    """Wait for ever, and note when that ends."""
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        ended_at[key] = time.monotonic_ns()


@tool()
async def ended() -> str:
    """Tell when those that waited ended."""
    said = json.dumps(ended_at)
    ended_at.clear()
    return said


def add_filler(number):
    @tool(name=f"filler_{number}")
    async def filler(name: str, count: int, ratio: float, tags: list[str], dry_run: bool = False) -> str:
        """Do nothing, at some length."""
        return f"{name} {count} {ratio} {tags} {dry_run}"


for filler_number in range(
    41
):  # two more than elsewhere: it has no tool `sample`, and none that tells of changes
    add_filler(filler_number)


@server.resource("bench://text/{size}", mime_type="text/plain")
async def text_of(size: int) -> str:
    """A text of this size."""
    return "x" * size


@server.resource("bench://binary/{size}", mime_type="application/octet-stream")
async def binary_of(size: int) -> bytes:
    """Bytes of this size."""
    return b"\0" * size


@server.prompt()
async def greet(name: str) -> list:
    """Greet somebody."""
    return [Message(f"Hello, {name}!")]


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False)
    else:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from hosting import serve

        if sys.argv[1] == "sse":
            serve(server.http_app(transport="sse"), "uvicorn", "/sse")
        else:
            serve(server.http_app(), sys.argv[1], "/mcp")
