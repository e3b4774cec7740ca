"""Wires on which things go wrong, by script or by seed: of messages, and of bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from trio_mcp import (
    Channel,
    StreamChannel,
)
from trio_mcp.testing import ChannelTests, Fault, FaultyStream


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
