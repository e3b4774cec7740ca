"""A server over HTTP whose tasks are in a file: ``python task_server.py FILE DIRECTORY``. It prints its address.

What its tools do is written into ``DIRECTORY/log``, one line for each event. `work` goes on when ``DIRECTORY/gate``
is there.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Context, Server, open_sqlite_task_store, serve_http

FILE, DIRECTORY = sys.argv[1], Path(sys.argv[2])


def note(event: str) -> None:
    with (DIRECTORY / "log").open("a") as log:
        log.write(f"{event}\n")


async def wait() -> None:
    while not (DIRECTORY / "gate").exists():  # noqa: ASYNC110 - it is another process that opens it
        await trio.sleep(0.01)


async def work(name: str, ctx: Context[Any]) -> str:
    note(f"begin {name}")
    try:
        await ctx.report_progress(1, 2)
        await wait()
    except trio.Cancelled:
        note(f"cancelled {name}")
        raise
    note(f"end {name}")
    return f"done {name} by {ctx.principal} in {os.getpid()}"


async def ask(ctx: Context[Any]) -> str:
    answers = [str((await ctx.elicit(f"Which {n}?", str)).value) for n in range(2)]
    note(f"answered {answers}")
    return " ".join(answers)


async def main() -> None:
    async with open_sqlite_task_store(FILE) as store:
        server = Server("files", task_store=store)
        server.tool(task="required", poll=0.1)(work)
        server.tool(task="required", poll=0.1)(ask)
        server.tool(task="required", poll=0.1, restartable=True, name="work_again")(work)
        server.tool(task="required", poll=0.1, restartable=True, name="ask_again")(ask)
        async with trio.open_nursery() as nursery:
            [url, *_] = await nursery.start(partial(serve_http, server, "127.0.0.1", 0, http="lean"))
            print(url, flush=True)


trio.run(main)
