"""A small library desk: typed tools, progress, log messages, errors for the model, and a lifespan.

Run it over stdio with ``python examples/library_server.py``; `demo.py` does, and shows what goes over the wire.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import attrs
import trio

from trio_mcp import Context, Field, Server, ToolError


@attrs.define
class Shelves:
    """What the desk works with, for as long as the server runs."""

    books: dict[str, int]


@attrs.frozen
class Reservation:
    """Copies put aside for a reader.

    Attributes:
        title: The book.
        copies: How many are put aside.
        left: How many are left on the shelf.
    """

    title: str
    copies: int
    left: int


@asynccontextmanager
async def open_shelves(_: Server[Shelves]) -> AsyncGenerator[Shelves]:
    """Open the library in the morning and close it in the evening."""
    print("library: the shelves are open", file=sys.stderr)
    await trio.lowlevel.checkpoint()
    try:
        yield Shelves({"Dune": 12, "Emma": 2, "Ulysses": 1})
    finally:
        print("library: the shelves are closed", file=sys.stderr)


server = Server("library", version="1.0", lifespan=open_shelves)


@server.tool
async def search(ctx: Context[Shelves], words: str = "") -> list[str]:
    """List the titles that contain some words.

    Args:
        words: What to look for; everything if empty.
    """
    await trio.lowlevel.checkpoint()
    return [title for title in ctx.state.books if words.lower() in title.lower()]


@server.tool
async def reserve(
    title: str, copies: Annotated[int, Field("How many, at least 1.", ge=1)] = 1, *, ctx: Context[Shelves]
) -> Reservation:
    """Put copies of a book aside.

    Args:
        title: Exact title as printed on the cover.
    """
    if title not in ctx.state.books:
        raise ToolError(f"there is no {title!r}; look for it with `search`")
    async with ctx.progress(total=copies) as progress:
        for copy in range(copies):
            await trio.sleep(0.15)
            if ctx.state.books[title] == 0:
                raise ToolError(f"only {copy} copies of {title!r} were left")
            ctx.state.books[title] -= 1
            await progress.advance(message=f"copy {copy + 1} of {title}")
    await ctx.info({"reserved": title, "copies": copies})
    return Reservation(title, copies, ctx.state.books[title])


@server.tool
async def take_inventory() -> str:
    """Count every book in the building. This takes all day."""
    print("library: taking inventory", file=sys.stderr)
    try:
        await trio.sleep(8 * 60 * 60)
    finally:
        print("library: interrupted; in `finally` the ledgers are put back in order", file=sys.stderr)
    return "42 books"


if __name__ == "__main__":
    server.run()
