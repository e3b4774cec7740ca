"""Blocks that code which is not ours runs in: `trio_mcp._trio`."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from inside_base import Contained, propagating
from inside_base import contained_module as _contained

from trio_mcp import Context, NotificationContext, Revision, Server, open_client
from trio_mcp.testing import open_client as open_testing_client


def unexpected(error: BaseException) -> None:
    raise AssertionError from error


async def test_a_block_is_clean_until_something_is_left_open_in_it() -> None:
    """That is asked after every request; nothing need be left for it."""
    seen: list[bool] = []
    with Contained(unexpected) as block:
        seen.append(block.is_clean)
        with trio.CancelScope():
            await trio.lowlevel.checkpoint()
            seen.append(block.is_clean)
        async with trio.open_nursery():
            seen.append(block.is_clean)
        seen.append(block.is_clean)
    assert seen == [True, False, False, True]


@pytest.mark.parametrize("shield", [False, True])
async def test_a_scope_that_is_left_open_does_not_outlive_the_block(*, shield: bool) -> None:
    """Cancelled or closed later, it reaches nobody."""
    failures: list[BaseException] = []
    with trio.CancelScope() as outer:
        left = trio.CancelScope(shield=shield, deadline=trio.current_time() + 5)
        with Contained(failures.append):
            left.__enter__()
        assert trio.current_effective_deadline() == math.inf
        left.cancel()
        await trio.lowlevel.checkpoint()
        left.__exit__(None, None, None)
        await trio.lowlevel.checkpoint()
        assert not outer.cancelled_caught
    assert [type(failure) for failure in failures] == [RuntimeError]


async def test_a_nursery_that_is_left_open_is_cancelled_and_forgotten() -> None:
    """The task can end as if it had never been there, and nurseries around the block are as they were."""
    failures: list[BaseException] = []
    ended: list[str] = []

    async def child() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("child")

    async def careless() -> None:
        left: trio.Nursery | None = None
        async with trio.open_nursery() as around:
            with Contained(failures.append):
                left = await trio.open_nursery().__aenter__()
                left.start_soon(child)
                await trio.testing.wait_all_tasks_blocked()
            assert trio.lowlevel.current_task().child_nurseries == [around]
            assert left is not None
            with pytest.raises(RuntimeError, match="closed"):
                left.start_soon(child)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(careless)
    assert [type(failure) for failure in failures] == [RuntimeError]
    assert ended == ["child"]


async def test_cancellations_from_outside_pass_and_those_of_its_own_scope_end_there() -> None:
    """What has failed besides is told."""
    failures: list[BaseException] = []

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cleaning up")

    with trio.CancelScope() as outer:
        with Contained(unexpected) as block:
            block.scope.cancel()
            await trio.sleep_forever()
        assert block.scope.cancelled_caught
        outer.cancel()
        with Contained(failures.append):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_when_cancelled)
                await trio.sleep_forever()
        pytest.fail("it was cancelled")
    assert outer.cancelled_caught
    assert len(failures) == 1


async def test_a_program_goes_on_when_trio_does_not_say_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute is not public. Without it each request has a scope of its own, and costs more."""

    def unknown(task: trio.lowlevel.Task) -> object:
        return object()

    monkeypatch.setattr(_contained, "_innermost_scope", unknown)
    server = Server("plain")

    @server.tool
    async def double(number: int, *, wait: bool) -> int:
        if wait:
            await trio.lowlevel.checkpoint()
        return 2 * number

    for revision in ("2025-11-25", "2026-07-28"):
        async with open_client(server, revision=revision) as client:
            for number in range(20):
                result = await client.call_tool("double", {"number": number, "wait": bool(number % 2)})
                assert [getattr(block, "text", None) for block in result.content] == [str(2 * number)]


def test_trio_has_what_it_does_not_offer() -> None:
    """Where this fails, `_trio` has to learn what a newer Trio calls it."""

    async def look() -> tuple[bool, bool]:
        task = trio.lowlevel.current_task()
        outside = _contained._innermost_scope(task)
        is_same = _contained._innermost_scope(task) is outside
        differs = False
        with trio.CancelScope():
            await trio.lowlevel.checkpoint()
            differs = _contained._innermost_scope(task) is not outside
        await trio.lowlevel.checkpoint()
        return is_same, differs

    assert trio.run(look) == (True, True)


@pytest.mark.parametrize(
    ("make", "goes_on"),
    [
        (ValueError, False),
        (lambda: SystemExit(1), False),
        (asyncio.CancelledError, False),
        (GeneratorExit, False),
        (KeyboardInterrupt, True),
        (lambda: BaseExceptionGroup("", [SystemExit()]), False),
        (lambda: BaseExceptionGroup("", [SystemExit(), BaseExceptionGroup("", [KeyboardInterrupt()])]), True),
    ],
)
async def test_only_interrupts_and_cancellations_go_on(
    *, make: Callable[[], BaseException], goes_on: bool
) -> None:
    """All else is somebody's failure, whatever it is derived from."""
    error = make()
    assert propagating(error) is (error if goes_on else None)
    await trio.lowlevel.checkpoint()


async def _in_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)


async def _in_nurseries() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_in_a_nursery)
        await _in_a_nursery()


@pytest.mark.parametrize("work", [_in_a_nursery, _in_nurseries])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("kind", ["tool", "resource", "sampling", "notification"])
def test_a_nursery_that_is_cancelled_with_its_handler_is_no_failure(
    work: Callable[[], Awaitable[None]],
    revision: Revision,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: object,
) -> None:
    """Nothing is logged, and `trio_mcp.testing.open_client` raises nothing: all that comes out are cancellations."""
    caplog.set_level(logging.INFO)
    server: Server[Any] = Server("nurseries")

    @server.tool
    async def wait(ctx: Context) -> None:
        if kind == "sampling":
            await ctx.sample("?", max_tokens=1)
        await work()

    @server.resource("wait://here")
    async def read() -> str:
        await work()
        return "here"

    @server.notification_handler("notifications/example.com/wait")
    async def notified(params: object, ctx: NotificationContext) -> None:
        await work()

    async def on_sample(params: object) -> Any:
        await work()

    async def give_up() -> None:
        async with open_testing_client(server, revision=revision, on_sample=on_sample) as client:
            with trio.move_on_after(1) as scope:
                if kind == "resource":
                    await client.read_resource("wait://here")
                elif kind == "notification":
                    await client.notify("notifications/example.com/wait")
                    await trio.sleep_forever()
                else:
                    await client.call_tool("wait")
            assert scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()

    # Not in a test that is asynchronous itself: pytest-trio drops cancellations that come out of it.
    trio.run(give_up, clock=trio.testing.MockClock(autojump_threshold=0))
    assert not caplog.records
