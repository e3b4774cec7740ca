"""`assert_nothing_left`: what it finds, by name, and what it lets be."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from trio_mcp.testing import assert_nothing_left


async def sleeper() -> None:
    await trio.sleep_forever()


async def test_a_task_is_found() -> None:
    """By its name, and where it waits."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(AssertionError) as caught, assert_nothing_left():
            nursery.start_soon(sleeper, name="the sleeper")
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert "a task: the sleeper, at " in str(caught.value)
    assert str(caught.value).endswith(" in sleeper")


async def test_a_descriptor_is_found() -> None:
    """With what is behind it, even if its number was used before."""
    one, other = os.pipe()
    numbers: list[int] = [other]
    with pytest.raises(AssertionError, match="a descriptor: "), assert_nothing_left():
        os.close(one)
        numbers += os.pipe()
    assert one in numbers
    for number in numbers:
        os.close(number)


async def wait_in_tasks() -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("wait", [trio.sleep_forever, wait_in_tasks])
async def test_what_a_cancelled_block_has_left_is_found(wait: Callable[[], Awaitable[None]]) -> None:
    """Its cancellation is caught where nobody looks at notes, be it one or, of a nursery, a group of several."""
    async with trio.open_nursery() as nursery:
        with (
            pytest.raises(AssertionError, match="the sleeper"),
            trio.CancelScope() as scope,
            assert_nothing_left(),
        ):
            nursery.start_soon(sleeper, name="the sleeper")
            scope.cancel()
            await wait()
        with trio.CancelScope() as scope, assert_nothing_left():
            scope.cancel()
            await wait()
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()


def test_a_thread_is_found_without_an_event_loop() -> None:
    """By its name."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="the counter")
    with pytest.raises(AssertionError, match="a thread: the counter"), assert_nothing_left():
        thread.start()
    end.set()
    thread.join()


async def test_an_error_of_the_block_comes_out_with_a_note() -> None:
    """Whoever reads it sees both."""
    async with trio.open_nursery() as nursery:
        with pytest.raises(KeyError) as caught, assert_nothing_left():
            nursery.start_soon(sleeper, name="the sleeper")
            raise KeyError
        nursery.cancel_scope.cancel()
    (note,) = caught.value.__notes__
    assert note.startswith("besides, the block has left a task: the sleeper")


def test_a_whole_program_leaves_nothing() -> None:
    """The descriptors of the event loop are closed with it."""

    async def main() -> None:
        await trio.to_thread.run_sync(lambda: None)

    with assert_nothing_left():
        trio.run(main)


async def test_what_trio_keeps_is_nothing_that_is_left() -> None:
    """A thread that waits for the next call."""
    with assert_nothing_left():
        await trio.to_thread.run_sync(lambda: None)
