"""The channel over a WebSocket of an ASGI server: that does the handshake and the frames, and messages are whole.

What such a server does not let an application decide: how large a message is before it is complete, whether
messages are compressed, pings, and how long a client may read nothing.

Spec: the ASGI specification, "WebSocket"; RFC 6455.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, final

import attrs
import trio

from .._bindings._websocket import WebSocketEnd
from .._channel import Outgoing
from .._core._frames import INVALID_DATA, NO_STATUS, TOO_BIG, UNSUPPORTED_DATA, FrameRefused
from .._trio import LightParkingLot

MAX_REASON: Final = 123
"""How long the reason of a Close may be, in bytes (RFC 6455, section 5.5)."""


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class AsgiWebSocketChannel(WebSocketEnd):
    """The channel over a WebSocket of an ASGI server.

    Args:
        send: Takes ASGI messages; returns whether the client is there.
        Others: As for `WebSocketEnd`.
    """

    _send: Callable[[MutableMapping[str, Any]], Awaitable[bool]] = attrs.field(alias="send")
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    _room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)  # nothing more is received

    # Receiving. The task that owns the host's `receive` calls these.

    def take(self, text: object) -> None:
        """Take a message. One that is refused closes the connection, and what follows it is dropped."""
        if self._why is not None or self._is_closed:
            return
        limit = self._limits.max_message_bytes
        if not isinstance(text, str):
            self._refuse(FrameRefused(UNSUPPORTED_DATA, "a message must be text, not binary"))
            return
        try:
            data = text.encode("utf-8") if len(text) <= limit else b""
        except UnicodeEncodeError:
            self._refuse(FrameRefused(INVALID_DATA, "a message must be UTF-8"))
            return
        if len(text) > limit or len(data) > limit:
            self._refuse(FrameRefused(TOO_BIG, f"a message may have {limit} bytes (max_message_bytes)"))
        else:
            self._put(data)

    async def wait_to_take(self) -> None:
        """Wait while too much waits to be received. Does not checkpoint otherwise."""
        while self._is_full and self._why is None and not self._is_closed:
            await self._room.park()

    def note_disconnect(self, code: object, reason: object) -> None:
        """Note that the client has closed, or is gone; the host may not know why."""
        self._note_close(
            code if isinstance(code, int) else NO_STATUS, reason if isinstance(reason, str) else None
        )

    def note_silence(self) -> None:
        """Note that nothing more will be received, not even the end."""
        self._over.set()

    def _go_on(self) -> None:
        self._room.unpark_all()

    # Sending.

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send each message as text; see `Channel.send`."""
        for message in messages:
            async with self._sending:
                if self._is_closed or self._why is not None:
                    raise self._ended()
                text = message.data.decode("utf-8")
                if not await self._send({"type": "websocket.send", "text": text}):
                    self._end(f"writing to {self._description} failed: it is gone")
                    raise self._lost()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close it, and wait at most `Limits.goodbye_timeout` until the client has; see `Channel.aclose`."""
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            return
        self._is_closed = True
        self._changed.unpark_all()
        self._go_on()
        goodbye = self._goodbye
        reason = goodbye.reason.encode("utf-8")[:MAX_REASON].decode("utf-8", "ignore")
        close = {"type": "websocket.close", "code": goodbye.code, "reason": reason}
        try:
            with trio.move_on_after(self._limits.goodbye_timeout):
                async with self._sending:
                    is_there = await self._send(close)
                if is_there:
                    await self._over.wait()
            await trio.lowlevel.checkpoint()
        finally:
            self._keep_nothing()
