"""Which connection is ended when there are as many as there may be. No sockets; a clock that jumps."""

from __future__ import annotations

from random import Random

import trio
from inside_endpoint import ConnectionLimits
from trio.testing import MockClock


class Hall:
    """Some places, and who had to go."""

    def __init__(self, limit: int, address_limit: int = 1_000) -> None:
        self.gone: list[str] = []
        self.places = ConnectionLimits[str](limit, address_limit, self.gone.append)

    def crowd(self, address: str, count: int, *, works: bool) -> list[str]:
        """Take places for an address."""
        names = [f"{address} {n}" for n in range(count)]
        for name in names:
            assert self.places.enter(name, address)
            if works:
                self.places.work(name)
        return names


async def test_who_has_rested_longest_is_ended_for_a_new_one(autojump_clock: MockClock) -> None:
    """Not before all places are taken, and none that works: then the new one is refused."""
    hall = Hall(3)
    places = hall.places
    for name, address in (("a", "x"), ("b", "y"), ("c", "z")):
        assert places.enter(name, address)
        await trio.sleep(1)
    places.work("a")
    places.rest("a")  # it has just been used
    assert hall.gone == []
    assert places.enter("d", "w")
    assert hall.gone == ["b"]
    places.leave("b")
    for name in ("a", "c", "d"):
        places.work(name)
    assert not places.enter("e", "v")
    places.rest("c")
    assert places.enter("e", "v")
    assert hall.gone == ["b", "c"]


async def test_silent_connections_keep_nobody_out() -> None:
    """However many there are, and whoever has them."""
    hall = Hall(10, address_limit=5)
    for number in range(100):
        assert hall.places.enter(f"silent {number}", f"botnet {number // 5}")
    assert hall.places.enter("good", "honest")
    hall.places.work("good")
    for number in range(100):
        assert hall.places.enter(f"more {number}", f"botnet {number // 5}")
    assert "good" not in hall.gone
    await trio.lowlevel.checkpoint()


async def test_an_address_gets_only_so_many() -> None:
    """Its own give way to its own; if all of them work it gets no more. Others are not touched."""
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


async def test_who_a_client_turned_out_to_be_counts_from_then_on() -> None:
    """And no longer the address that it came from."""
    hall = Hall(10, address_limit=2)
    places = hall.places
    for number in range(6):
        assert places.enter(f"{number}", "one address")
        places.work(f"{number}")
        assert places.belong_to(f"{number}", f"user {number % 3}")
    assert places.enter("another", "one address")
    places.work("another")
    assert not places.belong_to("another", "user 0")
    places.rest("0")
    assert places.belong_to("another", "user 0")
    assert hall.gone == ["0"]
    await trio.lowlevel.checkpoint()


def test_whatever_comes_and_goes_the_sums_are_right() -> None:
    """No place is lost, and none is given twice."""

    async def main() -> None:
        random = Random(11)
        hall = Hall(20, address_limit=8)
        places, there = hall.places, dict[str, None]()
        for step in range(4_000):
            name = random.choice(list(there)) if there else ""
            match random.randrange(5):
                case 0:
                    name = f"{step}"
                    if places.enter(name, random.choice([None, "a", "b", "c", "d", "e"])):
                        there[name] = None
                case 1 if there and name not in hall.gone:
                    places.work(name)
                case 2 if there and name not in hall.gone:
                    places.rest(name, is_timed=random.random() < 0.5)
                case 3 if there:
                    places.belong_to(name, random.choice("abx"))
                case 4 if there:
                    places.leave(name)
                    del there[name]
                case _:
                    pass
            open_now = [name for name in there if name not in places._cut_ones]
            assert set(places._address_of) == set(there)
            assert len(open_now) <= 20
            assert sum(of.count for of in places._addresses.values()) == len(open_now)
            assert all(0 < of.count <= 8 for of in places._addresses.values())
            assert {name for of in places._addresses.values() for name in of.resting} == set(places._resting)
            assert set(places._timed) <= set(places._resting) <= set(open_now)
        for name in list(there):
            places.leave(name)
        await places.wait_empty()
        assert not any((places._addresses, places._resting, places._timed, places._begun, places._cut_ones))

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
