"""Promise 9: callbacks hold up what they belong to, and nothing else; and what too slow ones cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from lines import LINES, open_line
from wires import ScriptedChannel, answer, modern_server

import trio_mcp
from trio_mcp import Client, Context, Limits, Progress, Server, open_client


def reporting_server() -> Server[None]:
    server: Server[None] = Server("reporting")

    @server.tool
    async def report(ctx: Context[Any]) -> str:
        for done in range(3):
            await ctx.report_progress(done + 1)
        await ctx.info("reported")
        return "reported"

    return server


async def never_return(_: object) -> None:
    await trio.sleep_forever()


async def progress_of_a_call(client: Client) -> list[float]:
    seen: list[float] = []
    with trio.fail_after(5):
        await client.call_tool("report", on_progress=lambda progress: seen.append(progress.progress))
    return seen


@LINES
async def test_a_stuck_progress_callback_holds_up_its_own_call_alone(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Neither the answers of other calls, nor their progress, nor log messages wait for it."""
    logged = 0
    stuck_has_returned = False

    def on_log(_: trio_mcp.types.LoggingMessageNotificationParams) -> None:
        nonlocal logged
        logged += 1

    async def call_stuck(client: Client) -> None:
        nonlocal stuck_has_returned
        await client.call_tool("report", on_progress=never_return)
        stuck_has_returned = True

    async with open_line(reporting_server(), binding, revision, on_log=on_log) as line:
        await line.client.set_log_level("info")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_stuck, line.client)
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                assert await progress_of_a_call(line.client) == [1, 2, 3]
            await trio.testing.wait_all_tasks_blocked()
            assert logged == 4
            assert not stuck_has_returned, "its own call waits"
            nursery.cancel_scope.cancel()


@LINES
@pytest.mark.parametrize("is_one_stuck", [True, False])
async def test_log_messages_and_progress_are_handled_in_the_order_they_were_sent(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, *, is_one_stuck: bool
) -> None:
    """They are handled in different tasks, which Trio runs in no order; a callback that is stuck changes nothing."""
    server: Server[None] = Server("mixing")

    @server.tool
    async def mix(ctx: Context[Any]) -> str:
        for number in range(30):
            await ctx.info(f"{number}")
            await ctx.report_progress(number)
            if number % 3 == 0:
                await ctx.info(f"{number} again")
        return "mixed"

    seen: list[str] = []
    expected: list[str] = []
    for number in range(30):
        expected += [f"log {number}", f"progress {number}", *([f"log {number} again"] if number % 3 == 0 else [])]

    def on_log(message: trio_mcp.types.LoggingMessageNotificationParams) -> None:
        seen.append(f"log {message.data}")

    async with (
        open_line(server, binding, revision, on_log=on_log) as line,
        trio.open_nursery() as nursery,
    ):
        await line.client.set_log_level("info")
        if is_one_stuck:
            nursery.start_soon(lambda: line.client.call_tool("mix", on_progress=never_return))
            await trio.testing.wait_all_tasks_blocked()
            seen.clear()
        await line.client.call_tool(
            "mix", on_progress=lambda progress: seen.append(f"progress {progress.progress}")
        )
        await trio.testing.wait_all_tasks_blocked()
        assert seen == expected
        nursery.cancel_scope.cancel()


async def test_a_stuck_log_handler_holds_up_no_progress(autojump_clock: trio.testing.MockClock) -> None:
    """The other way round: a call's progress is its own task's affair."""
    async with open_client(reporting_server(), on_log=never_return) as client:
        await client.set_log_level("info")
        for _ in range(3):
            assert await progress_of_a_call(client) == [1, 2, 3]


class Lines:
    """A client with two calls that want progress and log messages, all of them as slow as wanted.

    Attributes:
        limits: What bounds the lines.
        gates: What each call's callback waits for, and the log handler under `None`: a permit each time.
        seen: What each has handled.
    """

    limits = Limits(max_notifications=10, slow_consumer_timeout=3)

    def __init__(self, channel: ScriptedChannel, client: Client) -> None:
        self.channel = channel
        self.client = client
        self.gates: dict[str | None, trio.Semaphore] = {}
        self.seen: dict[str | None, list[float]] = {}
        self._tokens: dict[str | None, object] = {}
        self._requests: dict[str, dict[str, Any]] = {}

    async def begin(self, nursery: trio.Nursery, name: str) -> None:
        """Make a call of which progress is to come."""

        async def on_progress(progress: Progress) -> None:
            await self.gates[name].acquire()
            self.seen[name].append(progress.progress)

        async def call() -> None:
            await self.client.request(name, on_progress=on_progress)

        self.gates[name], self.seen[name] = trio.Semaphore(0), []
        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        self._requests[name] = self.channel.sent[-1]
        self._tokens[name] = self._requests[name]["params"]["_meta"]["progressToken"]
        self.say(name, 1)  # which it begins to handle
        await trio.testing.wait_all_tasks_blocked()

    def say(self, name: str, *numbers: int) -> None:
        """Let the server report progress of a call."""
        for number in numbers:
            params = {"progressToken": self._tokens[name], "progress": number}
            self.channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    async def open(self, name: str, count: int) -> None:
        """Let a callback handle so many."""
        for _ in range(count):
            self.gates[name].release()
        await trio.testing.wait_all_tasks_blocked()

    async def seconds_held_up(self) -> float:
        """Return how long reading what has come takes."""
        begin = trio.current_time()
        await self.client.request("x/ping")
        return trio.current_time() - begin

    @property
    def dropped(self) -> int:
        return self.client.statistics().dropped_notifications

    def finish(self, name: str) -> None:
        """Let the server answer a call."""
        self.channel.say(answer(self._requests[name], {}))


def pinged(message: dict[str, Any]) -> object:
    return answer(message, {}) if message["method"] == "x/ping" else None


async def test_until_the_line_is_half_empty_nothing_is_held_up_and_the_oldest_goes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """slow_consumer_timeout: one callback that is stuck stalls reading once, not once for each notification."""
    channel = ScriptedChannel(modern_server(pinged))
    async with open_client(channel, limits=Lines.limits) as client, trio.open_nursery() as nursery:
        lines = Lines(channel, client)
        await lines.begin(nursery, "a")
        lines.say("a", *range(2, 12))
        assert await lines.seconds_held_up() == 0, "one is being handled, ten wait"
        lines.say("a", 12)
        assert await lines.seconds_held_up() == 3
        assert lines.dropped == 1
        lines.say("a", 13)
        assert (await lines.seconds_held_up(), lines.dropped) == (0, 2)
        await lines.open("a", 4)
        lines.say("a", *range(14, 19))  # four fit, the line is not half empty yet
        assert (await lines.seconds_held_up(), lines.dropped) == (0, 3)
        await lines.open("a", 5)
        lines.say("a", *range(19, 25))  # now it was half empty: five fit, and the sixth is waited for again
        assert await lines.seconds_held_up() == 3
        assert lines.dropped == 4
        lines.finish("a")
        await lines.open("a", 100)
        assert len(lines.seen["a"]) == 24 - 4
        assert lines.seen["a"][-1] == 24
    assert lines.seen["a"] == sorted(lines.seen["a"])


@pytest.mark.parametrize("ending", ["callback", "call"])
async def test_while_one_line_lags_no_other_holds_up_reading(
    ending: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Ten stuck callbacks cost the neighbours no more than one does; over with it, patience is back."""
    channel = ScriptedChannel(modern_server(pinged))
    async with open_client(channel, limits=Lines.limits) as client, trio.open_nursery() as nursery:
        lines = Lines(channel, client)
        with trio.CancelScope() as first:
            async with trio.open_nursery() as inner:
                await lines.begin(inner, "a")
                await lines.begin(nursery, "b")
                lines.say("a", *range(2, 13))
                lines.say("b", *range(2, 13))
                assert await lines.seconds_held_up() == 3, "for one of the two"
                assert lines.dropped == 2, "each has lost its oldest"
                if ending == "call":
                    first.cancel()
                else:
                    await lines.open("a", 100)
                    lines.finish("a")
        lines.say("b", 13)
        assert await lines.seconds_held_up() == 3
        assert lines.dropped == 3
        await lines.open("b", 100)
        assert lines.seen["b"] == [1, *range(4, 14)]
        lines.finish("b")


async def test_reading_goes_on_as_soon_as_there_is_room(autojump_clock: trio.testing.MockClock) -> None:
    """Held up, it waits for the line that is full, and for nothing else."""
    channel = ScriptedChannel(modern_server(pinged))
    async with open_client(channel, limits=Lines.limits) as client, trio.open_nursery() as nursery:
        lines = Lines(channel, client)
        await lines.begin(nursery, "a")
        lines.say("a", *range(2, 13))

        async def open_later() -> None:
            await trio.sleep(1)
            await lines.open("a", 1)

        nursery.start_soon(open_later)
        assert await lines.seconds_held_up() == 1
        lines.say("a", 13)
        nursery.start_soon(open_later)
        assert await lines.seconds_held_up() == 1
        assert lines.dropped == 0
        lines.finish("a")
        await lines.open("a", 100)
    assert lines.seen["a"] == list(range(1, 14))


async def test_the_line_of_all_others_lags_until_it_is_half_empty(autojump_clock: trio.testing.MockClock) -> None:
    """slow_consumer_timeout: the same for log messages and whatever else servers notify of."""
    gate, seen = trio.Semaphore(0), list[object]()

    async def on_notification(_: str, params: Mapping[str, Any]) -> None:
        await gate.acquire()
        seen.append(params["number"])

    def say(*numbers: int) -> None:
        for number in numbers:
            channel.say({"jsonrpc": "2.0", "method": "notifications/x", "params": {"number": number}})

    async def let_go(count: int) -> None:
        for _ in range(count):
            gate.release()
        await trio.testing.wait_all_tasks_blocked()

    channel = ScriptedChannel(modern_server(pinged))
    async with open_client(channel, limits=Lines.limits, on_notification=on_notification) as client:
        lines = Lines(channel, client)
        say(1)
        await trio.testing.wait_all_tasks_blocked()
        say(*range(2, 13))
        assert (await lines.seconds_held_up(), lines.dropped) == (3, 1)
        await let_go(4)
        say(*range(13, 18))
        assert (await lines.seconds_held_up(), lines.dropped) == (0, 2)
        await let_go(5)
        say(*range(18, 24))
        assert (await lines.seconds_held_up(), lines.dropped) == (3, 3)
        await let_go(100)
    assert len(seen) == 23 - 3
    assert seen[-1] == 23
