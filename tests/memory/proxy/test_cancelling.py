"""Cancellation and deadlines through a proxy: to the handler behind it, once, and nothing is left."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.testing
from raw_ends import LEGACY, MODERN, RawServer, answer, open_raw_client

from trio_mcp import Context, Era, Limits, Proxy, Revision, Server, open_client
from trio_mcp.types import ElicitRequestParams

ERAS: list[Era] = ["legacy", "modern"]
PAIRS = [(client, server) for client in ERAS for server in ERAS]
ALL = pytest.mark.parametrize(("client", "server"), PAIRS)
RAW = pytest.mark.parametrize(("client", "server"), [(c, s) for c in (LEGACY, MODERN) for s in (LEGACY, MODERN)])


class Behind:
    """A server whose handlers note how they end."""

    def __init__(self, era: str) -> None:
        self.log: list[str] = []
        self.deadline = 0.0
        revisions = [revision for revision in Revision if revision.is_modern is (era == "modern")]
        self.server = server = Server("behind", revisions=revisions)

        @server.tool
        async def wait(ctx: Context) -> str:
            self.log.append("began")
            self.deadline = ctx.deadline
            try:
                await trio.sleep_forever()
            finally:
                self.log.append("cancelled")
            raise AssertionError

        @server.tool
        async def ask(ctx: Context) -> str:
            self.log.append("began")
            try:
                await ctx.elicit("?", str)
            finally:
                self.log.append("ended")
            return "asked"


@ALL
async def test_a_deadline_cancels_the_handler_behind(
    client: Era, server: Era, autojump_clock: trio.testing.MockClock
) -> None:
    """It is known there from the beginning, and has passed there when the caller sees it."""
    behind = Behind(server)
    async with open_client(Proxy(behind.server), era=client) as ours:
        began = trio.current_time()
        with trio.move_on_after(7) as scope:
            await ours.call_tool("wait")
        assert scope.cancelled_caught
        assert behind.deadline == pytest.approx(began + 7, abs=0.01)
        await trio.sleep(0.1)
        assert behind.log == ["began", "cancelled"]
    assert behind.log == ["began", "cancelled"]


@RAW
async def test_a_cancellation_passes_once_and_follows_its_request(client: str, server: str) -> None:
    """The client repeats itself; the server hears it once, of the id that it knows."""
    raw = RawServer(server, lambda _, m: answer(m, {"tools": []}) if m.get("method") == "tools/list" else None)
    async with open_raw_client(Proxy(raw), client) as ours:
        id = await ours.ask("tools/call", {"name": "x"})
        asked = await raw.wait_for("tools/call")
        for _ in range(2):
            await ours.say(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": id, "reason": "r"},
                }
            )
        await raw.wait_for("notifications/cancelled")
        await ours.call("tools/list")
    [cancelled] = [m for m in raw.all("notifications/cancelled") if m["params"]["requestId"] == asked["id"]]
    assert raw.received.index(cancelled) > raw.received.index(asked)


@RAW
@pytest.mark.parametrize("method", ["cancelled", "progress"])
async def test_an_id_that_is_guessed_does_not_pass(client: str, server: str, method: str) -> None:
    """Neither way: the ids and the tokens of each side mean something else at the other, perhaps another client's."""
    raw = RawServer(server, lambda _, m: answer(m, {"tools": []}) if m.get("method") == "tools/list" else None)

    def guess(id: object) -> dict[str, Any]:
        params = {"requestId": id} if method == "cancelled" else {"progressToken": id, "progress": 1}
        return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}

    async with open_raw_client(Proxy(raw), client) as ours:
        asking = await ours.ask("tools/call", {"name": "x"})
        asked = await raw.wait_for("tools/call")
        for id in (asked["id"], *range(50), "0", "call 77"):
            await ours.say(guess(id))
            await raw.say(guess(id))
        await raw.say(guess(asking))
        await ours.call("tools/list")
        assert raw.all(f"notifications/{method}") == []
        assert [m for m in ours.received if m.get("method") == f"notifications/{method}"] == []
        await raw.say(answer(asked, {"content": []}))
        assert (await ours.answer_to(asking))["result"]["content"] == []


@RAW
async def test_leaving_cancels_what_is_under_way(client: str, server: str) -> None:
    """A client that goes: each request once, and then the connection to the server ends."""
    raw = RawServer(server)
    async with open_raw_client(Proxy(raw, limits=Limits(drain_timeout=0)), client) as ours:
        for number in range(3):
            await ours.ask("tools/call", {"name": str(number)})
        while len(raw.all("tools/call")) < 3:
            await trio.lowlevel.checkpoint()
    cancelled = [m["params"]["requestId"] for m in raw.all("notifications/cancelled")]
    # Before a modern server, a session is also subscribed to changes of lists.
    under_way = raw.all("tools/call") + raw.all("subscriptions/listen")
    assert sorted(cancelled) == sorted(m["id"] for m in under_way)
    assert raw.ended == len(raw.channels) == 1


@ALL
async def test_a_call_that_waits_for_an_answer_is_cancelled(client: Era, server: Era) -> None:
    """While the user is asked: in all pairs nothing of the handler is left when the client has gone."""
    behind = Behind(server)
    asked = trio.Event()

    async def elicit(_: object) -> Any:
        asked.set()
        await trio.sleep_forever()

    options: Any = {"era": client, "on_elicit": elicit}
    async with open_client(Proxy(behind.server), **options) as ours, trio.open_nursery() as nursery:
        nursery.start_soon(ours.call_tool, "ask")
        await asked.wait()
        nursery.cancel_scope.cancel()
    assert behind.log == ["began", "ended"]


@ALL
async def test_cancelling_after_any_number_of_steps_leaves_nothing(client: Era, server: Era) -> None:
    """Whatever was on its way, the handlers that began have ended, and the connection serves the next call."""
    behind = Behind(server)

    @behind.server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    async with open_client(Proxy(behind.server), era=client) as ours:
        await ours.call_tool("add", {"a": 0, "b": 0})
        living: list[int] = []
        for steps in (*range(60), *range(60)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ours.call_tool, "wait")
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert ours.statistics().calls == 0
            assert behind.log.count("began") == behind.log.count("cancelled")
            assert (await ours.call_tool("add", {"a": steps, "b": 1})).text == str(steps + 1)
            await trio.testing.wait_all_tasks_blocked()
            living.append(trio.lowlevel.current_statistics().tasks_living)
    # A serve loop keeps a task or two for the next request that has to wait.
    assert max(living[60:]) <= max(living[:60]) <= living[0] + 4
    assert behind.log.count("began") > 60


@ALL
async def test_cancelling_the_opening_after_any_number_of_steps(client: Era, server: Era) -> None:
    """The handshake of the client is under way, that with the server, or neither."""
    behind = Behind(server)
    before = trio.lowlevel.current_statistics().tasks_living

    async def open_and_wait() -> None:
        async with open_client(Proxy(behind.server), era=client):
            await trio.sleep_forever()

    for steps in range(0, 90, 3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_and_wait)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert trio.lowlevel.current_statistics().tasks_living == before


@ALL
async def test_many_calls_that_ask_report_and_are_cancelled_at_random(
    client: Era, server: Era, autojump_clock: trio.testing.MockClock
) -> None:
    """Who waits long enough gets an answer; every handler that has begun has ended, and nothing is left."""
    chance = random.Random(7)
    behind = Behind(server)

    @behind.server.tool
    async def work(number: int, ctx: Context) -> int:
        behind.log.append("began")
        try:
            await ctx.report_progress(1)
            await trio.sleep(chance.random() / 50)
            await ctx.log("error", number)
            if number % 5 == 0:
                assert (await ctx.elicit("?", int)).value == 7
            await trio.sleep(chance.random() / 50)
        finally:
            behind.log.append("ended")
        return number

    async def elicit(_: ElicitRequestParams) -> dict[str, int]:
        await trio.sleep(chance.random() / 100)
        return {"value": 7}

    answered: list[int] = []

    async def call(number: int) -> None:
        with trio.move_on_after(chance.random() / 12 if number % 3 else 10):
            assert (await ours.call_tool("work", {"number": number})).text == str(number)
            answered.append(number)

    async with open_client(Proxy(behind.server), era=client, on_elicit=elicit) as ours:
        await ours.set_log_level("debug")
        async with trio.open_nursery() as nursery:
            for number in range(150):
                nursery.start_soon(call, number)
        await trio.sleep(1)
        assert set(range(0, 150, 3)) <= set(answered)
        assert behind.log.count("began") == behind.log.count("ended")
        assert ours.statistics().calls == 0
