"""Newline-delimited JSON-RPC over a pair of byte streams: the framing of stdio, TCP and Unix sockets.

Spec: 2026-07-28, basic/transports, "Custom Transports"; basic/transports/stdio.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from .._channel import Channel, Incoming, Outgoing, Received, TooLarge
from .._core._lines import LineReader
from .._errors import ConnectionLost
from .._limits import Limits
from ._bytes import ByteReader, ByteWriter, reader_of, writer_of

__all__ = ["StreamChannel"]


class StreamChannel(Channel):
    """One end of a connection over byte streams, one message a line.

    A subclass that changes `send` has to change `send_nowait` as well.

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
        self._reader: ByteReader = reader_of(receive_stream)
        self._writer: ByteWriter = writer_of(send_stream)
        self._description = description
        self._lines = LineReader(max_message_bytes)
        self._at_end = False
        self._rest: memoryview | None = None  # of what `send_nowait` has begun to write

    @property
    def description(self) -> str:
        """What is at the other end."""
        return self._description

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        while not self._at_end:
            try:
                data = await self._reader.read()
            except trio.BrokenResourceError as error:
                raise ConnectionLost(f"reading from {self._description} failed: {_cause(error)}") from error
            # No checkpoint from here to the return: what was read is returned.
            self._at_end = not data
            lines = self._lines.feed(data) if data else self._lines.finish()
            if lines:
                return [
                    Incoming(line) if isinstance(line, bytes) else TooLarge(line.size, line.head, line.tail)
                    for line in lines
                ]
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write messages; see `Channel.send`. Cancelled, it may have written half of one."""
        rest, self._rest = self._rest, None
        try:
            if rest is not None:
                await self._writer.write(rest)
                if not messages:
                    return
            await self._writer.write(_framed(messages))
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing to {self._description} failed: {_cause(error)}") from error

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Write messages, as far as the stream takes them now; see `Channel.send_nowait`."""
        if self._rest is not None or not self._writer.can_write_now:
            raise trio.WouldBlock
        data = _framed(messages)
        try:
            written = self._writer.write_nowait(data)
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing to {self._description} failed: {_cause(error)}") from error
        if written == len(data):
            return True
        self._rest = memoryview(data)[written:]
        return False

    async def aclose(self) -> None:
        """Close both streams, writing first; cancelled, they are closed all the same."""
        try:
            await self._send_stream.aclose()
        finally:
            await self._receive_stream.aclose()


def _framed(messages: Sequence[Outgoing]) -> bytes:
    if len(messages) == 1:
        return messages[0].data + b"\n"
    lines = [message.data for message in messages]
    lines.append(b"")
    return b"\n".join(lines)


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__
