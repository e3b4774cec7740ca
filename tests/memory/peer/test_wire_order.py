"""Requests and the notifications before them: begun in wire order, and no request waits for longer than that."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Exchange, open_peer
from peers import Handlers, note, request
from wires import ScriptedChannel

from trio_mcp import Limits, Notification


@pytest.mark.parametrize("way", ["one by one", "in a batch"])
async def test_a_request_finds_the_notifications_before_it_begun(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 9: what was said before it is known when it is served, also when both come in one breath."""
    found: dict[object, list[str]] = {}

    async def look(exchange: Exchange) -> dict[str, Any]:
        found[exchange.request.id] = list(handlers.heard)
        return {}

    handlers = Handlers({"x/look": look})
    channel = ScriptedChannel()
    async with open_peer(channel, handlers, Limits()):
        messages = [note("x/1"), request(1, "x/look"), note("x/2"), note("x/3"), request(2, "x/look")]
        channel.say(*(messages if way == "one by one" else [messages]))
        await trio.testing.wait_all_tasks_blocked()
        assert found == {1: ["x/1"], 2: ["x/1", "x/2", "x/3"]}


async def test_a_notification_that_takes_long_does_not_hold_up_the_requests_after_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """They wait until its handling has begun, and no longer."""

    async def dawdle(_: Notification) -> None:
        await trio.sleep(1_000)

    async def quick(_: Exchange) -> dict[str, Any]:
        return {}

    channel = ScriptedChannel()
    handlers = Handlers({"x/quick": quick}, dawdle)
    async with open_peer(channel, handlers, Limits()):
        channel.say(note("x/1"), request(1, "x/quick"), note("x/2"), request(2, "x/quick"))
        await trio.testing.wait_all_tasks_blocked()
        assert [message["id"] for message in channel.sent] == [1, 2]
        assert handlers.heard == ["x/1"]
