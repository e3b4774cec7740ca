"""The stream between trio-websocket and the bytes of a connection: frames are guarded, and messages come in time.

Spec: RFC 6455.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol, final

import attrs
import trio

from .._core._frames import POLICY_VIOLATION, FrameGuard, FrameRefused, text_head
from .._limits import KIB
from .._trio import LightParkingLot

READ_BYTES: Final = 64 * KIB
LEAST_READ: Final = 2 * KIB
FRAMES_AT_ONCE: Final = 128
"""How much is read at once: as much as had about so many frames before. 64 KiB may have eleven thousand."""

PAUSE_SECONDS: Final = 1.0
"""After so many seconds of silence control frames are counted anew."""

GATHERED_BYTES: Final = 64 * KIB
"""How much is gathered before it is written, of messages that are sent at once."""

_CLOSE_FRAME: Final = b"\x88"
"""How a Close begins."""


class Wire(Protocol):
    """The bytes below a WebSocket. One task reads and one writes at a time."""

    async def receive(self, most: int = ..., /) -> bytes:
        """Return the next bytes; none at the end, also if the connection was cut."""
        ...

    async def send(self, data: bytes, /) -> None:
        """Send all of it. Cancelled, some of it may have been sent.

        Raises:
            trio.BrokenResourceError: The peer does not read, or is gone.
        """
        ...

    async def send_eof(self) -> None:
        """Close the sending direction. Fails silently."""
        ...

    def cut(self) -> None:
        """Close it at once; again does nothing. Tasks that wait for it find it broken, or at its end."""
        ...


class HandshakeReader(Protocol):
    """Reads the server's answer to the handshake, before any frame."""

    def note_request(self, data: bytes) -> None:
        """Note what the handshake is that is sent."""
        ...

    def feed(self, data: bytes) -> bytes | None:
        """Take what has arrived; ``b""`` at the end. Returns all of it once the handshake is accepted.

        Raises:
            McpError: The server refused it.
        """
        ...


@final
@attrs.define(eq=False, repr=False)
class GuardedStream(trio.abc.Stream):
    """The stream that the library reads and writes.

    Args:
        wire: The bytes.
        guard: What arrives passes through it.
        on_refused: Called once, when the guard refuses a message, or one takes too long.
        on_read: Called when something has arrived, and the guard has seen it.
        patience: How many seconds the peer may take to send a message, from its first byte to its last; and the
            first one, from the handshake on.

    Attributes:
        guard: As given.
        heard_at: When something arrived last, on Trio's clock.
        is_paused: Whether nothing is read, because too much waits to be taken.
        has_sent_close: Whether this side has sent Close.
        failure: What the handshake has failed with.
    """

    _wire: Wire
    guard: FrameGuard
    _on_refused: Callable[[FrameRefused], object]
    _on_read: Callable[[], object]
    _patience: float = math.inf
    heard_at: float = attrs.field(factory=trio.current_time, init=False)
    is_paused: bool = attrs.field(default=False, init=False)
    has_sent_close: bool = attrs.field(default=False, init=False)
    failure: Exception | None = attrs.field(default=None, init=False)
    _is_late: bool = attrs.field(default=False, init=False)
    _awaited: float = attrs.field(default=0.0, init=False)  # for how long the rest of a message was, or the first
    _handshake: bytes | HandshakeReader = attrs.field(default=b"", init=False)
    _is_open: trio.Event = attrs.field(factory=trio.Event, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)
    _may_read: bool = attrs.field(default=True, init=False)
    _room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _gathers: bool = attrs.field(default=False, init=False)
    _read_size: int = attrs.field(default=LEAST_READ, init=False)
    _rest: bytes = attrs.field(default=b"", init=False)  # was read, and is not looked at
    _unsent: bytearray = attrs.field(factory=bytearray, init=False)
    _sending: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    # Reading. Only the library's reader task does.

    def begin(self, handshake: bytes | HandshakeReader) -> None:
        """Set what the library reads first: what stands for the client's request, or the server's answer."""
        self._handshake = handshake

    def open(self) -> None:
        """Hand on frames from now on: the handshake is complete."""
        self._is_open.set()

    def pause(self) -> None:
        """Read nothing until `go_on`."""
        self._may_read = False

    def go_on(self) -> None:
        """Read again."""
        self._may_read = True
        self._room.unpark_all()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return bytes for the library; none at the end."""
        del max_bytes
        handshake, self._handshake = self._handshake, b""
        if isinstance(handshake, bytes):
            if handshake:
                await trio.lowlevel.checkpoint()
                return handshake
        else:
            return await self._read_answer(handshake)
        await self._is_open.wait()
        while True:
            while not self._may_read:
                self.is_paused = True
                await self._room.park()
            data = await self._read_in_time()
            now = trio.current_time()
            if now > self.heard_at + PAUSE_SECONDS:
                self.guard.note_pause()
            self.heard_at = now
            self.is_paused = False
            if not data:
                self._over.set()
                return b""
            handed = self._feed(data)
            if handed:
                return handed

    async def _read_in_time(self) -> bytes:
        """Read; if a message takes too long, note that once, and read on for the peer's Close.

        Only the time in which something is waited for counts, and not that in which nothing is read.
        """
        guard, seconds = self.guard, self._patience
        is_waited_for = not guard.messages or not guard.is_between
        if seconds == math.inf or not is_waited_for or guard.refused is not None or self._is_late:
            return await self._read()
        since, before = trio.current_time(), guard.messages
        with trio.move_on_after(seconds - self._awaited):
            data = await self._read()
            self._awaited += trio.current_time() - since
            return data
        self._is_late = True
        what = "a message has not ended" if before else "no message has come"
        self._on_refused(FrameRefused(POLICY_VIOLATION, f"{what} within {seconds:g} s (message_timeout)"))
        return await self._read()

    async def _read(self) -> bytes:
        """Return so many bytes that not too many frames are in them; none at the end."""
        size = self._read_size
        if self._rest:
            await trio.lowlevel.checkpoint()
            data = self._rest
        else:
            data = await self._wire.receive(size)
        self._rest = data[size:]
        return data[:size]

    def _feed(self, data: bytes) -> bytes:
        guard = self.guard
        was_refused, before, messages = guard.refused is not None, guard.frames, guard.messages
        handed = guard.feed(data)
        if guard.messages != messages or (messages and guard.is_between):
            self._awaited = 0.0
        frames = guard.frames - before
        if frames > FRAMES_AT_ONCE:
            self._read_size = max(LEAST_READ, self._read_size // 2)
        elif len(data) >= self._read_size:
            self._read_size = min(READ_BYTES, 2 * self._read_size)
        if guard.refused is not None and not was_refused:
            self._on_refused(guard.refused)
        self._on_read()
        return handed

    async def _read_answer(self, reader: HandshakeReader) -> bytes:
        try:
            while True:
                data = await self._wire.receive(READ_BYTES)
                accepted = reader.feed(data)
                if accepted is not None:
                    head, mark, rest = accepted.partition(b"\r\n\r\n")
                    # Frames may have come with it; the library gets them when it knows of the handshake.
                    return head + mark + self._feed(rest)
        except Exception as error:
            # The boundary of the handshake: whatever is wrong with the answer, the connection is of no use.
            self.failure = error
            self._over.set()
            raise trio.BrokenResourceError("the handshake failed") from error

    # Writing. One task at a time, with whole frames; who is cancelled here cuts the connection.

    def gather(self) -> None:
        """Write nothing until `send_gathered`."""
        self._gathers = True

    def stop_gathering(self) -> None:
        """Write from now on what is sent, with what was gathered."""
        self._gathers = False

    async def send_gathered(self) -> None:
        """Write what was sent since `gather`.

        Raises:
            trio.BrokenResourceError: The peer does not read, or is gone.
        """
        self._gathers = False
        await self._send_unsent()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes of the library, always whole frames."""
        if not isinstance(self._handshake, bytes):
            self._handshake.note_request(bytes(data))
        elif data[:1] == _CLOSE_FRAME:
            self.has_sent_close = True
        self._unsent += data
        if not self._gathers or len(self._unsent) >= GATHERED_BYTES:
            await self._send_unsent()
        # Otherwise without a checkpoint: the library's lock, which it holds here, was one.

    async def send_text(self, data: bytes) -> None:
        """Send a message of a server in one frame. A large one is not copied.

        Raises:
            trio.BrokenResourceError: The peer does not read, or is gone, or Close was sent.
        """
        if len(data) >= GATHERED_BYTES:
            await self._send_unsent(data)
        elif self.has_sent_close:
            raise trio.BrokenResourceError("Close was sent")
        else:
            await self.send_all(text_head(len(data)) + data)

    async def _send_unsent(self, last: bytes | None = None) -> None:
        """Write what is unsent, and one more message."""
        async with self._sending:
            if last is not None:
                if self.has_sent_close:
                    raise trio.BrokenResourceError("Close was sent")
                self._unsent += text_head(len(last))
            if not self._unsent:
                return
            data, self._unsent = bytes(self._unsent), bytearray()
            try:
                await self._wire.send(data)
                if last is not None:
                    await self._wire.send(last)
            except BaseException:
                self._wire.cut()  # a part of a frame may have been sent
                self._give_up_handshake()
                raise

    def _give_up_handshake(self) -> None:
        """Note that a handshake could not be sent, if it was one: the library does not even read its answer."""
        if isinstance(self._handshake, bytes):
            return
        try:
            self._handshake.feed(b"")
        except Exception as error:
            # The boundary of the handshake; the reader says what its end means.
            self.failure = error
        self._over.set()

    async def wait_send_all_might_not_block(self) -> None:
        """Never called: the library does not use it."""
        await trio.lowlevel.checkpoint()

    # Its end.

    async def wait_over(self) -> None:
        """Wait until the library neither reads nor writes any more, or nothing more will arrive."""
        await self._over.wait()

    async def aclose(self) -> None:
        """Note that the library is done. The rest is up to the channel."""
        self._over.set()
        await trio.lowlevel.checkpoint()

    async def linger(self) -> None:
        """Close the sending direction, and drop what arrives until the peer has closed its own.

        Otherwise it could not read what was sent last.
        """
        await self._wire.send_eof()
        while await self._wire.receive(READ_BYTES):
            pass
