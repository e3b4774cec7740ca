"""Batches of the other side (2025-03-26): answered as one, whatever becomes of the requests in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from wires import ScriptedChannel

from trio_mcp import CallNext, Context, Limits, Message, Server

HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def call(id: int, tool: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}


def give_up(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def batch(*messages: dict[str, Any]) -> bytes:
    return json.dumps(messages).encode()


class Talk:
    """A session with a server that has a tool which waits at a gate, and one which waits for ever."""

    def __init__(self, **options: Any) -> None:
        self.gate = trio.Event()
        self.running = 0
        self.server = Server("batches", **options)
        self.channel = ScriptedChannel()

        @self.server.tool
        async def wait() -> str:
            self.running += 1
            await self.gate.wait()
            return "done"

        @self.server.tool
        async def hang() -> None:
            self.running += 1
            try:
                await trio.sleep_forever()
            finally:
                self.running -= 1

    async def begin(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.server.serve_channel, self.channel)
        await self.say({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.channel.sent.clear()

    async def say(self, *messages: object) -> None:
        self.channel.say(*messages)
        await trio.testing.wait_all_tasks_blocked()

    @property
    def answered(self) -> list[int]:
        return [message["id"] for message in self.channel.sent]


async def test_a_request_that_is_given_up_does_not_keep_its_batch_open(nursery: trio.Nursery) -> None:
    """Nobody answers it, so nobody waits for its answer."""
    talk = Talk()
    await talk.begin(nursery)
    await talk.say(batch(call(1, "wait"), call(2, "hang"), call(3, "wait")))
    talk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert (talk.running, talk.answered) == (3, []), "the batch waits for the one that hangs"
    await talk.say(give_up(2))
    assert (talk.running, sorted(talk.answered)) == (2, [1, 3])
    talk.channel.hang_up()


async def test_a_request_that_is_given_up_before_it_begins_does_not_keep_its_batch_open(
    nursery: trio.Nursery,
) -> None:
    """Its place in the line is empty, and its place in the batch as well."""
    talk = Talk(limits=Limits(max_inbound_requests=1))
    await talk.begin(nursery)
    await talk.say(batch(call(1, "wait"), call(2, "hang"), call(3, "hang")))
    await talk.say(give_up(3), give_up(2))
    assert (talk.running, talk.answered) == (1, [])
    talk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert talk.answered == [1]
    talk.channel.hang_up()


async def test_the_answer_to_a_request_that_is_given_up_does_not_come_with_its_batch(
    nursery: trio.Nursery,
) -> None:
    """Promise 4: nothing more is sent for it, also if its handler was done, and another one was waited for."""
    talk = Talk()
    await talk.begin(nursery)
    await talk.say(batch(call(1, "wait"), call(2, "wait"), call(3, "hang")))
    talk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    await talk.say(give_up(1), give_up(1))
    await talk.say(give_up(3))
    assert talk.answered == [2]
    talk.channel.hang_up()


async def test_an_answer_that_was_left_out_of_its_batch_takes_no_room_in_it(nursery: trio.Nursery) -> None:
    """The answers of a batch may be as large as a message together: those that are sent."""
    talk = Talk(limits=Limits(max_message_bytes=10_000))

    @talk.server.tool
    async def fill() -> str:
        return "x" * 6_000

    @talk.server.tool
    async def fill_later() -> str:
        await talk.gate.wait()
        return "x" * 6_000

    await talk.begin(nursery)
    await talk.say(batch(call(1, "fill"), call(2, "fill_later")))
    await talk.say(give_up(1))
    talk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert talk.answered == [2]
    assert "result" in talk.channel.sent[0]
    talk.channel.hang_up()


async def test_the_answer_to_a_request_that_is_given_up_leaves_a_batch_that_is_not_written(
    nursery: trio.Nursery,
) -> None:
    """Promise 4: not even what lay in the outbox; the others are answered all the same."""
    talk = Talk()
    await talk.begin(nursery)
    talk.gate.set()
    talk.channel.stop_reading()
    await talk.say({"jsonrpc": "2.0", "id": 7, "method": "ping"}, {"jsonrpc": "2.0", "id": 8, "method": "ping"})
    await talk.say(batch(call(1, "wait"), call(2, "wait")), batch(call(3, "wait"), call(4, "wait")))
    await talk.say(give_up(1), give_up(3), give_up(4))
    talk.channel.reading.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(talk.answered) == [2, 7, 8]
    talk.channel.hang_up()


@pytest.mark.parametrize("is_complete", [True, False])
async def test_what_a_request_of_a_batch_has_reported_is_not_sent_when_it_is_given_up(
    nursery: trio.Nursery, *, is_complete: bool
) -> None:
    """Promise 4: not even what lay in the outbox, also if its handler was done; what others have reported is sent."""
    talk = Talk()

    @talk.server.tool
    async def report(ctx: Context) -> None:
        await ctx.report_progress(1)

    def reporting(id: int) -> dict[str, Any]:
        asked = call(id, "report")
        asked["params"]["_meta"] = {"progressToken": id}
        return asked

    await talk.begin(nursery)
    talk.channel.stop_reading()
    await talk.say({"jsonrpc": "2.0", "id": 7, "method": "ping"}, {"jsonrpc": "2.0", "id": 8, "method": "ping"})
    await talk.say(batch(reporting(1), reporting(2), *([] if is_complete else [call(3, "hang")])))
    await talk.say(give_up(1))
    talk.channel.reading.set()
    await trio.testing.wait_all_tasks_blocked()
    await talk.say(give_up(3))
    reported = [message["params"]["progressToken"] for message in talk.channel.sent if "params" in message]
    assert reported == [2]
    assert sorted(message["id"] for message in talk.channel.sent if "id" in message) == [2, 7, 8]
    talk.channel.hang_up()


async def test_a_batch_of_which_everything_is_given_up_is_not_answered(nursery: trio.Nursery) -> None:
    """JSON-RPC 2.0, section 6: an empty array is never sent."""
    talk = Talk(limits=Limits(max_inbound_requests=1))
    await talk.begin(nursery)
    await talk.say(batch(call(1, "hang"), call(2, "hang")))
    await talk.say(give_up(1), give_up(2))
    assert (talk.running, talk.answered) == (0, [])
    await talk.say({"jsonrpc": "2.0", "id": 9, "method": "ping"})
    assert talk.answered == [9]
    talk.channel.hang_up()


@pytest.mark.parametrize("places", [1, 2])
async def test_a_batch_is_answered_through_middleware_that_lets_few_in_at_a_time(
    places: int, nursery: trio.Nursery
) -> None:
    """An answer is ready when its request has left the middleware, and not when that of the batch is sent."""
    limiter = trio.Semaphore(places)

    async def few_at_a_time(message: Message, call_next: CallNext) -> Mapping[str, Any] | None:
        async with limiter:
            return await call_next(message)

    talk = Talk(middleware=[few_at_a_time])
    await talk.begin(nursery)
    await talk.say(batch(*(call(id, "wait") for id in range(5))))
    assert talk.running == places
    talk.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(talk.answered) == list(range(5))
    assert limiter.value == places
    talk.channel.hang_up()


async def test_a_long_batch_lets_others_have_their_turn(nursery: trio.Nursery) -> None:
    """All of its requests once began in few turns of the event loop, and everybody waited for the end of those."""
    talk = Talk()
    turn = 0
    begun: list[int] = []

    class Turns(trio.abc.Instrument):
        def before_io_wait(self, timeout: float) -> None:
            nonlocal turn
            turn += 1

    @talk.server.tool
    async def note() -> None:
        begun.append(turn)

    await talk.begin(nursery)
    turns = Turns()
    trio.lowlevel.add_instrument(turns)
    await talk.say(batch(*(call(id, "note") for id in range(200))))
    trio.lowlevel.remove_instrument(turns)
    assert sorted(talk.answered) == list(range(200))
    assert max(begun.count(each) for each in begun) <= 8
    talk.channel.hang_up()
