"""A byte stream that gives up on a reader who does not read. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any, Final, final

import trio

__all__ = ["GuardedStream", "WireStream", "address_of", "cut"]

WireStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

STEP: Final = 64 * 1024
"""Bytes that are given `send_timeout` to be taken: what a slow reader must manage, not a whole answer."""


def _socket_of(stream: WireStream) -> trio.socket.SocketType:
    transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    return transport.socket


def cut(stream: WireStream) -> None:
    """Close a connection at once. Whoever waits for it finds it closed."""
    _socket_of(stream).close()


def address_of(stream: WireStream) -> str | None:
    """Return the address of the other side; `None` where there is none, or nobody any more."""
    try:
        name: tuple[object, ...] | str = _socket_of(stream).getpeername()
    except OSError:
        return None
    return str(name[0]) if isinstance(name, tuple) else None


@final
class GuardedStream:
    """Wraps the stream of a connection, for a host that sends behind a shield.

    A send that makes no progress ends the connection, as if the other side had reset it. Everything else is the
    stream's own.

    Args:
        stream: The stream.
        send_timeout: How long the other side may take to read some of what is sent, in seconds.

    Attributes:
        is_broken: Whether a send has failed.
    """

    def __init__(self, stream: WireStream, send_timeout: float) -> None:
        self.is_broken: bool = False
        self._stream = stream
        self._send_timeout = send_timeout

    def selected_alpn_protocol(self) -> str:
        """Say what is spoken, whatever the client would like."""
        if not isinstance(self._stream, trio.SSLStream):
            raise AttributeError("selected_alpn_protocol")
        return "http/1.1"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it.

        Raises:
            trio.BrokenResourceError: The other side does not read, or is gone.
        """
        if not data:
            await trio.lowlevel.checkpoint()
            return
        try:
            with memoryview(data) as view:
                for i in range(0, len(view), STEP):
                    await self._send_step(view[i : i + STEP])
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.is_broken = True
            raise

    async def _send_step(self, data: memoryview) -> None:
        with trio.move_on_after(self._send_timeout) as scope:
            try:
                await self._stream.send_all(data)
            except trio.BusyResourceError as error:
                # The host does not send twice at once, but it says goodbye while it sends.
                raise trio.BrokenResourceError("the connection is being closed") from error
        if scope.cancelled_caught:
            await trio.aclose_forcefully(self._stream)
            raise trio.BrokenResourceError(f"the other side has read nothing for {self._send_timeout:g} s")

    async def aclose(self) -> None:
        """Close it, within `send_timeout`."""
        with trio.move_on_after(self._send_timeout):
            await self._stream.aclose()
            return
        await trio.aclose_forcefully(self._stream)
