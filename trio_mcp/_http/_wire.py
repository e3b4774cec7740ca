"""The bytes of one connection of ours, plain or over TLS.

A plain socket is written and read here without Trio's own stream around it: what the system takes at once is
sent without a turn of the event loop, and an answer is waited for before anybody looks whether it is there.
"""

from __future__ import annotations

import abc
import select
import sys
from collections.abc import Callable
from functools import partial
from typing import Final, cast, final

import trio

from .._sockets import close, send_some, take_over

__all__ = ["Wire", "wire_over"]

READ_BYTES: Final = 64 * 1024


class Wire(abc.ABC):
    """The bytes of a connection. One task sends and one receives at a time."""

    @abc.abstractmethod
    async def send(self, data: bytes | memoryview) -> None:
        """Send all of it. Cancelled before that, it sends nothing; it waits only if it must.

        Raises:
            trio.BrokenResourceError: The other side is gone.
        """

    @abc.abstractmethod
    async def receive(self) -> bytes:
        """Wait for what comes next; nothing once nothing will come.

        Raises:
            trio.BrokenResourceError: The connection broke.
        """

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close it at once, without another word."""

    @property
    @abc.abstractmethod
    def is_readable(self) -> bool:
        """Whether something has come, or the end of it."""


def wire_over(stream: trio.abc.Stream) -> Wire:
    """Return what moves bytes over a stream, which it takes over."""
    return _SocketWire(stream) if isinstance(stream, trio.SocketStream) else _StreamWire(stream)


@final
class _SocketWire(Wire):
    """A plain socket."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._socket = take_over(stream)
        self._is_readable = _readable(self._socket.fileno())

    async def send(self, data: bytes | memoryview) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        sent = send_some(self._socket, data)
        if sent < len(data):
            with memoryview(data) as rest:
                while sent < len(data):
                    await trio.lowlevel.wait_writable(self._socket)
                    sent += send_some(self._socket, rest[sent:])

    async def receive(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(READ_BYTES)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError("the connection broke") from error

    async def aclose(self) -> None:
        close(self._socket)
        await trio.lowlevel.checkpoint()

    @property
    def is_readable(self) -> bool:
        return self._is_readable()


@final
class _StreamWire(Wire):
    """Any other stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        plain: object = stream
        while isinstance(plain, trio.SSLStream):
            plain = cast("trio.SSLStream[trio.abc.Stream]", plain).transport_stream
        self._is_readable = (
            _readable(plain.socket.fileno()) if isinstance(plain, trio.SocketStream) else lambda: False
        )

    async def send(self, data: bytes | memoryview) -> None:
        await self._stream.send_all(data)

    async def receive(self) -> bytes:
        return bytes(await self._stream.receive_some(READ_BYTES))

    async def aclose(self) -> None:
        # Polite closing may wait for the other side, and nobody waits here.
        await trio.aclose_forcefully(self._stream)

    @property
    def is_readable(self) -> bool:
        return self._is_readable()


def _readable(fd: int) -> Callable[[], bool]:
    """Return what tells whether there is something to read."""
    if sys.platform != "win32":  # where `select` knows no descriptors above 1023
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        look: Callable[[], object] = partial(poll.poll, 0)
    else:
        look = partial(_select, fd)
    return lambda: bool(look())


def _select(fd: int) -> list[int]:
    return select.select([fd], [], [], 0)[0]
