"""The cancellation contract where the other end is a script, sentence by sentence, on a mock clock.

What both ends promise each other is in `tests/memory/matrix/test_cancellation_contract.py`, over every transport; here is what one end does
whatever the other one does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from tape import Tape
from wires import ScriptedChannel, answer, modern_server, wait_lost

from trio_mcp import Client, ConnectionLost, Limits, Progress, Server, open_client

LEGACY = "2025-11-25"


# 2. Nothing for nothing.


async def test_a_call_that_was_never_written_leaves_no_trace(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 2: what lies in the outbox when its caller goes is taken back, and there is nothing to cancel."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel) as client:
        channel.stop_reading()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_move_on_after, 1, lambda: client.request("x/stuck-in-writing"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(_move_on_after, 1, lambda: client.request("x/never-written"))
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        methods = [message["method"] for message in channel.sent]
        assert methods == ["server/discover", "x/stuck-in-writing", "notifications/cancelled"]


async def _move_on_after(seconds: float, call: Callable[[], Any]) -> None:
    with trio.move_on_after(seconds):
        await call()


@pytest.mark.spec("basic/patterns/cancellation", "Timing Considerations", revisions="2026-07-28")
async def test_a_call_that_is_answered_already_is_not_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 2: the answer is here while the last progress callback still runs, and then the deadline passes."""

    def handle(request: dict[str, Any]) -> object:
        if request.get("method") != "x/work":
            return None
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return answer(request, {})

    async def dawdle(_: Progress) -> None:
        await trio.sleep(60)

    channel = ScriptedChannel(modern_server(handle))
    tape = Tape()
    async with open_client(channel, on_frame=tape) as client:
        with trio.move_on_after(1) as scope:
            await client.request("x/work", on_progress=dawdle)
        assert scope.cancelled_caught
    assert tape.answers()[2] == 1
    assert tape.goodbyes() == {}


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements", revisions="2025-11-25")
async def test_initialize_is_never_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 2, and 2025-11-25, basic/utilities/cancellation: clients must not cancel `initialize`."""
    channel = ScriptedChannel()
    with pytest.raises(ConnectionLost, match="connect_timeout"):
        async with open_client(channel, revision=LEGACY):
            pass
    assert [message["method"] for message in channel.sent] == ["initialize"]
    assert trio.current_time() == Limits().connect_timeout


# 3. Control comes back at once.


async def test_giving_up_does_not_wait_for_a_peer_that_does_not_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 3: the deadline is over when it is over, twice in a row, and so is a cancellation."""
    channel = ScriptedChannel(modern_server())
    async with open_client(channel) as client:
        channel.stop_reading()
        for _ in range(2):
            begin = trio.current_time()
            with trio.move_on_after(0.5):
                await client.request("x/y")
            assert trio.current_time() - begin == 0.5
        begin = trio.current_time()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.request, "x/y")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert trio.current_time() == begin
        begin = trio.current_time()
    assert trio.current_time() - begin <= Limits().goodbye_timeout


async def test_leaving_waits_for_a_stuck_peer_no_longer_than_the_goodbye_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 3: leaving with a request half written is bounded, also when the body is cancelled."""
    for cancelled in (False, True):
        channel = ScriptedChannel(modern_server())
        begin = trio.current_time()
        with trio.move_on_after(0.25 if cancelled else math.inf):
            async with open_client(channel, limits=Limits(goodbye_timeout=1.5)) as client:
                channel.stop_reading()
                with trio.move_on_after(math.inf if cancelled else 0.25):
                    await client.request("x/y")
        assert trio.current_time() - begin == 0.25 + 1.5
        assert channel.closed


# 7. Nobody waits for ever.


@pytest.mark.parametrize("way", ["end", "loss"])
async def test_the_end_of_the_connection_fails_every_pending_call_with_the_reason(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 7: whatever ends the connection, everybody who waits learns why, and so does everybody who asks."""
    channel = ScriptedChannel(modern_server())
    reasons: list[str] = []

    async def lose(client: Client) -> None:
        lost = await wait_lost(lambda: client.request("x/y"))
        reasons.append(lost.reason)

    async with open_client(channel) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(lose, client)
            await trio.testing.wait_all_tasks_blocked()
            channel.hang_up(ConnectionLost("the cable was cut") if way == "loss" else None)
        begin = trio.current_time()
        await lose(client)
        assert trio.current_time() == begin
    expected = "the cable was cut" if way == "loss" else "the scripted peer closed the connection"
    assert reasons == [expected] * 6


async def test_connecting_to_a_silent_peer_fails_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 7: after discover_timeout it is asked as a legacy one, too; after connect_timeout it is nobody."""
    channel = ScriptedChannel()
    with pytest.raises(ConnectionLost, match=r"has not agreed on a revision within 30 s \(connect_timeout\)"):
        async with open_client(channel):
            pass
    assert trio.current_time() == 30
    assert [m["method"] for m in channel.sent] == ["server/discover", "initialize", "notifications/cancelled"]
    assert channel.sent[2]["params"]["requestId"] == channel.sent[0]["id"], "initialize cannot be given up"
    assert channel.closed


@pytest.mark.parametrize("insisting", [{"era": "modern"}, {"revision": "2026-07-28"}])
async def test_a_server_that_must_be_modern_may_take_its_time_to_say_so(
    insisting: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    """Silence decides no era: where there is no other to try, only the time to connect ends the wait."""

    async def slowly(message: dict[str, Any]) -> None:
        await trio.sleep(20)
        channel.say(modern_server()(message))

    def reply(message: dict[str, Any]) -> None:
        if message.get("method") == "server/discover":
            nursery.start_soon(slowly, message)

    channel = ScriptedChannel(reply)
    async with trio.open_nursery() as nursery, open_client(channel, **insisting) as client:
        assert client.revision == "2026-07-28"
        assert trio.current_time() == 20
    silent = ScriptedChannel()
    with pytest.raises(ConnectionLost, match=r"has not agreed on a revision within 30 s \(connect_timeout\)"):
        async with open_client(silent, **insisting):
            pass
    assert trio.current_time() == 50


# 8. Nothing is left.


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_cancellation_comes_out_of_opening_as_itself(revision: str) -> None:
    """At whichever step of the opening it comes: ``except trio.Cancelled`` does not look into groups."""
    out: list[type[BaseException]] = []

    async def cancel_after(steps: int, scope: trio.CancelScope) -> None:
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()

    async def open_and_stay() -> None:
        try:
            async with open_client(Server("here"), revision=revision):
                await trio.sleep_forever()
        except BaseException as error:
            out.append(type(error))
            raise

    for steps in range(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_after, steps, nursery.cancel_scope)
            await open_and_stay()
    assert out == [trio.Cancelled] * 30
