"""Promise 9 at the end: what was received before a block is left at its end is handed to its callbacks."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing
from wires import ScriptedChannel, answer

from trio_mcp import Client, ConnectionLost, Limits, Received, open_client, open_clients, run_client
from trio_mcp.types import LoggingMessageNotificationParams

LEGACY = "2025-11-25"
LINES = 50


class Talkative(ScriptedChannel):
    """A server that logs before it answers, over a wire that brings all of it at once."""

    def __init__(self) -> None:
        super().__init__(self._talk)
        self.hangs_up = False

    def _talk(self, message: dict[str, Any]) -> object:
        if message.get("method") == "initialize":
            info = {"name": "talkative", "version": "1"}
            return answer(message, {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info})
        if message.get("method") != "ping":
            return None
        for number in range(LINES):
            params = {"level": "info", "data": number}
            self.say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        if self.hangs_up:
            self.hang_up(ConnectionLost("it fell over"))
            return None
        return answer(message, {})

    async def receive(self) -> Sequence[Received]:
        while not self._to_us:
            await self._something.park()
        await trio.lowlevel.checkpoint()
        received: list[Received] = []
        while self._to_us:
            first = self._to_us.popleft()
            if not isinstance(first, Exception):
                received.append(first)
            elif not received:
                raise first
            else:
                self._to_us.appendleft(first)
                break
        return received


OnLog: TypeAlias = Callable[[LoggingMessageNotificationParams], object]


async def in_a_client(channel: Talkative, on_log: OnLog) -> Client:
    async with open_client(channel, revision=LEGACY, on_log=on_log) as client:
        await client.ping()
    return client


async def in_a_group(channel: Talkative, on_log: OnLog) -> Client:
    async with open_clients(
        {"one": channel}, revision=LEGACY, on_log=lambda _, message: on_log(message)
    ) as group:
        await group.wait_ready()
        client = group["one"]
        await client.ping()
    return client


async def in_a_task(channel: Talkative, on_log: OnLog) -> Client:
    async def run(*, task_status: trio.TaskStatus[Client]) -> None:  # noqa: ASYNC114 - once, and here
        await run_client(channel, revision=LEGACY, on_log=on_log, task_status=task_status)

    async with trio.open_nursery() as nursery:
        client: Client = await nursery.start(run)
        await client.ping()
        await client.aclose()
    return client


WAYS = pytest.mark.parametrize("way", [in_a_client, in_a_group, in_a_task])
Way: TypeAlias = Callable[[Talkative, OnLog], Any]


@WAYS
async def test_what_came_before_the_last_answer_is_delivered(
    way: Way, autojump_clock: trio.testing.MockClock
) -> None:
    """In wire order, also to callbacks that wait; leaving right after a call lost nearly all of it."""
    seen: list[object] = []

    async def on_log(message: LoggingMessageNotificationParams) -> None:
        await trio.sleep(0.01)
        seen.append(message.data)

    client = await way(Talkative(), on_log)
    assert seen == list(range(LINES))
    assert client.statistics().dropped_notifications == 0


@WAYS
async def test_slow_callbacks_are_not_waited_for_without_end(
    way: Way, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """What they have not taken within `Limits.goodbye_timeout` is counted, and logged."""
    begun: list[object] = []

    async def on_log(message: LoggingMessageNotificationParams) -> None:
        begun.append(message.data)
        await trio.sleep(1_000)

    client = await way(Talkative(), on_log)
    assert begun == [0]
    assert trio.current_time() == pytest.approx(Limits().goodbye_timeout)
    assert client.statistics().dropped_notifications == LINES - 1
    assert "were not handled within 2 s (goodbye_timeout)" in caplog.text


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_block_left_by_an_exception_waits_for_no_callback(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture, *, is_cancelled: bool
) -> None:
    """Giving up means now. What is left behind is counted."""

    clients: list[Client] = []

    async def on_log(_: object) -> None:
        await trio.sleep(1_000)

    with trio.CancelScope() as scope:
        try:
            async with open_client(Talkative(), revision=LEGACY, on_log=on_log) as client:
                clients.append(client)
                await client.ping()
                if is_cancelled:
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
                raise ValueError("the block's own")
        except ValueError:
            assert not is_cancelled
    assert trio.current_time() == 0
    assert clients[0].statistics().dropped_notifications >= LINES - 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_deadline_around_the_block_covers_the_callbacks(autojump_clock: trio.testing.MockClock) -> None:
    """The last notifications are waited for in the block, not after it."""

    async def on_log(_: object) -> None:
        await trio.sleep(1_000)

    with trio.move_on_after(0.5) as scope:
        async with open_client(Talkative(), revision=LEGACY, on_log=on_log) as client:
            await client.ping()
    assert scope.cancelled_caught
    assert trio.current_time() == 0.5


async def test_a_callback_that_calls_the_server_while_the_block_is_left_is_answered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The connection is closed afterwards."""
    clients: list[Client] = []
    answers: list[object] = []

    async def on_log(message: LoggingMessageNotificationParams) -> None:
        if message.data == LINES - 1 and not answers:
            answers.append(await clients[0].request("x/own"))

    channel = Talkative()
    talk = channel.reply
    assert talk is not None

    def reply(message: dict[str, Any]) -> object:
        return answer(message, {}) if message.get("method") == "x/own" else talk(message)

    channel.reply = reply
    async with open_client(channel, revision=LEGACY, on_log=on_log) as client:
        clients.append(client)
        await client.ping()
    assert answers == [{}]


async def test_a_callback_may_close_its_client(autojump_clock: trio.testing.MockClock) -> None:
    """It does not wait for itself."""
    clients: list[Client] = []

    async def on_log(_: object) -> None:
        await clients[0].aclose()

    async with open_client(Talkative(), revision=LEGACY, on_log=on_log) as client:
        clients.append(client)
        with pytest.raises(trio.ClosedResourceError):
            await client.ping()
            await trio.sleep(1)
            await client.ping()
    assert trio.current_time() == 1


async def test_what_a_server_has_said_before_it_fell_over_is_delivered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The last words are those that say why."""
    seen: list[object] = []

    async def on_log(message: LoggingMessageNotificationParams) -> None:
        await trio.sleep(0.01)
        seen.append(message.data)

    channel = Talkative()
    channel.hangs_up = True
    async with open_client(channel, revision=LEGACY, on_log=on_log) as client:
        with pytest.raises(ConnectionLost):
            await client.ping()
    assert seen == list(range(LINES))


async def test_a_server_that_goes_on_talking_holds_up_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """Waited for is what was received when the block was left."""
    seen: list[object] = []
    channel = Talkative()

    @asynccontextmanager
    async def chatter() -> AsyncGenerator[None]:
        async def talk() -> None:
            while True:
                params = {"level": "info", "data": "more"}
                channel.say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk)
            yield
            nursery.cancel_scope.cancel()

    async def on_log(message: LoggingMessageNotificationParams) -> None:
        await trio.sleep(0.01)
        seen.append(message.data)

    async with chatter(), open_client(channel, revision=LEGACY, on_log=on_log) as client:
        await client.ping()
    assert set(range(LINES)) <= set(seen)
    assert trio.current_time() < Limits().goodbye_timeout
