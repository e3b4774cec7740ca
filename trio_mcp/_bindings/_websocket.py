"""One end of a WebSocket as a channel: one JSON-RPC message in each text frame. Both ends use this.

    wire ──> a guard for frames ──> trio-websocket ──> the queue ──> receive
    wire <── what was gathered <── trio-websocket <── send

trio-websocket speaks the protocol. What it leaves open is decided here: its tasks run in a nursery of ours, so
what it raises ends this connection alone; it reads and writes a stream of ours (`GuardedStream`), which knows how
large messages are before they are decoded, and writes many messages at once, those of a server without copies;
its messages are taken as they come, so that its reader goes on and answers pings, up to
`Limits.max_waiting_bytes`. Then nothing more is read until what waits is received, which is never put off for
longer than `Limits.slow_consumer_timeout`.

A cancelled `send_message` would tear a frame. So what is sent comes from the one task that calls `send`, and from
tasks that only the end of the connection cancels.

Spec: RFC 6455; 2026-07-28, basic/transports, "Custom Transports".
"""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias, cast, final

import attrs
import trio
import trio_websocket
from trio_websocket import ConnectionClosed, WebSocketConnection
from wsproto.frame_protocol import FrameProtocol
from wsproto.utilities import ProtocolError as WebSocketProtocolError

from .._audit import audit
from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._codec import _json
from .._core._frames import (
    ABNORMAL,
    INVALID_DATA,
    NORMAL,
    SUBPROTOCOL,
    TRY_AGAIN_LATER,
    FrameGuard,
    FrameRefused,
    canonical_handshake,
    is_utf8,
    shown_close,
)
from .._core._http1 import HeaderField
from .._errors import ConnectionLost, McpError, RemoteProtocolError
from .._http._auth import error_without_secrets
from .._limits import Limits
from .._logs import Log
from .._printable import secrets_in, without_secrets
from .._trio import LightParkingLot, open_hidden_nursery, shield_started
from ._guarded_stream import READ_BYTES, GuardedStream, HandshakeReader, Wire

_log: Final = Log("trio_mcp.websocket")

MESSAGE_BYTES: Final = 256
"""What a message that waits weighs beside its text."""

MESSAGES_AT_ONCE: Final = 64
"""How many messages wait at most for those behind them that have arrived as well, to be received together."""


Connect: TypeAlias = Callable[[trio.Nursery, GuardedStream], Awaitable[WebSocketConnection]]
"""Does the handshake over a stream; the library's reader runs in the nursery."""


async def accept(
    nursery: trio.Nursery, stream: GuardedStream, key: str, answer: list[HeaderField]
) -> WebSocketConnection:
    """Accept a handshake that was checked.

    Args:
        nursery: Where the library's reader runs.
        stream: The connection.
        key: The key in the handshake.
        answer: Further header fields of the answer.
    """
    stream.guard.is_masked = True
    stream.begin(canonical_handshake(key))
    request = await trio_websocket.wrap_server_stream(
        nursery, stream, MESSAGES_AT_ONCE, _UNBOUNDED, receive_buffer_size=READ_BYTES
    )
    return await request.accept(subprotocol=SUBPROTOCOL, extra_headers=answer)


async def propose(
    nursery: trio.Nursery,
    stream: GuardedStream,
    host: str,
    resource: str,
    headers: list[HeaderField],
    reader: HandshakeReader,
) -> WebSocketConnection:
    """Send the handshake of a client, and wait until the server accepts it.

    Args:
        nursery: Where the library's reader runs.
        stream: The connection.
        host: The value of `Host`.
        resource: Path and query.
        headers: Further header fields.
        reader: Reads the answer.

    Raises:
        McpError: The server refused it, or its answer is not valid.
    """
    stream.guard.is_masked = False
    stream.begin(reader)
    accepted: list[WebSocketConnection] = []
    async with open_hidden_nursery() as opening:

        async def watch() -> None:
            await stream.wait_over()
            opening.cancel_scope.cancel(reason="there will be no handshake")

        opening.start_soon(watch)
        # It waits for a handshake for ever, also once its reader has ended.
        connection = await trio_websocket.wrap_client_stream(
            nursery,
            cast("trio.SocketStream", stream),  # any stream will do
            host,
            resource,
            subprotocols=[SUBPROTOCOL],
            extra_headers=headers,
            message_queue_size=MESSAGES_AT_ONCE,
            max_message_size=_UNBOUNDED,
            receive_buffer_size=READ_BYTES,
        )
        accepted.append(connection)
        opening.cancel_scope.cancel(reason="the handshake is complete")
    if accepted and accepted[0].subprotocol == SUBPROTOCOL:
        return accepted[0]
    if accepted:
        raise RemoteProtocolError(f"the server did not agree on the subprotocol {SUBPROTOCOL!r}")
    raise stream.failure or ConnectionLost("the handshake of the WebSocket was not valid")


_UNBOUNDED: Final = 1 << 62
"""The library counts characters; the guard has counted bytes before."""


_GOODBYE: Final = FrameRefused(NORMAL, "")


@attrs.define(eq=False, repr=False)
class WebSocketEnd(Channel):
    """What every channel over a WebSocket does: messages wait to be received, and its end is always a loss.

    Nothing can be sent once the peer has closed it: so `receive` raises `ConnectionLost` with the close code and
    the reason, and calls fail with it.

    Args:
        limits: What a message may weigh, what may wait, and how long closing may take.
        description: The other end, for errors and logs.
        goodbye: The close code and the reason with which this side closes it.
        origin_of: Returns the origin of a message that is about to be received.
        on_kept: Called with how many more bytes are kept of messages that were not received, or fewer.

    Attributes:
        sent: The fields of the handshake. Where the peer quotes what is secret in them, it is masked.
    """

    transport = "websocket"
    sent: Sequence[HeaderField] = attrs.field(default=(), init=False)
    _limits: Limits
    _description: str
    _goodbye: FrameRefused = _GOODBYE
    _origin_of: Callable[[bytes], Origin | None] = lambda _: None
    _on_kept: Callable[[int], object] = lambda _: None
    _queue: deque[bytes] = attrs.field(factory=deque[bytes], init=False)
    _waiting: int = attrs.field(default=0, init=False)  # bytes in the queue
    _kept: int = attrs.field(default=0, init=False)  # what `on_kept` was called with
    _changed: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _why: ConnectionLost | None = attrs.field(default=None, init=False)  # the connection has ended
    _is_closed: bool = attrs.field(default=False, init=False)

    # Receiving.

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            raise self._was_closed()
        await trio.lowlevel.checkpoint()
        while not self._is_ready:
            await self._changed.park()
        if self._queue:
            return self._take_queue()
        raise self._ended()

    @property
    def _is_ready(self) -> bool:
        """Whether `receive` need not wait."""
        return self._why is not None or self._is_closed or bool(self._queue)

    def _take_queue(self) -> list[Received]:
        queue, self._queue = self._queue, deque()
        self._waiting = 0
        self._note_kept()
        self._go_on()
        found: list[Received] = []
        is_lost = self._why is not None  # what had come before may be received
        for data in queue:
            message = Incoming(data, self._origin_of(data))
            if self._why is not None and not is_lost:  # by this very message: there is no room for it
                raise self._ended()
            found.append(message)
        return found

    def _put(self, data: bytes) -> None:
        """Let a message wait until it is received."""
        self._queue.append(data)
        self._waiting += len(data) + MESSAGE_BYTES
        self._note_kept()
        if self._is_ready:
            self._changed.unpark_all()

    @property
    def _is_full(self) -> bool:
        """Whether so much waits that nothing more is to be read."""
        return self._waiting >= self._limits.max_waiting_bytes

    def _note_kept(self) -> None:
        kept = self._waiting + self._arrived
        if kept != self._kept:
            more, self._kept = kept - self._kept, kept
            self._on_kept(more)

    @property
    def _arrived(self) -> int:
        """What is kept of a message that is not complete, in bytes."""
        return 0

    @abc.abstractmethod
    def _go_on(self) -> None:
        """Read again, if that had to pause."""

    # Its end.

    def lose(self, reason: str, code: int = TRY_AGAIN_LATER) -> None:
        """Close the connection, drop what was not received yet, and fail what waits for it. Never waits."""
        self._refuse(FrameRefused(code, reason))
        self._drop_queue()

    def _refuse(self, why: FrameRefused) -> None:
        if self._why is None and not self._is_closed:
            self._goodbye = why
            audit("connection", why.reason, transport=self.transport, client=self._description)
        self._end(f"the WebSocket to {self._description} was closed with {shown_close(why.code, why.reason)}")

    def _end(self, reason: str) -> None:
        """Note that the connection has ended, and wake who waits for it."""
        if self._why is None:
            self._why = ConnectionLost(reason)
        self._go_on()
        self._changed.unpark_all()

    def _note_close(self, code: int, reason: str | None) -> None:
        """Note that the peer has closed the connection, or is gone."""
        if code == ABNORMAL:
            self._end(f"{self._description} is gone: the connection ended without a closing handshake")
        else:
            reason = None if reason is None else without_secrets(reason, secrets_in(self.sent))
            self._end(f"{self._description} closed the WebSocket with {shown_close(code, reason)}")

    def _lost(self) -> ConnectionLost:
        assert self._why is not None
        return self._why.renewed()

    def _ended(self) -> Exception:
        return self._was_closed() if self._is_closed else self._lost()

    def _was_closed(self) -> trio.ClosedResourceError:
        return trio.ClosedResourceError(f"the WebSocket to {self._description} was closed")

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._waiting = 0
        self._note_kept()

    def _keep_nothing(self) -> None:
        self._drop_queue()
        if self._kept:
            kept, self._kept = self._kept, 0
            self._on_kept(-kept)


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class WebSocketChannel(WebSocketEnd):
    """The channel over one WebSocket whose frames are read and written here. Made by `open_websocket_channel`.

    Args:
        wire: The bytes.
        ping_interval: How often a ping is sent, in seconds; ``math.inf`` for never.
        ping_timeout: How long the peer may be silent after a ping before the connection is lost, in seconds.
        ping_setting: What says so, for errors.
        patience: See `GuardedStream`.
        Others: As for `WebSocketEnd`.
    """

    _wire: Wire = attrs.field(alias="wire")
    _ping_interval: float = attrs.field(alias="ping_interval")
    _ping_timeout: float = attrs.field(alias="ping_timeout")
    _ping_setting: str = attrs.field(alias="ping_setting", default="ping_timeout")
    _patience: float = attrs.field(alias="patience", default=math.inf)
    _stream: GuardedStream = attrs.field(init=False)
    _taken: int = attrs.field(default=0, init=False)  # messages that the library has delivered
    _last: float = attrs.field(default=math.inf, init=False)  # the message behind which none is looked at
    _connection: WebSocketConnection | None = attrs.field(default=None, init=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _must_close: trio.Event = attrs.field(factory=trio.Event, init=False)
    _has_ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        guard = FrameGuard(self._limits.max_message_bytes)
        self._stream = GuardedStream(self._wire, guard, self._refuse, self._note_read, self._patience)

    # Receiving.

    @property
    def _is_ready(self) -> bool:
        """Whether `receive` need not wait, not even for messages that are about to be delivered."""
        if self._why is not None or self._is_closed:
            return True
        queue = len(self._queue)
        return queue >= MESSAGES_AT_ONCE or (queue > 0 and self._taken >= self._stream.guard.messages)

    @property
    def _arrived(self) -> int:
        return self._stream.guard.arrived

    def _go_on(self) -> None:
        self._stream.go_on()

    def lose(self, reason: str, code: int = TRY_AGAIN_LATER) -> None:
        """Close the connection, and keep nothing that still comes; see `WebSocketEnd.lose`."""
        self._last = min(self._last, self._taken)
        super().lose(reason, code)

    def _note_read(self) -> None:
        if self._must_close.is_set():
            self._drop_begun()
        self._note_kept()

    def _drop_begun(self) -> None:
        """Drop what has come of a message that will not be received.

        The library keeps it until the peer has closed the connection, or must have; an account of bytes, to
        which it has been given back, would lend it once more meanwhile.
        """
        if self._connection is not None:
            self._connection._message_parts.clear()

    async def _take(self, connection: WebSocketConnection) -> None:
        """Take messages from the library as they come, until there are none any more."""
        await trio.lowlevel.checkpoint()
        while True:  # noqa: ASYNC913 - receiving is one
            try:
                data = await connection.get_message()
            except ConnectionClosed:
                return
            self._taken += 1
            assert isinstance(data, bytes)  # the guard has made it binary
            if not is_utf8(data):
                self._refuse(FrameRefused(INVALID_DATA, "a message must be UTF-8"))
                self._last = min(self._last, self._taken - 1)
            if self._taken <= self._last:
                self._put(_without_secrets(data, self.sent) if self.sent else data)
            if self._is_full:
                self._stream.pause()

    # Sending.

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send each message in a text frame; see `Channel.send`. Cancelled, the connection may be cut."""
        connection, stream = self._connection, self._stream
        if self._is_closed or connection is None:
            await trio.lowlevel.checkpoint()
            raise self._was_closed()
        try:
            stream.gather()
            for message in messages:
                if connection.is_client:
                    await connection.send_message(message.data.decode("utf-8"))
                elif connection.closed is None:
                    await stream.send_text(message.data)  # the library would copy it four times
                else:
                    raise ConnectionClosed(connection.closed)
            await stream.send_gathered()
        except (ConnectionClosed, WebSocketProtocolError) as error:
            self._note_end()
            raise self._lost() from error
        except trio.BrokenResourceError as error:
            if stream.has_sent_close:
                self._note_end()
            self._end(f"writing to {self._description} failed: {error}")
            raise self._lost() from error
        finally:
            stream.stop_gathering()

    # The tasks of the connection.

    async def keep_open(self, connect: Connect, *, task_status: trio.TaskStatus[None]) -> None:
        """Do the handshake, and keep the connection until it ends. What fails in the library ends this alone.

        Raises:
            McpError: There was no handshake. Later nothing is raised.
        """
        is_open = False
        try:
            with self._scope:
                async with open_hidden_nursery() as nursery:
                    self._connection = connection = await connect(nursery, self._stream)
                    self._stream.open()
                    is_open = True
                    task_status.started()
                    shield_started(self._scope)
                    nursery.start_soon(self._ping, connection)
                    nursery.start_soon(self._close, connection)
                    await self._take(connection)
                    nursery.cancel_scope.deadline = trio.current_time() + self._limits.goodbye_timeout
                    await self._answer_broken(connection)
                    self._note_end()
                    await self._stream.wait_over()
                    nursery.cancel_scope.cancel(reason="the connection has ended")
                with trio.move_on_after(self._limits.goodbye_timeout):
                    await self._stream.linger()
        except Exception as error:
            # The boundary of one connection: the library's reader raises at what it does not expect.
            if is_open:
                _log.info("the WebSocket to %s failed: %r", self._description, error)
            elif isinstance(error, McpError):
                raise
            elif isinstance(error, ConnectionClosed):
                raise ConnectionLost(f"{self._description} left in the handshake") from error
            else:
                problem = f"the handshake with {self._description} is not valid: {error}"
                raise RemoteProtocolError(problem) from error
        finally:
            self._note_end()
            self._wire.cut()
            self._has_ended.set()

    async def _ping(self, connection: WebSocketConnection) -> None:
        """Send a ping now and then; without a sign of life after it, the connection is lost.

        Whatever arrives is such a sign. While nothing is read, because too much waits, its absence is not.
        """
        if self._ping_interval == math.inf:
            await trio.lowlevel.checkpoint()
            return
        pong = trio.Event()
        pong.set()
        async with open_hidden_nursery() as nursery:
            while True:  # noqa: ASYNC913 - sleeping is one, if the interval is more than 0, as it is
                await trio.sleep(self._ping_interval)
                asked = trio.current_time()
                if pong.is_set():  # otherwise one is still under way, and its answer is behind others
                    pong = trio.Event()
                    nursery.start_soon(self._ask, connection, pong)
                while await self._is_silent(pong, asked):
                    if not self._stream.is_paused:
                        self._end(
                            f"{self._description} was silent for {self._ping_timeout:g} s after a ping "
                            f"({self._ping_setting})"
                        )
                        self._wire.cut()
                        return

    async def _is_silent(self, pong: trio.Event, asked: float) -> bool:
        """Wait for a sign of life. Returns whether there was none in time."""
        with trio.move_on_after(self._ping_timeout) as scope:
            await pong.wait()
        return scope.cancelled_caught and self._stream.heard_at <= asked

    @staticmethod
    async def _ask(connection: WebSocketConnection, pong: trio.Event) -> None:
        await trio.lowlevel.checkpoint()
        with suppress(ConnectionClosed, WebSocketProtocolError):
            await connection.ping()
            pong.set()

    # Its end.

    async def _answer_broken(self, connection: WebSocketConnection) -> None:
        """Send Close to a peer that has broken the protocol; the library only notes that (section 7.1.7)."""
        closed = connection.closed
        is_ours = self._must_close.is_set()  # its Close may be behind something else that is being written
        if closed is not None and not is_ours and closed.code != ABNORMAL and not self._stream.has_sent_close:
            shown = shown_close(closed.code, closed.reason)
            self._end(f"{self._description} broke the protocol of WebSockets, and was closed with {shown}")
            with suppress(trio.BrokenResourceError):
                close = FrameProtocol(connection.is_client, []).close(closed.code, closed.reason)
                await self._stream.send_all(close)
        await trio.lowlevel.checkpoint()

    def _refuse(self, why: FrameRefused) -> None:
        super()._refuse(why)
        self._must_close.set()
        self._last = min(self._last, self._stream.guard.messages)
        self._drop_begun()

    async def _close(self, connection: WebSocketConnection) -> None:
        """Wait until this side has a reason to close, and then do the closing handshake."""
        await self._must_close.wait()
        goodbye = self._goodbye
        self._stream.guard.drop()
        self._stream.go_on()
        with trio.move_on_after(self._limits.goodbye_timeout):
            await connection.aclose(goodbye.code, goodbye.reason or None)

    def _note_end(self) -> None:
        """Note that the connection has ended, as the library reports it."""
        closed = None if self._connection is None else self._connection.closed
        self._note_close(ABNORMAL if closed is None else closed.code, closed.reason if closed else None)

    async def wait_ended(self) -> None:
        """Wait until nothing of the connection is left."""
        await self._has_ended.wait()

    async def aclose(self) -> None:
        """Send Close, and wait at most `Limits.goodbye_timeout` for the peer's; see `Channel.aclose`."""
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            return
        self._is_closed = True
        self._must_close.set()
        self._changed.unpark_all()
        try:
            if self._connection is not None:
                with trio.move_on_after(self._limits.goodbye_timeout):
                    await self._has_ended.wait()
            else:
                await trio.lowlevel.checkpoint()
        finally:
            self._wire.cut()
            self._scope.cancel(reason="the channel was closed")
            self._keep_nothing()


def _without_secrets(data: bytes, sent: Sequence[HeaderField]) -> bytes:
    """Return a message, if it is an error without what it quotes of the handshake."""
    if b'"error"' not in data:
        return data
    try:
        value: object = _json.decode(data)
    except (ValueError, RecursionError):
        return data
    if not _json.is_object(value) or not _json.is_object(value.get("error")):
        return data
    return _json.encode({**value, "error": error_without_secrets(value["error"], sent)})


@asynccontextmanager
async def open_websocket_channel(channel: WebSocketChannel, connect: Connect) -> AsyncGenerator[WebSocketChannel]:
    """Do the handshake, and run a channel for as long as the body runs; then close it.

    Raises:
        McpError: There was no handshake.
    """
    async with open_hidden_nursery() as nursery:
        await nursery.start(channel.keep_open, connect)
        try:
            yield channel
        finally:
            with trio.CancelScope(shield=True):  # bounded by `Limits.goodbye_timeout`
                await channel.aclose()
