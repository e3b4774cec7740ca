"""The bytes of a connection: whatever becomes of it, who reads and who writes is told in the same way."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import trio
import trio.testing
from inside_endpoint import SocketIO

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def pair() -> AsyncGenerator[tuple[SocketIO, socket.socket]]:
    """A wire, and the socket at its other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    wire = SocketIO(None, 0.3, near)
    yield wire, far
    wire.cut()
    far.close()


async def test_one_that_is_cut_has_nothing_to_read_and_takes_nothing(
    pair: tuple[SocketIO, socket.socket],
) -> None:
    """Before and after, by somebody else; and the next one works."""
    wire, _ = pair
    with trio.fail_after(10):
        wire.cut()
        for _ in range(3):
            assert await wire.receive() == b""
            with pytest.raises(trio.BrokenResourceError):
                await wire.send(b"x" * 10_000_000)
        await wire.send_eof()
        wire.cut()


@pytest.mark.parametrize("does", ["reads", "writes"])
async def test_cutting_ends_a_wait(pair: tuple[SocketIO, socket.socket], does: str) -> None:
    wire, _ = pair
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                if does == "reads":
                    assert await wire.receive() == b""
                else:
                    with pytest.raises(trio.BrokenResourceError):
                        await wire.send(b"x" * 10_000_000)

            nursery.start_soon(wait)
            await trio.sleep(0.05)
            wire.cut()


async def test_who_does_not_read_is_cut_after_the_send_timeout(pair: tuple[SocketIO, socket.socket]) -> None:
    wire, far = pair
    with trio.fail_after(10):
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await wire.send(b"x" * 10_000_000)
        assert trio.current_time() - began >= 0.3
        assert await wire.receive() == b""
    assert far.recv(1)


async def test_much_arrives_whole(pair: tuple[SocketIO, socket.socket]) -> None:
    wire, far = pair
    data = bytes(range(256)) * 20_000
    received = bytearray()

    def read() -> None:
        while len(received) < len(data):
            received.extend(far.recv(65_536))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, read)
            await wire.send(data)
    assert bytes(received) == data


async def test_what_is_not_taken_at_once_goes_before_what_follows(pair: tuple[SocketIO, socket.socket]) -> None:
    """As often as that happens; and once it has gone, the next piece is taken at once again."""
    wire, far = pair
    received = bytearray()
    expected = bytearray()

    def read() -> None:
        while len(received) < len(expected):
            received.extend(far.recv(65_536))

    with trio.fail_after(20):
        for number in range(3):
            piece = bytes([number]) * 3_000_000
            assert wire.send_nowait(b"small")
            assert not wire.send_nowait(piece)
            expected += b"small" + piece + b"behind"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, read)
                await wire.send(b"behind")
    assert received == expected


async def test_a_rest_is_lost_with_its_connection(pair: tuple[SocketIO, socket.socket]) -> None:
    wire, far = pair
    with trio.fail_after(10):
        assert not wire.send_nowait(b"x" * 10_000_000)
        far.close()
        with pytest.raises(trio.BrokenResourceError):
            await wire.send(b"")
        with pytest.raises(trio.BrokenResourceError):
            wire.send_nowait(b"x")


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_cutting_drops_the_rest_at_once(pair: tuple[SocketIO, socket.socket], *, is_waiting: bool) -> None:
    """What it took is lent to others, and the task that waits to send it runs later."""
    wire, _ = pair
    data: Any = bytearray(20_000_000)  # it cannot be emptied while anything refers to what is in it
    assert not wire.send_nowait(data)

    async def send_rest() -> None:
        with pytest.raises(trio.BrokenResourceError, match="the connection was cut"):
            await wire.send()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            if is_waiting:
                nursery.start_soon(send_rest)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(BufferError):
                data.clear()
            wire.cut()
            data.clear()
            if not is_waiting:
                nursery.start_soon(send_rest)
