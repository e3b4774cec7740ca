"""Two ends in one process: nothing lies between them, nothing is lost, and nobody waits for an end that is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from trio_mcp import ConnectionLost, Incoming, MemoryChannel, Outgoing, memory_channel_pair


async def receive(channel: MemoryChannel) -> list[bytes]:
    received = await channel.receive()
    assert all(isinstance(message, Incoming) for message in received)
    return [message.data for message in received if isinstance(message, Incoming)]


def said(*data: bytes) -> list[Outgoing]:
    return [Outgoing(one) for one in data]


async def test_what_is_sent_waits_until_it_is_received() -> None:
    """Whoever comes first waits for the other."""
    here, there = memory_channel_pair()
    log: list[str] = []

    async def send(data: bytes) -> None:
        await here.send(said(data, b"and more"))
        log.append("sent")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, b"1")
        await trio.testing.wait_all_tasks_blocked()
        assert not log
        assert await receive(there) == [b"1", b"and more"]
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["sent"]
        nursery.start_soon(send, b"2")
        assert await receive(there) == [b"2", b"and more"]


async def test_nothing_is_sent_at_once_unless_somebody_receives() -> None:
    """And once only, until that one comes back for more."""
    here, there = memory_channel_pair()
    got: list[bytes] = []

    async def take() -> None:
        got.extend(await receive(there))

    with pytest.raises(trio.WouldBlock):
        here.send_nowait(said(b"1"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        assert here.send_nowait(said(b"1"))
        with pytest.raises(trio.WouldBlock):
            here.send_nowait(said(b"2"))
        nursery.start_soon(here.send, said(b"3"))  # before what was handed over is looked at, or after
        await trio.testing.wait_all_tasks_blocked()
        assert got == [b"1"]
        assert await receive(there) == [b"3"]


async def test_what_was_handed_over_survives_that_its_sender_closes() -> None:
    """It was received; then comes the end."""
    here, there = memory_channel_pair()
    got: list[bytes] = []

    async def take() -> None:
        got.extend(await receive(there))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        here.send_nowait(said(b"last"))
        await here.aclose()
    assert got == [b"last"]
    with pytest.raises(trio.EndOfChannel):
        await there.receive()


@pytest.mark.parametrize("receives", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_closing_wakes_whoever_waits(*, waits: bool, receives: bool) -> None:
    """At both ends, in both directions; and whoever comes later learns the same."""
    here, there = memory_channel_pair()
    attempts: list[tuple[type[Exception], Callable[[], Awaitable[object]]]] = [
        (trio.EndOfChannel, there.receive),
        (trio.ClosedResourceError, here.receive),
    ]
    if not receives:
        attempts = [
            (ConnectionLost, partial(there.send, said(b"x"))),
            (trio.ClosedResourceError, partial(here.send, said(b"x"))),
        ]

    async def attempt(expected: type[Exception], act: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(expected):
            await act()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            if not waits:
                await here.aclose()
            for one in attempts:
                nursery.start_soon(attempt, *one)
            if waits:
                await trio.testing.wait_all_tasks_blocked()
                await here.aclose()
    for channel, error in ((here, trio.ClosedResourceError), (there, ConnectionLost)):
        with pytest.raises(error):
            channel.send_nowait(said(b"x"))
    await here.aclose()


async def test_who_is_cancelled_has_sent_and_received_nothing() -> None:
    """While waiting, and before."""
    here, there = memory_channel_pair()
    acts: list[Callable[[], Awaitable[object]]] = [there.receive, partial(here.send, said(b"lost"))]
    for act in acts:
        for seconds in (0, 0.01):
            with trio.move_on_after(seconds) as scope:
                await act()
            assert scope.cancelled_caught
    async with trio.open_nursery() as nursery:
        nursery.start_soon(here.send, said(b"kept"))
        await trio.testing.wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await there.receive()
        assert scope.cancelled_caught
        assert await receive(there) == [b"kept"]


async def test_one_task_at_either_end() -> None:
    """A second one is told, instead of being forgotten."""
    here, there = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(there.receive)
        nursery.start_soon(there.send, said(b"x"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await there.receive()
        with pytest.raises(trio.BusyResourceError):
            await there.send(said(b"y"))
        assert await receive(here) == [b"x"]
        await here.send(said(b"z"))
