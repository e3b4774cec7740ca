"""One task serves many requests, one after another; nothing of one may be seen by the next."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any, Final

import pytest
import trio
import trio.testing
from eras import ENDS
from raw import initialize
from wires import ScriptedChannel

from trio_mcp import Context, Revision, Server, open_client

visitor: Final = ContextVar("visitor", default="nobody")


def call(id: int, tool: str, timeout_ms: int | None = None, **arguments: object) -> dict[str, Any]:
    meta = {} if timeout_ms is None else {"_meta": {"trio-mcp/timeoutMs": timeout_ms}}
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, **meta},
    }


def cancel(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


def texts(channel: ScriptedChannel) -> dict[Any, Any]:
    """Return what was answered, by id."""
    return {
        m["id"]: m["result"]["content"][0]["text"] for m in channel.sent if "id" in m and "content" in m["result"]
    }


def make_server() -> Server[None]:
    server: Server[None] = Server("on the spot")

    @server.tool
    async def visit(name: str) -> str:
        before = visitor.get()
        visitor.set(name)
        return before

    @server.tool
    async def visit_and_stay(name: str) -> str:
        visitor.set(name)
        await trio.sleep(1)
        return visitor.get()

    @server.tool
    async def time_left(ctx: Context[Any]) -> str:
        return "for ever" if ctx.deadline == trio.current_effective_deadline() == math.inf else "some time"

    @server.tool
    async def hang() -> str:
        await trio.sleep_forever()
        raise AssertionError

    return server


@pytest.fixture
async def channel(nursery: trio.Nursery) -> ScriptedChannel:
    """A client that has shaken hands."""
    channel = ScriptedChannel()
    await nursery.start(make_server().serve_channel, channel)
    channel.say(initialize("2025-11-25"))
    await trio.testing.wait_all_tasks_blocked()
    return channel


async def test_context_variables_end_with_their_request(channel: ScriptedChannel) -> None:
    """As if each had a task of its own."""
    channel.say(call(1, "visit", name="Ann"), call(2, "visit", name="Bob"))
    await trio.testing.wait_all_tasks_blocked()
    channel.say(call(3, "visit", name="Cid"))
    await trio.testing.wait_all_tasks_blocked()
    assert texts(channel) == {1: "nobody", 2: "nobody", 3: "nobody"}


async def test_a_handler_that_waits_keeps_its_variables_and_holds_up_no_other(
    channel: ScriptedChannel, autojump_clock: trio.testing.MockClock
) -> None:
    """Those that came after it, in the same breath, are answered first."""
    channel.say(
        call(1, "visit_and_stay", name="Ann"), call(2, "visit", name="Bob"), call(3, "visit_and_stay", name="Cid")
    )
    await trio.sleep(0.5)
    assert texts(channel) == {2: "nobody"}
    await trio.sleep(1)
    assert texts(channel) == {1: "Ann", 2: "nobody", 3: "Cid"}


async def test_a_deadline_ends_with_its_request(
    channel: ScriptedChannel, autojump_clock: trio.testing.MockClock
) -> None:
    """Time granted for one request is not time granted for the next, whether the first has waited or not."""
    channel.say(call(1, "time_left", 500), call(2, "time_left"))
    channel.say(call(3, "visit_and_stay", 5_000, name="Ann"))
    await trio.sleep(2)
    for id in range(4, 30):
        channel.say(call(id, "time_left"))
    await trio.sleep(10)
    answers = texts(channel)
    assert answers[1] == "some time"
    assert answers[3] == "Ann"
    assert {answers[id] for id in answers if id not in {1, 3}} == {"for ever"}
    assert len(answers) == 29


async def test_a_cancellation_ends_with_its_request(channel: ScriptedChannel) -> None:
    """A task that served a request that was given up serves the next one like any other."""
    for id in range(1, 40, 2):
        channel.say(call(id, "hang"))
        await trio.testing.wait_all_tasks_blocked()
        channel.say(cancel(id), call(id + 1, "visit", name="Bob"))
        await trio.testing.wait_all_tasks_blocked()
    assert texts(channel) == dict.fromkeys(range(2, 41, 2), "nobody")


async def test_a_request_and_its_cancellation_in_one_breath(channel: ScriptedChannel) -> None:
    """Promise 4: it is answered before, or not at all; what waits is cancelled."""
    channel.say(call(1, "hang"), cancel(1), call(2, "visit", name="Bob"), cancel(2), call(3, "visit", name="Cid"))
    await trio.testing.wait_all_tasks_blocked()
    answers = texts(channel)
    assert 1 not in answers
    assert answers[3] == "nobody"


async def test_tasks_do_not_gather(channel: ScriptedChannel, autojump_clock: trio.testing.MockClock) -> None:
    """Promise 10: of a hundred tasks that have served, few stay."""
    before = trio.lowlevel.current_statistics().tasks_living
    channel.say(*(call(id, "visit_and_stay", name="Ann") for id in range(1, 91)))
    await trio.sleep(0.5)
    assert trio.lowlevel.current_statistics().tasks_living > before + 80
    await trio.sleep(1)
    assert len(texts(channel)) == 90
    assert trio.lowlevel.current_statistics().tasks_living <= before + 10


async def test_others_get_a_turn_between_requests_that_never_wait(channel: ScriptedChannel) -> None:
    """However many there are at once, the event loop goes on."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while len(texts(channel)) < 1_000:
            turns += 1
            await trio.lowlevel.checkpoint()

    channel.say(*(call(id, "visit", name="Ann") for id in range(1, 1_001)))
    with trio.fail_after(60):
        await count()
    assert turns > 10


@pytest.mark.parametrize("revision", ENDS)
async def test_each_connection_is_notified_of_a_changed_list_at_once(revision: Revision) -> None:
    """Lists that are kept as they were written are written again when they have changed."""
    server = make_server()
    async with open_client(server, revision=revision) as client:

        async def names() -> list[str]:
            return [tool.name async for tool in client.list_tools(fresh=True)]

        assert await names() == ["visit", "visit_and_stay", "time_left", "hang"]
        server.disable_tool("hang")
        assert await names() == ["visit", "visit_and_stay", "time_left"]
        server.enable_tool("hang")
        server.remove_tool("visit")
        assert await names() == ["visit_and_stay", "time_left", "hang"]

        @server.tool
        async def another() -> str:
            return "another"

        assert await names() == ["visit_and_stay", "time_left", "hang", "another"]
