"""What grows: ``python growing.py stdio|hypercorn|lean [TOOLS]``. With a number it has so many tools."""

from __future__ import annotations

import sys
from functools import partial
from typing import Literal

import trio

from trio_mcp import Context, HttpServerSettings, Limits, Server, serve_http

MANY = 4_000
server = Server("growing", limits=Limits(max_subscriptions=MANY, max_inbound_requests=MANY))


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


def add_others() -> None:
    """Add what listens and waits."""

    @server.tool
    async def hold(key: str, ctx: Context) -> None:
        """Wait for ever."""
        await ctx.report_progress(1, message=key)
        await trio.sleep_forever()

    @server.tool
    async def touch() -> str:
        """Say that a resource has changed."""
        await server.resource_updated("bench://watched")
        return "done"

    @server.resource("bench://watched")
    async def watched() -> str:
        """What changes."""
        return "as it was"


def add_filler(number: int) -> None:
    """Add one of very many tools."""

    async def filler(name: str, count: int, ratio: float, tags: list[str]) -> str:
        """Do nothing, at some length."""
        return f"{name} {count} {ratio} {tags}"

    server.tool(name=f"filler_{number}")(filler)


async def main(http: Literal["lean", "hypercorn"]) -> None:
    """Serve over HTTP, and say where."""
    settings = HttpServerSettings(
        max_connections=2 * MANY,  # of which one address gets half
        max_requests=MANY,
        max_requests_per_principal=MANY,
    )
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_http, server, port=0, http=http, settings=settings))
        print(urls[0], flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        for filler_number in range(int(sys.argv[2]) - 1):
            add_filler(filler_number)
    else:
        add_others()
    if sys.argv[1] == "stdio":
        server.run()
    else:
        trio.run(main, "lean" if sys.argv[1] == "lean" else "hypercorn")
