"""The answer to one modern POST: a JSON object, or a stream once something has to be said before it.

One stream of a session of the legacy era: numbered events, and whatever connection they go to just now.

What is said goes into a queue. Whoever is connected reads there; the session's storing task reads there too, so
that a later connection can begin where the last one ended. An event leaves the queue when both have had it. What
a connection missed before the queue begins it reads from the store; between the two there is no gap, however slow
the store is, and nothing comes twice.

EventWriter what the streams of one session say, for clients that lost a connection.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final

import trio

from .._channel import Outgoing
from .._codec._jsonrpc import Encoded, encode_error, encode_notification
from .._core._framing import encode_sse_comment, encode_sse_event
from .._core._http_rules import HttpRefused, status_of_error
from .._errors import LocalProtocolError
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Exchange, OnProgress
from .._peer._exchanges import Reply
from .._peer._middleware import Message, Middleware, interpose, notification
from .._peer._outbox import Outbox, OutboxEntry
from .._server._lifetimes import Background
from .._trio import LightParkingLot
from ._call import SMALL, HttpCall, RequestSlot
from ._event_store import EventStore, StoredEvent
from ._turnstile import Turnstile

_log: Final = Log("trio_mcp.http")

KEEP_ALIVE: Final = encode_sse_comment()

COPIES: Final = 2
"""How often a piece of a stream is there while it is sent: as events, and in what HTTP makes of them."""


def cut_stream(call: HttpCall, refused: HttpRefused) -> None:
    """End a stream at once: there is no room for what its client does not read."""
    _log.info("a stream to %s is cut: %s", call.client, refused)
    call.cut()


@final
class PostAnswer:
    """Where what an exchange sends goes; see `ExchangeSink`.

    A stream has a task of its own that writes it, so that a handler which is cancelled while it waits for room
    tears nothing.

    Args:
        call: The POST.
        nursery: Where that task runs.
        limits: How much may lie ready, and how large a message may be.
        middleware: What notifications pass.
        turnstile: Where senders of notifications wait for their turn.
        keep_alive: How long a stream is silent before it shows that it lives, in seconds.
        may_stream: Whether the answer may be a stream; if not, what is said before it goes nowhere.
    """

    def __init__(
        self,
        call: HttpCall,
        nursery: trio.Nursery,
        limits: Limits,
        middleware: Sequence[Middleware],
        turnstile: Turnstile,
        *,
        keep_alive: float,
        may_stream: bool,
    ) -> None:
        self._call = call
        self._nursery = nursery
        self._limits = limits
        self._middleware = middleware
        self._turnstile = turnstile
        self._keep_alive = keep_alive
        self._may_stream = may_stream
        self._outbox: Outbox | None = None
        self._writing: trio.CancelScope | None = None
        self._is_ending = False
        self._sending = 0
        self._covered = SMALL

    def stream(self) -> None:
        """Make a stream of it, unless it is one, or must be none. Never waits."""
        if self._outbox is None and self._may_stream:
            self._outbox = Outbox(self._limits.max_outbox_bytes)
            self._writing = trio.CancelScope()
            self._nursery.start_soon(
                self._write, self._outbox, self._writing, name=f"streaming to {self._call.client}"
            )

    async def _write(self, outbox: Outbox, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await self._write_events(outbox)
        except HttpRefused as refused:
            cut_stream(self._call, refused)
        except Exception:
            # The boundary of one answer: the nursery is that of all of them.
            _log.exception("a stream to %s failed", self._call.client)
        finally:
            outbox.close()

    async def _write_events(self, outbox: Outbox) -> None:
        call = self._call
        await call.start_stream()
        if not outbox.size:
            await call.send(KEEP_ALIVE)  # some proxies send the head on only when something follows it
        while True:
            entries: Sequence[OutboxEntry] = ()
            with trio.move_on_after(self._keep_alive):
                entries = await outbox.take()
            data = b"".join([encode_sse_event(entry.message.data) for entry in entries]) or KEEP_ALIVE
            self._sending = COPIES * len(data)
            self._cover(outbox)
            if self._is_ending and not outbox.size:
                call.on_answer()
                for entry in entries:
                    if entry.exchange is not None:
                        entry.exchange.companion = None
                await call.finish(data)
                return
            await call.send(data)
            self._sending = 0
            self._cover(outbox)

    def _cover(self, outbox: Outbox, more: int = 0) -> None:
        """Let what the client has not taken yet be lent to it.

        Raises:
            HttpRefused: There is no room for so much.
        """
        size = outbox.size + self._sending + more
        if size > self._covered or (size <= SMALL < self._covered):
            self._covered = self._call.loans.grow_answer(size, self._call.cut)

    async def finish(self, reply: Reply, exchange: Exchange) -> None:
        """Send what the request is answered with, and wait until the wire has it.

        Until then what another task does for the request ends with it: the client has not been told how to go on.
        """
        if self._outbox is None:
            exchange.companion = None
            self._may_stream = False
            code = reply.error_code
            status = 200 if code is None else status_of_error(code, modern=True)
            await self._call.respond(status, reply.data)
        else:
            self._is_ending = True
            data, id = reply.data, exchange.request.id
            try:
                self._cover(self._outbox, len(data))
            except HttpRefused as refused:
                _log.info("no room for the answer to %s: %s", self._call.client, refused)
                data = encode_error(id, refused.error)
            self._outbox.put(OutboxEntry(Outgoing(data, answers=(id,)), exchange=exchange))
            await self._outbox.wait_empty()

    def close(self) -> None:
        """Nothing more is sent. Without `finish`, what was begun stays torn."""
        self._may_stream = False
        if self._writing is not None:
            self._writing.cancel(reason="the request is over")

    # What an exchange asks.

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, waiting for room."""
        if not self._middleware or method == "notifications/progress":
            await self._send(exchange, method, params)
            return

        async def send(message: Message) -> None:
            await self._send(exchange, message.method, message.params)

        await interpose(self._middleware, notification(method, params), send)

    async def _send(self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._turnstile.enter(self._call.loans.key)
        data = self._encoded(method, params)
        self.stream()
        if self._outbox is not None:
            await self._outbox.wait_room()
            if not exchange.is_over and self._has_room_for(data):
                self._outbox.put(OutboxEntry(Outgoing(data)))
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, if there is room.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
        """
        data = self._encoded(method, params)
        self.stream()
        if self._outbox is not None and not exchange.is_over:
            if self._outbox.is_full or not self._has_room_for(data):
                raise trio.WouldBlock
            self._outbox.put(OutboxEntry(Outgoing(data)))

    def _has_room_for(self, data: bytes) -> bool:
        """Whether a notification may be put. A client that reads so little that there is no room for it goes."""
        try:
            if self._outbox is not None:
                self._cover(self._outbox, len(data))
        except HttpRefused as refused:
            cut_stream(self._call, refused)
            return False
        return True

    def _encoded(self, method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
        data = encode_notification(method, params)
        limit = self._limits.max_message_bytes
        if len(data) > limit:
            raise LocalProtocolError(f"{method} is {len(data)} bytes as a message; max_message_bytes is {limit}")
        return data

    async def send_request(
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Refuse to ask: there are no requests of servers in the modern era.

        Raises:
            LocalProtocolError: Always.
        """
        del exchange, params, on_progress
        await trio.lowlevel.checkpoint()
        raise LocalProtocolError(
            f"{method}: {self._call.method} {self._call.path} cannot carry a server's request"
        )


READ_AT_ONCE: Final = 64
"""Events that are read from the store at once."""


@final
class EventStream:
    """One stream.

    Args:
        session: The id of the session, for the store.
        number: Its own number, which the ids of its events begin with.
        store: Keeps what was said; `None` if nothing is to be taken up again.
        to_be_stored: Called when something waits to be stored.
        max_bytes: What may wait in the queue before notifications wait.
        keep_alive: How long a connection is silent before it shows that it lives, in seconds.
        retry_ms: How long a client should wait before it connects again, in milliseconds.
        event_type: How the events are called; `None` for what they are called by default.
        is_optional: Whether a client may never read it. While it is neither read nor stored, nobody waits for
            room: the oldest events give way.
        on_dropped: Called with the number of each event that has given way.
        on_queued: Called with how many bytes more wait in the queue, or less. May end the stream.

    Attributes:
        dropped: How many events have given way.
        place: What its requests take among those that are served, while no POST waits for their answers.
    """

    def __init__(
        self,
        session: str,
        number: int,
        store: EventStore | None,
        to_be_stored: Callable[[EventStream], object],
        *,
        max_bytes: int,
        keep_alive: float,
        retry_ms: int,
        event_type: str | None = None,
        is_optional: bool = False,
        on_dropped: Callable[[int], object] = lambda _: None,
        on_queued: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._session = session
        self.number: Final = number
        self._store = store
        self._to_be_stored = to_be_stored
        self._max_bytes = max_bytes
        self._keep_alive = keep_alive
        self._retry_ms = retry_ms
        self._event_type = event_type
        self._is_optional = is_optional
        self._on_dropped = on_dropped
        self._on_queued = on_queued
        self.dropped = 0
        self.place: RequestSlot | None = None
        self._queue: OrderedDict[int, bytes] = OrderedDict()
        self._queued_bytes = 0
        self._last = 0
        self._stored: float = 0 if store is not None else math.inf
        self._is_kept = False
        self._connection: object | None = None
        self._position = 0
        self._is_dead = False
        self._is_released = False
        self.is_ended = False
        self._changed = LightParkingLot()

    # What the session says.

    def put(self, data: bytes) -> int | None:
        """Say something. Never waits.

        Returns:
            Its number; `None` if nobody will ever read it.
        """
        if self._is_dead or self.is_ended:
            return None
        self._last = number = self._last + 1
        self._queue[number] = data
        self._weigh(len(data))
        if self._is_optional and not self._is_attended:
            while self._queued_bytes > self._max_bytes and len(self._queue) > 1:
                self.dropped += 1
                self._on_dropped(self._take_first())
        if self._is_kept and self._store is not None:
            self._to_be_stored(self)
        self._changed.unpark_all()
        return number

    def withdraw(self, number: int) -> None:
        """Take an event back that nobody was sent yet."""
        self._weigh(-len(self._queue.pop(number, b"")))

    def _weigh(self, more: int) -> None:
        self._queued_bytes += more
        self._on_queued(more)

    def drop_unread(self) -> None:
        """Let go of what may never be read, if it is such a stream: it would make room for more anyway."""
        if self._is_optional and not self._is_attended:
            while self._queue:
                self.dropped += 1
                self._on_dropped(self._take_first())

    def _take_first(self) -> int:
        number, data = self._queue.popitem(last=False)
        self._weigh(-len(data))
        return number

    def end(self) -> None:
        """Nothing more is said."""
        self.is_ended = True
        if self.place is not None:
            self.place.leave()
        self._changed.unpark_all()

    def release(self, retry_after: float | None = None) -> None:
        """Let the connection go, if the client can come back for the rest."""
        if self._store is not None:
            if retry_after is not None:
                self._retry_ms = round(retry_after * 1000)
            self._is_released = True
            self._changed.unpark_all()

    @property
    def has_room(self) -> bool:
        """Whether notifications need not wait."""
        return (
            self._queued_bytes < self._max_bytes
            or self._is_dead
            or self.is_ended
            or (self._is_optional and not self._is_attended)
        )

    @property
    def _is_attended(self) -> bool:
        """Whether what is said is read, or stored for who reads later."""
        return self._connection is not None or (self._is_kept and self._store is not None)

    async def wait_room(self) -> None:
        """Wait until notifications need not wait. Does not checkpoint if so."""
        while not self.has_room:
            await self._changed.park()

    # What the storing task asks.

    def unstored(self) -> list[StoredEvent]:
        """Return what is not stored yet."""
        return self._queued_after(self._stored)

    def _queued_after(self, number: float) -> list[StoredEvent]:
        """Return what is in the queue after a number. What was had before is not looked at."""
        events: list[StoredEvent] = []
        for of in reversed(self._queue):
            if of <= number:
                break
            events.append((of, self._queue[of]))
        events.reverse()
        return events

    def mark_stored(self, number: int) -> None:
        """Everything up to this number is in the store, or never will be."""
        self._stored = max(self._stored, number)
        self._trim()

    def _trim(self) -> None:
        """Let go of what everybody has had. Without a connection that is the store, if there is one."""
        had = self._stored
        if self._connection is not None or not self._is_kept or self._store is None:
            had = min(had, self._position)
        while self._queue and next(iter(self._queue)) <= had:
            self._take_first()
        self._changed.unpark_all()

    # What the requests of the client ask.

    async def wait_something(self) -> None:
        """Wait until there is something to send, or nothing ever will be."""
        while not (self._queue or self.is_ended or self._is_released):
            await self._changed.park()

    @property
    def is_read(self) -> bool:
        """Whether a connection has it just now."""
        return self._connection is not None

    async def wait_changed(self) -> None:
        """Wait until something is different."""
        await self._changed.park()

    @property
    def has_said(self) -> bool:
        """Whether anything was said."""
        return self._last > 0

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._last

    @property
    def position(self) -> int:
        """The number of the last event that a connection was sent."""
        return self._position

    async def recall(self, after: int) -> bool:
        """Become a stream that has ended, of which only the store knows; return whether it does."""
        self.is_ended = self._is_kept = True
        if self._store is None:
            return False
        events = await self._store.read(self._session, self.number, after - 1, 1)
        is_known = bool(events)
        while events:
            self._last = self._stored = events[-1][0]
            events = await self._store.read(self._session, self.number, self._last, READ_AT_ONCE)
        return is_known

    def sole_message(self) -> bytes | None:
        """Return the message that is all that was said and will be, if it is so."""
        return self._queue.get(1) if self.is_ended and self._last == 1 else None

    def abandon(self) -> None:
        """The client has gone before it knew how to come back: what is said from now on is lost."""
        self._is_dead = True
        self._queue.clear()
        self._weigh(-self._queued_bytes)
        self._changed.unpark_all()

    def id_of(self, number: int) -> str:
        """Return the id of an event."""
        return f"{self.number}-{number}"

    async def deliver(self, call: HttpCall, after: int, *, prime: bool, first: Sequence[bytes] = ()) -> None:
        """Send what is said after a number until the stream ends, it is taken over, or the connection is let go.

        The newest connection has the stream. Cancelled when that breaks, it leaves the rest to the next.

        Args:
            call: The request whose answer has begun as a stream.
            after: The number after which to begin.
            prime: Whether to tell the client first how it can come back.
            first: What to send before everything else.
        """
        me = self._connection = object()
        self._position = after
        if not self._is_kept:
            self._is_kept = True
            if self._queue and self._store is not None:
                self._to_be_stored(self)
        self._changed.unpark_all()  # whoever had it before
        try:
            head = [*first]
            if prime and self._store is not None:
                # 2025-11-25: "an event ID and an empty data field in order to prime the client to reconnect".
                head.append(encode_sse_event(b"", id=self.id_of(after), retry=self._retry_ms))
            await call.send(b"".join(head) or KEEP_ALIVE)
            await self._deliver(call, me)
        finally:
            if self._connection is me:
                self._connection = None
                self._trim()

    async def _deliver(self, call: HttpCall, me: object) -> None:
        while self._connection is me:
            if self.is_ended:
                call.on_answer()
            if self._position < self._last and (events := await self._next()):
                if not await self._send(call, b"".join([self._encoded(number, data) for number, data in events])):
                    return
                # What a torn connection did not take will be asked for again, by its number.
                if self._connection is me:
                    self._position = events[-1][0]
                    self._trim()
            elif self.is_ended:
                return
            elif self._is_released:
                self._is_released = False  # the next connection may stay
                await call.send(encode_sse_event(None, retry=self._retry_ms))
                return
            else:
                with trio.move_on_after(self._keep_alive) as silence:
                    await self._changed.park()
                if silence.cancelled_caught:
                    await call.send(KEEP_ALIVE)

    async def _send(self, call: HttpCall, data: bytes) -> bool:
        """Send events, which are lent to the client until it has taken them. Returns whether there was room."""
        if len(data) <= SMALL // COPIES:
            await call.send(data)
            return True
        try:
            call.loans.grow_answer(COPIES * len(data), call.cut)
        except HttpRefused as refused:
            cut_stream(call, refused)
            return False
        await call.send(data)
        call.loans.grow_answer(0, call.cut)
        return True

    async def _next(self) -> Sequence[StoredEvent]:
        """Return the events that follow, from the store or the queue."""
        begins = next(iter(self._queue)) if self._queue else self._last + 1
        if self._position + 1 < begins:
            if self._store is not None:
                events = await self._store.read(self._session, self.number, self._position, READ_AT_ONCE)
                # What the queue has as well by now is in both, and taken here.
                if events:
                    return events
            self._position = begins - 1  # what was dropped for want of room
        return self._queued_after(self._position)

    def _encoded(self, number: int, data: bytes) -> bytes:
        id = None if self._store is None else self.id_of(number)
        return encode_sse_event(data, event=self._event_type, id=id)


@final
class EventWriter:
    """Hands events to a store, one call at a time, in a task that is there only while there are any.

    Args:
        store: The store.
        session: The id of the session.
        on_stored: Called with each stream of which everything was stored.
    """

    def __init__(self, store: EventStore, session: str, on_stored: Callable[[EventStream], object]) -> None:
        self._store = store
        self._session = session
        self._on_stored = on_stored
        self._unstored: OrderedDict[EventStream, None] = OrderedDict()
        self._is_running = False

    def soon(self, stream: EventStream, background: Background) -> None:
        """Store what a stream has said. Never waits.

        Args:
            stream: The stream.
            background: Where the task runs; what is not stored when that ends is lost.
        """
        self._unstored[stream] = None
        if not self._is_running:
            self._is_running = True
            background.start_soon(self._run, name=f"storing events of HTTP session {self._session[:8]}…")

    async def _run(self) -> None:
        """Store what is to be stored. What fails is lost for clients that come back, and that is all."""
        try:
            while self._unstored:
                stream, _ = self._unstored.popitem(last=False)
                if not (events := stream.unstored()):
                    continue
                try:
                    await self._store.append(self._session, stream.number, events)
                except Exception:
                    _log.exception("the event store failed; events of %.8s… are lost", self._session)
                stream.mark_stored(events[-1][0])
                self._on_stored(stream)
        finally:
            self._is_running = False

    async def forget(self, seconds: float) -> None:
        """Let the store drop everything of the session, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                await self._store.forget(self._session)
        except Exception:
            _log.exception("the event store failed; it may keep events of a session that has ended")
