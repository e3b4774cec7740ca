"""A transport of one's own: messages with their length in front of them, over any stream of Trio's.

The whole of it, and what it is tested with: ``class TestFramedChannel(trio_mcp.testing.ChannelTests)``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import trio

from trio_mcp import Channel, ConnectionLost, Incoming, Outgoing, Received

MOST = 64 << 20


class FramedChannel(Channel):
    """JSON-RPC messages, each after its length in four bytes."""

    def __init__(self, stream: trio.abc.HalfCloseableStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def receive(self) -> Sequence[Received]:
        """Wait for whole messages."""
        while not (messages := self._whole()):
            try:
                data = await self._stream.receive_some()
            except trio.BrokenResourceError as error:
                raise ConnectionLost(f"reading failed: {error}") from error
            if not data:
                raise trio.EndOfChannel
            self._buffer += data  # kept if the next wait is cancelled
        return messages

    def _whole(self) -> list[Received]:
        found: list[Received] = []
        at = 0
        while len(self._buffer) >= at + 4:
            (size,) = struct.unpack_from("!I", self._buffer, at)
            if size > MOST:
                raise ConnectionLost(f"a message of {size} bytes; {MOST} is the most")
            if len(self._buffer) < at + 4 + size:
                break
            found.append(Incoming(bytes(self._buffer[at + 4 : at + 4 + size])))
            at += 4 + size
        del self._buffer[:at]
        return found

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages. A task that is cancelled here has spoilt the stream, as `Channel.send` says."""
        frames = b"".join(struct.pack("!I", len(one.data)) + one.data for one in messages)
        try:
            await self._stream.send_all(frames)
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing failed: {error}") from error

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
