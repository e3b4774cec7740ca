"""A program that serves HTTP, and says for each line of its input what that costs it just now."""

from __future__ import annotations

import gc
import json
import os
import sys
from functools import partial
from pathlib import Path

import trio

from trio_mcp import HttpServerSettings, Server, serve_http

server = Server("idle")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def main(idle_timeout: float) -> None:
    settings = HttpServerSettings(session_idle_timeout=idle_timeout)
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_http, server, port=0, settings=settings))
        print(urls[0], flush=True)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            gc.collect()
            costs = {
                "bytes": resident_bytes(),
                "tasks": trio.lowlevel.current_statistics().tasks_living,
                "sessions": server._application.changes.receivers,
            }
            print(json.dumps(costs), flush=True)
        nursery.cancel_scope.cancel()


trio.run(main, float(sys.argv[1]))
