"""Several channels that share one run of a server, and its lifespan."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Context, RunningServer, Server, memory_channel_pair, open_client


class Counted:
    """A server that counts how often its lifespan is entered and left."""

    def __init__(self) -> None:
        self.log: list[str] = []

        @asynccontextmanager
        async def lifespan(_: Server[list[str]]) -> AsyncGenerator[list[str]]:
            self.log.append("entered")
            try:
                await trio.lowlevel.checkpoint()
                yield []
            finally:
                self.log.append("left")

        self.server = Server("counted", lifespan=lifespan)

        @self.server.tool
        async def remember(what: str, ctx: Context[list[str]]) -> list[str]:
            ctx.state.append(what)
            await trio.lowlevel.checkpoint()
            return ctx.state

        @self.server.tool
        async def wait(ctx: Context[Any]) -> None:
            try:
                self.log.append("waiting")
                await trio.sleep_forever()
            finally:
                self.log.append("cleaned up")


async def test_channels_share_one_lifespan() -> None:
    """What one client has the server remember, another one finds."""
    counted = Counted()
    async with counted.server.open() as running, trio.open_nursery() as nursery:
        for number in (1, 2):
            near, far = memory_channel_pair()
            await nursery.start(running.serve_channel, far)
            async with open_client(near) as client:
                await client.call_tool("remember", {"what": str(number)})
        assert running.state == ["1", "2"]
        assert counted.log == ["entered"]
    assert counted.log == ["entered", "left"]


async def test_the_lifespan_is_left_after_the_last_handler(autojump_clock: trio.testing.MockClock) -> None:
    """The nursery that serves is inside of the block: handlers are cancelled first."""
    counted = Counted()
    with trio.move_on_after(1):
        async with counted.server.open() as running, trio.open_nursery() as nursery:
            near, far = memory_channel_pair()
            nursery.start_soon(running.serve_channel, far)
            async with open_client(near) as client:
                await client.call_tool("wait")
    assert counted.log == ["entered", "waiting", "cleaned up", "left"]


async def test_one_channel_that_is_cancelled_leaves_the_others_served(
    autojump_clock: trio.testing.MockClock,
) -> None:
    counted = Counted()

    async def serve(scope: trio.CancelScope, running: RunningServer[Any], far: Any) -> None:
        with scope:
            await running.serve_channel(far)

    async with counted.server.open() as running, trio.open_nursery() as nursery:
        (one, its), (other, others) = memory_channel_pair(), memory_channel_pair()
        scope = trio.CancelScope()
        nursery.start_soon(serve, scope, running, its)
        nursery.start_soon(running.serve_channel, others)
        async with open_client(one), open_client(other) as client:
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert (await client.call_tool("remember", {"what": "x"})).is_error is not True
        assert "left" not in counted.log


async def test_a_server_that_no_longer_runs_serves_no_connection() -> None:
    """And closes the channel, as it always does."""
    near, far = memory_channel_pair()
    async with Server("short").open() as running:
        pass
    with pytest.raises(trio.ClosedResourceError, match="this server has ended"):
        await running.serve_channel(far)
    with pytest.raises(trio.EndOfChannel):
        await near.receive()
    await near.aclose()
