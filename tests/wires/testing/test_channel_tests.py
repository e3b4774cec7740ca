"""The tests that transports are tested with: ours pass them, and each of them fails for a channel that breaks it."""

from __future__ import annotations

import runpy
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from places import EXAMPLES

from trio_mcp import (
    Channel,
    StreamChannel,
)
from trio_mcp.testing import ChannelTests

FramedChannel: Final[Any] = runpy.run_path(str(EXAMPLES / "framed_channel.py"))["FramedChannel"]


@asynccontextmanager
async def connected_streams() -> AsyncGenerator[tuple[trio.SocketStream, trio.SocketStream]]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        one = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        async with one, await listener.accept() as other:
            yield one, other


class TestLinesOverTcp(ChannelTests):
    @asynccontextmanager
    async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        async with connected_streams() as (one, other):
            yield StreamChannel(one, one), StreamChannel(other, other)


class TestFramedChannel(ChannelTests):
    """The example of docs/transports.md."""

    @asynccontextmanager
    async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        async with connected_streams() as (one, other):
            yield FramedChannel(one), FramedChannel(other)
