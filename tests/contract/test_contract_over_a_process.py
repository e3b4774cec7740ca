"""The cancellation contract over stdio, with a real server process and the real clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from children import children
from descriptors import open_files
from lines import LEGACY, MODERN
from wires import wait_lost
from witness_lines import DUPLEX, ENOUGH, HTTP_LINES, SOCKET_LINES, WEBSOCKET_LINES, Diary, Witness

import trio_mcp
from trio_mcp import ConnectionLost, Limits, Progress, StdioServerParameters, open_client

PROCESS_LINES = [
    *(("stdio", revision) for revision in (LEGACY, MODERN)),
    *HTTP_LINES,
    *SOCKET_LINES,
    *WEBSOCKET_LINES,
]
PROCESSES = pytest.mark.parametrize(("binding", "revision"), PROCESS_LINES)
PIPES = pytest.mark.parametrize(("binding", "revision"), [("stdio", MODERN)])


@PROCESSES
@pytest.mark.parametrize("way", ["deadline", "cancel", "exception", "leaving"])
async def test_a_call_given_up_says_goodbye_exactly_once(way: str, witness: Witness) -> None:
    """Promises 1 and 4: one goodbye, after the request, and the handler's cleanup runs in the other process."""
    diary = witness.diary

    async def fail(_: Progress) -> None:
        raise ArithmeticError

    async with trio.open_nursery() as nursery, witness.open() as client:

        async def call() -> None:
            await client.call_tool("sleep", {"seconds": 60, "name": "it"})

        if way == "deadline":
            with trio.CancelScope() as scope:
                nursery.start_soon(_when, diary, "started it", partial(_end_now, scope))
                await call()
            assert scope.cancelled_caught
        elif way == "cancel":
            with trio.CancelScope() as scope:
                nursery.start_soon(_when, diary, "started it", scope.cancel)
                await call()
        elif way == "exception":
            with pytest.raises(ArithmeticError):
                await client.call_tool("count", {"to": 50, "every": 0.1}, on_progress=fail)
        else:
            nursery.start_soon(_expect_closed, call)
            await diary.wait_for("started it")
        if way in {"deadline", "cancel"}:
            await diary.wait_for("cancelled it")
    (id,) = witness.tape.requests("tools/call")
    assert witness.goodbyes() == {id: 1}
    witness.tape.check_endings()
    if way == "leaving":
        await diary.wait_for("cancelled it")
    assert diary.lines.count("cancelled it") == (way != "exception")
    if witness.binding == "stdio":
        assert diary.lines[-1] == "lifespan ends"


async def _when(diary: Diary, line: str, act: Callable[[], object]) -> None:
    await diary.wait_for(line)
    act()


def _end_now(scope: trio.CancelScope) -> None:
    scope.deadline = trio.current_time()


async def _expect_closed(call: Callable[[], Any]) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await call()


@PROCESSES
async def test_an_answered_call_leaves_no_goodbye(witness: Witness) -> None:
    """Promise 2."""
    async with witness.open() as client:
        with trio.move_on_after(20) as scope:
            await client.call_tool("echo", {"text": "x"})
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert not witness.goodbyes()


async def test_a_process_that_does_not_read_holds_nobody(tmp_path: Path) -> None:
    """Promise 3: a 0.5 s deadline is over within 1.5 s, twice in a row, and so is a cancellation; and so is leaving."""
    deaf = tmp_path / "deaf.py"
    deaf.write_text(
        "import json, sys, time\n"
        "m = json.loads(sys.stdin.readline())\n"
        'r = {"supportedVersions": ["2026-07-28"], "capabilities": {}}\n'
        'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)\n'
        "time.sleep(600)\n"
    )
    limits = Limits(goodbye_timeout=0.3, terminate_timeout=0.3)
    parameters = StdioServerParameters(sys.executable, [str(deaf)])
    with trio.fail_after(ENOUGH):
        async with open_client(parameters, limits=limits) as client:

            async def stuck() -> None:
                await client.request("x/y", {"text": "x" * 300_000})

            for _ in range(2):
                begin = trio.current_time()
                with trio.move_on_after(0.5) as scope:
                    await stuck()
                assert scope.cancelled_caught
                assert trio.current_time() - begin < 1.5
            begin = trio.current_time()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(stuck)
                    await trio.sleep(0.5)
                    scope.cancel()
            assert trio.current_time() - begin < 1.5
            begin = trio.current_time()
        assert trio.current_time() - begin < 3


@PROCESSES
async def test_a_cancelled_handler_says_nothing_more(witness: Witness) -> None:
    """Promise 4."""
    tape = witness.tape
    async with witness.open() as client:
        await client.set_log_level("debug")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(client.call_tool, "tidy", on_progress=print))
            await witness.diary.wait_for("started tidy")
            nursery.cancel_scope.cancel()
        await witness.diary.wait_for("tidied")
        await client.ping()
    (id,) = tape.requests("tools/call")
    assert tape.answers()[id] == 0
    assert not [m for m in tape.received if "method" in m]


@pytest.mark.parametrize(("binding", "revision"), [line for line in PROCESS_LINES if line[1] != MODERN])
async def test_cancelling_a_call_cancels_the_question_its_handler_asked(witness: Witness) -> None:
    """Promise 5."""
    events: list[str] = []
    asked = trio.Event()

    async def roots(_: object) -> dict[str, Any]:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            events.append("the client's handler was cancelled")

    tape = witness.tape
    async with witness.open(request_handlers={"roots/list": roots}) as client:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "ask")
                await asked.wait()
                scope.cancel()
        await witness.diary.wait_for("asked")
        while not events:
            await trio.sleep(0.01)
    (question,) = [m["id"] for m in tape.received if m.get("method") == "roots/list"]
    goodbyes = [m["params"]["requestId"] for m in tape.received if m.get("method") == "notifications/cancelled"]
    assert goodbyes == [question]


@PROCESSES
async def test_the_callee_learns_how_much_time_is_left(witness: Witness) -> None:
    """Promise 5."""
    async with witness.open() as client:
        with trio.fail_after(9):
            result = await client.call_tool("deadline")
        assert 4 < float(result.text) <= 9.001
        result = await client.call_tool("deadline")
        assert float(result.text) > ENOUGH - 20


@PROCESSES
async def test_no_frame_is_torn_when_large_calls_are_cancelled(witness: Witness) -> None:
    """Promise 6: a torn frame would be a line the server cannot read, and would swallow the one after it."""
    tape = witness.tape
    async with witness.open() as client:
        for delay in range(20):
            with trio.move_on_after(delay / 1000):
                await client.call_tool("echo", {"text": "x" * 500_000})
        result = await client.call_tool("echo", {"text": "after all that"})
    assert result.content[0] == trio_mcp.types.TextContent(text="after all that")
    assert not [m for m in tape.received if "error" in m]
    tape.check_endings()


@PIPES
async def test_the_death_of_the_process_fails_every_call_with_the_reason(witness: Witness) -> None:
    """Promise 7: exit status and last words, for those who wait and for those who come later."""
    async with witness.open() as client:
        losses: list[ConnectionLost] = []

        async def lose() -> None:
            losses.append(await wait_lost(lambda: client.call_tool("sleep", {"seconds": 60, "name": "x"})))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(lose)
            await witness.diary.wait_for("started x")
            losses.append(await wait_lost(lambda: client.call_tool("die", {"status": 3})))
        losses.append(await wait_lost(client.ping))
    for lost in losses:
        assert lost.exit_status == 3
        assert lost.stderr[-1] == "these are my last words"
        assert "exited with status 3" in lost.reason
    assert len(losses) == 5


@PROCESSES
@pytest.mark.parametrize("way", ["quietly", "exception", "cancelled", "with calls in flight"])
async def test_nothing_is_left_after_the_block(way: str, witness: Witness) -> None:
    """Promise 8: no task, no child process, no open descriptor, at neither end; what the body raises comes out as itself."""
    diary = witness.diary
    tasks = trio.lowlevel.current_statistics().tasks_living
    files = open_files()
    before = children()

    async def body(nursery: trio.Nursery) -> None:
        async with witness.open() as client:
            assert witness.binding != "stdio" or children() > before
            if way == "exception":
                raise LookupError("the body's own")
            if way == "cancelled":
                nursery.cancel_scope.cancel()
                await trio.sleep_forever()
            if way == "with calls in flight":
                for _ in range(3):
                    nursery.start_soon(
                        _expect_closed, lambda: client.call_tool("sleep", {"seconds": 60, "name": "x"})
                    )
                await diary.wait_for("started x")

    async with trio.open_nursery() as nursery:
        if way == "exception":
            with pytest.raises(LookupError, match="the body's own"):
                await body(nursery)
        else:
            await body(nursery)
    assert children() == before
    await witness.wait_alone()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not open_files() - files


@PROCESSES
async def test_progress_comes_in_order_and_before_the_call_returns(witness: Witness) -> None:
    """Promise 9."""
    seen: list[float] = []
    async with witness.open() as client:
        await client.call_tool("count", {"to": 500}, on_progress=lambda p: seen.append(p.progress))
        assert seen == list(range(1, 501))


@PROCESSES
async def test_three_hundred_calls_each_cancelled_at_its_own_moment(witness: Witness) -> None:
    """Promises 1 and 10: 300 requests, of which 100 run at once; one ending each; the session still works."""
    tape, diary = witness.tape, witness.diary
    scopes = [trio.CancelScope() for _ in range(300)]

    def count(what: str) -> int:
        return sum(line.startswith(what) for line in diary.lines)

    async with witness.open(limits=Limits(goodbye_timeout=ENOUGH)) as client:  # all of it is to get through

        async def call(number: int) -> None:
            with scopes[number]:
                await client.call_tool("sleep", {"seconds": 60, "name": str(number)})

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(call, number)
            while count("started") < 100:
                await trio.sleep(0.01)
            for number, scope in enumerate(scopes):
                scope.deadline = trio.current_time() + number % 17 / 20
        result = await client.call_tool("echo", {"text": "still here"})
        assert not result.is_error
        while count("cancelled") < count("started"):
            await trio.sleep(0.01)
    calls = tape.requests("tools/call")[:-1]
    # Over HTTP it depends on the machine how many more got as far as the wire before their time was over.
    asked = set(calls) & witness.requests()
    assert len(asked) == 300 or (witness.binding not in DUPLEX and len(asked) >= 100)
    assert witness.goodbyes() == dict.fromkeys(asked, 1)
    tape.check_endings()
    assert 100 <= count("started") <= 300


async def test_a_silent_process_is_given_up_after_the_connect_timeout() -> None:
    """Promise 7: connecting to a silent peer fails by itself, and leaves no process behind."""
    parameters = StdioServerParameters(sys.executable, ["-c", "import time; time.sleep(600)"])
    limits = Limits(connect_timeout=0.5, discover_timeout=0.2, terminate_timeout=0.2)
    before = children()
    with trio.fail_after(ENOUGH):
        with pytest.raises(ConnectionLost, match="connect_timeout"):
            async with open_client(parameters, limits=limits):
                pass
    assert children() == before


@pytest.mark.spec("basic/transports/stdio", "Unexpected Termination", revisions="2026-07-28")
@PIPES
async def test_a_dead_server_is_started_again(witness: Witness) -> None:
    """2026-07-28, basic/transports/stdio, "Unexpected Termination": what was in flight is lost, what comes waits."""
    before = children()
    parameters = attrs.evolve(witness.parameters(), restart=trio_mcp.RestartPolicy(first_delay=0.05))
    with trio.fail_after(ENOUGH):
        async with open_client(parameters) as client:
            for status in (1, 2, 3):
                lost = await wait_lost(lambda: client.call_tool("die", {"status": status}))  # noqa: B023
                assert lost.exit_status == status
                result = await client.call_tool("echo", {"text": "again"})
                assert not result.is_error
    assert witness.diary.lines.count("lifespan begins") == 4
    assert children() == before


async def test_a_server_that_dies_at_every_start_is_given_up() -> None:
    """RestartPolicy.max_restarts: bounded, and then every call says why."""
    script = (
        "import json, sys\n"
        "m = json.loads(sys.stdin.readline())\n"
        'r = {"supportedVersions": ["2026-07-28"], "capabilities": {}}\n'
        'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)\n'
        "sys.exit(7)\n"
    )
    restart = trio_mcp.RestartPolicy(max_restarts=2, first_delay=0.01)
    parameters = StdioServerParameters(sys.executable, ["-c", script], restart=restart)
    with trio.fail_after(ENOUGH):
        async with open_client(parameters) as client:
            while True:
                lost = await wait_lost(lambda: client.request("x/y"))
                if client._reconnecting._failure is not None:
                    break
            assert lost.exit_status == 7
            again = await wait_lost(lambda: client.request("x/y"))
            assert again.exit_status == 7
