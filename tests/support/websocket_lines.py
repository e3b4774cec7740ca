"""A server of ours and the channel of a client, over a WebSocket in memory: both ends whole, and any clock."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing
from http_hosted import MemoryWire
from inside_base import open_hidden_nursery
from inside_endpoint import ConnectionIO, ConnectionLimits, lean_connections
from inside_transports import (
    GuardedStream,
    HandshakeAnswer,
    StreamWire,
    WebSocketChannel,
    open_websocket_channel,
    propose,
)

from trio_mcp import Channel, Endpoint, HttpServerSettings, Limits, Server, open_endpoint

__all__ = ["open_websocket_line"]


@asynccontextmanager
async def open_websocket_line(
    server: Server[Any], settings: HttpServerSettings | None, limits: Limits
) -> AsyncGenerator[tuple[Channel, Endpoint]]:
    """Connect; the server is none of its client's business: its being cancelled does not cancel it."""
    settings = attrs.evolve(settings or HttpServerSettings(), keep_alive_interval=math.inf)
    end = trio.Event()

    async def _run(*, task_status: trio.TaskStatus[tuple[Channel, Endpoint]]) -> None:
        with trio.CancelScope(shield=True):
            async with (
                open_endpoint(server, settings, only_websockets=True) as endpoint,
                open_hidden_nursery() as nursery,
            ):
                near, far = trio.testing.lockstep_stream_pair()
                places = ConnectionLimits[ConnectionIO](1_000, 1_000, lambda wire: wire.cut())
                wire = MemoryWire(far)
                places.enter(wire, None)
                connection = lean_connections(endpoint, settings)(wire, places)
                nursery.start_soon(connection.serve)  # noqa: ASYNC113 - as over a network
                channel = WebSocketChannel(
                    limits, "the server", wire=StreamWire(near), ping_interval=math.inf, ping_timeout=30
                )

                async def connect(tasks: trio.Nursery, stream: GuardedStream) -> Any:
                    answer = HandshakeAnswer("the server", 1 << 16)
                    return await propose(tasks, stream, "localhost", "/mcp", [], answer)

                try:
                    async with open_websocket_channel(channel, connect):
                        task_status.started((channel, endpoint))
                        await channel.wait_ended()
                finally:
                    await trio.aclose_forcefully(near)
                await end.wait()

    async with open_hidden_nursery() as nursery:
        pair: tuple[Channel, Endpoint] = await nursery.start(_run)
        try:
            yield pair
        finally:
            end.set()
