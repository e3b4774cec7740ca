"""The server that other implementations' clients talk to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import attrs
import trio
from running import run

from trio_mcp import Context, Revision, Server, ToolError

server = Server(
    "fixture",
    version="1",
    instructions="Call the tools.",
    revisions=os.environ.get("FIXTURE_REVISIONS", " ".join(Revision)).split(),
)
proceed_with, proceeding = trio.open_memory_channel[None](0)


@attrs.frozen
class Measured:
    """What a thermometer says."""

    celsius: float
    place: str


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def sync_add(a: int, b: int) -> int:
    """Add two numbers, in a thread."""
    return a + b


@server.tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool
async def divide(a: float, b: float) -> float:
    """Divide one number by another."""
    if b == 0:
        raise ToolError("b must not be 0")
    return a / b


@server.tool
async def fail() -> str:
    """Fail in a way that nobody planned."""
    raise ValueError("a secret that is nobody's business")


@server.tool
async def slow(steps: int, ctx: Context) -> str:
    """Report each step, and wait until `proceed` is called before the next.

    There are clients that lose progress which arrives together with the result.
    """
    async with ctx.progress(total=steps) as progress:
        for step in range(1, steps + 1):
            await progress.advance(message=f"step {step}")
            await proceeding.receive()
    return f"{steps} steps"


@server.tool
async def proceed() -> None:
    """Let `slow` go on."""
    await proceed_with.send(None)


def mark(marker: str) -> None:
    """Leave a mark; nothing in a `finally` should wait."""
    Path(marker).touch()


@server.tool
async def block(marker: str, ctx: Context) -> None:
    """Never end, and leave a mark when made to."""
    try:
        await ctx.report_progress(1)
        await ctx.info("blocking")
        await trio.sleep_forever()
    finally:
        mark(marker)


@server.tool
async def noisy() -> str:
    """Print in all the ways there are."""
    print("printed")
    os.write(1, b"written to the descriptor\n")
    await trio.to_thread.run_sync(lambda: subprocess.run(("echo", "by a child process"), check=True))
    return "quiet on the wire"


@server.tool
async def structured(place: str) -> Measured:
    """Measure the temperature."""
    return Measured(21.5, place)


@server.tool
async def log(words: list[str], ctx: Context) -> str:
    """Log each word."""
    for word in words:
        await ctx.info(word, logger="fixture")
    return "logged"


if __name__ == "__main__":
    run(server)
