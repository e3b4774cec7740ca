"""What the tests of first connecting share in several layers."""

from __future__ import annotations

import trio
from inside_peer import open_peer
from talking import session_of

from trio_mcp import (
    Limits,
    Server,
    memory_channel_pair,
    open_client,
    run_client,
)

ENOUGH = 280


def make_server() -> Server[None]:
    server: Server[None] = Server("quick")

    @server.tool
    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    return server


async def use_block() -> None:
    async with open_client(make_server()) as client:
        await client.call_tool("quick")


async def use_task() -> None:
    async with trio.open_nursery() as nursery:
        client = await nursery.start(run_client, make_server())
        await client.call_tool("quick")
        await client.aclose()


async def serve() -> None:
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(make_server().serve_channel, theirs)
        await ours.aclose()


async def use_peer() -> None:
    ours, _ = memory_channel_pair()
    async with session_of(make_server()) as session, open_peer(ours, session, Limits()):
        await trio.lowlevel.checkpoint()
