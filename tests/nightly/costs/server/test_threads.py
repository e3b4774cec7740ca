"""Plain functions, which run in threads: what becomes of them when their call is given up. Threads: real time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from inside_base import SERVER_BUSY

from trio_mcp import Context, Limits, RequestError, Server, open_client
from trio_mcp.types import ElicitResult

ONE_THREAD = Limits(max_threads=1, thread_timeout=1000)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.005)


@pytest.fixture
def stuck() -> Any:
    """Lets threads go that are stuck."""
    event = threading.Event()
    yield event
    event.set()


async def test_calls_are_refused_when_all_threads_are_stuck_with_calls_given_up(stuck: threading.Event) -> None:
    """thread_timeout: nobody knows whether they will ever end. What needs no thread is served as ever."""
    limits = Limits(max_threads=2, thread_timeout=0.1)
    server = Server("stuck", limits=limits)
    running = 0

    @server.tool
    def block() -> str:
        trio.from_thread.run_sync(count)
        stuck.wait()
        return "done"

    def count() -> None:
        nonlocal running
        running += 1

    @server.tool
    def plain() -> str:
        return "served"

    @server.tool
    async def nimble() -> str:
        return "served"

    with trio.fail_after(20):
        async with open_client(server) as client:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(client.call_tool, "block")
                await until(lambda: running == 2)
                # While their callers wait, so do later callers: a thread may be free at any time.
                with trio.move_on_after(0.3) as waiting:
                    await client.call_tool("plain")
                assert waiting.cancelled_caught
                nursery.cancel_scope.cancel()
            with pytest.raises(RequestError, match=r"all 2 threads .* given up") as caught:
                await client.call_tool("plain")
            assert caught.value.code == SERVER_BUSY
            assert (await client.call_tool("nimble")).text == "served"
            stuck.set()
            served = False
            while not served:  # their threads take a moment to end
                with suppress(RequestError):
                    served = (await client.call_tool("plain")).text == "served"


async def test_who_waits_for_a_thread_is_refused_when_the_others_are_given_up(stuck: threading.Event) -> None:
    """thread_timeout: it runs from then on. Those who wait can be given up themselves, too."""
    server = Server("waiting", limits=Limits(max_threads=1, thread_timeout=0.1))
    running = trio.Event()

    @server.tool
    def block() -> str:
        trio.from_thread.run_sync(running.set)
        stuck.wait()
        return "done"

    @server.tool
    def plain() -> str:
        return "served"

    async def refused() -> None:
        with pytest.raises(RequestError) as caught:
            await client.call_tool("plain")
        assert caught.value.code == SERVER_BUSY

    with trio.fail_after(20):
        async with (
            open_client(server) as client,
            trio.open_nursery() as waiting,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(client.call_tool, "block")
            await running.wait()
            waiting.start_soon(refused)
            nursery.start_soon(client.call_tool, "plain")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()


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


async def test_a_call_given_up_while_its_thread_waits_to_go_on_gives_everything_back() -> None:
    """Its thread is told, and takes no place any more; nor one of those who ask, once it has ended."""
    busy = Busy(Limits(max_threads=1, max_asking_threads=1, thread_timeout=1000))
    with trio.fail_after(20):
        async with open_client(busy.server, era="legacy", on_elicit=busy.user.on_elicit) as client:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as asking:
                    asking.start_soon(client.call_tool, "ask")
                    await busy.user.asked.wait()
                    nursery.start_soon(client.call_tool, "hold")
                    await busy.began.wait()
                    busy.user.may_answer.set()
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    asking.cancel_scope.cancel()
                await trio.testing.wait_all_tasks_blocked(0.05)
                busy.free()
            assert busy.lines == ["freed"]
            assert (await client.call_tool("hold")).text == "held"
            assert (await client.call_tool("ask")).text == "answered"


def test_threads_that_outlive_their_run_take_no_places_of_the_next(stuck: threading.Event) -> None:
    """A server may be served again after `trio.run` has ended, and nobody could give back what those had."""
    server = Server("again", limits=Limits(max_threads=1, thread_timeout=0.1))

    @server.tool
    def block() -> str:
        trio.from_thread.run_sync(running.set)
        stuck.wait()
        return "done"

    @server.tool
    def plain() -> str:
        return "served"

    async def first() -> None:
        with trio.fail_after(20):
            async with open_client(server) as client, trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "block")
                await running.wait()
                nursery.cancel_scope.cancel()

    async def second() -> None:
        with trio.fail_after(20):
            async with open_client(server) as client:
                assert (await client.call_tool("plain")).text == "served"

    running = trio.Event()
    trio.run(first)
    trio.run(second)
