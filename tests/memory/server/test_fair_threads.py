"""Whose plain functions run when there are more calls than threads. Threads: real time."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Raw, call_tool, open_raw
from inside_base import SERVER_BUSY
from inside_server import Holder, _Places

from trio_mcp import HttpServerSettings, Limits, RequestError, Server, open_client

HOG, HONEST, OTHER = "203.0.113.1", "203.0.113.2", "203.0.113.3"


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


async def test_a_thread_that_is_free_again_goes_to_the_client_that_has_none() -> None:
    """One address had all of them, and as many of its calls as it liked were before anybody else's."""
    async with sleepers(2, "h1", "h2", "h3", "h4", "mine", "h5") as (found, raw, nursery):
        for number, name in enumerate(("h1", "h2")):
            nursery.start_soon(found.call, raw, HOG, name)
            await found.wait_begun(number + 1)  # alone it may have all
        for name in ("h3", "h4", "h5"):
            nursery.start_soon(found.call, raw, HOG, name)
            await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.start_soon(found.call, raw, HONEST, "mine")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert found.began == ["h1", "h2"]
        found.may_end["h1"].set()
        await found.wait_begun(3)
        assert found.began[2] == "mine"
        found.may_end["h2"].set()
        await found.wait_begun(4)
        assert found.began[3] == "h3"


async def test_places_go_to_the_client_with_fewest_and_in_turn_among_equals() -> None:
    """However many of its calls wait, and however many clients do."""
    places, served = _Places(Limits(max_threads=4)), list[str]()

    async def take(holder: str) -> None:
        await places.acquire(Holder(holder))
        served.append(holder)

    async with trio.open_nursery() as nursery:
        for holder in "aaaa":
            await take(holder)
        for holder in "aaaabbbcc":
            nursery.start_soon(take, holder)
            await trio.testing.wait_all_tasks_blocked()
        for holder in "aaaa":
            places.release(Holder(holder), was_left_behind=False)
            await trio.testing.wait_all_tasks_blocked()
        assert "".join(served[4:]) == "bcab"
        for number in range(4, 9):
            places.release(Holder(served[number]), was_left_behind=False)
            await trio.testing.wait_all_tasks_blocked()
        assert sorted(served[4:]) == list("aaaabbbcc")
        for holder in served[9:]:
            places.release(Holder(holder), was_left_behind=False)
        assert places._held == {}
        assert places._free == 4


async def test_one_of_many_leaves_places_to_others_before_they_ask() -> None:
    """A client had all threads for two seconds each, and every other client waited for the first to end."""
    places, served = _Places(Limits(max_threads=8)), list[str]()

    async def take(holder: str) -> None:
        await places.acquire(Holder(holder, is_one_of_many=True))
        served.append(holder)

    async def give(holder: str) -> None:
        places.release(Holder(holder), was_left_behind=False)
        await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(take, "hog")
        await trio.testing.wait_all_tasks_blocked()
        assert served == ["hog"] * 6
        await take("honest")
        await take("other")
        assert served[6:] == ["honest", "other"]
        await give("honest")
        await give("other")
        assert places._free == 2, served  # they are kept for who may come
        await give("hog")
        await give("hog")
        assert served[8:] == ["hog"] * 2
        for _ in range(7):
            await give("hog")
    assert places._free == 8
    assert places._held == {}
    assert places._lines == {}


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
    places, served = _Places(Limits(max_threads=1)), list[str]()

    async def take(holder: str, scope: trio.CancelScope) -> None:
        with scope:
            await places.acquire(Holder(holder))
            served.append(holder)

    async with trio.open_nursery() as nursery:
        await places.acquire(Holder("a"))
        scopes = [trio.CancelScope() for _ in "bbc"]
        for holder, scope in zip("bbc", scopes, strict=True):
            nursery.start_soon(take, holder, scope)
            await trio.testing.wait_all_tasks_blocked()
        scopes[0].cancel()
        scopes[2].cancel()
        await trio.testing.wait_all_tasks_blocked()
        places.release(Holder("a"), was_left_behind=False)
        await trio.testing.wait_all_tasks_blocked()
        assert served == ["b"]
        places.release(Holder("b"), was_left_behind=False)
        await places.acquire(Holder("c"))
        places.release(Holder("c"), was_left_behind=False)


async def test_a_client_whose_threads_ask_leaves_as_many_places_to_others() -> None:
    """Before, one address had all of them, for as long as its users thought."""
    places = _Places(Limits(max_asking_threads=8))
    hog = [places.begin_asking(Holder("hog")) for _ in range(4)]
    with pytest.raises(RequestError, match="max_asking_threads") as caught:
        places.begin_asking(Holder("hog"))
    assert caught.value.code == SERVER_BUSY
    other = places.begin_asking(Holder("other"))
    for place in (*hog, other):
        place.give_back()
    places.begin_asking(Holder("hog")).give_back()
