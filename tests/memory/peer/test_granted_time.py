"""The time that a caller grants: it runs from when the request came, and after it nothing is said."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from inside_peer import Exchange, LongLived, open_peer
from peers import Handlers, cancelled, request
from wires import ScriptedChannel

from trio_mcp import Limits, LocalProtocolError


def ids(channel: ScriptedChannel) -> list[Any]:
    """Return the ids of the requests that were answered."""
    return [message.get("id") for message in channel.sent if "method" not in message]


@pytest.mark.parametrize("way", ["alone", "in a batch"])
async def test_the_time_granted_goes_by_while_a_request_waits_for_its_turn(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: the handler has its caller's deadline, which does not wait, however late the handler begins."""
    deadlines: dict[object, float] = {}

    async def hold(_: Exchange) -> dict[str, Any]:
        await trio.sleep(2)
        return {}

    async def look(exchange: Exchange) -> dict[str, Any]:
        deadlines[exchange.request.id] = trio.current_effective_deadline()
        await trio.sleep(0.5)
        return {}

    channel = ScriptedChannel()
    handlers = Handlers({"x/hold": hold, "x/look": look})
    async with open_peer(channel, handlers, Limits(max_inbound_requests=1)) as peer:
        await trio.sleep(100)
        waiting = [request(2, "x/look", 3_000), request(3, "x/look", 10_000)]
        channel.say(request(1, "x/hold"), *(waiting if way == "alone" else [waiting]))
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().waiting == 2
        await trio.sleep(60)
    assert deadlines == {2: 103, 3: 110}


@pytest.mark.parametrize("way", ["waits", "has none", "is long-lived"])
async def test_a_request_whose_time_is_over_before_its_turn_is_not_begun(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: what nobody waits for has no effect, and its caller, who sends no cancellation, is answered."""
    done: list[object] = []

    async def hold(_: Exchange) -> dict[str, Any]:
        await trio.sleep(5)
        return {}

    async def work(exchange: Exchange) -> dict[str, Any]:
        done.append(exchange.request.id)
        await trio.lowlevel.checkpoint()
        return {}

    channel = ScriptedChannel()
    served = LongLived(work, lambda: None) if way == "is long-lived" else work
    handlers = Handlers({"x/hold": hold, "x/work": served})
    most, granted = (1, 3_000) if way == "waits" else (10, 0)
    async with open_peer(channel, handlers, Limits(max_inbound_requests=most, goodbye_timeout=1)):
        channel.say(request(1, "x/hold"), request(2, "x/work", granted), request(3, "x/work"))
        await trio.sleep(60)
    assert done == [3]
    assert {message["id"]: message.get("error", {}).get("code") for message in channel.sent} == {
        1: None,
        2: -31001,
        3: None,
    }


async def test_nothing_is_said_for_a_request_whose_time_is_over(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1: its caller's cancellation is on its way, and whatever the handler says now would cross it."""

    async def check(began: str, way: str) -> None:
        outcomes: list[object] = []

        async def hold(_: Exchange) -> dict[str, Any]:
            await trio.sleep(1)
            return {}

        async def talk(exchange: Exchange) -> dict[str, Any]:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    if way == "notify":
                        await exchange.notify("notifications/message", {"level": "info", "data": "late"})
                    elif way == "notify_nowait":
                        exchange.notify_nowait("notifications/message", {"level": "info", "data": "late"})
                    elif way == "report":
                        await exchange.report(1, None, None)
                    else:
                        with pytest.raises(LocalProtocolError, match="is over already"):
                            await exchange.ask("roots/list")
                    outcomes.append("tried")

        channel = ScriptedChannel()
        handlers = Handlers({"x/hold": hold, "x/talk": talk})
        limits = Limits(max_inbound_requests=1 if began == "after waiting" else 10, goodbye_timeout=2)
        async with open_peer(channel, handlers, limits):
            late = request(2, "x/talk", 3_000)
            late["params"]["_meta"]["progressToken"] = "t"
            channel.say(request(1, "x/hold"), late)
            await trio.sleep(4)
            assert outcomes == ["tried"]
            assert ids(channel) == [1]
            channel.say(cancelled(2))
            await trio.sleep(60)
        assert [message.get("id") for message in channel.sent] == [1]

    for began in ("at once", "after waiting"):
        for way in ("notify", "notify_nowait", "report", "ask"):
            with subtests.test(began=began, way=way):
                await check(began, way)


@pytest.mark.parametrize("way", ["swallows", "computes", "computes after waiting"])
@pytest.mark.parametrize("given_up", [True, False])
async def test_the_answer_of_a_handler_that_is_late_waits_for_the_cancellation(
    way: str, given_up: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Promises 5 and 7: if that comes in time, nothing is answered; if not, its caller is told that it is too late."""
    clock = autojump_clock

    async def late(_: Exchange) -> dict[str, Any]:
        if way == "swallows":
            try:
                await trio.sleep_forever()
            except trio.Cancelled:  # noqa: ASYNC103 - that is the point
                return {"late": True}  # noqa: ASYNC104
        if way == "computes after waiting":
            await trio.lowlevel.checkpoint()
        clock.jump(4)
        return {"late": True}

    async def quick(_: Exchange) -> dict[str, Any]:
        return {}

    channel = ScriptedChannel()
    async with open_peer(channel, Handlers({"x/late": late, "x/quick": quick}), Limits(goodbye_timeout=2)):
        channel.say(request(1, "x/late", 3_000), request(2, "x/quick"))
        await trio.sleep(0 if way != "swallows" else 3)
        await trio.testing.wait_all_tasks_blocked()
        assert ids(channel) == [2], "it keeps nobody waiting"
        begin = trio.current_time()
        if given_up:
            await trio.sleep(1)
            channel.say(cancelled(1))
        await trio.sleep(60)
        assert trio.current_time() - begin >= 60
    assert ids(channel) == ([2] if given_up else [2, 1])
    errors = {message["id"]: message["error"]["code"] for message in channel.sent if "error" in message}
    assert errors == ({} if given_up else {1: -31001}), "a result that comes so late is none"
