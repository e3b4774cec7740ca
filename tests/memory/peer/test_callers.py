"""Requests and notifications of this side: what a caller that is cancelled, or has to wait, leaves on the wire."""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Peer, QueuedMessage, open_peer
from peers import Handlers
from wires import ScriptedChannel

from trio_mcp import Limits, LocalProtocolError, Outgoing, RequestId


class PromptChannel(ScriptedChannel):
    """A wire that takes everything at once."""

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        self.sent.extend(json.loads(message.data) for message in messages)
        return True


WAYS: list[Callable[[Peer], Awaitable[Any]]] = [
    lambda peer: peer.request("x/y"),
    lambda peer: peer.request_batch([("x/y", None), ("x/z", None)]),
    lambda peer: peer.notify("x/y"),
]


@pytest.mark.parametrize("say", WAYS, ids=["request", "batch", "notify"])
async def test_a_caller_that_is_cancelled_already_says_nothing(say: Callable[[Peer], Awaitable[Any]]) -> None:
    """Promise 2: what raises `Cancelled` has not happened, however quick the wire is."""
    channel = PromptChannel()
    async with open_peer(channel, Handlers(), Limits()) as peer:
        with trio.CancelScope() as scope:
            scope.cancel()
            await say(peer)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert channel.sent == []
        assert peer.statistics().calls == 0


@pytest.mark.parametrize("say", WAYS, ids=["request", "batch", "notify"])
async def test_a_caller_that_is_cancelled_while_it_waits_for_room_says_nothing(
    say: Callable[[Peer], Awaitable[Any]], autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2: and it is out of the line, for the next one to have the room."""
    channel = ScriptedChannel()
    async with open_peer(channel, Handlers(), Limits(max_outbox_bytes=100)) as peer:
        channel.stop_reading()
        for method in ("x/stuck", "x/full"):
            await peer.notify(method, {"much": "x" * 100})
            await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1) as scope:
            await say(peer)
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.notify, "x/next")
            await trio.testing.wait_all_tasks_blocked()
            channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent] == ["x/stuck", "x/full", "x/next"]
        assert peer.statistics().outbox_bytes == 0


async def test_a_caller_knows_its_id_before_anybody_else_does(autojump_clock: trio.testing.MockClock) -> None:
    """Nothing that refers to the request can come before that; and there is none for what is refused."""
    channel = PromptChannel()
    ids: list[RequestId] = []

    def on_id(id: RequestId) -> None:
        assert channel.sent == []
        ids.append(id)

    async with open_peer(channel, Handlers(), Limits(max_message_bytes=200)) as peer:
        with pytest.raises(LocalProtocolError, match="max_message_bytes"):
            await peer.request("x/large", {"much": "x" * 300}, on_id=on_id)
        assert ids == []
        with trio.move_on_after(1):
            await peer.request("x/y", on_id=on_id)
        assert [message["id"] for message in channel.sent if "id" in message] == ids
        assert len(ids) == 1


@pytest.mark.parametrize("too_large", ["its last message", "all of it"])
async def test_a_batch_that_cannot_be_sent_gives_its_places_back(
    too_large: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_outbound_requests: those of its requests that could have been sent are not waited for by anybody."""
    channel = ScriptedChannel()
    limits = Limits(max_outbound_requests=3, max_message_bytes=300)
    padding = [0, 0, 400] if too_large == "its last message" else [120, 120, 120]
    async with open_peer(channel, Handlers(), limits) as peer:
        for _ in range(2):
            with trio.fail_after(5), pytest.raises(LocalProtocolError, match="max_message_bytes is 300"):
                await peer.request_batch([("x/y", {"much": "x" * size}) for size in padding])
            assert peer.statistics().calls == 0
        assert channel.sent == []
        with trio.move_on_after(1):
            await peer.request_batch([("x/y", None)] * 3)
        assert len({message["id"] for message in channel.sent if "id" in message}) == 3


@pytest.mark.parametrize("outcome", ["result", "error", "unusable"])
async def test_a_cancellation_that_the_answer_overtakes_is_withdrawn(
    outcome: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2: it still lies in the send queue when there is nothing left to be cancelled."""
    channel = ScriptedChannel()
    async with open_peer(channel, Handlers(), Limits()) as peer:
        async with trio.open_nursery() as nursery:
            for method in ("x/answered", "x/slow"):
                nursery.start_soon(peer.request, method)
                await trio.testing.wait_all_tasks_blocked()
            channel.stop_reading()
            await peer.notify("x/stuck")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        answered, slow = (message["id"] for message in channel.sent)
        ending: dict[str, Any] = {
            "result": {"result": {}},
            "error": {"error": {"code": 1, "message": "no"}},
            "unusable": {"result": 5},
        }
        channel.say({"jsonrpc": "2.0", "id": answered, **ending[outcome]})
        await trio.testing.wait_all_tasks_blocked()
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
    cancelled = [
        message["params"]["requestId"]
        for message in channel.sent
        if message["method"] == "notifications/cancelled"
    ]
    assert cancelled == [slow]


async def test_what_is_given_up_in_the_queue_is_never_written(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 2: neither the request nor a cancellation of it, and what comes behind it is written."""
    channel = ScriptedChannel()
    async with open_peer(channel, Handlers(), Limits()) as peer:
        channel.stop_reading()
        reading = channel.reading
        await peer.notify("x/stuck")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await peer.request("x/given-up")
        await peer.notify("x/behind")
        reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent] == ["x/stuck", "x/behind"]


async def test_nothing_is_kept_of_calls_that_were_given_up(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 10: however many, and whether they were ever answered or not."""
    channel = ScriptedChannel()

    def entries() -> int:
        gc.collect()
        return sum(type(thing) is QueuedMessage for thing in gc.get_objects())

    gc.freeze()  # what there is besides need not be looked at, now and later, as in `conftest.py`
    async with open_peer(channel, Handlers(), Limits()) as peer:
        for _ in range(100):
            with trio.move_on_after(1):
                await peer.request("x/y")
        await trio.testing.wait_all_tasks_blocked()
        assert len(channel.sent) == 200
        assert entries() <= 1, "the writer may still know the last one"


async def test_who_leaves_while_waiting_for_room_leaves_its_turn_to_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A place among the open requests is free, and only one of those that wait for it was woken."""
    channel = ScriptedChannel()
    async with (
        open_peer(channel, Handlers(), Limits(max_outbound_requests=1, max_outbox_bytes=100)) as peer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(peer.request, "x/open")
        await trio.testing.wait_all_tasks_blocked()
        channel.stop_reading()
        for method in ("x/stuck", "x/full"):
            await peer.notify(method, {"much": "x" * 100})
            await trio.testing.wait_all_tasks_blocked()
        left = trio.CancelScope()

        async def wait_and_leave() -> None:
            with left:
                await peer.request("x/left")

        nursery.start_soon(wait_and_leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(peer.request, "x/next")
        await trio.testing.wait_all_tasks_blocked()
        channel.say({"jsonrpc": "2.0", "id": channel.sent[0]["id"], "result": {}})
        await trio.testing.wait_all_tasks_blocked()
        left.cancel()
        await trio.testing.wait_all_tasks_blocked()
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent[1:]] == ["x/stuck", "x/full", "x/next"]
        channel.say({"jsonrpc": "2.0", "id": channel.sent[-1]["id"], "result": {}})
