"""Queued cancellations are found by the id of the request they cancel, and kept no longer than they are queued."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from wires import ScriptedChannel, answer, modern_server

from trio_mcp import Client, open_client


async def hang(client: Client) -> None:
    with trio.move_on_after(1):
        await client.request("x/hang")


def queued_cancellations(client: Client) -> int:
    return len(client._reconnecting.agreed.peer._writer.queue._cancellations)


async def test_cancellations_that_were_written_are_forgotten(autojump_clock: trio.testing.MockClock) -> None:
    """A connection on which calls are given up all day long does not grow."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel) as client:
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(hang, client)
            await trio.testing.wait_all_tasks_blocked()
            assert queued_cancellations(client) == 0
        cancelled = [m for m in channel.sent if m.get("method") == "notifications/cancelled"]
        assert len(cancelled) == 60


async def test_cancellations_that_are_withdrawn_are_forgotten(autojump_clock: trio.testing.MockClock) -> None:
    """The answers come while nothing is read: there is nothing left to cancel, and no cancellation is left."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(hang, client)
            await trio.testing.wait_all_tasks_blocked()
            asked: list[dict[str, Any]] = [m for m in channel.sent if m.get("method") == "x/hang"]
            assert len(asked) == 20
            channel.stop_reading()
            nursery.start_soon(client.notify, "x/stuck")
        assert queued_cancellations(client) == 20
        channel.say(*(answer(message, {}) for message in asked))
        await trio.testing.wait_all_tasks_blocked()
        assert queued_cancellations(client) == 0
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert not [m for m in channel.sent if m.get("method") == "notifications/cancelled"]
