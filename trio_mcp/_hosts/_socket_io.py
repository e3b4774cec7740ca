"""The bytes of one connection, plain or over TLS, with a limit for clients that do not read. Knows no HTTP.

A plain socket is read and written without Trio's stream around it, which would cost a third of a small request:
what the system takes at once is sent without waiting.
"""

from __future__ import annotations

import abc
import socket
from contextlib import suppress
from typing import Final, final

import trio

from .._bytes import close, send_some
from .._endpoint._turnstile import Turnstile

READ_BYTES: Final = 64 * 1024

READ_AHEAD: Final = 16 * 1024
"""Bytes that are read before they are wanted: of a body before its client is authenticated, and after a request
while it is served. A client that has sent more can go unnoticed meanwhile."""

STEP: Final = 64 * 1024
"""So many bytes have `send_timeout` to be taken: a slow reader need not take a whole answer in that time."""

LINGER_SECONDS: Final = 2.0
"""How long a client may go on sending after the last answer, in seconds. Closing the connection with bytes unread
would make the client's system discard the answer."""


class ConnectionIO(abc.ABC):
    """A connection. One task reads and one writes at a time.

    Args:
        client: The address of the client; `None` where there are no addresses.
        send_timeout: How long the client may take to read `STEP` bytes of what is sent, in seconds.

    Attributes:
        client: The address of the client.
        scheme: ``http`` or ``https``.
    """

    scheme: str = "http"

    def __init__(self, client: str | None, send_timeout: float) -> None:
        self.client = client
        self._send_timeout = send_timeout
        self._reading: Turnstile | None = None
        self._writing: Turnstile | None = None
        self._holder = ""

    @final
    def share(self, reading: Turnstile, writing: Turnstile, holder: str) -> None:
        """Read and write only in turn from now on.

        Args:
            reading: Where it waits for its turn when bytes have arrived.
            writing: Where it waits for its turn when bytes are to be sent.
            holder: Whose it is. All connections of one holder have one share of the event loop.
        """
        self._reading = reading
        self._writing = writing
        self._holder = holder

    @final
    async def wait_to_read(self) -> None:
        """Wait for its turn to begin, or to read. Does not checkpoint if it may at once."""
        if self._reading is not None:
            await self._reading.enter(self._holder)

    @final
    async def _wait_to_write(self, size: int) -> None:
        """Wait for its turn to send so many bytes. Does not checkpoint if it may at once.

        Large pieces do not wait here, where they would stay in memory even if the connection is cut: they wait
        for the client soon enough.
        """
        if self._writing is not None and size <= STEP:
            await self._writing.enter(self._holder)

    @abc.abstractmethod
    async def start(self) -> None:
        """Prepare the connection before the first byte; over TLS, do the handshake.

        Raises:
            trio.BrokenResourceError: That has failed.
        """

    @abc.abstractmethod
    async def receive(self, most: int = READ_BYTES) -> bytes:
        """Return the next bytes, at most so many; none once the client has closed."""

    @abc.abstractmethod
    async def send(self, data: bytes) -> None:
        """Send all of it. Does not checkpoint if it is its turn, and the system takes all of it at once.

        Cancelled, some of it may have been sent.

        Raises:
            trio.BrokenResourceError: The client does not read, or is gone.
        """

    @abc.abstractmethod
    async def send_eof(self) -> None:
        """Close the sending direction. Fails silently."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Close it at once. Tasks that wait for it find it broken, or at its end."""

    @final
    async def linger(self) -> None:
        """Let the client read what was sent last, before it is closed."""
        await self.send_eof()
        with trio.move_on_after(LINGER_SECONDS):
            while await self.receive():
                pass

    def _too_slow(self) -> trio.BrokenResourceError:
        self.cut()
        return trio.BrokenResourceError(f"the client has not read for {self._send_timeout:g} s (send_timeout)")


@final
class SocketIO(ConnectionIO):
    """A plain socket.

    Args:
        connection: The socket, which does not block.
        client: As for `ConnectionIO`.
        send_timeout: As for `ConnectionIO`.
    """

    def __init__(self, connection: socket.socket, client: str | None, send_timeout: float) -> None:
        super().__init__(client, send_timeout)
        self._socket = connection

    async def start(self) -> None:
        with suppress(OSError):  # a Unix socket, or one that was cut
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await trio.lowlevel.checkpoint()

    async def receive(self, most: int = READ_BYTES) -> bytes:
        if self._socket.fileno() < 0:
            await trio.lowlevel.checkpoint()
            return b""  # it was cut; Trio cannot wait for a descriptor that is closed
        try:
            # Trio cannot wait for a socket that was closed meanwhile: it has no descriptor any more.
            while self._socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self._socket)
                await self.wait_to_read()
                try:
                    return self._socket.recv(most)
                except BlockingIOError:
                    pass
        except (OSError, trio.ClosedResourceError):
            return b""
        await trio.lowlevel.checkpoint()
        return b""

    async def send(self, data: bytes) -> None:
        await self._wait_to_write(len(data))
        sent = send_some(self._socket, data)
        if sent < len(data):
            with memoryview(data) as view:
                while sent < len(data):
                    await self._wait_room()
                    sent += send_some(self._socket, view[sent : sent + STEP])

    async def _wait_room(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.BrokenResourceError("the connection was cut")
        with trio.move_on_after(self._send_timeout) as scope:
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except (OSError, trio.ClosedResourceError) as error:
                raise trio.BrokenResourceError("the connection was cut") from error
        if scope.cancelled_caught:
            raise self._too_slow()

    async def send_eof(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        close(self._socket)


@final
class TlsIO(ConnectionIO):
    """A connection over TLS.

    Args:
        stream: The connection.
        client: As for `ConnectionIO`.
        send_timeout: As for `ConnectionIO`.
        handshake_timeout: How long the handshake may take, in seconds.
    """

    scheme = "https"

    def __init__(
        self,
        stream: trio.SSLStream[trio.SocketStream],
        client: str | None,
        send_timeout: float,
        handshake_timeout: float,
    ) -> None:
        super().__init__(client, send_timeout)
        self._stream = stream
        self._transport = stream.transport_stream
        self._handshake_timeout = handshake_timeout

    async def start(self) -> None:
        with trio.move_on_after(self._handshake_timeout) as scope:
            try:
                await self._stream.do_handshake()
            except trio.ClosedResourceError as error:
                raise trio.BrokenResourceError("the connection was cut") from error
        if scope.cancelled_caught:
            raise trio.BrokenResourceError(
                f"the TLS handshake took more than {self._handshake_timeout:g} s (body_timeout)"
            )

    async def receive(self, most: int = READ_BYTES) -> bytes:
        try:
            data = bytes(await self._stream.receive_some(most))
            await self.wait_to_read()
            return data
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def send(self, data: bytes) -> None:
        await self._wait_to_write(len(data))
        with memoryview(data) as view:
            for at in range(0, len(data), STEP):
                with trio.move_on_after(self._send_timeout) as scope:
                    try:
                        await self._stream.send_all(view[at : at + STEP])
                    except trio.ClosedResourceError as error:
                        raise trio.BrokenResourceError("the connection was cut") from error
                if scope.cancelled_caught:
                    raise self._too_slow()

    async def send_eof(self) -> None:
        # Below TLS: its closing message would wait for the client's, and HTTP itself marks where an answer ends.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._transport.send_eof()

    def cut(self) -> None:
        self._transport.socket.close()
