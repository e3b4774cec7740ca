"""Coroutines that are begun in the task of another one: `trio_mcp._trio`."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from typing import Final

import pytest
import trio
import trio.testing
from inside_peer import InlineTask

name: Final = ContextVar("name", default="nobody")


async def at_once(result: int) -> int:  # noqa: ASYNC910 - not to wait is the point
    name.set("somebody")
    return result


async def test_what_does_not_wait_is_done_at_once_and_leaves_no_variables_behind() -> None:
    """Its variables are its own, as those of a task are."""
    steps = InlineTask(at_once(3), copy_context())
    assert steps.begin(trio.lowlevel.current_task())
    assert steps.result == 3
    assert name.get() == "nobody"


async def test_what_waits_goes_on_with_its_own_variables() -> None:
    """The task that runs it keeps its own, whenever it looks."""
    go = trio.Event()
    seen: list[str] = []

    async def wait() -> str:
        name.set("somebody")
        await go.wait()
        await trio.lowlevel.checkpoint()
        seen.append(name.get())
        return name.get()

    steps = InlineTask(wait(), copy_context())
    assert not steps.begin(trio.lowlevel.current_task())
    assert name.get() == "nobody"
    name.set("its host")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set, go)
        assert await steps.go_on(trio.lowlevel.current_task()) == "somebody"
    assert seen == ["somebody"]
    assert name.get() == "its host"


async def _set(event: trio.Event) -> None:
    await trio.lowlevel.checkpoint()
    event.set()


@pytest.mark.parametrize("waits", [False, True])
async def test_what_it_raises_comes_out(*, waits: bool) -> None:
    """At once or later."""

    async def fail() -> None:
        if waits:
            await trio.lowlevel.checkpoint()
        raise ValueError("as it should")

    steps = InlineTask(fail(), copy_context())
    if not waits:
        with pytest.raises(ValueError, match="as it should"):
            steps.begin(trio.lowlevel.current_task())
        return
    assert not steps.begin(trio.lowlevel.current_task())
    with pytest.raises(ValueError, match="as it should"):
        await steps.go_on(trio.lowlevel.current_task())


async def test_scopes_that_it_enters_before_it_waits_hold(autojump_clock: trio.testing.MockClock) -> None:
    """They are scopes of the task that runs it."""

    async def too_long() -> str:
        with trio.move_on_after(5):
            await trio.sleep(10)
            return "slept"
        return "moved on"

    steps = InlineTask(too_long(), copy_context())
    assert not steps.begin(trio.lowlevel.current_task())
    began = trio.current_time()
    assert await steps.go_on(trio.lowlevel.current_task()) == "moved on"
    assert trio.current_time() - began == pytest.approx(5)


async def test_it_is_cancelled_with_its_host_and_cleans_up() -> None:
    """A cancellation reaches it where it waits."""
    cleaned: list[str] = []

    async def wait() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            cleaned.append("up")

    with trio.CancelScope() as scope:
        steps = InlineTask(wait(), copy_context())
        assert not steps.begin(trio.lowlevel.current_task())
        scope.cancel()
        await steps.go_on(trio.lowlevel.current_task())
    assert scope.cancelled_caught
    assert cleaned == ["up"]


async def test_nurseries_that_it_opens_are_nested_in_its_host() -> None:
    """It may do whatever a task may."""

    async def with_children() -> list[int]:
        done: list[int] = []

        async def child(number: int) -> None:
            await trio.lowlevel.checkpoint()
            done.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(child, number)
        return sorted(done)

    steps = InlineTask(with_children(), copy_context())
    assert not steps.begin(trio.lowlevel.current_task())
    assert await steps.go_on(trio.lowlevel.current_task()) == [0, 1, 2]
