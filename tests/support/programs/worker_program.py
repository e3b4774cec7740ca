"""A program that several processes run; `worker_group` starts it. Its only argument says how, as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Context, HttpCall, HttpServerSettings, Server, open_sqlite_task_store, run_workers

OPTIONS: dict[str, Any] = json.loads(sys.argv[1])
if Path(OPTIONS.get("broken", "/nowhere")).exists():
    raise RuntimeError("the program is broken")
server: Server[Any] = Server(
    "group",
    single_use_states=bool(OPTIONS.get("single_use")),
    task_store=partial(open_sqlite_task_store, OPTIONS["tasks"]) if "tasks" in OPTIONS else None,
)


@server.tool
async def who() -> int:
    """Say which process this is."""
    return os.getpid()


@server.tool
async def asker(ctx: Context) -> str:
    """Ask, and say where that was done."""
    answer = await ctx.elicit("What is your name?", str)
    return f"{answer.value} {os.getpid()}"


@server.tool(resume="replay")
async def again(ctx: Context) -> str:
    """Ask, and be run again."""
    answer = await ctx.elicit("What is your name?", str)
    return f"{answer.value} {os.getpid()}"


@server.tool
async def caller(ctx: Context) -> str:
    """Say who has called."""
    return str(ctx.principal)


@server.tool
async def echo(text: str) -> str:
    """Say the same."""
    return text


@server.tool
async def brief() -> str:
    """Take a moment."""
    await trio.sleep(0.05)
    return "done"


@server.tool
async def hang(path: str) -> str:
    """Wait until that is cancelled, and note it."""
    Path(path).write_text("began")
    try:
        await trio.sleep_forever()
    finally:
        Path(path).write_text(f"ended in {os.getpid()}")
    raise AssertionError


@server.tool(task="required", poll=0.1, restartable=True)
async def long(path: str) -> str:
    """Wait until there is a file, and say where that was done."""
    while not await trio.Path(path).exists():
        await trio.sleep(0.02)
    return f"{os.getpid()}"


@server.tool
async def block(path: str) -> None:
    """Keep the event loop for longer than anybody waits."""
    Path(path).write_text("began")
    threading.Event().wait(300)


@server.tool
async def ask_and_hang(path: str, ctx: Context) -> str:
    """Ask, and wait until that is cancelled."""
    await ctx.elicit("What is your name?", str)
    return await hang(path)


@server.resource("thing://one")
async def one() -> str:
    """Return a thing."""
    return "one"


@server.tool
async def touch() -> int:
    """Report that the thing has changed, and something else."""
    await server.resource_updated("thing://one")
    server.notify("notifications/example/told", {"by": os.getpid()})
    return os.getpid()


async def authenticate(call: HttpCall) -> str | None:
    """Name a client by what it says, and where it is."""
    await trio.lowlevel.checkpoint()
    user = call.headers.get("x-user")
    return None if user is None else f"{user} at {call.client} over {call.scheme}"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = HttpServerSettings(sse=True, trusted_proxies={"127.0.0.1"}, allow_anonymous=True)
    run_workers(
        server,
        port=0,
        workers=OPTIONS.get("workers", 2),
        http=OPTIONS.get("http", "lean"),
        unix_path=OPTIONS.get("unix_path"),
        settings=settings,
        authenticate=authenticate,
    )
