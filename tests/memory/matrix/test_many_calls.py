"""Many calls at once, in every cell of the matrix: each has its own answer, or its own end.

How many: as `many` says. What keeps them apart is the same in all revisions of an era.
"""

from __future__ import annotations

import random
from typing import Any

import trio
import trio.testing
from lines import LEGACY, MODERN, open_line
from transports import carried

from trio_mcp import Context, HttpServerSettings, Limits, Server

MANY = HttpServerSettings(max_requests_per_principal=2_000, max_requests=2_000, max_connections=4_000)


def many(most: int, revision: str) -> int:
    """Return how many calls are made at once: in the latest revision of each era as many as that, else a fifth."""
    return most if revision in {LEGACY, MODERN} else most // 5


@carried()
async def test_many_calls_at_once_have_their_own_answers(binding: str, revision: str) -> None:
    """However they are put off and mixed on the way; afterwards nothing is left of them."""
    server: Server[Any] = Server("crowd")

    @server.tool
    async def echo(number: int) -> str:
        if number % 3 == 0:
            await trio.lowlevel.checkpoint()
        return str(number)

    calls = many(1_000, revision)
    answers: dict[int, str] = {}
    with trio.fail_after(60):
        async with open_line(server, binding, revision, MANY) as line:

            async def call(number: int) -> None:
                answers[number] = (await line.client.call_tool("echo", {"number": number})).text

            async with trio.open_nursery() as nursery:
                for number in range(calls):
                    nursery.start_soon(call, number)
            assert line.client.statistics().calls == 0
    assert answers == {number: str(number) for number in range(calls)}
    line.check_endings()


@carried("reports")
async def test_many_calls_each_cancelled_at_its_own_moment(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1: exactly one ending for each request on the wire; nothing runs; the session still works."""
    number_of_calls = many(200, revision)
    server: Server[Any] = Server("crowd", limits=Limits(max_inbound_requests=number_of_calls))
    running: set[int] = set()

    @server.tool
    async def sleep(number: int, ctx: Context[Any]) -> str:
        running.add(number)
        try:
            async with ctx.progress() as progress:
                while True:
                    await trio.sleep(1)
                    await progress.advance()
        finally:
            running.remove(number)

    rng = random.Random(200)
    async with open_line(server, binding, revision, MANY) as line:
        client, tape = line.client, line.tape

        async def call(number: int, seconds: float) -> None:
            with trio.move_on_after(seconds) as scope:
                await client.call_tool("sleep", {"number": number}, on_progress=lambda _: None)
            assert scope.cancelled_caught

        async with trio.open_nursery() as nursery:
            for number in range(number_of_calls):
                nursery.start_soon(call, number, rng.uniform(0.1, 5))
            await trio.sleep(0.05)
            assert len(running) == number_of_calls
        await trio.testing.wait_all_tasks_blocked()
        assert not running
        calls = tape.requests("tools/call")
        assert len(calls) == number_of_calls
        assert line.goodbyes() == dict.fromkeys(calls, 1)
        assert not any(tape.answers()[id] for id in calls)
        line.check_endings()
        await client.ping()
