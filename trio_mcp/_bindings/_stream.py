"""Newline-delimited JSON-RPC over a pair of byte streams: the framing of stdio, TCP and Unix sockets.

Knows lines, and bytes that are read ahead. Processes and standard streams are above.

Spec: 2026-07-28, basic/transports, "Custom Transports"; basic/transports/stdio.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, final

import trio

from .._channel import Channel, Incoming, Outgoing, Received, TooLarge
from .._codec import _json
from .._core._framing import LineReader, OversizedLine
from .._errors import ConnectionLost
from .._limits import Limits
from .._trio import READ_BYTES, ByteWriter, LightParkingLot, Read, behind, open_hidden_nursery, reader_of

READS_AT_ONCE: Final = 16
"""How many times as much is read at once behind what has filled a pipe."""

LINES_AT_ONCE: Final = 1024
"""So many lines in one read are not the message that more is read for: a megabyte may have half a million."""


_LAST_BYTES: Final = 1024
"""How much of a large message is written together with its newline."""


class StreamChannel(Channel):
    """One end of a connection over byte streams, one message a line.

    A subclass that changes `send` has to change `send_nowait` as well.

    Args:
        receive_stream: Where lines come from.
        send_stream: Where lines go.
        max_message_bytes: The longest line that is read; a longer one is received as `TooLarge`.
        description: The other end, for errors and logs.
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
        self._read: Read = reader_of(receive_stream, reads_at_once=READS_AT_ONCE, reads_on=has_few_lines)
        self._writer = ByteWriter(send_stream)
        self._description = description
        self._lines = LineReader(max_message_bytes)
        self._at_end = False
        self._rest: Sequence[memoryview] = ()  # of what `send_nowait` has begun to write
        self._ahead: _Ahead | None = None  # what was read before `receive` was called

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        while not self._at_end:
            try:
                data = await (self._read() if self._ahead is None else self._take_ahead(self._ahead))
            except trio.BrokenResourceError as error:
                raise ConnectionLost(f"reading from {self._description} failed: {_cause(error)}") from error
            # No checkpoint from here to the return: what was read is returned.
            self._at_end = not data
            lines = self._lines.feed(data) if data else _whole(self._lines.finish())
            del data  # an error that ends the connection refers to this frame, until garbage is collected
            received = self._received(lines)
            if received:
                return received
            # No line is complete, or they were blank. Reading need not wait, so without a checkpoint a peer that
            # sends only that, without end, would keep every other task from running.
            await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    def _received(self, lines: Sequence[bytes | OversizedLine]) -> Sequence[Received]:
        """Return the messages in the lines that were read. Called after each read; must not wait."""
        return [
            Incoming(line) if isinstance(line, bytes) else TooLarge(line.size, line.head, line.tail)
            for line in lines
        ]

    @asynccontextmanager
    async def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AsyncGenerator[None]:
        """Read before `receive` is called; see `Channel.reading_ahead`."""
        self._ahead = ahead = _Ahead()
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(ahead.read, self._read, on_end, max_bytes, name="reading ahead")
            try:
                yield
            finally:
                nursery.cancel_scope.cancel(reason="serving ended")

    async def _take_ahead(self, ahead: _Ahead) -> bytes:
        """Return what was read, or is being read, ahead; then read as usual."""
        data = await ahead.take()
        if data is not None:
            return data
        self._ahead = None
        return await self._read()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Write messages; see `Channel.send`. Cancelled, it may have written half of one."""
        rest, self._rest = self._rest, ()
        try:
            for part in rest:
                await self._send_all(part)
            if messages or not rest:
                parts = _framed(messages)
                self._writer.widen_for(parts[0])
                for framed in parts:
                    await self._send_all(framed)
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing to {self._description} failed: {_cause(error)}") from error

    async def _send_all(self, data: bytes | memoryview) -> None:
        """Write all of it. Cancelled, it may have written a part."""
        await self._send_stream.send_all(data)

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Write messages, as far as the stream takes them now; see `Channel.send_nowait`."""
        if self._rest or not self._writer.can_write_now:
            raise trio.WouldBlock
        parts = _framed(messages)
        self._writer.widen_for(parts[0])
        try:
            written = self._writer.write_nowait(*parts)
        except trio.BrokenResourceError as error:
            raise ConnectionLost(f"writing to {self._description} failed: {_cause(error)}") from error
        if written == len(parts[0]) and len(parts) == 1:
            return True
        if not written:
            raise trio.WouldBlock
        self._rest = behind(parts, written)
        return not self._rest

    async def aclose(self) -> None:
        """Close both streams, writing first; cancelled, they are closed all the same."""
        try:
            with suppress(trio.ClosedResourceError):  # TLS says goodbye, over a socket that may have been cut
                await self._send_stream.aclose()
        finally:
            await self._receive_stream.aclose()


@final
class _Ahead:
    """What is read before `receive` is called. From then on it ends with the next piece, so that none is lost."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._failure: trio.BrokenResourceError | None = None
        self._is_wanted = False
        self._has_ended = False
        self._changed = LightParkingLot()

    async def read(self, read: Read, on_end: Callable[[], object], max_bytes: int) -> None:
        """Read until there is enough, nothing more comes, or `take` is called."""
        size = 0
        await trio.lowlevel.checkpoint()
        try:
            while size < max_bytes and not self._is_wanted:
                data = await read()
                self._pieces.append(data)
                self._changed.unpark_all()
                size += len(data)
                if not data:
                    on_end()
                    return
        except trio.BrokenResourceError as error:
            self._failure = error
            on_end()
        finally:
            self._has_ended = True
            self._changed.unpark_all()

    async def take(self) -> bytes | None:
        """Return the next piece; `None` if there will be none.

        Raises:
            trio.BrokenResourceError: The stream failed.
        """
        self._is_wanted = True
        await trio.lowlevel.checkpoint()
        while not (self._pieces or self._has_ended):
            await self._changed.park()
        if self._pieces:
            return self._pieces.popleft()
        if self._failure is not None:
            raise self._failure
        return None


def has_few_lines(data: bytes) -> bool:
    """Whether bytes look like a part of a long message, behind which more may be read at once."""
    place = -1  # counting all would take fifteen times as long where there are none
    for _ in range(LINES_AT_ONCE):
        place = data.find(b"\n", place + 1)
        if place < 0:
            return True
    return False


def _framed(messages: Sequence[Outgoing]) -> Sequence[bytes | memoryview]:
    """Return messages as lines: in one part, or two if it is a large message, which is not copied.

    The newline belongs to a part with more than itself: nobody should be woken for it alone.
    """
    if len(messages) == 1:
        data = messages[0].data
        if len(data) <= READ_BYTES:
            return (data + b"\n",)
        return memoryview(data)[:-_LAST_BYTES], data[-_LAST_BYTES:] + b"\n"
    lines = [message.data for message in messages]
    lines.append(b"")
    return (b"\n".join(lines),)


def _cause(error: BaseException) -> str:
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__


def _whole(rest: Sequence[bytes | OversizedLine]) -> list[bytes | OversizedLine]:
    """Return what a stream has ended with, unless it is a part of a message: that was never sent."""
    return [line for line in rest if not isinstance(line, bytes) or _is_json(line)]


def _is_json(line: bytes) -> bool:
    try:
        _json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True
