"""One stream of a session of the legacy era: numbered events, and whatever connection they go to just now.

What is said goes into a queue. Whoever is connected reads there; the session's storing task reads there too, so
that a later connection can begin where the last one ended. An event leaves the queue when both have had it. What
a connection missed before the queue begins it reads from the store; between the two there is no gap, however slow
the store is, and nothing comes twice.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, final

import trio

from .._core._http_admission import HttpRefused
from .._core._sse import encode_sse_event
from .._parking_lot import LightParkingLot
from ._answer import COPIES, KEEP_ALIVE, cut_stream
from ._call import HttpCall
from ._event_store import EventStore, StoredEvent
from ._load import Place
from ._request_loans import SMALL

__all__ = ["EventStream"]

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
        self.place: Place | None = None
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
