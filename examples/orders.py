"""A database behind tools: opened once for the server, one transaction for each call, typed results for programs.

The lifespan yields what lives as long as the server. A dependency yields what lives as long as one call: its
cleanup runs when the handler is over, and knows whether it failed. Clients see neither of them.

Run ``python examples/orders.py``. You see::

    [the database is open]
    Order(id=1, title='Dune', copies=2)
    Order(id=2, title='Emma', copies=1)
    [rolled back]
    refused: nobody can order 13 copies
    3 copies in 2 orders
    [the database is closed]
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Annotated

import attrs
import trio

from trio_mcp import Context, Depends, Server, ToolError, open_client


@attrs.frozen
class Order:
    """Copies of a book that somebody wants.

    Attributes:
        id: Its number.
        title: The book.
        copies: How many.
    """

    id: int
    title: str
    copies: int


@asynccontextmanager
async def open_database(_: Server[sqlite3.Connection]) -> AsyncGenerator[sqlite3.Connection]:
    """Open the database when the server starts, and close it when it ends."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, title TEXT, copies INTEGER)")
    print("[the database is open]")
    try:
        yield database
    finally:
        database.close()
        print("[the database is closed]")


def transaction(ctx: Context[sqlite3.Connection]) -> Generator[sqlite3.Connection]:
    """Give one call a transaction: kept if the handler succeeds, undone if it fails or is cancelled."""
    database = ctx.state
    database.execute("BEGIN")
    try:
        yield database
    except BaseException:
        database.execute("ROLLBACK")
        print("[rolled back]")
        raise
    database.execute("COMMIT")


Database = Annotated[sqlite3.Connection, Depends(transaction)]

server = Server("orders", version="1.0", lifespan=open_database)


@server.tool
async def order(title: str, copies: int = 1, *, database: Database) -> Order:
    """Order a book.

    Args:
        title: Exact title as printed on the cover.
        copies: How many copies.
    """
    added = database.execute("INSERT INTO orders (title, copies) VALUES (?, ?) RETURNING id", (title, copies))
    (number,) = added.fetchone()
    if copies > 12:
        raise ToolError(f"nobody can order {copies} copies")
    return Order(number, title, copies)


@server.tool
async def list_orders(database: Database) -> list[Order]:
    """List all orders."""
    return [Order(*row) for row in database.execute("SELECT id, title, copies FROM orders ORDER BY id")]


async def main() -> None:
    """Order a few books, some of them too often."""
    async with open_client(server) as client:
        print(await client.call_tool("order", {"title": "Dune", "copies": 2}, returns=Order))
        print(await client.call_tool("order", {"title": "Emma"}, returns=Order))
        try:
            await client.call_tool("order", {"title": "Ulysses", "copies": 13}, returns=Order)
        except ToolError as error:
            print("refused:", error)
        orders = await client.call_tool("list_orders", returns=list[Order])
        print(sum(one.copies for one in orders), "copies in", len(orders), "orders")


if __name__ == "__main__":
    trio.run(main)
