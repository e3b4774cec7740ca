"""For one call, the caller is cancelled at every step the program takes, and the wire must be right each time.

The caller itself waits at few checkpoints; what makes the difference is how far everybody else has come. So the
n-th round cancels after the n-th step of *any* task, until there is a round in which the call comes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from lines import ALL_LINES, MODERN, open_line

from trio_mcp import Client, Context, Server


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after the n-th step that any task takes."""

    def __init__(self, n: int, scope: trio.CancelScope) -> None:
        self._left = n
        self._scope = scope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel(reason="in the middle of things")


def make_server(running: set[int]) -> Server:
    server = Server("every checkpoint")

    async def tracked(work: Callable[[], Awaitable[object]]) -> str:
        token = id(work)
        running.add(token)
        try:
            await work()
        finally:
            running.remove(token)
        return "done"

    @server.tool
    async def quick() -> str:
        async def work() -> None:
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()

        return await tracked(work)

    @server.tool
    async def steps(ctx: Context[Any]) -> str:
        async def work() -> None:
            async with ctx.progress(total=5) as progress:
                for _ in range(5):
                    await trio.sleep(0.1)
                    await progress.advance()

        return await tracked(work)

    @server.tool
    async def asks(ctx: Context[Any]) -> str:
        async def work() -> None:
            await ctx.request("roots/list")

        return await tracked(work)

    return server


async def quick(client: Client) -> None:
    await client.call_tool("quick")


async def with_progress(client: Client) -> None:
    async def on_progress(_: object) -> None:
        await trio.sleep(0.01)

    await client.call_tool("steps", on_progress=on_progress)


async def with_a_question(client: Client) -> None:
    await client.call_tool("asks")


async def many(client: Client) -> None:
    await client.request_many([("tools/list", None), ("tools/call", {"name": "steps"})])


async def as_a_batch(client: Client) -> None:
    await client.request_many([("tools/list", None), ("tools/call", {"name": "steps"})], batch=True)


@pytest.mark.parametrize(
    ("call", "binding", "revision"),
    [
        *((call, *line) for call in (quick, with_progress) for line in ALL_LINES),
        *((with_a_question, *line) for line in ALL_LINES if line[1] != MODERN),
        (as_a_batch, "memory", "2025-03-26"),
        (as_a_batch, "http", "2025-03-26"),
        (many, "memory", MODERN),
        (many, "http", MODERN),
    ],
)
async def test_cancelled_at_every_checkpoint(
    call: Callable[[Client], Awaitable[None]], binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promises 1 to 5 and 8, each time: one ending per request, nothing running, and the session still works."""
    cancelled = 0
    for n in range(1, 1000):
        running: set[int] = set()
        asked: list[str] = []

        async def roots(_: object) -> dict[str, Any]:
            asked.append("started")  # noqa: B023 - used within its round
            await trio.sleep(1)
            asked.append("answered")  # noqa: B023
            return {"roots": []}

        handlers = {"roots/list": roots}
        async with open_line(make_server(running), binding, revision, request_handlers=handlers) as line:
            client = line.client
            with trio.CancelScope() as scope:
                instrument = CancelAt(n, scope)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await call(client)
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            await trio.testing.wait_all_tasks_blocked(0.001)
            statistics = client.statistics()
            assert (statistics.calls, statistics.outbox_bytes) == (0, 0)
            assert statistics.exchanges == 0
            assert not running
            line.check_endings()
            answers, goodbyes = line.answers(), line.goodbyes()
            for id in line.requests():
                endings = answers[id] + goodbyes[id]
                assert endings == 1 or (endings == 2 and goodbyes[id] == 1), f"{endings} endings of {id}"
            assert asked != ["started"] or scope.cancelled_caught
            await client.call_tool("quick")
        if not scope.cancelled_caught:
            break
        cancelled += 1
    else:
        raise AssertionError("the call never came through")
    assert cancelled >= 5, "there were steps to be cancelled at"
