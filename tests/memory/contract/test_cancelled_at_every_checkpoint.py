"""For one call, the caller is cancelled at every step the program takes, and the wire must be right each time.

The caller itself waits at few checkpoints; what makes the difference is how far everybody else has come. So the
n-th round cancels after the n-th step of *any* task, until there is a round in which the call comes through. All rounds
are on one connection, which must be as good as new after each; in memory each also has a connection of its own, and
cancels the first call of that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from lines import ALL_LINES, MODERN, Line, open_line
from steps import cancelled_after_steps

from trio_mcp import Client, Context, Server


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


@attrs.define
class Rounds:
    """What the handlers of both sides have done, and the rounds that are played with them.

    Attributes:
        running: The requests that the server is serving.
        asked: What the client's handler of questions has done in this round.
    """

    running: set[int] = attrs.field(factory=set[int])
    asked: list[str] = attrs.field(factory=list[str])

    def open(self, binding: str, revision: str) -> AbstractAsyncContextManager[Line]:
        """Open a connection on which rounds can be played."""
        return open_line(
            make_server(self.running), binding, revision, request_handlers={"roots/list": self._roots}
        )

    async def _roots(self, _: object) -> dict[str, Any]:
        self.asked.append("started")
        await trio.sleep(1)
        self.asked.append("answered")
        return {"roots": []}

    async def play(self, line: Line, call: Callable[[Client], Awaitable[None]], n: int) -> bool:
        """Cancel a call after the n-th step, and check what came of it. Returns whether it was cancelled."""
        client = line.client
        self.asked.clear()
        before = line.requests()
        with cancelled_after_steps(n) as scope:
            await call(client)
        await trio.testing.wait_all_tasks_blocked(0.001)
        statistics = client.statistics()
        assert (statistics.calls, statistics.outbox_bytes) == (0, 0)
        assert statistics.exchanges == 0
        assert not self.running
        line.check_endings()
        answers, goodbyes = line.answers(), line.goodbyes()
        for id in line.requests() - before:
            endings = answers[id] + goodbyes[id]
            assert endings == 1 or (endings == 2 and goodbyes[id] == 1), f"{endings} endings of {id}"
        assert self.asked != ["started"] or scope.cancelled_caught
        await client.call_tool("quick")
        return scope.cancelled_caught


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
    rounds = Rounds()
    async with rounds.open(binding, revision) as line:
        await line.client.call_tool("quick")
        for n in range(1, 1000):
            if not await rounds.play(line, call, n):
                break
        else:
            raise AssertionError("the call never came through")
    assert n > 5, "there were steps to be cancelled at"


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("call", [quick, with_progress])
async def test_the_first_call_cancelled_at_every_checkpoint(
    call: Callable[[Client], Awaitable[None]], revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The same for the first call of a connection."""
    for n in range(1, 1000):
        rounds = Rounds()
        async with rounds.open("memory", revision) as line:
            if not await rounds.play(line, call, n):
                break
    else:
        raise AssertionError("the call never came through")
    assert n > 5, "there were steps to be cancelled at"
