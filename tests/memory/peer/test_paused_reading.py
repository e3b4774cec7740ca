"""Reading pauses when too much waits to be served, and goes on when what is behind may help."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Exchange, open_peer
from peers import Handlers, request
from wires import ScriptedChannel, answer

from trio_mcp import Limits


@pytest.mark.parametrize("way", ["handler", "body"])
async def test_a_question_that_is_asked_while_reading_pauses_is_answered(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 7: its answer lies behind requests that nobody has read yet, and the handler keeps the only place."""
    go_on = trio.Event()
    answers: list[object] = []

    async def ask(exchange: Exchange) -> dict[str, Any]:
        await go_on.wait()
        if way == "handler":
            answers.append(await exchange.ask("roots/list"))
        return {}

    async def serve(_: Exchange) -> dict[str, Any]:
        return {}

    channel = ScriptedChannel(lambda message: answer(message, {"roots": []}) if "method" in message else None)
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=500)
    async with open_peer(channel, Handlers({"x/ask": ask, "x/serve": serve}), limits) as peer:
        channel.say(request(0, "x/ask"), *(request(i, "x/serve") for i in range(1, 100)))
        await trio.testing.wait_all_tasks_blocked()
        assert 0 < peer.statistics().waiting < 99, "reading has paused"
        with trio.fail_after(5):
            if way == "body":
                answers.append(await peer.request("roots/list"))
            go_on.set()
            await trio.testing.wait_all_tasks_blocked()
        assert answers == [{"roots": []}]
        assert {message["id"] for message in channel.sent if "method" not in message} == set(range(100))


async def test_a_cancellation_that_was_read_waits_for_no_room(autojump_clock: trio.testing.MockClock) -> None:
    """What it cancels may be what has the room. Reading had paused with it in hand, for slow_consumer_timeout."""
    ended: list[tuple[object, float]] = []

    async def hold(exchange: Exchange) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            ended.append((exchange.request.id, trio.current_time()))

    channel = ScriptedChannel()
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=100)
    async with open_peer(channel, Handlers({"x/hold": hold}), limits):
        began = trio.current_time()
        cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}
        great = {"jsonrpc": "2.0", "id": 1, "method": "x/hold", "params": {"padding": "x" * 200}}
        channel.say(request(0, "x/hold"), great, cancellation)
        await trio.sleep(limits.slow_consumer_timeout / 2)
        assert ended == [(0, began)]


async def test_requests_that_reading_has_paused_for_are_read_when_there_is_room(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_waiting_bytes: as long as room comes within slow_consumer_timeout, none is refused; all go in order."""
    go_on = trio.Event()
    order: list[object] = []

    async def hold(_: Exchange) -> dict[str, Any]:
        await go_on.wait()
        return {}

    async def serve(exchange: Exchange) -> dict[str, Any]:
        order.append(exchange.request.id)
        await trio.sleep(limits.slow_consumer_timeout / 2)
        return {}

    channel = ScriptedChannel()
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=500)
    async with open_peer(channel, Handlers({"x/hold": hold, "x/serve": serve}), limits) as peer:
        channel.say(request(0, "x/hold"), *(request(i, "x/serve") for i in range(1, 100)))
        await trio.testing.wait_all_tasks_blocked()
        assert 0 < peer.statistics().waiting < 99
        go_on.set()
        await trio.sleep(200)
        assert peer.statistics().waiting == 0
    assert order == list(range(1, 100))
    assert not [message for message in channel.sent if "error" in message]


@pytest.mark.parametrize(
    "useless",
    [
        b"1",
        b"[",
        b'{"jsonrpc":"2.0","id":999,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    ],
)
async def test_others_have_their_turns_while_useless_messages_are_read(
    useless: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    """One read may bring half a million of them, and all were gone through without a turn for anybody else."""
    channel = ScriptedChannel()
    logging.getLogger("trio_mcp.peer").disabled = True
    try:
        async with open_peer(channel, Handlers(), Limits()) as peer:
            await trio.testing.wait_all_tasks_blocked()
            channel.say(*[useless] * 5_000)
            channel.hang_up()
            turns = 0
            while not peer.has_input_ended:
                await trio.lowlevel.checkpoint()
                turns += 1
            assert turns > 25
    finally:
        logging.getLogger("trio_mcp.peer").disabled = False
