"""`fail_after_silence` and tasks that outlive it."""

from __future__ import annotations

import math
from typing import Any

import trio
import trio.testing
from inside_peer import current_clock, granted_deadline
from tape import Tape

from trio_mcp import Server, fail_after_silence, open_client, run_client


def make_server() -> Server[None]:
    server: Server[None] = Server("quick")

    @server.tool
    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    return server


def timeouts(tape: Tape) -> list[Any]:
    return [
        message["params"]["_meta"].get("trio-mcp/timeoutMs")
        for message in tape.sent
        if message.get("method") == "tools/call"
    ]


async def test_a_task_started_inside_grants_its_callees_its_own_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A task inherits context variables from where it is started, and cancel scopes from its nursery."""
    tape = Tape()

    async def work() -> None:
        await client.call_tool("quick")
        await trio.sleep(100)
        await client.call_tool("quick")

    async with open_client(make_server(), on_frame=tape) as client, trio.open_nursery() as nursery:
        with fail_after_silence(1, at_most=5):
            nursery.start_soon(work)
            await trio.testing.wait_all_tasks_blocked()
            await client.call_tool("quick")
    assert timeouts(tape) == [None, 5000, None]


async def test_a_client_opened_inside_is_of_use_afterwards(autojump_clock: trio.testing.MockClock) -> None:
    """And so is everything that runs for it."""
    async with trio.open_nursery() as nursery:
        with fail_after_silence(1, at_most=5):
            client = await nursery.start(run_client, make_server())
        await trio.sleep(100)
        assert not (await client.call_tool("quick")).is_error
        await client.aclose()


async def test_only_what_surrounds_a_task_bounds_it(autojump_clock: trio.testing.MockClock) -> None:
    """A shield keeps a deadline out, and what is over is over."""
    with fail_after_silence(3, at_most=50) as outer, fail_after_silence(2, at_most=20) as inner:
        assert current_clock() is inner
        assert granted_deadline() == 20
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
            assert granted_deadline() == math.inf
        assert (outer.deadline, inner.deadline) == (3, 2), "they are as they were"
        seen: list[object] = []

        async def look() -> None:
            await trio.sleep(1)
            seen.extend((current_clock(), granted_deadline()))

        async with trio.open_nursery() as nursery:
            with fail_after_silence(0.5, at_most=0.5):
                nursery.start_soon(look)
        assert seen == [inner, 20]
