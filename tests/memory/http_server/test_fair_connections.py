"""Whose connections are opened and read when many are ready at once: in passes of the event loop, not in seconds."""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from inside_core import SHARE, TIMES
from inside_endpoint import FEW, SECONDS_PER_SESSION, SocketIO, Turnstile
from passes import counted

from trio_mcp import Shutdown

pytestmark = pytest.mark.timeout(60)

HOG, HONEST = "192.0.2.1", "192.0.2.2"
MANY = 10 * SHARE


@asynccontextmanager
async def turnstile() -> AsyncGenerator[Turnstile]:
    async with trio.open_nursery() as nursery:
        yield Turnstile(nursery)
        nursery.cancel_scope.cancel()


async def test_of_each_holder_so_many_enter_in_a_pass() -> None:
    """The rest enters in the passes after it, and who asks for little is not behind them."""
    entered: list[tuple[int, str]] = []
    with counted() as passes:
        async with turnstile() as turns, trio.open_nursery() as nursery:

            async def enter(holder: str) -> None:
                await turns.enter(holder)
                entered.append((passes.number, holder))

            await enter(HONEST)
            for _ in range(MANY):
                nursery.start_soon(enter, HOG)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(enter, HONEST)
    in_a_pass = Counter(number for number, who in entered if who == HOG)
    assert in_a_pass.total() == MANY
    assert max(in_a_pass.values()) <= FEW + SHARE
    assert len(in_a_pass) >= (MANY - FEW) // SHARE


async def test_who_gives_up_waiting_enters_never() -> None:
    """And takes no part of the share with it."""
    async with turnstile() as turns:
        await turns.enter(HONEST)
        for _ in range(FEW + SHARE):
            with trio.move_on_after(0):
                await turns.enter(HOG)
        entered = 0
        async with trio.open_nursery() as nursery:

            async def enter() -> None:
                nonlocal entered
                await turns.enter(HOG)
                entered += 1

            for _ in range(MANY):
                nursery.start_soon(enter)
            while not turns.waiting:
                await trio.lowlevel.checkpoint()
            before = entered
            nursery.cancel_scope.cancel()
        assert entered <= before + SHARE  # who was let in at that moment has entered
        assert turns.waiting == 0
        with trio.fail_after(5):
            await turns.enter(HOG)


async def test_a_wire_is_read_when_it_is_its_turn() -> None:
    """Bytes of a hundred connections of one client are read in passes, and what is read is what was sent."""
    pairs = [socket.socketpair() for _ in range(MANY)]
    wires: list[SocketIO] = []
    read: list[int] = []
    with counted() as passes:
        async with turnstile() as turns, trio.open_nursery() as nursery:
            await turns.enter(HONEST)
            for near, far in pairs:
                near.setblocking(False)
                wire = SocketIO(HOG, 5, near)
                wire.share(turns, turns, HOG)
                wires.append(wire)
                far.send(b"x")

            async def receive(wire: SocketIO) -> None:
                assert await wire.receive() == b"x"
                read.append(passes.number)

            for wire in wires:
                nursery.start_soon(receive, wire)
    assert len(read) == MANY
    assert max(Counter(read).values()) <= FEW + SHARE
    for wire, (_, far) in zip(wires, pairs, strict=True):
        wire.cut()
        far.close()


async def test_who_begins_sessions_waits_for_what_they_cost(autojump_clock: trio.testing.MockClock) -> None:
    """A WebSocket costs more than the request that asks for it: a flood of them leaves room to others."""
    near, far = socket.socketpair()
    wire = SocketIO(HOG, 5, near)
    async with turnstile() as turns:
        wire.share(turns, turns, HOG)
        for _ in range(FEW):
            await turns.enter(HOG)
        await turns.enter(HONEST)
        begin = trio.current_time()
        for _ in range(10):
            wire.charge_session()
        await turns.enter(HONEST)
        assert trio.current_time() == begin
        await turns.enter(HOG)
        assert trio.current_time() - begin == pytest.approx(10 * SECONDS_PER_SESSION * TIMES)
    wire.cut()
    far.close()


async def test_a_wire_that_is_cut_while_it_waits_for_its_turn_has_nothing_to_read() -> None:
    """It gives its turn back when that comes."""
    near, far = socket.socketpair()
    near.setblocking(False)
    wire = SocketIO(HOG, 5, near)
    async with turnstile() as turns, trio.open_nursery() as nursery:
        wire.share(turns, turns, HOG)
        await turns.enter(HONEST)
        for _ in range(MANY):
            nursery.start_soon(turns.enter, HOG)
        await trio.lowlevel.checkpoint()
        far.send(b"x")

        async def receive() -> None:
            assert await wire.receive() == b""

        nursery.start_soon(receive)
        while turns.waiting == 0:
            await trio.lowlevel.checkpoint()
        wire.cut()
    far.close()


def test_only_a_process_that_is_there_to_serve_spares_what_it_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who serves beside other work decides about the garbage collector alone."""
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    shutdown = Shutdown()
    shutdown.serving()
    assert calls == []
    shutdown.own_process()
    shutdown.serving()
    assert calls == ["freeze"]
