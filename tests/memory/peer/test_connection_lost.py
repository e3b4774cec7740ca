"""The end of the connection, seen by those who stay: they learn why, at once and wherever they wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Hooks, Peer, open_peer
from peers import Handlers, note
from tape import messages_in
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits, Notification, Outgoing

WHERE = ["for its answer", "to be written", "for a place", "for places for a batch"]


async def test_who_waits_learns_why_the_connection_ended(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 7: while the owner of the connection goes on, as a server does that still has something to finish."""

    async def check(where: str, way: str) -> None:
        channel = ScriptedChannel()
        limits = Limits(max_outbound_requests=2 if "place" in where else 100)
        lost: list[str] = []

        async def expect_lost(ask: Callable[[], Awaitable[Any]]) -> None:
            with pytest.raises(ConnectionLost) as caught:
                await ask()
            lost.append(caught.value.reason)

        async with open_peer(channel, Handlers(), limits) as peer:
            with trio.fail_after(5):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(expect_lost, lambda: peer.request("x/1"))
                    await trio.testing.wait_all_tasks_blocked()
                    if where == "to be written":
                        channel.stop_reading()
                        await peer.notify("x/stuck")
                        await trio.testing.wait_all_tasks_blocked()
                    nursery.start_soon(expect_lost, lambda: peer.request("x/2"))
                    await trio.testing.wait_all_tasks_blocked()
                    for _ in range(5):
                        if where == "for a place":
                            nursery.start_soon(expect_lost, lambda: peer.request("x/3"))
                        elif where == "for places for a batch":
                            nursery.start_soon(expect_lost, lambda: peer.request_batch([("x/3", None)] * 2))
                    await trio.testing.wait_all_tasks_blocked()
                    channel.hang_up(ConnectionLost("the cable was cut") if way == "loss" else None)
                await expect_lost(lambda: peer.request("x/late"))
            assert peer.statistics().calls == 0
            channel.reading.set()
            await trio.testing.wait_all_tasks_blocked()
        assert set(lost) == {"the cable was cut" if way == "loss" else "the scripted peer closed the connection"}
        assert len(lost) == (8 if "place" in where else 3)
        assert not [message for message in channel.sent if message["method"] == "notifications/cancelled"]
        written = [message["method"] for message in channel.sent]
        assert "x/late" not in written
        assert ("x/2" in written) is (where != "to be written")

    for where in WHERE:
        for way in ("end", "loss"):
            with subtests.test(where=where, way=way):
                await check(where, way)


async def test_an_answer_that_came_before_the_end_counts(autojump_clock: trio.testing.MockClock) -> None:
    """Its caller has not had a turn yet when this end is closed."""
    channel = ScriptedChannel()
    peers: list[Peer] = []
    results: list[object] = []

    def close(_: Notification) -> None:
        peers[0].abort()

    async with open_peer(channel, Handlers(), Limits(), hooks=Hooks(on_notification_read=close)) as peer:
        peers.append(peer)

        async def ask() -> None:
            results.append(await peer.request("x/y"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            (asked,) = channel.sent
            channel.say({"jsonrpc": "2.0", "id": asked["id"], "result": {"fine": True}}, note("x/close"))
    assert results == [{"fine": True}]


class Cut(ScriptedChannel):
    """Takes what is sent at once, until it is cut."""

    is_cut = False

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        if self.is_cut:
            raise ConnectionLost("the cable was cut")
        self.sent.extend(message for each in messages for message in messages_in(each.data))
        return True


async def test_a_cancellation_that_cannot_be_written_shows_that_the_connection_is_lost(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Who gave up is cancelled, as if it had been written; the others learn why they wait in vain."""
    channel = Cut()
    lost: list[str] = []

    async def expect_lost(peer: Peer) -> None:
        with pytest.raises(ConnectionLost) as caught:
            await peer.request("x/1")
        lost.append(caught.value.reason)

    async with open_peer(channel, Handlers(), Limits()) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(expect_lost, peer)
        with trio.move_on_after(1) as given_up:
            await trio.testing.wait_all_tasks_blocked()
            channel.is_cut = True
            await peer.request("x/2")
        assert given_up.cancelled_caught
    assert lost == ["the cable was cut"]
