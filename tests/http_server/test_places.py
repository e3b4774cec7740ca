"""Which connection gives way when there are no more places. No sockets; a clock that jumps."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from trio_mcp._hosts._places import REST_SECONDS, Places


class Hall:
    """Some places, and who had to go."""

    def __init__(self, limit: int, address_limit: int = 100) -> None:
        self.gone: list[str] = []
        self.places = Places[str](limit, address_limit, self.gone.append)

    async def admit(self, name: str, address: str | None = None) -> float:
        """Let one in; return how long that took. Who is cut leaves."""
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._see_off, len(self.gone))
            await self.places.wait_place()
            nursery.cancel_scope.cancel()
        assert self.places.enter(name, address)
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


async def test_who_has_rested_longest_gives_way(autojump_clock: MockClock) -> None:
    """After a while: whoever has just asked something may be about to ask again."""
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
    assert await hall.admit("b", "y") == pytest.approx(REST_SECONDS, abs=0.1)
    assert hall.gone == ["a"]


async def test_an_address_gets_only_so_many() -> None:
    """Its own give way to its own, at once; if all of them work it gets no more. Others are not touched."""
    hall = Hall(10, address_limit=2)
    places = hall.places
    assert places.enter("good", "y")
    assert [places.enter(name, "x") for name in ("a", "b", "c")] == [True] * 3
    assert hall.gone == ["a"]
    places.work("c")
    assert places.enter("d", "x")
    assert hall.gone == ["a", "b"]
    places.work("d")
    assert not places.enter("e", "x")
    for name in ("a", "b", "c"):  # in whatever order they leave
        places.leave(name)
    assert places.enter("f", "x")
    assert hall.gone == ["a", "b"]
    assert [places.enter(f"unknown {number}", None) for number in range(5)] == [True] * 5
    await trio.lowlevel.checkpoint()


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
