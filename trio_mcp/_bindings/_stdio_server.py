"""The server's end of stdio: this process's own standard input and output as a channel.

While the channel is open only the protocol uses the two. Other code that reads standard input finds it empty, and
what other code prints, in Python, in C or in a child process, goes to standard error, in any encoding.

Spec: 2026-07-28, basic/transports/stdio: the server must not write anything to stdout that is not a message.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Final, TextIO, cast, final

import trio

from .._limits import Limits
from .._trio import READ_BYTES
from ._stream import StreamChannel

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2


@asynccontextmanager
async def open_stdio_channel(limits: Limits) -> AsyncGenerator[StreamChannel]:
    """Take over standard input and output, and restore them on leaving.

    Args:
        limits: `Limits.max_message_bytes` bounds a line.

    Raises:
        OSError: A standard stream is closed or cannot be used.
    """
    with ExitStack() as restored:
        for stream in (sys.stdout, sys.__stdout__):
            if stream is not None:
                with suppress(ValueError, OSError):  # closed, or replaced by something that cannot be flushed
                    stream.flush()
                    _write_anything(stream, restored)
        incoming = _take_over(STDIN, os.O_RDONLY, restored)
        outgoing = _take_over(STDOUT, os.O_WRONLY, restored)
        channel = StreamChannel(
            _receive_stream(incoming),
            _send_stream(outgoing),
            max_message_bytes=limits.max_message_bytes,
            description="the client at standard input and output",
        )
        channel.transport = "stdio"
        try:
            yield channel
        finally:
            with trio.CancelScope(shield=True):
                await channel.aclose()


def _write_anything(stream: TextIO, restored: ExitStack) -> None:
    """Have a text stream spell what its encoding lacks, as standard error does, until it is restored.

    It is read by people now. A tool that prints would fail, perhaps when its work is done.
    """
    if isinstance(stream, io.TextIOWrapper):
        strict = stream.errors or "strict"
        stream.reconfigure(errors="backslashreplace")
        restored.callback(_restore_errors, cast("io.TextIOWrapper", stream), strict)


def _restore_errors(stream: io.TextIOWrapper, errors: str) -> None:
    with suppress(ValueError, OSError):  # it was closed
        stream.reconfigure(errors=errors)


def _take_over(descriptor: int, mode: int, restored: ExitStack) -> int:
    """Return a new descriptor for a standard stream, and point the standard one elsewhere until it is restored.

    The new descriptor is made non-blocking, which is a property of the open file that descriptors share, not of
    the descriptor: a terminal or a pipe that standard error also writes to would lose output. Where the system
    lets the file be opened once more (Linux, pipes and terminals), the new one has the property alone; elsewhere
    Trio restores it on closing.
    """
    original = os.dup(descriptor)
    restored.callback(os.close, original)
    own = _open_again(original, mode)
    if own is None:
        own = os.dup(original)
    if mode == os.O_RDONLY:
        elsewhere = os.open(os.devnull, os.O_RDONLY)
        try:
            os.dup2(elsewhere, descriptor)
        finally:
            os.close(elsewhere)
        restored.callback(os.dup2, original, descriptor)
    else:
        os.dup2(STDERR, descriptor)
        restored.callback(_restore_stdout, original)
    return own


def _restore_stdout(original: int) -> None:
    if sys.stdout is not None:
        with suppress(ValueError, OSError):
            sys.stdout.flush()  # what was printed until now belongs to standard error
    os.dup2(original, STDOUT)


def _open_again(descriptor: int, mode: int) -> int | None:
    if sys.platform == "linux":
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
            # It fails without /proc, for another user's pipe, and if the other end of the pipe is closed.
            with suppress(OSError):
                return os.open(f"/proc/self/fd/{descriptor}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return None


def _can_be_waited_for(descriptor: int) -> bool:
    """Whether the event loop can wait for the descriptor: a pipe, a socket, a terminal, but not a file."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    if sys.platform == "linux":
        with select.epoll() as epoll:
            try:
                epoll.register(descriptor)
            except PermissionError:
                return False  # such as /dev/null
    return True


def _receive_stream(descriptor: int) -> trio.abc.ReceiveStream:
    if sys.platform != "win32" and _can_be_waited_for(descriptor):
        return trio.lowlevel.FdStream(descriptor)
    return _ThreadedReceiveStream(descriptor)


def _send_stream(descriptor: int) -> trio.abc.SendStream:
    if sys.platform != "win32" and _can_be_waited_for(descriptor):
        return trio.lowlevel.FdStream(descriptor)
    return _ThreadedSendStream(descriptor)


class _ThreadedStream(trio.abc.AsyncResource):
    """A stream over a descriptor that only a thread can wait for: a file, or a pipe on Windows."""

    def __init__(self, descriptor: int) -> None:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.setmode(descriptor, os.O_BINARY)
        self._descriptor = descriptor
        self._limiter = trio.CapacityLimiter(1)

    def _open_descriptor(self) -> int:
        if self._descriptor < 0:
            raise trio.ClosedResourceError("the stream was closed")
        return self._descriptor

    async def aclose(self) -> None:
        if self._descriptor >= 0:
            # A thread that is stuck in it goes on with a closed descriptor; the process is about to end.
            os.close(self._descriptor)
            self._descriptor = -1
        await trio.lowlevel.checkpoint()


@final
class _ThreadedReceiveStream(_ThreadedStream, trio.abc.ReceiveStream):
    """Standard input that is a file, or on Windows. A pipe is read by `_trio.reader_of`."""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        descriptor = self._open_descriptor()
        try:
            # A read cannot be interrupted. An abandoned thread may still take what comes next, but reading is
            # only cancelled when the channel is about to be closed.
            return await trio.to_thread.run_sync(
                os.read, descriptor, max_bytes or READ_BYTES, abandon_on_cancel=True, limiter=self._limiter
            )
        except OSError as error:
            raise trio.BrokenResourceError from error


@final
class _ThreadedSendStream(_ThreadedStream, trio.abc.SendStream):
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        descriptor = self._open_descriptor()
        try:
            await trio.to_thread.run_sync(
                _write_all, descriptor, bytes(data), abandon_on_cancel=True, limiter=self._limiter
            )
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
