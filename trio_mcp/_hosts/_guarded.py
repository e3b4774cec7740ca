"""A byte stream that gives up on a reader who does not read. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any, Final, final

import trio

__all__ = ["GuardedStream", "WireStream"]

WireStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]

STEP: Final = 64 * 1024
"""Bytes that are given `send_timeout` to be taken: what a slow reader must manage, not a whole answer."""


@final
class GuardedStream:
    """Wraps the stream of a connection, for a host that sends behind a shield.

    A send that makes no progress ends the connection, as if the other side had reset it. Everything else is the
    stream's own.

    Args:
        stream: The stream.
        send_timeout: How long the other side may take to read some of what is sent, in seconds.
    """

    def __init__(self, stream: WireStream, send_timeout: float) -> None:
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
        with memoryview(data) as view:
            for i in range(0, len(view), STEP):
                with trio.move_on_after(self._send_timeout) as scope:
                    await self._stream.send_all(view[i : i + STEP])
                if scope.cancelled_caught:
                    await trio.aclose_forcefully(self._stream)
                    raise trio.BrokenResourceError(
                        f"the other side has read nothing for {self._send_timeout:g} s"
                    )

    async def aclose(self) -> None:
        """Close it, within `send_timeout`."""
        with trio.move_on_after(self._send_timeout):
            await self._stream.aclose()
            return
        await trio.aclose_forcefully(self._stream)
