"""Plain functions, which run in threads: what becomes of them when their call is given up. Threads: real time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from inside_base import SERVER_BUSY
from shared.server_threads import Busy, until

from trio_mcp import Limits, RequestError, Server, open_client


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
