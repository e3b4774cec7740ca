"""Which connection gives way when there are no more places. No sockets; a clock that jumps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp._hosts._places import CROWD_SECONDS, REST_SECONDS, Places


class Hall:
    """Some places, and who had to go."""

    def __init__(self, limit: int) -> None:
        self.gone: list[str] = []
        self.places = Places[str](limit, self.gone.append)

    async def admit(self, name: str, address: str) -> float:
        """Let one in; return how long that took. Who is cut leaves."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._see_off, len(self.gone))
            await self.places.wait_place()
            nursery.cancel_scope.cancel()
        self.places.enter(name, address)
        return trio.current_time() - began

    async def _see_off(self, known: int) -> None:
        while len(self.gone) == known:
            await trio.sleep(0.01)
        self.places.leave(self.gone[known])


async def test_places_are_given_while_there_are_any(autojump_clock: MockClock) -> None:
    """Nobody goes before that."""
    hall = Hall(3)
    for name in ("a", "b", "c"):
        assert await hall.admit(name, "x") == 0
    hall.places.leave("b")
    assert await hall.admit("d", "x") == 0
    assert hall.gone == []


async def test_a_crowd_gives_way_first_and_soon(autojump_clock: MockClock) -> None:
    """An address with more than half of the places, though others have rested longer."""
    hall = Hall(5)
    await hall.admit("good", "x")
    for name in ("a", "b", "c", "d"):
        await hall.admit(name, "crowd")
    for number, name in enumerate(("e", "f", "g")):
        assert await hall.admit(name, "crowd") == pytest.approx(CROWD_SECONDS if number == 0 else 0, abs=0.1)
    assert hall.gone == ["a", "b", "c"]


async def test_others_give_way_after_a_while(autojump_clock: MockClock) -> None:
    """Who has rested longest goes first."""
    hall = Hall(2)
    await hall.admit("a", "x")
    await trio.sleep(1)
    await hall.admit("b", "y")
    hall.places.work("a")
    hall.places.rest("a")
    await trio.sleep(1)
    assert await hall.admit("c", "z") == pytest.approx(REST_SECONDS - 1, abs=0.1)
    assert hall.gone == ["b"]


async def test_who_works_never_goes(autojump_clock: MockClock) -> None:
    """However long that takes; once they rest they can."""
    hall = Hall(1)
    await hall.admit("a", "x")
    hall.places.work("a")
    with trio.move_on_after(1_000) as scope:
        await hall.places.wait_place()
    assert (scope.cancelled_caught, hall.gone) == (True, [])
    hall.places.rest("a")
    assert await hall.admit("b", "y") == pytest.approx(CROWD_SECONDS, abs=0.1)
    assert hall.gone == ["a"]


async def test_one_is_cut_for_one_that_comes(autojump_clock: MockClock) -> None:
    """Those who wait at several doors wait for the one that is leaving."""
    hall = Hall(2)
    for name in ("a", "b"):
        await hall.admit(name, "x")
    await trio.sleep(10)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(hall.places.wait_place)
        await wait_all_tasks_blocked()
        assert hall.gone == ["a"]
        hall.places.leave("a")
    hall.places.cut_all()
    assert hall.gone == ["a", "b"]
    hall.places.leave("b")
    await hall.places.wait_empty()


async def test_who_sends_ahead_keeps_no_place_from_others(autojump_clock: MockClock) -> None:
    """When all places are taken, and only if the address is the crowd: it never rests by itself."""
    hall = Hall(3)
    for name, address in (("a", "crowd"), ("b", "crowd")):
        await hall.admit(name, address)
        assert not hall.places.must_give_way(name)
    await hall.admit("good", "x")
    assert [hall.places.must_give_way(name) for name in ("a", "b", "good")] == [True, True, False]
    hall.places.leave("b")
    assert not hall.places.must_give_way("a")
