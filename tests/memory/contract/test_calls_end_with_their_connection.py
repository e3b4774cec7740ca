"""Promises 7 and 8 for a call that waits for its own user: for `on_elicit` and its like, or for `on_progress`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from lines import LINES, open_line
from scripted_server import LEGACY, MODERN, ScriptedServer
from wires import answer

from trio_mcp import Client, ConnectionLost, Context, Limits, Progress, Revision, Server, open_client

QUESTIONS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
}


class Stuck:
    """A callback that never returns by itself."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.was_cancelled = False

    async def __call__(self, *_: object) -> Any:
        self.begun.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.was_cancelled = True
            raise


async def fails_with(kind: type[Exception], call: Callable[[], Any]) -> float:
    """Make a call that fails, and return when."""
    with pytest.raises(kind):
        await call()
    return trio.current_time()


@pytest.mark.parametrize("ending", ["left", "lost"])
@pytest.mark.parametrize("method", sorted(QUESTIONS))
async def test_a_call_that_is_asking_its_user_ends_with_its_connection(
    method: str, ending: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28: between two rounds nothing is in flight, and the call belongs to the connection all the same."""
    stuck = Stuck()
    asked = {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": method, "params": QUESTIONS[method]}},
    }
    channel = ScriptedServer(MODERN, {"tools/call": asked})
    why = trio.ClosedResourceError if ending == "left" else ConnectionLost
    with trio.fail_after(1_000):
        async with (
            trio.open_nursery() as nursery,
            open_client(channel, on_elicit=stuck, on_sample=stuck, roots=stuck) as client,
        ):
            nursery.start_soon(fails_with, why, lambda: client.call_tool("x"))
            await stuck.begun.wait()
            if ending == "lost":
                channel.hang_up()
                await trio.testing.wait_all_tasks_blocked()
                assert stuck.was_cancelled, "while the client is still open"
    assert stuck.was_cancelled
    assert trio.current_time() == 0


async def test_answering_by_hand_ends_with_the_client(autojump_clock: trio.testing.MockClock) -> None:
    """`Client.answer_input` asks the same handlers."""
    stuck = Stuck()
    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery, open_client(ScriptedServer(MODERN), on_elicit=stuck) as client:
            question = {"method": "elicitation/create", "params": QUESTIONS["elicitation/create"]}
            nursery.start_soon(fails_with, trio.ClosedResourceError, lambda: client.answer_input({"q": question}))
            await stuck.begun.wait()
    assert stuck.was_cancelled
    with pytest.raises(trio.ClosedResourceError):
        await client.answer_input({"q": question})


@LINES
@pytest.mark.parametrize("is_answered", [False, True])
async def test_leaving_ends_a_call_in_a_stuck_progress_callback(
    is_answered: bool, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The callback runs in the caller's task, and nobody but the call can end it."""
    server: Server[None] = Server("reporting")

    @server.tool
    async def report(ctx: Context[Any]) -> str:
        await ctx.report_progress(1)
        if not is_answered:
            await trio.sleep_forever()
        return "reported"

    stuck = Stuck()
    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery, open_line(server, binding, revision) as line:
            call = lambda: line.client.call_tool("report", on_progress=stuck)  # noqa: E731
            nursery.start_soon(fails_with, trio.ClosedResourceError, call)
            await stuck.begun.wait()
            await trio.testing.wait_all_tasks_blocked()
    assert stuck.was_cancelled


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
async def test_a_lost_server_ends_a_call_in_a_stuck_progress_callback(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """What came before the end is handled, for as long as slow handlers are waited for; then the call fails."""

    def report(message: dict[str, Any]) -> None:
        for number in (1, 2, 3):
            params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": number}
            channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        channel.hang_up()

    seen: list[float] = []
    was_cancelled = False

    async def dawdle(progress: Progress) -> None:
        nonlocal was_cancelled
        seen.append(progress.progress)
        try:
            await trio.sleep(2)
        except trio.Cancelled:
            was_cancelled = True
            raise

    channel = ScriptedServer(revision, {"tools/call": report})
    with trio.fail_after(1_000):
        async with open_client(channel, revision=revision, limits=Limits(slow_consumer_timeout=3)) as client:
            call = lambda: client.call_tool("x", on_progress=dawdle)  # noqa: E731
            assert await fails_with(ConnectionLost, call) == 3
    assert seen == [1, 2], "the third was not begun any more"
    assert was_cancelled


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
async def test_leaving_after_a_loss_ends_a_progress_callback_at_once(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """The time that a loss leaves it is that of a client that stays."""

    def report(message: dict[str, Any]) -> None:
        params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        channel.hang_up()

    stuck = Stuck()
    channel = ScriptedServer(revision, {"tools/call": report})
    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            async with open_client(channel, revision=revision, limits=Limits(slow_consumer_timeout=3)) as client:
                call = lambda: client.call_tool("x", on_progress=stuck)  # noqa: E731
                nursery.start_soon(fails_with, ConnectionLost, call)
                await stuck.begun.wait()
                await trio.sleep(1)
            await trio.testing.wait_all_tasks_blocked()
            assert stuck.was_cancelled
    assert trio.current_time() == 1


@pytest.mark.parametrize("seconds", [2, 50])
async def test_a_lost_server_does_not_take_an_answer_back(
    seconds: int, autojump_clock: trio.testing.MockClock
) -> None:
    """A call that is answered has what it asked for, unless its callbacks are stuck."""

    async def dawdle(_: Progress) -> None:
        await trio.sleep(seconds)

    def report(message: dict[str, Any]) -> None:
        params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        channel.say(answer(message, channel.complete(content=[])))
        channel.hang_up()

    channel = ScriptedServer(MODERN, {"tools/call": report})
    async with open_client(channel, limits=Limits(slow_consumer_timeout=3)) as client:
        if seconds == 2:
            assert (await client.call_tool("x", on_progress=dawdle)).content == ()
        else:
            await fails_with(ConnectionLost, lambda: client.call_tool("x", on_progress=dawdle))
        assert trio.current_time() == min(seconds, 3)


async def test_a_progress_callback_may_close_its_client(autojump_clock: trio.testing.MockClock) -> None:
    """Which ends its own call, and so itself."""

    def report(message: dict[str, Any]) -> None:
        params = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    channel = ScriptedServer(MODERN, {"tools/call": report})
    clients: list[Client] = []

    async def close(_: Progress) -> None:
        await clients[0].aclose()

    with trio.fail_after(1_000):
        async with open_client(channel) as client:
            clients.append(client)
            await fails_with(trio.ClosedResourceError, lambda: client.call_tool("x", on_progress=close))
