"""The body of a connection goes first: cancelled, it can still write, be answered and be notified while it cleans up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Exchange, Peer, open_peer
from peers import Handlers, note, request
from wires import ScriptedChannel, answer

from trio_mcp import Limits, Notification, Progress


async def run_and_cancel(
    channel: ScriptedChannel, handlers: Handlers, clean_up: Callable[[Peer], Awaitable[object]]
) -> None:
    """Open a connection, cancel everything around it, and let the body clean up, shielded and for a minute."""
    cleaned_up = False
    with trio.CancelScope() as scope:
        async with open_peer(channel, handlers, Limits()) as peer:
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                with trio.fail_after(60) as shield:
                    shield.shield = True
                    await trio.testing.wait_all_tasks_blocked()  # whatever is not shielded is gone
                    await clean_up(peer)
                    cleaned_up = True
    assert scope.cancelled_caught
    assert cleaned_up


async def test_what_cleanup_says_is_written(autojump_clock: trio.testing.MockClock) -> None:
    """Also when the wire is slow and a task has to wait for it."""
    channel = ScriptedChannel()

    async def clean_up(peer: Peer) -> None:
        channel.stop_reading()
        reading = channel.reading
        for number in range(3):  # the first may be written by itself
            await peer.notify(f"x/{number}")
        await trio.sleep(1)
        reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert [message["method"] for message in channel.sent] == ["x/0", "x/1", "x/2"]

    await run_and_cancel(channel, Handlers(), clean_up)


async def test_what_cleanup_asks_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    """One question after another, so reading goes on."""
    channel = ScriptedChannel(lambda message: answer(message, {"to": message["method"]}))
    answers: list[object] = []

    async def clean_up(peer: Peer) -> None:
        for i in range(3):
            answers.append(await peer.request(f"x/{i}"))
            await trio.sleep(1)

    await run_and_cancel(channel, Handlers(), clean_up)
    assert answers == [{"to": f"x/{i}"} for i in range(3)]


async def test_cleanup_is_notified(autojump_clock: trio.testing.MockClock) -> None:
    """Progress of what it asks has come before the answer, and other notifications are handled."""
    seen: list[object] = []

    def reply(message: dict[str, Any]) -> object:
        token = message["params"]["_meta"]["progressToken"]
        for i in range(1, 4):
            channel.say(note("notifications/progress", progressToken=token, progress=i), note("x/noted"))
        return answer(message, {})

    async def on_notification_read(_: Notification) -> None:
        await trio.sleep(1)

    async def on_progress(progress: Progress) -> None:
        await trio.sleep(1)
        seen.append(progress.progress)

    channel = ScriptedChannel(reply)
    handlers = Handlers(on_notification_read=on_notification_read)

    async def clean_up(peer: Peer) -> None:
        await peer.request("x/work", on_progress=on_progress)
        assert seen == [1, 2, 3]
        await trio.sleep(5)
        assert handlers.heard == ["x/noted"] * 3

    await run_and_cancel(channel, handlers, clean_up)


@pytest.mark.parametrize("running", [0, 1, 3])
async def test_reading_goes_on_whichever_task_was_reading(
    running: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The tasks that serve requests are cancelled with the body, one of them while it reads."""
    begun: list[object] = []
    ended: list[object] = []

    async def hang(exchange: Exchange) -> dict[str, Any]:
        begun.append(exchange.request.id)
        try:
            await trio.sleep_forever()
        finally:
            ended.append(exchange.request.id)

    channel = ScriptedChannel(lambda message: answer(message, {}) if message.get("method") == "x/ask" else None)
    channel.say(*(request(i, "x/hang") for i in range(running)))

    async def clean_up(peer: Peer) -> None:
        assert sorted(map(str, ended)) == [str(i) for i in range(running)]
        assert peer.statistics().exchanges == 0
        channel.say(request("late", "x/hang"), request("ping", "ping"))
        await peer.request("x/ask")
        assert not peer.has_input_ended
        channel.hang_up()
        await peer.wait_input_ended()

    await run_and_cancel(channel, Handlers({"x/hang": hang, "ping": {}}), clean_up)
    assert [message["id"] for message in channel.sent if "result" in message] == ["ping"]
    assert len(begun) == running or begun[running:] == ["late"]
    assert sorted(map(str, ended)) == sorted(map(str, begun))


async def test_the_requests_of_a_cancelled_body_are_cancelled_on_the_wire(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 1: the callers are cancelled with it, and the transport is slow to take their cancellations."""
    channel = ScriptedChannel()

    async def read_later() -> None:
        await trio.testing.wait_all_tasks_blocked()
        channel.stop_reading()
        scope.cancel()
        await trio.sleep(1)
        channel.reading.set()

    async with trio.open_nursery() as outside:
        with trio.CancelScope() as scope:
            outside.start_soon(read_later)
            async with (
                open_peer(channel, Handlers(), Limits(goodbye_timeout=5)) as peer,
                trio.open_nursery() as nursery,
            ):
                for i in range(3):
                    nursery.start_soon(peer.request, f"x/{i}")
        assert trio.current_time() == 1
    asked = [message["id"] for message in channel.sent if "id" in message]
    cancelled = [message["params"]["requestId"] for message in channel.sent if "id" not in message]
    assert len(asked) == 3
    assert sorted(cancelled) == sorted(asked)


@pytest.mark.parametrize("is_closing", [False, True])
async def test_what_the_cleanup_of_a_cancelled_body_raises_comes_out(
    is_closing: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8: also when another task is just closing the connection, and what is queued cannot be written."""
    channel = ScriptedChannel()
    async with trio.open_nursery() as outside:
        with pytest.raises(LookupError, match="the cleanup's own"), trio.CancelScope() as scope:
            async with open_peer(channel, Handlers(), Limits(goodbye_timeout=5)) as peer:
                channel.stop_reading()
                await peer.notify("x/stuck")
                if is_closing:
                    outside.start_soon(peer.aclose)
                    await trio.sleep(3)
                scope.cancel()
                try:
                    await trio.sleep_forever()
                finally:
                    raise LookupError("the cleanup's own")
    assert trio.current_time() == 5
