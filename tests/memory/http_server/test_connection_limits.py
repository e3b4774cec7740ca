"""Which connection gives way when there are no more places. No sockets; a clock that jumps."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from inside_endpoint import MAX_WAITING, PATIENCE_SECONDS, REST_SECONDS, ConnectionLimits
from trio.testing import MockClock


class Hall:
    """Some places, and who had to go."""

    def __init__(self, limit: int, address_limit: int = 1_000) -> None:
        self.gone: list[str] = []
        self.places = ConnectionLimits[str](limit, address_limit, self.gone.append)
        self._left = 0

    async def admit(self, name: str, address: str | None = None) -> float:
        """Let one in; return how long that took. Who is cut leaves."""
        began = trio.current_time()
        async with self.attended():
            assert self.places.enter(name, address)
            assert await self.places.wait_place(name)
        return trio.current_time() - began

    @asynccontextmanager
    async def attended(self) -> AsyncGenerator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.places.attend, math.inf, math.inf)
            nursery.start_soon(self._see_off)
            yield
            nursery.cancel_scope.cancel()

    async def _see_off(self) -> None:
        while True:
            while self._left < len(self.gone):
                self._left += 1
                self.places.leave(self.gone[self._left - 1])
            await trio.sleep(0.01)

    def crowd(self, address: str, count: int, *, works: bool) -> list[str]:
        """Take places for an address."""
        names = [f"{address} {n}" for n in range(count)]
        for name in names:
            assert self.places.enter(name, address)
            if works:
                self.places.work(name)
        return names


async def test_places_are_given_while_there_are_any(autojump_clock: MockClock) -> None:
    """Nobody goes before that."""
    hall = Hall(3)
    for name in ("a", "b", "c"):
        assert await hall.admit(name, "x") == 0
    hall.places.leave("b")
    assert await hall.admit("d", "x") == 0
    assert hall.gone == []


async def test_who_has_rested_longest_gives_way(autojump_clock: MockClock) -> None:
    """After a while: a client that has just sent a request may be about to send another."""
    hall = Hall(2)
    await hall.admit("a", "x")
    await trio.sleep(1)
    await hall.admit("b", "y")
    hall.places.work("a")
    hall.places.rest("a")
    await trio.sleep(1)
    assert await hall.admit("c", "z") == pytest.approx(REST_SECONDS - 1, abs=0.1)
    assert hall.gone == ["b"]


async def test_who_works_does_not_go_for_one_who_has_as_much(autojump_clock: MockClock) -> None:
    """However long that takes; once they rest they can."""
    hall = Hall(1)
    await hall.admit("a", "x")
    hall.places.work("a")
    async with hall.attended():
        assert hall.places.enter("b", "y")
        with trio.move_on_after(60) as scope:
            await hall.places.wait_place("b")
        assert (scope.cancelled_caught, hall.gone) == (True, [])
        hall.places.rest("a")
        began = trio.current_time()
        assert await hall.places.wait_place("b")
        assert trio.current_time() - began == pytest.approx(REST_SECONDS, abs=0.3)
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
    """Who waits waits for the one that is leaving; a second one is cut only for a second one."""
    hall = Hall(3)
    for name in ("a", "b", "c"):
        await hall.admit(name, "x")
    await trio.sleep(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hall.places.attend, math.inf, math.inf)
        assert hall.places.enter("d", "y")
        await trio.sleep(10)
        assert hall.gone == ["a"]
        assert hall.places.enter("e", "y")
        await trio.sleep(10)
        assert hall.gone == ["a", "b"]
        hall.places.leave("a")
        assert await hall.places.wait_place("d")
        hall.places.leave("b")
        assert await hall.places.wait_place("e")
        nursery.cancel_scope.cancel()
    hall.places.cut_all()
    assert hall.gone[2:] == ["c", "d", "e"]
    for name in ("c", "d", "e"):
        hall.places.leave(name)
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


@pytest.mark.parametrize("addresses", [2, 5, 50])
@pytest.mark.parametrize("works", [False, True])
async def test_a_few_addresses_cannot_take_all_places(
    *, addresses: int, works: bool, autojump_clock: MockClock
) -> None:
    """Two had 500 each of a thousand. A third gets a place: at once if theirs are idle, else when it is clear."""
    hall = Hall(100, address_limit=50)
    for number in range(addresses):
        hall.crowd(f"greedy {number}", 100 // addresses, works=works)
    for n in range(10):
        waited = await hall.admit(f"good {n}", f"honest {n}")
        assert waited <= (PATIENCE_SECONDS + 0.3 if works else 0.02)
    assert len(hall.gone) == 10
    counts = [sum(name.startswith(f"greedy {number} ") for name in hall.gone) for number in range(addresses)]
    assert max(counts) - min(counts) <= 1, "all of them give way alike"


async def test_who_has_most_makes_room_for_itself_only_by_its_own(autojump_clock: MockClock) -> None:
    """One that asks for more and more pushes out nobody else, not even who has rested for long."""
    hall = Hall(10)
    for n in range(5):
        hall.crowd(f"honest {n}", 1, works=False)
    hall.crowd("greedy", 5, works=True)
    await trio.sleep(REST_SECONDS * 2)
    async with hall.attended():
        for n in range(MAX_WAITING + 20):
            hall.places.enter(f"more {n}", "greedy")
        await trio.sleep(100)
    assert not [name for name in hall.gone if not name.startswith("more")]
    assert not hall.places.enter("too many", "greedy")


async def test_the_youngest_of_what_works_gives_way(autojump_clock: MockClock) -> None:
    """It has done least; and what rests goes first, of whichever address has more than the new one."""
    hall = Hall(6)
    hall.crowd("a", 4, works=True)
    hall.crowd("b", 2, works=False)
    for n in range(2):
        await hall.admit(f"new {n}", f"n{n}")
        hall.places.work(f"new {n}")
    assert hall.gone == ["b 0", "a 3"]


async def test_those_who_wait_are_served_by_what_they_have(autojump_clock: MockClock) -> None:
    """A crowd that waits does not stand before one that has nothing; and it does not fill the room for them."""
    hall = Hall(3)
    hall.crowd("a", 1, works=True)
    hall.crowd("b", 1, works=True)
    hall.crowd("c", 1, works=True)
    for n in range(MAX_WAITING):
        assert hall.places.enter(f"c waits {n}", "c")
    assert hall.places.enter("d", "d"), "one of those gives way to it"
    assert hall.gone == [f"c waits {MAX_WAITING - 1}"]
    assert not hall.places.enter("c too many", "c")
    hall.places.leave("a 0")
    assert await hall.places.wait_place("d")


async def test_no_more_connections_are_accepted_where_no_client_has_more_than_others(
    autojump_clock: MockClock,
) -> None:
    """Behind a proxy nobody knows who they are: those beyond wait in the system, and none is refused."""
    hall = Hall(2)
    for n in range(2):
        assert hall.places.enter(f"{n}", None)
        hall.places.work(f"{n}")
    for n in range(MAX_WAITING):
        await hall.places.wait_door()
        assert hall.places.enter(f"waits {n}", None)
    with trio.move_on_after(1_000) as scope:
        await hall.places.wait_door()
    assert scope.cancelled_caught
    hall.places.leave("0")
    await hall.places.wait_door()
    assert await hall.places.wait_place("waits 0")


async def test_who_waits_does_so_only_so_long(autojump_clock: MockClock) -> None:
    """As long as one may that has a place and does nothing."""
    hall = Hall(1)
    hall.crowd("a", 1, works=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hall.places.attend, 75, 15)
        assert hall.places.enter("b", "b")
        began = trio.current_time()
        assert not await hall.places.wait_place("b")
        assert trio.current_time() - began == pytest.approx(75)
        nursery.cancel_scope.cancel()
    hall.places.leave("b")
    hall.places.leave("a 0")
    await hall.places.wait_empty()


def test_whatever_comes_and_goes_the_sums_are_right() -> None:
    """No place is lost, and none is given twice."""

    async def main() -> None:
        random = Random(11)
        hall = Hall(20, address_limit=8)
        places, there = hall.places, dict[str, None]()
        for step in range(4_000):
            match random.randrange(5):
                case 0:
                    name = f"{step}"
                    if places.enter(name, random.choice([None, "a", "b", "c", "d", "e"])):
                        there[name] = None
                case 1 if there:
                    name = random.choice(list(there))
                    if name not in hall.gone and name not in places._waiting:
                        places.work(name)
                case 2 if there:
                    name = random.choice(list(there))
                    if name not in hall.gone and name not in places._waiting:
                        places.rest(name, is_timed=random.random() < 0.5)
                case 3 if there:
                    name = random.choice(list(there))
                    if name not in places._waiting:
                        places.belong_to(name, random.choice("abx"))
                case _ if there:
                    name = random.choice(list(there))
                    places.leave(name)
                    del there[name]
                case _:
                    pass
            if step % 7 == 0:
                places._settle()
            parties = {places._party_of[name] for name in there}
            assert set(places._party_of) == set(there)
            assert {name for party in parties for name in party.placed} == (
                set(there) - places._cut_ones - set(places._waiting)
            )
            assert places._placed + len(places._leaving) <= 20
            assert not places._waiting or places._placed + len(places._leaving) == 20
            assert sum(map(len, places._ranks.values())) == sum(bool(party.placed) for party in parties)
            assert set(places._timed) <= set(places._resting)
            assert set(places._resting) <= set(there) - places._cut_ones - set(places._waiting)
            assert len(places._parties) == sum(bool(party.weight) for party in parties)
        for name in list(there):
            places.leave(name)
        await places.wait_empty()
        assert not any((places._parties, places._ranks, places._resting, places._placed, places._leaving))

    trio.run(main)


async def test_a_head_has_its_own_time_from_its_first_byte(autojump_clock: MockClock) -> None:
    """However it trickles in, and whatever was before; what is served has none, and what rests has more."""
    hall = Hall(10)
    names = hall.crowd("a", 4, works=False)
    trickles, silent, served, again = names
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hall.places.attend, 75, 15)
        await trio.sleep(10)
        for _ in range(14):
            hall.places.begin(trickles)
            hall.places.begin(served)
            hall.places.work(served)
            hall.places.begin(served)  # a part of its body, or of what is behind it
            await trio.sleep(1)
        hall.places.begin(again)
        hall.places.work(again)
        hall.places.rest(again)
        assert hall.gone == []
        await trio.sleep(1.5)
        assert hall.gone == [trickles], trio.current_time() - began
        hall.places.begin(again)
        await trio.sleep(14)
        assert hall.gone == [trickles]
        await trio.sleep(1.5)
        assert hall.gone == [trickles, again]
        await trio.sleep(60)
        assert hall.gone == [trickles, again, silent]
        nursery.cancel_scope.cancel()
