"""Whose plain functions run when there are more calls than threads. Threads: real time."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Raw, call_tool, open_raw
from inside_base import SERVER_BUSY
from inside_server import _Places

from trio_mcp import HttpServerSettings, Limits, RequestError, Server, open_client

HOG, HONEST = "203.0.113.1", "203.0.113.2"


class Sleepers:
    """A server whose tool blocks a thread until that may go on, and what has run in which order."""

    def __init__(self, max_threads: int) -> None:
        self.began: list[str] = []
        self.may_end: dict[str, threading.Event] = {}
        self.server: Server[Any] = Server("sleepers", limits=Limits(max_threads=max_threads))

        @self.server.tool
        def sleep(call: str) -> str:
            self.began.append(call)
            assert self.may_end[call].wait(20)
            return call

    async def call(self, raw: Raw, address: str, name: str) -> None:
        await raw.send(call_tool("sleep", call=name), {"X-Forwarded-For": address})

    async def wait_begun(self, number: int) -> None:
        with trio.fail_after(20):
            while len(self.began) < number:
                await trio.sleep(0.005)


@asynccontextmanager
async def sleepers(max_threads: int, *names: str) -> AsyncGenerator[tuple[Sleepers, Raw, trio.Nursery]]:
    found = Sleepers(max_threads)
    found.may_end = {name: threading.Event() for name in names}
    settings = HttpServerSettings(trusted_proxies={"127.0.0.1"}, proxy_headers="x-forwarded")
    with trio.fail_after(30):
        async with open_raw(found.server, settings) as raw, trio.open_nursery() as nursery:
            try:
                yield found, raw, nursery
            finally:
                for event in found.may_end.values():
                    event.set()


async def test_over_http_a_client_leaves_threads_to_others() -> None:
    """One address had all of them, and every other client waited for the first of its calls to end."""
    async with sleepers(4, "h1", "h2", "h3", "h4", "mine") as (found, raw, nursery):
        for name in ("h1", "h2", "h3", "h4"):
            nursery.start_soon(found.call, raw, HOG, name)
            await trio.testing.wait_all_tasks_blocked(0.01)
        await found.wait_begun(3)
        nursery.start_soon(found.call, raw, HONEST, "mine")
        await found.wait_begun(4)
        assert found.began[3] == "mine"
        (waits,) = {"h1", "h2", "h3", "h4"} - {*found.began}
        found.may_end[found.began[0]].set()
        await found.wait_begun(5)
        assert found.began[4] == waits


async def test_one_of_many_gets_three_quarters_of_the_places() -> None:
    """However many are free. Those who wait are served in turn; in the end nothing is kept for anybody."""
    places, held = _Places(Limits(max_threads=8)), list[tuple[str, ExitStack]]()

    async def take(name: str) -> None:
        held.append((name, await places.take((name, True))))

    async def give(index: int) -> None:
        held.pop(index)[1].close()
        await trio.testing.wait_all_tasks_blocked()

    def holders() -> str:
        return "".join(name for name, _ in held)

    async with trio.open_nursery() as nursery:
        for name in "hhhhhhhhoxxy":
            nursery.start_soon(take, name)
            await trio.testing.wait_all_tasks_blocked()
        assert holders() == "hhhhhhox"
        await give(-1)
        assert holders() == "hhhhhhox"
        await give(0)
        assert holders() == "hhhhhoxy"
        await give(-1)
        assert holders() == "hhhhhoxh"
        while held:
            await give(0)
    assert places._all.borrowed_tokens == 0
    gc.collect()
    assert dict(places._of_one) == {}


def test_of_very_few_places_one_of_many_gets_one() -> None:
    """Three quarters of one are none."""
    assert [_Places(Limits(max_threads=most))._most_of_one for most in (1, 2, 3, 4, 40)] == [1, 1, 2, 3, 30]


async def test_who_has_the_server_alone_has_all_threads() -> None:
    """Over a pipe and in memory nobody else can come."""
    began, may_end = list[int](), threading.Event()
    server: Server[Any] = Server("sleepers", limits=Limits(max_threads=8))

    @server.tool
    def sleep(call: int) -> int:
        began.append(call)
        assert may_end.wait(20)
        return call

    with trio.fail_after(20):
        async with open_client(server) as client, trio.open_nursery() as nursery:
            try:
                for call in range(8):
                    nursery.start_soon(client.call_tool, "sleep", {"call": call})
                while len(began) < 8:
                    await trio.sleep(0.005)
            finally:
                may_end.set()


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    """The place goes to the next, of the same client or another."""
    places, held = _Places(Limits(max_threads=1)), dict[str, ExitStack]()

    async def take(name: str, scope: trio.CancelScope) -> None:
        with scope:
            held[name] = await places.take((name[0], True))

    async with trio.open_nursery() as nursery:
        held["a"] = await places.take(("a", True))
        names = ("b1", "b2", "c", "d")
        scopes = {name: trio.CancelScope() for name in names}
        for name in names:
            nursery.start_soon(take, name, scopes[name])
            await trio.testing.wait_all_tasks_blocked()
        scopes["b1"].cancel()
        scopes["c"].cancel()
        await trio.testing.wait_all_tasks_blocked()
        for before, after in (("a", "d"), ("d", "b2")):
            held.pop(before).close()
            await trio.testing.wait_all_tasks_blocked()
            assert list(held) == [after]
        held.pop("b2").close()
        (await places.take(("c", True))).close()


async def test_a_client_whose_threads_ask_leaves_as_many_places_to_others() -> None:
    """Before, one address had all of them, for as long as its users thought."""
    places = _Places(Limits(max_asking_threads=8))
    hog = [places.begin_asking(("hog", True)) for _ in range(4)]
    with pytest.raises(RequestError, match="max_asking_threads") as caught:
        places.begin_asking(("hog", True))
    assert caught.value.code == SERVER_BUSY
    other = places.begin_asking(("other", True))
    for place in (*hog, other):
        place.give_back()
    places.begin_asking(("hog", True)).give_back()


async def test_who_waits_in_vain_is_refused_in_time(autojump_clock: trio.testing.MockClock) -> None:
    """thread_timeout, from when the last place was left behind: for a place of its own, or for any, and all at once."""
    places = _Places(Limits(max_threads=4, thread_timeout=5))
    held = [(name, await places.take((name, True))) for name in ("hog", "hog", "hog", "other")]

    async def refused(name: str) -> None:
        with pytest.raises(RequestError, match=r"all 4 threads .* given up") as caught:
            await places.take((name, True))
        assert (caught.value.code, trio.current_time()) == (SERVER_BUSY, 105)

    async with trio.open_nursery() as nursery:
        for name in ("hog", "hog", "hog", "other", "next"):
            nursery.start_soon(refused, name)
        await trio.sleep(100)
        for name, place in held:
            places.leave_behind(place, (name, True))
    for _, place in held:
        place.close()
    with trio.fail_after(1):
        (await places.take(("hog", True))).close()
    assert places._left_behind.total == 0


async def test_what_others_leave_behind_gives_no_more_time(autojump_clock: trio.testing.MockClock) -> None:
    """A client whose places are all left behind waited for as long as another gave up its calls again and again."""
    places = _Places(Limits(max_threads=4, thread_timeout=5))
    held = [await places.take(("hog", True)) for _ in range(3)]
    for left in held:
        places.leave_behind(left, ("hog", True))

    async def give_up_often() -> None:
        for _ in range(20):
            place = await places.take(("other", True))
            places.leave_behind(place, ("other", True))
            await trio.sleep(1)
            place.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up_often)
        with pytest.raises(RequestError, match="given up"):
            await places.take(("hog", True))
        assert trio.current_time() == 5


async def test_who_is_cancelled_anywhere_keeps_no_place() -> None:
    """At each checkpoint of waiting: for a place of its own, for any, and with both in hand."""
    for others in (("a",), ("a", "a", "a"), ("b", "b", "b", "c"), ()):
        for turns in range(6):
            places = _Places(Limits(max_threads=4))
            held = [await places.take((name, True)) for name in others]
            async with trio.open_nursery() as nursery:
                with trio.CancelScope() as scope:

                    async def cancel(turns: int = turns, scope: trio.CancelScope = scope) -> None:
                        for _ in range(turns):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel)
                    with await places.take(("a", True)):
                        await trio.lowlevel.checkpoint()
            for place in held:
                place.close()
            assert (places._all.borrowed_tokens, places._waiting, places._left_behind.total) == (0, {}, 0)
            gc.collect()
            assert not places._of_one
