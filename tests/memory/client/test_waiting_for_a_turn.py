"""Callers that wait for room: none is forgotten when another stops waiting."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import trio
import trio.testing
from inside_peer import Peer, open_peer
from inside_wire import Request
from wires import ScriptedChannel

from trio_mcp import Limits, Notification, Origin


class Nothing:
    """Dispatches nothing."""

    accepts_batches = True
    answers_unreadable = False
    answers_malformed = False

    def route(self, request: Request, origin: Origin | None) -> None:
        raise NotImplementedError

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Say that no request goes on with anything."""
        return None

    def take_back(self, request: Request) -> None:
        raise NotImplementedError

    def notification_key(self, notification: Notification) -> Hashable | None:
        raise NotImplementedError

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        raise NotImplementedError


async def ask(peer: Peer, method: str, scope: trio.CancelScope) -> None:
    with scope:
        await peer.request(method)


async def test_a_caller_that_leaves_the_line_hands_its_turn_on(autojump_clock: trio.testing.MockClock) -> None:
    """It was woken for a free place, waited for the send queue, and was cancelled: the next must be woken instead."""
    channel = ScriptedChannel()
    limits = Limits(max_outbound_requests=1, max_outbox_bytes=100)
    first, second, third = (trio.CancelScope() for _ in range(3))
    async with open_peer(channel, Nothing(), limits) as peer, trio.open_nursery() as nursery:
        for method, scope in (("x/1", first), ("x/2", second), ("x/3", third)):
            nursery.start_soon(ask, peer, method, scope)
            await trio.testing.wait_all_tasks_blocked()
        channel.stop_reading()
        reading = channel.reading
        await peer.notify("x/stuck", {"much": "x" * 200})  # the writer has it and is stuck
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify("x/full", {"much": "x" * 200})  # fills the send queue
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        second.cancel()
        await trio.testing.wait_all_tasks_blocked()
        reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent if "id" in message] == ["x/1", "x/3"]
        third.cancel()


async def test_a_batch_that_waits_for_many_places_takes_none_from_others(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One place is free, the batch needs two, and who needs one is behind it."""
    channel = ScriptedChannel()
    scopes = [trio.CancelScope() for _ in range(4)]
    outcomes: list[Any] = []

    async def ask_batch(peer: Peer) -> None:
        outcomes.extend(await peer.request_batch([("x/batch", None), ("x/batch", None)]))

    async with (
        open_peer(channel, Nothing(), Limits(max_outbound_requests=3)) as peer,
        trio.open_nursery() as nursery,
    ):
        for scope in scopes[:3]:
            nursery.start_soon(ask, peer, "x/long", scope)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask_batch, peer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, peer, "x/single", scopes[3])
        await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert "x/single" in [message["method"] for message in channel.sent]
        assert "x/batch" not in [message["method"] for message in channel.sent]
        for scope in scopes[1:]:
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        ids = [message["id"] for message in channel.sent if message["method"] == "x/batch"]
        assert len(ids) == 2
        channel.say([{"jsonrpc": "2.0", "id": id, "result": {"id": id}} for id in ids])
    assert outcomes == [{"id": id} for id in ids]
