"""What the tests of threads share in several layers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import trio

from trio_mcp import Context, Limits, Server
from trio_mcp.types import ElicitResult

ONE_THREAD = Limits(max_threads=1, thread_timeout=1000)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.005)


class Question:
    """A user who answers when told to."""

    def __init__(self) -> None:
        self.asked, self.may_answer = trio.Event(), trio.Event()

    async def on_elicit(self, _: Any) -> ElicitResult:
        self.asked.set()
        await self.may_answer.wait()
        return ElicitResult(action="accept", content={"value": True})


class Busy:
    """A server with one place for threads: one function asks, the other holds the place for as long as it is told to."""

    def __init__(self, limits: Limits = ONE_THREAD) -> None:
        self.server = Server("busy", limits=limits)
        self.user = Question()
        self.began = trio.Event()
        self.lines: list[str] = []
        self._go_on = threading.Event()
        self.server.tool(self.ask)
        self.server.tool(self.hold)
        self.server.tool(self.ask_briefly)
        self.server.tool(self.ask_twice)

    def free(self) -> None:
        self.lines.append("freed")
        self._go_on.set()

    def hold(self) -> str:
        trio.from_thread.run_sync(self.began.set)
        assert self._go_on.wait(20)
        return "held"

    def ask(self, ctx: Context) -> str:
        trio.from_thread.run(ctx.elicit, "Well?", bool)
        self.lines.append("went on")
        return "answered"

    def ask_briefly(self, ctx: Context) -> str:
        async def within(scope: trio.CancelScope) -> None:
            with scope:
                await ctx.elicit("Well?", bool)

        scope = trio.CancelScope()
        self.scope = scope
        trio.from_thread.run(within, scope)
        self.lines.append("went on")
        return "not answered"

    def ask_twice(self, ctx: Context) -> str:
        async def both() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ctx.elicit, "Well?", bool)
                nursery.start_soon(ctx.elicit, "And?", bool)

        trio.from_thread.run(both)
        self.lines.append("went on")
        return "answered"
