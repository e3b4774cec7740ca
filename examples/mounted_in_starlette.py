"""A server beside the pages of a web application: under a path, in one process, on Hypercorn's Trio worker.

`McpASGI` is an ASGI application like any other. Starlette does not hand the lifespan on to what it mounts, so the
application's own lifespan enters `McpASGI.running`. The pages and the tools share what the program has in memory.

In production `hypercorn --worker-class trio mounted_in_starlette:app` does what `main` does; `docs/deployment.md`
says what belongs around it. Needs ``pip install starlette``.

Run ``python examples/mounted_in_starlette.py``. You see::

    GET /: 2 books are on the shelf
    add_book: 3 books are on the shelf
    GET /: 3 books are on the shelf
    the shelf is closed
"""
# Hypercorn's types know less of ASGI than Starlette's.
# pyright: reportUnknownVariableType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import h11
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from trio_mcp import McpASGI, Server, open_client

shelf = ["Dune", "Emma"]
server = Server("shelf", version="1.0")


@server.tool
async def add_book(title: str) -> str:
    """Put a book on the shelf."""
    shelf.append(title)
    return f"{len(shelf)} books are on the shelf"


mcp = McpASGI(server)


async def homepage(request: Request) -> PlainTextResponse:
    """Show what is on the shelf."""
    return PlainTextResponse(f"{len(shelf)} books are on the shelf")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Run the server for as long as the application runs."""
    async with mcp.running():
        yield
    print("the shelf is closed")


app = Starlette(routes=[Route("/", homepage), Mount("/tools", mcp)], lifespan=lifespan)


async def fetch(url: str) -> str:
    """Return the page at a URL."""
    parts = urlsplit(url)
    connection = h11.Connection(h11.CLIENT)
    head = h11.Request(method="GET", target=parts.path, headers=[("Host", parts.netloc), ("Connection", "close")])
    body = b""
    async with await trio.open_tcp_stream(str(parts.hostname), parts.port or 80) as stream:
        await stream.send_all((connection.send(head) or b"") + (connection.send(h11.EndOfMessage()) or b""))
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Data):
                body += event.data
    return body.decode()


async def main() -> None:
    """Serve on a free port, and use both halves of the application."""
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.loglevel = "WARNING"
    end = trio.Event()
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve, app, config, shutdown_trigger=end.wait))  # type: ignore[arg-type]
        print("GET /:", await fetch(f"{url}/"))
        async with open_client(f"{url}/tools/mcp") as client:
            print("add_book:", (await client.call_tool("add_book", {"title": "Ulysses"})).text)
        print("GET /:", await fetch(f"{url}/"))
        end.set()


if __name__ == "__main__":
    trio.run(main)
