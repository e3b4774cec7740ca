"""A program that serves with a store, so that several of it are one server; `store_group` starts it.

Its only argument says how, as JSON: ``{"store": "sqlite", "where": "orders.db", "unix_path": "a.sock", "notes":
"notes", …}``. With the store ``"workers"`` it is a program of `run_workers` instead. What its handlers do is written
into the file of notes, one line for each event, with the id of the process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal

import trio

from trio_mcp import (
    Context,
    HttpCall,
    HttpServerSettings,
    RedisStore,
    Server,
    SqliteStore,
    run_until_signal,
    run_workers,
    serve_http,
)

OPTIONS: Final[dict[str, Any]] = json.loads(sys.argv[1])
STORES: Final[dict[str, Any]] = {"sqlite": SqliteStore, "redis": RedisStore}
server: Server[Any] = Server("group")


def note(event: str, token: str) -> None:
    """Write a line; several processes do."""
    with open(OPTIONS["notes"], "a", encoding="utf-8") as notes:
        notes.write(f"{event} {token} {os.getpid()}\n")


async def wait_for(path: str) -> None:
    """Wait until there is a file, which another process makes; not at all if there is no path."""
    while path and not os.path.exists(path):
        await trio.sleep(0.02)


@asynccontextmanager
async def noted(token: str) -> AsyncGenerator[None]:
    """Note that a handler has begun, and how it ended."""
    note("began", token)
    try:
        yield
    except trio.Cancelled:
        note("cancelled", token)
        raise
    note("ended", token)


# Calls.


@server.tool
async def who() -> int:
    """Say which process this is."""
    return os.getpid()


@server.tool
async def caller(ctx: Context) -> str:
    """Say who has called."""
    return str(ctx.principal)


@server.tool
async def echo(text: str) -> str:
    """Say the same."""
    return text


@server.tool
async def count(to: int, ctx: Context, pause: float = 0, half: int = 0, gate: str = "") -> str:
    """Report every number; wait for a file after half of them."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        if pause:
            await trio.sleep(pause)
        if number == half:
            await wait_for(gate)
    return f"{to} {os.getpid()}"


@server.tool
async def ask(token: str, ctx: Context) -> str:
    """Ask twice, and say what was answered, and where."""
    async with noted(token):
        first = await ctx.elicit(f"{token} one?", str)
        second = await ctx.elicit(f"{token} two?", str)
    return f"{first.value} {second.value} {os.getpid()}"


@server.tool(resume="replay")
async def ask_again(token: str, ctx: Context) -> str:
    """Ask once, and be run again wherever the answer comes to."""
    answer = await ctx.elicit(f"{token} one?", str)
    return f"{answer.value} {os.getpid()}"


@server.tool
async def slow(token: str) -> None:
    """Wait until that is cancelled, and note it."""
    async with noted(token):
        await trio.sleep_forever()


@server.tool
async def ask_and_be_slow(token: str, ctx: Context) -> None:
    """Ask, and then wait until that is cancelled."""
    await ctx.elicit(f"{token} one?", str)
    await slow(token)


@server.tool
async def say(text: str, level: Literal["debug", "info", "error"], ctx: Context) -> int:
    """Send a log message."""
    await ctx.log(level, text)
    return os.getpid()


# Tasks.


@server.tool(task="optional", poll=0.1, ttl=600)
async def work(token: str, ctx: Context, gate: str = "") -> str:
    """Report half of it, wait for a file, and say where that was done."""
    async with noted(token):
        await ctx.report_progress(1, 2)
        await wait_for(gate)
    return f"{token} {os.getpid()}"


@server.tool(task="required", poll=0.1, ttl=600)
async def ask_in_task(token: str, ctx: Context) -> str:
    """Ask twice, in a task."""
    return await ask(token, ctx)


@server.tool(task="required", poll=0.1, ttl=600)
async def slow_task(token: str) -> None:
    """Wait until that is cancelled, in a task."""
    await slow(token)


@server.tool(task="required", poll=0.1, ttl=600, restartable=True)
async def work_again(token: str, gate: str = "") -> str:
    """Wait for a file, in a task that another process runs again when this one dies."""
    async with noted(token):
        await wait_for(gate)
    return f"{token} {os.getpid()}"


# Changes.


@server.resource("thing://{name}")
async def read(name: str) -> str:
    """Return a thing."""
    return name


@server.tool
async def touch(thing: str) -> int:
    """Report that a thing has changed."""
    await server.resource_updated(f"thing://{thing}")
    return os.getpid()


@server.tool
async def touch_tools() -> int:
    """Report that the list of tools has changed."""
    server.list_changed("tools")
    return os.getpid()


@server.tool
async def notify(token: str) -> int:
    """Send all sessions a notification."""
    server.notify("notifications/example/told", {"token": token, "by": os.getpid()})
    return os.getpid()


async def authenticate(call: HttpCall) -> str | None:
    """Name a client by what it says."""
    await trio.lowlevel.checkpoint()
    return call.headers.get("x-user")


def main() -> None:
    settings = HttpServerSettings(
        sse=True, trusted_proxies={"unix"}, allow_anonymous=True, **OPTIONS.get("settings", {})
    )
    options: dict[str, Any] = {
        "http": OPTIONS.get("http", "lean"),
        "unix_path": OPTIONS["unix_path"],
        "settings": settings,
        "authenticate": authenticate,
    }
    if OPTIONS["store"] == "workers":
        run_workers(server, workers=2, **options)
    else:
        store = STORES[OPTIONS["store"]](OPTIONS["where"], **OPTIONS.get("of_store", {}))
        run_until_signal(partial(serve_http, server, store=store, **options))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(process)d %(asctime)s %(name)s %(message)s")
    main()
