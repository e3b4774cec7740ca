"""A server that writes down what becomes of its handlers, one line each, in the file its environment names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Context, Limits, Server, ToolError

DIARY = Path(os.environ["DIARY"])
LIMITS = Limits(**json.loads(os.environ.get("LIMITS", '{"drain_timeout": 1}')))


def note(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(line + "\n")


@asynccontextmanager
async def lifespan(_: Server[str]) -> AsyncGenerator[str]:
    note("lifespan begins")
    try:
        await trio.lowlevel.checkpoint()
        yield "alive"
    finally:
        note("lifespan ends")


server = Server("witness", version="1", lifespan=lifespan, limits=LIMITS)


@server.tool
async def sleep(seconds: float, name: str, ctx: Context[str]) -> str:
    """Sleep."""
    note(f"started {name}")
    try:
        await trio.sleep(seconds)
    except trio.Cancelled:
        note(f"cancelled {name}")
        raise
    note(f"finished {name}")
    return "slept"


@server.tool
async def until(path: str) -> str:
    """Wait for a file."""
    note("started until")
    while not await trio.Path(path).exists():
        await trio.sleep(0.01)
    note("finished until")
    return "there"


@server.tool
def block(seconds: float) -> str:
    """Block a thread."""
    note("blocking")
    time.sleep(seconds)
    return "blocked"


@server.tool
async def chatter(ctx: Context[str]) -> str:
    """Print where nobody should."""
    print("a stray print")
    os.write(1, b"a stray write\n")
    subprocess.run(["echo", "a stray child"], check=True)
    print("on standard error", file=sys.stderr)
    return sys.stdin.read()


@server.tool
async def fail(kind: str) -> str:
    """Fail."""
    if kind == "tool":
        raise ToolError("for the model")
    raise ValueError("a secret")


@server.tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@server.tool
async def die(status: int) -> str:
    """Exit at once, with last words."""
    print("these are my last words", file=sys.stderr, flush=True)
    os._exit(status)


@server.tool
async def info(ctx: Context[str]) -> dict[str, Any]:
    """Say what is known."""
    return {"state": ctx.state, "modules": sorted(m for m in sys.modules if "." not in m)}


if __name__ == "__main__":
    server.run()
