"""The parking lot that weighs little: who waits, who is woken, and that nothing stays behind."""

from __future__ import annotations

import sys

import pytest
import trio
import trio.testing
from inside_base import LightParkingLot


async def park(lot: LightParkingLot, name: str, woken: list[str]) -> None:
    await lot.park()
    woken.append(name)


async def test_who_has_waited_longest_is_woken_first() -> None:
    """One at a time, each told apart from nobody."""
    lot, woken = LightParkingLot(), list[str]()
    assert not lot.unpark()
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(park, lot, name, woken)
            await trio.testing.wait_all_tasks_blocked()
        for name in "abc":
            assert lot
            assert lot.unpark()
            await trio.testing.wait_all_tasks_blocked()
            assert woken[-1] == name
    assert not lot
    assert not lot.unpark()


async def test_all_are_woken_at_once() -> None:
    """Those who come back in the same turn wait for the next time."""
    lot, woken = LightParkingLot(), list[str]()

    async def park_twice() -> None:
        await park(lot, "first", woken)
        await park(lot, "second", woken)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(park_twice)
        await trio.testing.wait_all_tasks_blocked()
        lot.unpark_all()
        assert not lot
        await trio.testing.wait_all_tasks_blocked()
        assert woken == ["first"] * 3
        lot.unpark_all()
    assert woken[3:] == ["second"] * 3
    lot.unpark_all()


async def test_who_is_cancelled_is_not_woken() -> None:
    """Nor counted, nor in the way of the next one."""
    lot, woken = LightParkingLot(), list[str]()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(park, lot, "cancelled", woken)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert not lot
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as inner:
            inner.cancel()
            await lot.park()
        nursery.start_soon(park, lot, "other", woken)
        await trio.testing.wait_all_tasks_blocked()
        assert lot.unpark()
    assert woken == ["other"]


async def test_cancelled_in_the_turn_in_which_it_was_woken() -> None:
    """It was woken, and is gone from the lot; who waits behind it stays."""
    lot, woken = LightParkingLot(), list[str]()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as doomed:
                doomed.start_soon(park, lot, "woken", woken)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(park, lot, "behind", woken)
                await trio.testing.wait_all_tasks_blocked()
                lot.unpark()
                scope.cancel()
        assert woken == ["woken"]
        assert lot
        lot.unpark_all()
    assert woken == ["woken", "behind"]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="elsewhere sizes are told otherwise")
async def test_it_weighs_next_to_nothing_when_no_task_waits() -> None:
    """Before and after."""
    lot = LightParkingLot()
    with trio.move_on_after(0):
        await lot.park()
    assert sys.getsizeof(lot) + sys.getsizeof(lot.parked) < 64
