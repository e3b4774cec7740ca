"""A server that hangs where it is told to, and writes down what becomes of it.

``python hanging.py TRANSPORT WHERE``: over ``stdio``, ``hypercorn`` or ``lean``. Each line of the file that the
environment names as DIARY is one thing that has happened.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, cast

import trio

from trio_mcp import Limits, Server

DIARY = Path(os.environ["DIARY"])
LIMITS = Limits(**json.loads(os.environ["LIMITS"]))
WHERE = sys.argv[2]


def note(line: str) -> None:
    """Write a line."""
    with DIARY.open("a") as diary:
        diary.write(line + "\n")


async def hang(where: str) -> None:
    """Wait for ever, if it is to be here; and say when that ends."""
    if where in WHERE.split("+"):
        note(f"hangs {where}")
        try:
            await trio.sleep_forever()
        finally:
            note(f"cancelled {where}")


@asynccontextmanager
async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
    """Hang in two places."""
    await hang("entering")
    if "shielded-entering" in WHERE:
        with trio.CancelScope(shield=True):
            await hang("shielded-entering")
    try:
        yield
    finally:
        await hang("leaving")  # noqa: ASYNC102 - what may become of that is what the tests are about
        await trio.sleep(0.01)  # noqa: ASYNC102
        note("left")


server = Server("hanging", lifespan=lifespan, limits=LIMITS)


@server.tool
async def sleep() -> str:
    """Sleep."""
    await hang("sleeping")
    return "awake"


@server.tool
async def tidy() -> str:
    """Take for ever to clean up, behind a shield."""
    try:
        await hang("tidying")
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()
    raise AssertionError


@server.tool
async def shielded() -> str:
    """Not be cancelled."""
    with trio.CancelScope(shield=True):
        await hang("shielded")
    raise AssertionError


@server.tool
def thread() -> str:
    """Block a thread."""
    note("hangs thread")
    time.sleep(1000)
    return "awake"


@server.tool(thread=False)
def loop() -> str:
    """Block the event loop."""
    note("hangs loop")
    time.sleep(1000)
    return "awake"


class _Announce(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("serving at"):
            print(record.getMessage().removeprefix("serving at "), flush=True)


if __name__ == "__main__":
    transport: Any = sys.argv[1]
    if transport == "stdio":
        server.run()
    else:
        log = logging.getLogger("trio_mcp.http")
        log.addHandler(_Announce())
        log.setLevel(logging.INFO)
        server.run("streamable-http", port=0, http=cast("Literal['hypercorn', 'lean']", transport))
    if WHERE == "exiting":
        note("hangs exiting")
        threading.Thread(target=time.sleep, args=(1000,)).start()
