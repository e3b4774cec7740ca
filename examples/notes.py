"""Notes in a SQLite file: tools write them, each is a resource, and clients that listen hear of every change.

SQLite blocks, so each statement runs in a thread, one at a time, and is a transaction. A caller that gives up
waits for its statement: what was begun is kept and announced, or never begun. A restart loses nothing.

``NOTES=notes.db python examples/notes.py`` serves a file over stdio; `notes_client.py` uses it.
For many clients at once: ``trio-mcp run examples/notes.py --transport streamable-http --port 8000``.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Annotated, Any

import attrs
import trio

from trio_mcp import Context, Field, ResourceNotFound, Server, ToolError
from trio_mcp.types import ListResourcesResult, Resource

TABLE = "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL)"
PAGE = 100
Text = Annotated[str, Field("What is to be kept.", max_length=10_000)]


@attrs.define(eq=False)
class Notes:
    """The file, and whose turn it is."""

    connection: sqlite3.Connection
    turn: trio.Lock = attrs.field(factory=trio.Lock)

    async def run(self, statement: str, *values: str | int) -> list[Any]:
        """Run one statement in a thread, and return its rows."""

        def execute() -> list[Any]:
            with self.connection:  # commits, or rolls back
                return self.connection.execute(statement, values).fetchall()

        async with self.turn:
            return await trio.to_thread.run_sync(execute)


@asynccontextmanager
async def open_notes(_: Server[Notes]) -> AsyncGenerator[Notes]:
    """Open the file when the server starts, and close it when it ends."""
    path = os.environ.get("NOTES", "notes.db")
    with closing(await trio.to_thread.run_sync(partial(sqlite3.connect, path, check_same_thread=False))) as file:
        notes = Notes(file)
        await notes.run(TABLE)
        yield notes


server = Server("notes", version="1.0", lifespan=open_notes)


@server.tool
async def add(text: Text, ctx: Context[Notes]) -> int:
    """Keep a note, and return its number."""
    ((number,),) = await ctx.state.run("INSERT INTO notes (text) VALUES (?) RETURNING id", text)
    server.list_changed("resources")
    return int(number)


@server.tool
async def rewrite(number: int, text: Text, ctx: Context[Notes]) -> None:
    """Replace the text of a note."""
    if not await ctx.state.run("UPDATE notes SET text = ? WHERE id = ? RETURNING id", text, number):
        raise ToolError(f"there is no note {number}")
    await server.resource_updated(f"notes://{number}")


@server.tool
async def remove(number: int, ctx: Context[Notes]) -> None:
    """Throw a note away."""
    if not await ctx.state.run("DELETE FROM notes WHERE id = ? RETURNING id", number):
        raise ToolError(f"there is no note {number}")
    server.list_changed("resources")


@server.resource("notes://{number}")
async def note(number: int, ctx: Context[Notes]) -> str:
    """One note."""
    for (text,) in await ctx.state.run("SELECT text FROM notes WHERE id = ?", number):
        return str(text)
    raise ResourceNotFound(f"there is no note {number}")


@server.request_handler("resources/list")
async def list_notes(params: Mapping[str, Any], ctx: Context[Notes]) -> ListResourcesResult:
    """List what is in the file, page by page; the cursor is the last number of the page before."""
    last = str(params.get("cursor", "0"))
    rows = await ctx.state.run("SELECT id FROM notes WHERE id > ? ORDER BY id LIMIT ?", last, PAGE)
    numbers = [number for (number,) in rows]
    resources = [Resource(uri=f"notes://{number}", name=f"note {number}") for number in numbers]
    return ListResourcesResult(
        resources=resources, next_cursor=str(numbers[-1]) if len(numbers) == PAGE else None
    )


if __name__ == "__main__":
    server.run()
