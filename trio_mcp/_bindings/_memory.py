"""Two ends of a connection inside one process. Messages are the bytes they would be on any other wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import trio

from .._channel import Channel, Incoming, Outgoing, Received
from .._errors import ConnectionLost

__all__ = ["MemoryChannel", "memory_channel_pair"]


@final
class MemoryChannel(Channel):
    """One end of a connection in memory. Made by `memory_channel_pair`.

    Nothing is buffered: `send` returns when the other end has received.
    """

    def __init__(
        self,
        description: str,
        send: trio.MemorySendChannel[Sequence[Received]],
        receive: trio.MemoryReceiveChannel[Sequence[Received]],
    ) -> None:
        self._description = description
        self._send = send
        self._receive = receive

    @property
    def description(self) -> str:
        """What this end talks to."""
        return self._description

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        return await self._receive.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Hand messages to the other end; see `Channel.send`."""
        try:
            await self._send.send([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} does not receive any more") from error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Hand messages to the other end, if it is receiving; see `Channel.send_nowait`."""
        try:
            self._send.send_nowait([Incoming(message.data) for message in messages])
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"{self._description} does not receive any more") from error
        return True

    async def aclose(self) -> None:
        """Close both directions. Messages that were sent can still be received at the other end."""
        self._send.close()
        self._receive.close()
        await trio.lowlevel.checkpoint()


def memory_channel_pair() -> tuple[MemoryChannel, MemoryChannel]:
    """Return the two ends of a new connection in memory: the client's, the server's."""
    to_server, from_client = trio.open_memory_channel[Sequence[Received]](0)
    to_client, from_server = trio.open_memory_channel[Sequence[Received]](0)
    return (
        MemoryChannel("the server in this process", to_server, from_server),
        MemoryChannel("the client in this process", to_client, from_client),
    )
