"""Bytes in and out of pipes, sockets and other streams, with as few turns of the event loop as possible.

Knows streams, descriptors and sockets. Framing, messages and HTTP are above.
"""

# Trio's streams checkpoint first, then try, and wait only if nothing is there. Between two ends that take turns
# nothing is ever there yet, so that costs a turn of the event loop for each message. Here reading waits first and
# then reads; writing tries first and waits only for what did not fit. That needs a descriptor, and `os.read` and
# `os.write` take sockets on POSIX alone; every other stream is read and written by Trio.

from __future__ import annotations

import errno
import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, NoReturn, Protocol, TypeAlias, cast, final

import trio

if sys.platform == "linux":
    import fcntl


READ_BYTES: Final = 64 * 1024
"""How much is read at once: what a pipe holds."""

WIDE_PIPE_BYTES: Final = 1 << 20
"""How much a pipe holds once a longer message has gone through it: the most that Linux allows every user."""

Read: TypeAlias = Callable[[], Awaitable[bytes]]
"""Waits for some bytes and returns them; ``b""`` at the end. Cancelled, it has read nothing.

Raises `trio.BrokenResourceError` if the stream failed, and `trio.ClosedResourceError` if it was closed here.
"""


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


def reader_of(stream: trio.abc.ReceiveStream, *, reads_at_once: int = 1) -> Read:
    """Return the function that reads from a stream.

    Args:
        stream: The stream.
        reads_at_once: How many times `READ_BYTES` may be read without giving other tasks a turn, while each read
            is a full one.
    """
    holder = _descriptor(stream)
    if holder is not None:
        return _DescriptorReader(holder, reads_at_once).read

    async def read() -> bytes:
        return bytes(await stream.receive_some(READ_BYTES))

    return read


@final
class _DescriptorReader:
    def __init__(self, holder: _HasDescriptor, reads_at_once: int) -> None:
        self._holder = holder
        self._reads_at_once = reads_at_once
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
            return data if len(data) < READ_BYTES or self._reads_at_once == 1 else self._more(descriptor, data)

    def _more(self, descriptor: int, data: bytes) -> bytes:
        """Read on: a peer that waits to write a long message fills the pipe again at once."""
        if not self._is_wide:
            self._is_wide = True
            _widen(descriptor)
        chunks = [data]
        for _ in range(self._reads_at_once - 1):
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError:
                break  # nothing more now; the next `read` meets every other error again
            if data:
                chunks.append(data)
            if len(data) < READ_BYTES:
                break
        return b"".join(chunks)


@final
class ByteWriter:
    """Writes to a stream, for one task at a time.

    Attributes:
        can_write_now: Whether `write_nowait` may be called.
    """

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream
        self._holder = _descriptor(stream)
        self._is_wide = False
        self.can_write_now: Final = self._holder is not None

    def write_nowait(self, data: bytes | memoryview) -> int:
        """Write as much as the system takes now, which may be nothing, and return how much that was.

        Raises:
            trio.BrokenResourceError: The stream failed.
            trio.ClosedResourceError: It was closed here.
        """
        assert self._holder is not None
        try:
            return os.write(self._holder.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            _fail(error)

    async def write(self, data: bytes | memoryview) -> None:
        """Write everything; to a descriptor, without waiting if it fits. Cancelled, it may have written a part.

        Raises:
            Like `write_nowait`.
        """
        if self._holder is None:
            await self._stream.send_all(data)
            return
        await trio.lowlevel.checkpoint_if_cancelled()
        written = self.write_nowait(data)
        if written < len(data):
            with memoryview(data) as rest:
                while written < len(data):
                    await trio.lowlevel.wait_writable(self._holder.fileno())
                    written += self.write_nowait(rest[written:])

    def widen_for(self, data: bytes | memoryview) -> None:
        """Let a pipe hold a long message that is about to be written."""
        if not self._is_wide and len(data) > READ_BYTES and self._holder is not None:
            self._is_wide = True
            _widen(self._holder.fileno())


def _widen(descriptor: int) -> None:
    """Let a pipe hold a long message, so that its two ends need not wake each other for each piece of it."""
    if sys.platform == "linux" and descriptor >= 0:
        with suppress(OSError):  # it is not a pipe, or this user has too many wide ones
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)


def _fail(error: OSError) -> NoReturn:
    if error.errno == errno.EBADF:
        raise trio.ClosedResourceError("the stream was closed") from None
    raise trio.BrokenResourceError from error


def readiness_of(stream: trio.abc.Stream) -> Callable[[], bool]:
    """Return the function that says whether bytes, or the end, of a socket's stream have arrived. Over TLS, too.

    For a stream of another kind it always says no.
    """
    plain: object = stream
    while isinstance(plain, trio.SSLStream):
        plain = cast("trio.SSLStream[trio.abc.Stream]", plain).transport_stream
    if not isinstance(plain, trio.SocketStream):
        return lambda: False
    descriptor = plain.socket.fileno()
    if sys.platform != "win32":  # where `select` refuses descriptors above 1023
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        look: Callable[[], object] = partial(poll.poll, 0)
    else:
        look = partial(_select, descriptor)
    return lambda: bool(look())


def _select(descriptor: int) -> list[int]:
    return select.select([descriptor], [], [], 0)[0]


# Sockets without a stream around them, for servers with thousands of connections.


def take_over(stream: trio.SocketStream) -> socket.socket:
    """Return the socket of a stream, which must not be used any more."""
    old = stream.socket
    # Copied, not asked of the system: some systems do not report it once the peer has gone.
    taken = socket.socket(old.family, old.type, old.proto, fileno=old.detach())
    taken.setblocking(False)
    return taken


def send_some(connection: socket.socket, data: bytes | memoryview) -> int:
    """Send as much as the system takes now, which may be nothing, and return how much that was. Never waits.

    Raises:
        trio.BrokenResourceError: The peer has gone.
    """
    try:
        return connection.send(data)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError("the peer has gone") from error


def close(connection: socket.socket) -> None:
    """Close a socket at once; closing again does nothing. A task that waits for it gets an error."""
    if connection.fileno() >= 0:
        trio.lowlevel.notify_closing(connection)
        connection.close()
