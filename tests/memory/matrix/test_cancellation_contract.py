"""The cancellation contract, sentence by sentence, in every cell of the matrix, on a mock clock.

Both ends are ours; what is checked is the wire between them, and what runs at either end. The same sentences about ends
that misbehave are in `tests/memory/contract`: `test_contract_by_hand.py`, and over HTTP `test_contract_over_http_client.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from lines import open_line
from transports import carried

import trio_mcp
from trio_mcp import Client, Context, Limits, Progress, RequestError, Server
from trio_mcp.types import Root


class Watcher:
    """A server whose handlers say what becomes of them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("watcher", limits=limits)
        self.started: list[str] = []
        self.finished: list[str] = []
        self.cancelled: list[str] = []
        self.contexts: dict[str, Context[Any]] = {}

        @self.server.tool
        async def sleep(seconds: float, name: str, ctx: Context[Any]) -> str:
            self.started.append(name)
            self.contexts[name] = ctx
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                self.cancelled.append(name)
                raise
            self.finished.append(name)
            return "slept"

        @self.server.tool
        async def count(to: int, every: float, ctx: Context[Any]) -> str:
            async with ctx.progress(total=to) as progress:
                for _ in range(to):
                    await trio.sleep(every)
                    await progress.advance()
            return "counted"


async def call_sleep(client: Client, seconds: float = math.inf, name: str = "it") -> None:
    # JSON has no infinity; a year is long enough.
    await client.call_tool("sleep", {"seconds": min(seconds, 3e7), "name": name})


# 1. Exactly one goodbye.


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/patterns/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/patterns/cancellation", "Timeouts")
@carried()
async def test_a_call_given_up_is_cancelled_exactly_once(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promises 1 and 3: by deadline, cancel() or leaving, it is cancelled once, and after; and control is back at once."""
    watcher = Watcher()
    async with trio.open_nursery() as nursery, open_line(watcher.server, binding, revision) as line:
        client = line.client
        with trio.move_on_after(5) as scope:
            await call_sleep(client, name="deadline")
        assert scope.cancelled_caught
        assert trio.current_time() == 5
        with trio.CancelScope() as scope:
            nursery.start_soon(_later, 3, scope.cancel)
            await call_sleep(client, name="cancel")
        assert trio.current_time() == 8
        nursery.start_soon(_expect_closed, lambda: call_sleep(client, name="leaving"))
        await trio.testing.wait_all_tasks_blocked()
        assert watcher.cancelled == ["deadline", "cancel"]
    calls = line.tape.requests("tools/call")
    assert len(calls) == 3
    assert line.goodbyes() == dict.fromkeys(calls, 1)
    line.check_endings()
    assert watcher.cancelled == ["deadline", "cancel", "leaving"]


@carried("reports")
async def test_a_call_whose_callback_fails_is_cancelled_exactly_once(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1: the exception comes out of the call."""
    watcher = Watcher()

    async def fail(_: Progress) -> None:
        raise ArithmeticError("the caller's own")

    async with open_line(watcher.server, binding, revision) as line:
        with pytest.raises(ArithmeticError, match="the caller's own"):
            await line.client.call_tool("count", {"to": 5, "every": 1}, on_progress=fail)
    (id,) = line.tape.requests("tools/call")
    assert line.goodbyes() == {id: 1}
    line.check_endings()


async def _later(seconds: float, act: Callable[[], object]) -> None:
    await trio.sleep(seconds)
    act()


async def _expect_closed(call: Callable[[], Any]) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await call()


@pytest.mark.spec("basic/utilities/cancellation", "Cancellation Flow")
@pytest.mark.spec("basic/patterns/cancellation", "Cancellation Flow")
@carried("cancelled notifications")
async def test_the_goodbye_says_why(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/patterns/cancellation: an optional reason that may be logged or displayed."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line:
        client, tape = line.client, line.tape
        with trio.move_on_after(1):
            await call_sleep(client)
        with trio.CancelScope() as scope:
            scope.deadline = math.inf
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_sleep, client)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel(reason="the user pressed stop")
    reasons = [m["params"]["reason"] for m in tape.sent if m.get("method") == "notifications/cancelled"]
    assert reasons == ["the caller's deadline passed", "the user pressed stop"]


# 2. Nothing for nothing.


@carried("cancelled notifications")
async def test_the_goodbye_does_not_say_what_went_wrong_in_another_task(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Trio explains a cancellation by the exception behind it, and what that says is nobody else's business."""
    watcher = Watcher()

    async def fail() -> None:
        await trio.sleep(1)
        raise ValueError("the password is swordfish")

    async with open_line(watcher.server, binding, revision) as line:
        client, tape = line.client, line.tape
        with pytest.RaisesGroup(ValueError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_sleep, client)
                nursery.start_soon(fail)
        with pytest.RaisesGroup(ValueError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_sleep, client)
                await fail()
    reasons = [m["params"]["reason"] for m in tape.sent if m.get("method") == "notifications/cancelled"]
    assert reasons == ["another task of the caller's failed"] * 2


@carried("reports")
async def test_a_call_that_is_done_at_the_server_is_not_cancelled(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 2: only the caller's own callback is still at work when the deadline passes."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line:

        async def dawdle(_: Progress) -> None:
            await trio.sleep(60)

        with trio.move_on_after(1) as scope:
            await line.client.call_tool("count", {"to": 1, "every": 0}, on_progress=dawdle)
        assert scope.cancelled_caught
        await line.client.ping()
    assert not line.goodbyes()
    assert line.tape.answers()[line.tape.requests("tools/call")[0]] == 1


# 4. The handler dies.


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/patterns/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/utilities/progress", "Implementation Notes")
@pytest.mark.spec("basic/patterns/progress", "Implementation Notes")
@carried()
async def test_a_cancelled_handler_says_nothing_more(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: its cleanup runs, and whatever it tries to send from there, nothing goes out for the request."""
    server = Server("last words")
    cleanup: list[object] = []

    @server.tool
    async def talk(ctx: Context[Any]) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                await ctx.report_progress(1)
                await ctx.error("I was interrupted")
                try:
                    await ctx.request("roots/list")
                except trio_mcp.LocalProtocolError as error:
                    cleanup.append(type(error))

    async with open_line(server, binding, revision, roots=[]) as line:
        client, tape = line.client, line.tape
        await client.set_log_level("debug")
        with trio.move_on_after(2):
            await client.call_tool("talk", on_progress=print)
        await trio.sleep(5)
        received_before = len(tape.received)
        await client.ping()
        assert len(tape.received) == received_before + 1
    assert cleanup == [trio_mcp.LocalProtocolError]
    line.check_endings()
    last = tape.requests("tools/call")[-1]
    assert tape.answers()[last] == 0
    assert not [m for m in tape.received if m.get("method", "").startswith("notifications/")]


@carried()
async def test_cancelling_one_call_leaves_its_neighbours_alone(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: exactly that handler's scope."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line, trio.open_nursery() as nursery:
        client = line.client
        nursery.start_soon(call_sleep, client, 10, "neighbour")
        with trio.move_on_after(1):
            await call_sleep(client, 10, "given up")
        await trio.testing.wait_all_tasks_blocked()
        assert watcher.cancelled == ["given up"]
    assert watcher.finished == ["neighbour"]


@carried()
async def test_a_handler_that_swallows_its_cancellation_is_not_answered_either(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: the client was told that nothing more comes."""
    server = Server("stubborn")

    @server.tool
    async def stubborn() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:  # noqa: ASYNC103 - that is the point
            return "here is your answer all the same"  # noqa: ASYNC104

    async with open_line(server, binding, revision) as line:
        with trio.move_on_after(1):
            await line.client.call_tool("stubborn")
        await trio.sleep(1)
    (id,) = line.tape.requests("tools/call")
    assert line.tape.answers()[id] == 0
    assert line.goodbyes() == {id: 1}


# 5. Nesting holds.


@carried("server requests")
async def test_cancelling_a_call_cancels_the_question_its_handler_asked(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: the client gives up a call, the server gives up its question, the client's handler dies."""
    server = Server("asks back")
    client_handler: list[str] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.list_roots()
        return "never"

    async def roots() -> list[Root]:
        try:
            await trio.sleep_forever()
        finally:
            client_handler.append("cancelled")
        raise AssertionError

    async with open_line(server, binding, revision, roots=roots) as line:
        tape = line.tape
        with trio.move_on_after(2):
            await line.client.call_tool("ask")
        await trio.testing.wait_all_tasks_blocked()
    assert client_handler == ["cancelled"]
    (question,) = [m["id"] for m in tape.received if m.get("method") == "roots/list"]
    (goodbye,) = [m for m in tape.received if m.get("method") == "notifications/cancelled"]
    assert goodbye["params"]["requestId"] == question
    assert not [m for m in tape.sent if "method" not in m and m["id"] == question], "nothing for a dead question"


@carried("questions")
async def test_a_cancelled_handler_that_asks_in_that_moment_is_cancelled(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 4: whatever it awaits next is where it ends, a question included; that is no failure of its own."""
    server = Server("asks late")
    outcome: list[BaseException] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> None:
        try:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            await ctx.list_roots()
        except BaseException as error:
            outcome.append(error)
            raise

    async with open_line(server, binding, revision, roots=lambda: pytest.fail("it was asked")) as line:
        with trio.move_on_after(1):
            await line.client.call_tool("ask")
        await trio.sleep(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(line.client.call_tool, "ask")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await trio.sleep(3)
    assert [type(error) for error in outcome] == [trio.Cancelled] * 2
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@carried("server requests")
async def test_deadlines_shrink_inward(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: the handler learns the caller's deadline, and so does whoever the handler asks."""
    server = Server("deadlines")
    seen: dict[str, float] = {}

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        seen["handler"] = trio.current_effective_deadline()
        assert ctx.deadline == seen["handler"]
        with trio.move_on_after(3):
            await ctx.list_roots()
        return "asked"

    async def roots() -> list[Root]:
        seen["asked"] = trio.current_effective_deadline()
        return []

    async with open_line(server, binding, revision, roots=roots) as line:
        client, tape = line.client, line.tape
        await trio.sleep(100)
        with trio.fail_after(7.5):
            await client.call_tool("ask")
        await client.call_tool("ask")
    assert seen == {"handler": math.inf, "asked": 103}
    told = [
        m["params"]["_meta"]["trio-mcp/timeoutMs"]
        for m in tape.sent
        if m.get("method") == "tools/call" and "_meta" in m["params"]
    ]
    assert told == [7500]


@carried()
async def test_the_handler_has_exactly_its_callers_deadline(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: in memory there is no latency, so the two deadlines are one."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line:
        await trio.sleep(10)
        with trio.move_on_after(4):
            await call_sleep(line.client)
    assert watcher.contexts["it"].deadline == 14


@carried()
async def test_a_callee_whose_time_is_over_waits_for_the_cancellation_before_it_says_so(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promises 1 and 7: the answer would cross the cancellation; but a caller that sends none is not left waiting."""
    server = Server("late", limits=Limits(goodbye_timeout=2))
    events: list[str] = []

    @server.tool
    async def sleep() -> str:
        try:
            await trio.sleep_forever()
        finally:
            events.append(f"finally at {trio.current_time():g}")

    async with open_line(server, binding, revision) as line:
        with pytest.raises(RequestError) as caught:
            await line.client.call_tool("sleep", meta={"trio-mcp/timeoutMs": 3000})
        assert caught.value.code == -31001
        assert events == ["finally at 3"]
        assert trio.current_time() == 5


# 6. No frame is torn.


@carried()
async def test_no_message_is_torn_when_large_calls_are_cancelled(binding: str, revision: str) -> None:
    """Promise 6: a torn one could not be read, and would swallow the one after it."""
    server: Server[Any] = Server("large")

    @server.tool
    async def echo(text: str) -> str:
        return text

    with trio.fail_after(30):
        async with open_line(server, binding, revision) as line:
            for passes in range(0, 40, 2):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(line.client.call_tool, "echo", {"text": "x" * 300_000})
                    for _ in range(passes):
                        await trio.lowlevel.checkpoint()
                    nursery.cancel_scope.cancel()
            assert (await line.client.call_tool("echo", {"text": "after"})).text == "after"
    assert not [message for message in line.tape.received if "error" in message]
    line.check_endings()


# 8. Nothing is left.


@carried()
async def test_a_cancellation_comes_out_of_several_requests_as_itself(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """However many tasks of ours it has ended: ``except trio.Cancelled`` does not look into groups."""
    out: list[type[BaseException]] = []
    async with open_line(Watcher().server, binding, revision) as line:
        with trio.move_on_after(1):
            try:
                await line.client.request_many(
                    [
                        ("tools/call", {"name": "sleep", "arguments": {"seconds": 100, "name": "slow"}})
                        for _ in range(2)
                    ]
                )
            except BaseException as error:
                out.append(type(error))
                raise
    assert out == [trio.Cancelled]


@carried()
async def test_nothing_is_left_after_the_block(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8: however it is left, no task, no pending id, no session; and what the body raises comes out as itself."""
    for way in ("quietly", "exception", "cancelled", "with calls in flight", "closed twice"):
        await leave(way, binding, revision)


async def leave(way: str, binding: str, revision: str) -> None:
    """Open a client, leave it in a way, and look what is left."""
    watcher = Watcher()
    tasks = trio.lowlevel.current_statistics().tasks_living

    async def body(nursery: trio.Nursery) -> None:
        async with open_line(watcher.server, binding, revision) as line:
            client = line.client
            assert trio.lowlevel.current_statistics().tasks_living > tasks
            if way == "exception":
                raise LookupError("the body's own")
            if way == "cancelled":
                await trio.sleep_forever()
            if way == "with calls in flight":
                for _ in range(3):
                    nursery.start_soon(_expect_closed, lambda: call_sleep(client))
                await trio.testing.wait_all_tasks_blocked()
                assert client.statistics().calls == 3
            if way == "closed twice":
                await client.aclose()
                await client.aclose()
                with pytest.raises(trio.ClosedResourceError):
                    await client.ping()
        assert client.statistics().calls == 0

    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            if way == "exception":
                with pytest.raises(LookupError, match="the body's own"):
                    await body(nursery)
            else:
                await body(nursery)
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks, way


@carried()
async def test_what_the_cleanup_of_a_cancelled_body_raises_is_not_lost(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8: saying goodbye in a scope that is cancelled must not put `Cancelled` in its place."""
    watcher = Watcher()
    with pytest.raises(LookupError, match="the cleanup's own"), trio.CancelScope() as scope:
        async with open_line(watcher.server, binding, revision):
            scope.cancel()
            try:
                await trio.sleep_forever()
            finally:
                raise LookupError("the cleanup's own")


@carried()
async def test_a_group_of_the_bodys_own_nursery_stays_the_bodys(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8: only the group our own nursery makes is taken away."""
    watcher = Watcher()

    async def fail() -> None:
        raise KeyError("inner")

    with pytest.RaisesGroup(KeyError):
        async with open_line(watcher.server, binding, revision), trio.open_nursery() as nursery:
            nursery.start_soon(fail)


# 9. In order.


@carried("reports")
async def test_progress_callbacks_run_one_at_a_time_and_before_the_call_returns(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 9: two calls on one connection, slow callbacks, one after the other for each, nothing missing at the end."""
    watcher = Watcher()
    seen: dict[str, list[float]] = {"a": [], "b": []}

    async def call(client: Client, name: str) -> None:
        running = 0

        async def on_progress(progress: Progress) -> None:
            nonlocal running
            running += 1
            assert running == 1, "two callbacks of one call at once"
            await trio.sleep(0.3)
            seen[name].append(progress.progress)
            running -= 1

        await client.call_tool("count", {"to": 10, "every": 0.1}, on_progress=on_progress)
        assert seen[name] == list(range(1, 11))

    async with open_line(watcher.server, binding, revision) as line, trio.open_nursery() as nursery:
        nursery.start_soon(call, line.client, "a")
        nursery.start_soon(call, line.client, "b")


@carried("reports", "levels")
async def test_notifications_of_each_kind_come_in_wire_order(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 9: progress has the order of its call, and everything else one order together."""
    server = Server("orderly")

    @server.tool
    async def chat(ctx: Context[Any]) -> str:
        for i in range(20):
            await ctx.report_progress(i + 1)
            await ctx.info(i)
        return "done"

    progress: list[float] = []
    others: list[object] = []

    async def on_log(message: trio_mcp.types.LoggingMessageNotificationParams) -> None:
        await trio.sleep(0.01)
        others.append(message.data)

    async with open_line(server, binding, revision, on_log=on_log) as line:
        client = line.client
        await client.set_log_level("info")
        await client.call_tool("chat", on_progress=lambda p: progress.append(p.progress))
        assert progress == list(range(1, 21)), "all progress has come"
        assert others == list(range(len(others)))
        await trio.sleep(1)
    assert others == list(range(20))


@pytest.mark.spec("basic/utilities/progress", "Progress Flow")
@pytest.mark.spec("basic/patterns/progress", "Progress Flow")
@pytest.mark.spec("basic/patterns/progress", "Implementation Notes")
@carried("reports")
async def test_progress_sent_only_ever_grows_and_stops_with_the_answer(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 9, and 2026-07-28, basic/patterns/progress: must increase; must stop after completion."""
    server = Server("erratic")
    kept: list[Context[Any]] = []

    @server.tool
    async def erratic(ctx: Context[Any]) -> str:
        kept.append(ctx)
        for value in (1, 3, 2, 3, 3.5, -1, 10):
            await ctx.report_progress(value)
        return "done"

    async with open_line(server, binding, revision) as line:
        client, tape = line.client, line.tape
        await client.call_tool("erratic", on_progress=lambda _: None)
        await kept[0].report_progress(11)
        await client.ping()
    values = [m["params"]["progress"] for m in tape.received if m.get("method") == "notifications/progress"]
    assert values == [1, 3, 3.5, 10]


# fail_after_silence


@pytest.mark.spec("basic/patterns/cancellation", "Timeouts")
@carried("reports")
async def test_progress_keeps_a_call_alive_and_silence_ends_it(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns/cancellation, "Timeouts": reset by progress, with a maximum all the same."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line:
        client = line.client
        with trio_mcp.fail_after_silence(2, at_most=100):
            await client.call_tool("count", {"to": 20, "every": 1.5})
        assert trio.current_time() == 30

        with (
            pytest.raises(trio.TooSlowError, match="no progress for 2 s"),
            trio_mcp.fail_after_silence(2, at_most=100),
        ):
            await client.call_tool("count", {"to": 5, "every": 2.5})
        assert trio.current_time() == 32

        with (
            pytest.raises(trio.TooSlowError, match="not done after 10 s"),
            trio_mcp.fail_after_silence(2, at_most=10),
        ):
            await client.call_tool("count", {"to": 100, "every": 1})
        assert trio.current_time() == 42


@carried("reports")
async def test_silence_scopes_nest(binding: str, revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """Progress is heard by every scope around the call, and the callee is told the latest end, not the idle time."""
    watcher = Watcher()
    async with open_line(watcher.server, binding, revision) as line:
        client, tape = line.client, line.tape
        with trio_mcp.fail_after_silence(3, at_most=60), trio_mcp.fail_after_silence(2, at_most=40) as inner:
            await client.call_tool("count", {"to": 10, "every": 1.5})
            assert inner.deadline == trio.current_time() + 2
    told = [m["params"]["_meta"]["trio-mcp/timeoutMs"] for m in tape.sent if m.get("method") == "tools/call"]
    assert told == [40_000]
