"""A server that says which files of the package a call has run through: ``python traced.py stdio``, or ``http``.

Call `begin`, then what is to be looked at, then `files`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import trio

import trio_mcp
from trio_mcp import Server, serve_http

PACKAGE = str(Path(trio_mcp.__file__).parent)
FILES: set[str] = set()
server: Server[Any] = Server("traced")


def note(frame: FrameType, event: str, _argument: object) -> None:
    if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
        FILES.add(frame.f_code.co_filename[len(PACKAGE) + 1 :])


@server.tool
async def begin() -> str:
    """Look from now on."""
    FILES.clear()
    sys.setprofile(note)
    return "begun"


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def files() -> list[str]:
    """Stop looking, and tell what was seen."""
    sys.setprofile(None)
    return sorted(FILES)


async def serve() -> None:
    async with trio.open_nursery() as nursery:
        addresses = await nursery.start(partial(serve_http, server, port=0, http="lean"))
        print(addresses[0], flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        trio.run(serve)
