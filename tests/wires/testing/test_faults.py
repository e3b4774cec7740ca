"""Wires on which things go wrong, by script or by seed: of messages, and of bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

import trio
import trio.testing

from trio_mcp import (
    Channel,
    StreamChannel,
)
from trio_mcp.testing import ChannelTests, Fault, FaultyStream

END = "the end"
LOST = "lost"


def message(number: int) -> bytes:
    return b'{"n":%d}' % number


class TestBytesWithoutFaults(ChannelTests):
    """Nor here; each message comes in two pieces, and late."""

    sizes = (100, 4_000, 70_000)

    @asynccontextmanager
    async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with listener:
            one = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
            async with one, await listener.accept() as other:
                faulty = FaultyStream(one, [Fault("split", "sent", at) for at in range(10, 50_000, 1_111)])
                yield StreamChannel(faulty, faulty), StreamChannel(other, other)


# Bytes.


async def pieces(
    faults: list[Fault], data: bytes, direction: Literal["sent", "received"]
) -> list[tuple[float, bytes | str]]:
    """Send bytes through a faulty stream, and return the pieces that come, in which time."""
    one, other = trio.testing.memory_stream_pair()
    begin = trio.current_time()
    found: list[tuple[float, bytes | str]] = []
    sender: trio.abc.Stream = FaultyStream(one, faults) if direction == "sent" else one
    receiver: trio.abc.Stream = FaultyStream(other, faults) if direction == "received" else other

    async def send() -> None:
        try:
            await sender.send_all(data)
        except trio.BrokenResourceError:
            found.append((round(trio.current_time() - begin, 3), "broken for the sender"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        with trio.move_on_after(100):
            while True:
                try:
                    piece = await receiver.receive_some()
                except trio.BrokenResourceError:
                    found.append((round(trio.current_time() - begin, 3), LOST))
                    break
                found.append((round(trio.current_time() - begin, 3), bytes(piece) or END))
                if not piece:
                    break
        nursery.cancel_scope.cancel()
    return found
