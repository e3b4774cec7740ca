"""The cancellation contract with a real server process and the real clock: what only a process can show.

Every sentence of it, over every transport, is in `tests/memory/matrix/test_cancellation_contract.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from children import children
from descriptors import open_files
from lines import LEGACY, MODERN
from wires import wait_lost
from witness_lines import ENOUGH, HTTP_LINES, SOCKET_LINES, WEBSOCKET_LINES, Diary, Witness

import trio_mcp
from trio_mcp import ConnectionLost, Limits, StdioServerParameters, open_client

PROCESS_LINES = [
    *(("stdio", revision) for revision in (LEGACY, MODERN)),
    *HTTP_LINES,
    *SOCKET_LINES,
    *WEBSOCKET_LINES,
]
PROCESSES = pytest.mark.parametrize(("binding", "revision"), PROCESS_LINES)
SEVERAL = pytest.mark.parametrize(
    ("binding", "revision"), [("stdio", LEGACY), ("stdio", MODERN), ("http", LEGACY), ("http", MODERN)]
)
PIPES = pytest.mark.parametrize(("binding", "revision"), [("stdio", MODERN)])


@SEVERAL
@pytest.mark.parametrize("way", ["deadline", "leaving"])
async def test_a_call_given_up_says_goodbye_exactly_once(way: str, witness: Witness) -> None:
    """Promises 1 and 4: one goodbye, after the request, and the handler's cleanup runs in the other process."""
    diary = witness.diary
    async with trio.open_nursery() as nursery, witness.open() as client:

        async def call() -> None:
            await client.call_tool("sleep", {"seconds": 60, "name": "it"})

        if way == "deadline":
            with trio.CancelScope() as scope:
                nursery.start_soon(_when, diary, "started it", partial(_end_now, scope))
                await call()
            assert scope.cancelled_caught
            await diary.wait_for("cancelled it")
        else:
            nursery.start_soon(_expect_closed, call)
            await diary.wait_for("started it")
    (id,) = witness.tape.requests("tools/call")
    assert witness.goodbyes() == {id: 1}
    witness.tape.check_endings()
    await diary.wait_for("cancelled it")
    assert diary.lines.count("cancelled it") == 1
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
@pytest.mark.parametrize("way", ["quietly", "with calls in flight"])
async def test_nothing_is_left_after_the_block(way: str, witness: Witness) -> None:
    """Promise 8: no task, no child process, no open descriptor, at neither end."""
    diary = witness.diary
    tasks = trio.lowlevel.current_statistics().tasks_living
    files = open_files()
    before = children()

    async def body(nursery: trio.Nursery) -> None:
        async with witness.open() as client:
            assert witness.binding != "stdio" or children() > before
            if way == "with calls in flight":
                for _ in range(3):
                    nursery.start_soon(
                        _expect_closed, lambda: client.call_tool("sleep", {"seconds": 60, "name": "x"})
                    )
                await diary.wait_for("started x")

    async with trio.open_nursery() as nursery:
        await body(nursery)
    assert children() == before
    await witness.wait_alone()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert not open_files() - files


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
