"""What a server process writes to its standard error: read without end, handed to a sink, its last lines kept.

Knows a byte stream and a sink. No process, no message, and no belief that what is written there is an error
(2026-07-28, basic/transports/stdio: clients should not assume so).
"""

from __future__ import annotations

import codecs
import inspect
import io
import logging
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, final, runtime_checkable

import attrs
import trio

from .._errors import ConnectionLost
from .._logs import Log
from .._printable import printable

__all__ = [
    "KEPT_LINES",
    "KEPT_LINE_LENGTH",
    "MAX_PIECE",
    "Sink",
    "StderrReader",
    "StderrSink",
    "SupportsWrite",
    "TextPieces",
    "check_sink",
    "open_sink",
]

_log = Log("trio_mcp.stdio")

MAX_PIECE: Final = 64 * 1024
"""The longest piece of a line that is held back to wait for its end, in characters."""

KEPT_LINES: Final = 20
"""How many of the last lines are kept for errors: a short traceback."""

KEPT_LINE_LENGTH: Final = 1_000
"""How much of each of them is kept, in characters."""


@runtime_checkable
class SupportsWrite(Protocol):
    """A text or binary file, or whatever writes like one."""

    def write(self, data: Any, /) -> object:
        """Write text or bytes."""
        ...


StderrSink: TypeAlias = SupportsWrite | str | os.PathLike[str] | Callable[[str], object] | logging.Logger | None
"""Where a server's standard error goes.

A file or a path (appended to) gets the text as it comes, a callable is called in Trio's thread with each line,
a logger gets each line at level INFO, made printable, and `None` is our own standard error, looked up when the
process starts.
"""


def check_sink(sink: object) -> None:
    """Refuse what cannot be a `StderrSink`.

    Raises:
        TypeError: It is none of the kinds of sink, or what would be called is asynchronous.
    """
    if sink is None or isinstance(sink, (str, os.PathLike, logging.Logger)):
        return
    called = getattr(sink, "write", sink)
    if not callable(called):
        raise TypeError(
            f"stderr must be a file, a path, a callable, a logging.Logger or None, not {type(sink).__name__}"
        )
    if inspect.iscoroutinefunction(called):
        raise TypeError("stderr must be written or called synchronously, and this is an async function")


@final
class TextPieces:
    r"""Cuts a stream of bytes into lines of text, and lines that do not end into pieces of `MAX_PIECE`.

    A piece that ends its line ends in ``"\n"``, also where ``"\r\n"`` was written; others do not. Bytes that are
    not UTF-8 become replacement characters.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Of the line that has no end yet.
        self._parts: list[str] = []
        self._size = 0

    def feed(self, data: bytes | bytearray) -> list[str]:
        """Take the next bytes and return the pieces that are complete now."""
        return self._cut(self._decoder.decode(data))

    def finish(self) -> list[str]:
        """Return the last piece, if the stream ended without a newline after it."""
        pieces = self._cut(self._decoder.decode(b"", final=True))
        if self._parts:
            pieces.append(self._take())
        return pieces

    def _cut(self, text: str) -> list[str]:
        pieces: list[str] = []
        *ended, begun = text.split("\n")
        for part in ended:
            self._hold(part, pieces)
            pieces.append(self._take().removesuffix("\r") + "\n")
        self._hold(begun, pieces)
        return pieces

    def _hold(self, part: str, pieces: list[str]) -> None:
        while self._size + len(part) > MAX_PIECE:
            room = MAX_PIECE - self._size
            self._parts.append(part[:room])
            pieces.append(self._take())
            part = part[room:]
        if part:
            self._parts.append(part)
            self._size += len(part)

    def _take(self) -> str:
        piece = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return piece


@final
@attrs.frozen
class Sink:
    """A sink that is ready to take pieces of text.

    Attributes:
        take: Takes the next pieces.
        may_block: Whether it must be called in a thread, because a file may be a pipe nobody reads.
    """

    take: Callable[[Sequence[str]], object]
    may_block: bool = False


@asynccontextmanager
async def open_sink(sink: StderrSink) -> AsyncGenerator[Sink]:
    """Get a sink ready; what this opened itself, it closes again.

    Entering is a checkpoint.

    Raises:
        ConnectionLost: The path could not be opened for appending.
    """
    await trio.lowlevel.checkpoint()
    if sink is None:
        # A program without a console has no standard error.
        yield Sink(_writer(sys.stderr), may_block=True) if sys.stderr is not None else Sink(_discard)
    elif isinstance(sink, logging.Logger):
        yield Sink(_caller(lambda line: sink.info("%s", printable(line, MAX_PIECE))))
    elif isinstance(sink, SupportsWrite):
        yield Sink(_writer(sink), may_block=True)
    elif callable(sink):
        yield Sink(_caller(sink))
    else:
        try:
            # Opening a named pipe waits for its reader, and a thread that is left waiting there does no harm.
            file = await trio.to_thread.run_sync(_open_for_appending, sink, abandon_on_cancel=True)
        except OSError as error:
            reason = f"could not open {os.fspath(sink)!r} for a stdio server's standard error: {error.strerror}"
            raise ConnectionLost(reason) from error
        with file:
            yield Sink(_writer(file), may_block=True)


def _open_for_appending(path: str | os.PathLike[str]) -> io.FileIO:
    # Unbuffered: closing it never waits for a write that is stuck in another thread.
    return Path(path).open("ab", buffering=0)


def _writer(file: Any) -> Callable[[Sequence[str]], None]:
    mode = getattr(file, "mode", None)
    write: Callable[[Any], int | None] = file.write
    is_raw = isinstance(file, io.RawIOBase)
    is_binary = is_raw or isinstance(file, io.BufferedIOBase) or (isinstance(mode, str) and "b" in mode)
    flush = getattr(file, "flush", None)

    def take(pieces: Sequence[str]) -> None:
        text = "".join(pieces)
        rest = text.encode() if is_binary else text
        written = write(rest)
        # Only an unbuffered file may take less than it is given, and says how much.
        while is_raw and written is not None and written < len(rest):
            rest = rest[written:]
            written = write(rest)
        if flush is not None:
            flush()

    return take


def _caller(callback: Callable[[str], object]) -> Callable[[Sequence[str]], None]:
    def take(pieces: Sequence[str]) -> None:
        for piece in pieces:
            callback(piece.removesuffix("\n"))

    return take


def _discard(_pieces: Sequence[str]) -> None:
    pass


@final
class StderrReader:
    """Reads a process's standard error until its end, whatever becomes of the sink.

    A sink that raises is reported once to the log and then ignored. A sink that is stuck holds up reading once,
    for `patience` seconds. From then on what it cannot take at once is dropped and counted, until it takes again.

    Args:
        stream: The read end of the pipe; `run` closes it.
        sink: Where the text goes.
        patience: How long a stuck sink may hold up reading, in seconds.
        source: Whose standard error it is, for the log.

    Attributes:
        at_end: Set once everything was read: nobody is left who could write to it.
        delivered: Set once the sink has had everything it will get.
        received_bytes: How much was read.
        dropped_pieces: How many lines, or pieces of lines, a stuck sink did not get.
    """

    def __init__(self, stream: trio.abc.ReceiveStream, sink: Sink, *, patience: float, source: str) -> None:
        self.at_end = trio.Event()
        self.delivered = trio.Event()
        self.received_bytes = 0
        self.dropped_pieces = 0
        self._stream = stream
        self._sink = sink
        self._patience = patience
        self._source = source
        self._pieces = TextPieces()
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._at_line_start = True
        self._sink_is_stuck = False
        # One thread at a time, and never one of the program's own.
        self._threads = trio.CapacityLimiter(1)
        self._outbox, self._inbox = trio.open_memory_channel[list[str]](0)

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines, oldest first, each cut at `KEPT_LINE_LENGTH`."""
        return tuple(self._tail)

    async def run(self) -> None:
        """Read until the end of the pipe, then close it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._feed_sink)
            await self._read()

    async def _read(self) -> None:
        async with self._stream, self._outbox:
            try:
                async for chunk in self._stream:
                    self.received_bytes += len(chunk)
                    await self._take(self._pieces.feed(chunk))
            except trio.BrokenResourceError:
                _log.debug("reading the standard error of %s failed", self._source, exc_info=True)
            await self._take(self._pieces.finish())
            self.at_end.set()

    async def _take(self, pieces: list[str]) -> None:
        for piece in pieces:
            if self._at_line_start:
                self._tail.append(piece[:KEPT_LINE_LENGTH].removesuffix("\n"))
            self._at_line_start = piece.endswith("\n")
        await trio.lowlevel.checkpoint()
        if not pieces:
            return
        try:
            if self._sink_is_stuck:
                self._outbox.send_nowait(pieces)
                self._sink_is_stuck = False
            else:
                with trio.fail_after(self._patience):
                    await self._outbox.send(pieces)
        except (trio.TooSlowError, trio.WouldBlock):
            if not self.dropped_pieces:
                _log.warning("the sink for the standard error of %s is stuck; lines are dropped", self._source)
            self._sink_is_stuck = True
            self.dropped_pieces += len(pieces)
        except trio.BrokenResourceError:
            pass  # the sink raised, and the log says so

    async def _feed_sink(self) -> None:
        async with self._inbox:
            try:
                async for pieces in self._inbox:
                    if self._sink.may_block:
                        # A thread that is stuck in a write is left behind: it holds nothing but the file.
                        await trio.to_thread.run_sync(
                            self._sink.take, pieces, abandon_on_cancel=True, limiter=self._threads
                        )
                    else:
                        self._sink.take(pieces)
            except Exception:  # the boundary to code that is not ours: a bad sink costs its server nothing
                _log.exception("the sink for the standard error of %s raised and is not used again", self._source)
        self.delivered.set()
