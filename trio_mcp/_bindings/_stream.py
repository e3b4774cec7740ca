"""Newline-delimited JSON-RPC over a pair of byte streams: the framing of stdio, TCP and Unix sockets.

Spec: 2026-07-28, basic/transports, "Custom Transports"; basic/transports/stdio.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from .._channel import Channel, Incoming, Outgoing, Received, TooLarge
from .._core._lines import LineReader
from .._errors import ConnectionLost
from .._limits import Limits

__all__ = ["StreamChannel"]

READ_BYTES: Final = 64 * 1024
"""How much is read at once: what a pipe holds."""


class StreamChannel(Channel):
    """One end of a connection over byte streams, one message a line.

    Args:
        receive_stream: Where lines come from.
        send_stream: Where lines go.
        max_message_bytes: The longest line that is read; a longer one is received as `TooLarge`.
        description: What is at the other end, for errors and logs.
    """

    def __init__(
        self,
        receive_stream: trio.abc.ReceiveStream,
        send_stream: trio.abc.SendStream,
        *,
        max_message_bytes: int = Limits().max_message_bytes,
        description: str = "the other end of the stream",
    ) -> None:
        self._receive_stream = receive_stream
        self._send_stream = send_stream
        self._description = description
        self._lines = LineReader(max_message_bytes)
        self._at_end = False

    @property
    def description(self) -> str:
        """What is at the other end."""
        return self._description

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        while not self._at_end:
            try:
                data = await self._receive_stream.receive_some(READ_BYTES)
            except trio.BrokenResourceError as error:
                raise ConnectionLost(f"reading from {self._description} failed: {_cause(error)}") from error
            # No checkpoint from here to the return: what was read is returned.
            self._at_end = not data
            lines = self._lines.feed(bytes(data)) if data else self._lines.finish()
            if lines:
                return [
                    Incoming(line) if isinstance(line, bytes) else TooLarge(line.size, line.head, line.tail)
                    for line in lines
                ]
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write messages; see `Channel.send`. Cancelled, it may have written half of one."""
        data = b"".join([part for message in messages for part in (message.data, b"\n")])
        try:
            await self._send_stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing to {self._description} failed: {_cause(error)}") from error

    async def aclose(self) -> None:
        """Close both streams, writing first; cancelled, they are closed all the same."""
        try:
            await self._send_stream.aclose()
        finally:
            await self._receive_stream.aclose()


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__
