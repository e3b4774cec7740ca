"""Reading from byte streams and writing to them with as few turns of the event loop as can be.

Trio's streams look whether there is something before they wait, and give others a turn before they look. Between
two ends that take turns there never is anything, so here the waiting comes first; and what fits into a pipe or a
socket is written without waiting at all. What has no descriptor is read and written as Trio does it.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn, Protocol, final

import trio

if sys.platform == "linux":
    import fcntl


READ_BYTES: Final = 64 * 1024
"""How much is read at once: what a pipe holds."""

WIDE_PIPE_BYTES: Final = 1 << 20
"""How much a pipe holds once a longer message has gone through it: what Linux allows everybody."""

READS_AT_ONCE: Final = 16
"""How often more is read without another turn for others, while each read finds a full pipe."""


class ByteReader(Protocol):
    """Reads from a stream."""

    async def read(self) -> bytes:
        """Wait for some bytes; none at the end. Cancelled, it has taken nothing.

        Raises:
            trio.BrokenResourceError: The stream failed.
            trio.ClosedResourceError: It was closed here.
        """
        ...


class ByteWriter(Protocol):
    """Writes to a stream."""

    @property
    def can_write_now(self) -> bool:
        """Whether `write_nowait` may be called."""
        ...

    async def write(self, data: bytes | memoryview) -> None:
        """Write everything; cancelled, a part of it.

        Raises:
            trio.BrokenResourceError: The stream failed.
            trio.ClosedResourceError: It was closed here.
        """
        ...

    def write_nowait(self, data: bytes) -> int:
        """Write as much as goes without waiting, at least a byte, and return how much that was.

        Raises:
            trio.WouldBlock: Nothing was written.
            Others: As `write`.
        """
        ...


def reader_of(stream: trio.abc.ReceiveStream) -> ByteReader:
    """Return what reads from a stream."""
    descriptor = _descriptor(stream)
    return _StreamReader(stream) if descriptor is None else _DescriptorReader(descriptor)


def writer_of(stream: trio.abc.SendStream) -> ByteWriter:
    """Return what writes to a stream."""
    return _StreamWriter(stream, _descriptor(stream))


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        ...


def _descriptor(stream: object) -> _HasDescriptor | None:
    if sys.platform != "win32":
        if isinstance(stream, trio.lowlevel.FdStream):
            return stream
        if isinstance(stream, trio.SocketStream):
            return stream.socket
    return None


@final
class _StreamReader:
    def __init__(self, stream: trio.abc.ReceiveStream) -> None:
        self._stream = stream

    async def read(self) -> bytes:
        return bytes(await self._stream.receive_some(READ_BYTES))


@final
class _DescriptorReader:
    def __init__(self, holder: _HasDescriptor) -> None:
        self._holder = holder
        self._is_wide = False

    async def read(self) -> bytes:
        while True:
            descriptor = self._holder.fileno()
            if descriptor < 0:
                await trio.lowlevel.checkpoint()
                raise trio.ClosedResourceError("the stream was closed")
            await trio.lowlevel.wait_readable(descriptor)
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                _fail(error)
            return data if len(data) < READ_BYTES else self._more(descriptor, data)

    def _more(self, descriptor: int, data: bytes) -> bytes:
        """Read on: a pipe that was full is about to be filled again by whoever waits to write a long message."""
        if not self._is_wide:
            self._is_wide = True
            _widen(descriptor)
        chunks = [data]
        for _ in range(READS_AT_ONCE - 1):
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError:
                break  # nothing more now; what is wrong is seen by the next read
            if data:
                chunks.append(data)
            if len(data) < READ_BYTES:
                break
        return b"".join(chunks)


@final
class _StreamWriter:
    def __init__(self, stream: trio.abc.SendStream, holder: _HasDescriptor | None) -> None:
        self._stream = stream
        self._holder = holder
        self._is_wide = False
        self.can_write_now = holder is not None

    async def write(self, data: bytes | memoryview) -> None:
        self._make_room_for(data)
        await self._stream.send_all(data)

    def write_nowait(self, data: bytes) -> int:
        assert self._holder is not None
        descriptor = self._holder.fileno()
        if descriptor < 0:
            raise trio.ClosedResourceError("the stream was closed")
        self._make_room_for(data)
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            raise trio.WouldBlock from None
        except OSError as error:
            _fail(error)

    def _make_room_for(self, data: bytes | memoryview) -> None:
        if not self._is_wide and len(data) > READ_BYTES and self._holder is not None:
            self._is_wide = True
            _widen(self._holder.fileno())


def _widen(descriptor: int) -> None:
    """Let a pipe hold a long message, so that its two ends need not wake each other for each piece of it."""
    if sys.platform == "linux" and descriptor >= 0:
        with suppress(OSError):  # it is no pipe, or this user has too many that are wide
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)


def _fail(error: OSError) -> NoReturn:
    if error.errno == errno.EBADF:
        raise trio.ClosedResourceError("the stream was closed") from None
    raise trio.BrokenResourceError from error
