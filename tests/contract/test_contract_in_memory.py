"""The cancellation contract, sentence by sentence, in memory and over HTTP without sockets, on a mock clock.

Both ends are ours; what is checked is the wire between them, and what runs at either end. The same sentences over
real processes and sockets are in `test_contract_over_a_process.py`, and those about a server that misbehaves over
HTTP in `test_contract_over_http_client.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from lines import LEGACY, LEGACY_LINES, LINES, TELLING_LINES, open_line
from tape import Tape
from wires import ScriptedChannel, answer, modern_server, wait_lost

import trio_mcp
from trio_mcp import Client, ConnectionLost, Context, Limits, Progress, RequestError, Server, open_client


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
@LINES
@pytest.mark.parametrize("way", ["deadline", "cancel", "exception", "leaving"])
async def test_a_call_given_up_says_goodbye_exactly_once(
    way: str, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1: by deadline, cancel(), an exception in the caller or leaving, it is cancelled once, and after."""
    watcher = Watcher()

    async def fail(_: Progress) -> None:
        raise ArithmeticError("the caller's own")

    async with trio.open_nursery() as nursery, open_line(watcher.server, binding, revision) as line:
        c = line.client
        if way == "deadline":
            with trio.move_on_after(5) as scope:
                await call_sleep(c)
            assert scope.cancelled_caught
            assert trio.current_time() == 5
        elif way == "cancel":
            with trio.CancelScope() as scope:
                nursery.start_soon(_later, 3, scope.cancel)
                await call_sleep(c)
            assert trio.current_time() == 3
        elif way == "exception":
            with pytest.raises(ArithmeticError, match="the caller's own"):
                await c.call_tool("count", {"to": 5, "every": 1}, on_progress=fail)
        else:
            nursery.start_soon(_expect_closed, lambda: call_sleep(c))
            await trio.testing.wait_all_tasks_blocked()
    (id,) = line.tape.requests("tools/call")
    assert line.goodbyes() == {id: 1}
    line.check_endings()
    assert way == "exception" or watcher.cancelled == ["it"]


async def _later(seconds: float, act: Callable[[], object]) -> None:
    await trio.sleep(seconds)
    act()


async def _expect_closed(call: Callable[[], Any]) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await call()


@pytest.mark.spec("basic/utilities/cancellation", "Cancellation Flow")
@pytest.mark.spec("basic/patterns/cancellation", "Cancellation Flow")
@TELLING_LINES
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


@TELLING_LINES
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


@LINES
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


# 4. The handler dies.


@pytest.mark.spec("basic/utilities/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/patterns/cancellation", "Behavior Requirements")
@pytest.mark.spec("basic/utilities/progress", "Implementation Notes")
@pytest.mark.spec("basic/patterns/progress", "Implementation Notes")
@LINES
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


@LINES
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


@LINES
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


@LEGACY_LINES
async def test_cancelling_a_call_cancels_the_question_its_handler_asked(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 5: the client gives up a call, the server gives up its question, the client's handler dies."""
    server = Server("asks back")
    client_handler: list[str] = []

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        await ctx.request("roots/list")
        return "never"

    async def roots(_: object) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            client_handler.append("cancelled")

    async with open_line(server, binding, revision, request_handlers={"roots/list": roots}) as line:
        tape = line.tape
        with trio.move_on_after(2):
            await line.client.call_tool("ask")
        await trio.testing.wait_all_tasks_blocked()
    assert client_handler == ["cancelled"]
    (question,) = [m["id"] for m in tape.received if m.get("method") == "roots/list"]
    (goodbye,) = [m for m in tape.received if m.get("method") == "notifications/cancelled"]
    assert goodbye["params"]["requestId"] == question
    assert not [m for m in tape.sent if "method" not in m and m["id"] == question], "nothing for a dead question"


@LINES
@pytest.mark.parametrize("way", ["given up", "deadline"])
async def test_a_cancelled_handler_that_asks_in_that_moment_is_cancelled(
    way: str,
    binding: str,
    revision: str,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
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
        with trio.CancelScope() as scope:
            if way == "deadline":
                scope.deadline = trio.current_time() + 1
            async with trio.open_nursery() as nursery:
                nursery.start_soon(line.client.call_tool, "ask")
                if way == "given up":
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
        await trio.sleep(3)
    assert [type(error) for error in outcome] == [trio.Cancelled]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@LEGACY_LINES
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
            await ctx.request("roots/list")
        return "asked"

    async def roots(_: object) -> dict[str, Any]:
        seen["asked"] = trio.current_effective_deadline()
        return {"roots": []}

    async with open_line(server, binding, revision, request_handlers={"roots/list": roots}) as line:
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


@LINES
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


@LINES
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
    with pytest.raises(ConnectionLost, match=r"no agreement within 30 s \(connect_timeout\)"):
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
    with pytest.raises(ConnectionLost, match=r"no agreement within 30 s \(connect_timeout\)"):
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


@LINES
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


@LINES
@pytest.mark.parametrize("way", ["quietly", "exception", "cancelled", "with calls in flight", "closed twice"])
async def test_nothing_is_left_after_the_block(
    way: str, binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 8: no task, no pending id, no session; and what the body raises comes out as itself."""
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
    assert trio.lowlevel.current_statistics().tasks_living == tasks


@LINES
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


@LINES
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


@LINES
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


@LINES
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
@LINES
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
@LINES
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


@LINES
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
