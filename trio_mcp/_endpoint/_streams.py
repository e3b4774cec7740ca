"""Event streams to clients: how events go to one client, and the numbered streams of a legacy session.

`StreamWriter` pays for what a client has not read; the answer to a modern POST (`_modern`) uses it as well. Which
messages belong on which stream is decided by `_modern` and `_session_channel`.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

import attrs
import trio

from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import RequestId, encode_error, read_id
from .._core._framing import encode_sse_comment, encode_sse_event
from .._core._http1 import LAST_EVENT_ID
from .._core._http_rules import HttpRefused, audit_http
from .._errors import SERVER_BUSY, RequestError
from .._limits import KIB
from .._logs import Log
from .._peer._send_queue import SendQueue
from .._server._lifetimes import Background
from .._trio import LightParkingLot
from ._call import SMALL, HttpCall
from ._event_store import EventStore, MemoryEventStore, StoredEvent

_log: Final = Log("trio_mcp.http")

KEEP_ALIVE: Final = encode_sse_comment()

RETRY_MS: Final = 1_000
"""Milliseconds that clients are asked to wait before they resume a stream."""

COPIES: Final = 2
"""How many copies of a piece exist while it is sent: as events, and as HTTP encodes them."""

READ_AT_ONCE: Final = 64
"""Events that are read from the store at once."""

MAX_WITHDRAWN: Final = 1_000
"""How many events of a stream can be withdrawn that the store keeps; beyond, the first of them are sent."""

ASKED_SECONDS: Final = 1.0
"""How long the beginning of a stream waits for the store, in seconds."""

AWAY_SECONDS: Final = 60.0
"""How long a store may be away, in seconds, before events are lost for streams that are resumed."""

RETRY_SECONDS: Final = 0.5
"""After how many seconds it is tried again."""

PIECE: Final = 256 * KIB
"""Of what is queued, events are sent together up to so many bytes; a larger one by itself."""


_EVENT_ID: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


@final
@attrs.define(eq=False, weakref_slot=False)
class StreamWriter:
    """Sends the events of a stream to one client, whose account lends what the client has not read yet.

    That is what is queued for it, and `COPIES` times what is being sent. Up to `SMALL` bytes need no loan. A
    client whose account lends no more is cut: nobody waits for it, and others need the memory.

    Args:
        call: The request that the stream answers.
        queue: What is queued for this client; `None` if that is lent elsewhere.

    Attributes:
        has_rest: Whether the connection has taken only a part of what was sent: `send_rest` is next.
    """

    _call: HttpCall
    _queue: SendQueue | None = None
    has_rest: bool = attrs.field(default=False, init=False)
    _sending: int = attrs.field(default=0, init=False)
    _covered: int = attrs.field(default=SMALL, init=False)

    async def send(self, events: bytes, *, is_last: bool = False) -> None:
        """Send encoded events, or a keep-alive comment if there are none.

        Args:
            events: The events.
            is_last: Whether the answer ends with them.

        Raises:
            HttpRefused: There is no room for them; the caller is to `cut` the stream.
        """
        data = events or KEEP_ALIVE
        self._sending = COPIES * len(data)
        self.borrow()
        if is_last:
            self._call.on_answer()
            await self._call.finish(data)
        elif not self._call.sends_now:
            await self._call.send(data)
            self._sent()
        elif self._call.send_nowait(data):
            self._sent()
        else:
            del events, data  # the connection has the rest, and drops it at once if it is cut
            await self.send_rest()

    def send_nowait(self, events: bytes) -> bool:
        """Send encoded events as far as the connection takes them now; only where the call `sends_now`.

        Returns whether it has taken all.

        Raises:
            HttpRefused: As for `send`.
        """
        self._sending = COPIES * len(events)
        if self._sending > self._covered:
            self.borrow()
        self.has_rest = not self._call.send_nowait(events)
        if not self.has_rest:
            self._sent()
        return not self.has_rest

    async def send_rest(self) -> None:
        """Wait until the connection has taken the rest of the events.

        Raises:
            HttpRefused: As for `send`.
        """
        await self._call.send_rest()
        self.has_rest = False
        self._sent()

    def _sent(self) -> None:
        self._sending = 0
        if self._covered > SMALL:
            self.borrow()

    def borrow(self, more: int = 0) -> None:
        """Borrow for what the client has not read, and for `more` bytes that are about to be queued.

        Raises:
            HttpRefused: There is no room for so much.
        """
        size = self._sending + more + (0 if self._queue is None else self._queue.size)
        if size > self._covered or (size <= SMALL < self._covered):
            self._covered = self._call.loans.grow_answer(size)

    def cut(self, refused: HttpRefused) -> None:
        """End the stream at once: there is no room for what its client does not read."""
        call = self._call
        _log.info("a stream to %s is cut: %s", call.client, refused)
        audit_http(refused, call.method, call.path, call.client, call.principal)
        call.cut()


@final
class Unanswered:
    """The requests that a stream has not answered, so far as it was read.

    What a stream answers is kept with its events, as number 0: so a process that takes the session knows which
    requests will never be answered.

    Args:
        asked: The event of number 0.
    """

    def __init__(self, asked: bytes) -> None:
        read = _json.decode(asked)
        ids = [read_id(each) for each in read] if is_array(read) else []
        self._left: dict[RequestId | None, None] = dict.fromkeys(ids)

    @staticmethod
    def encode(ids: Iterable[RequestId]) -> bytes:
        """Return the event of number 0 of a stream that answers the requests of these ids."""
        return _json.encode(list(ids))

    def read(self, data: bytes) -> None:
        """Note a message of the stream."""
        message = _json.decode(data)
        if is_object(message) and ("result" in message or "error" in message):
            self._left.pop(read_id(message.get("id")), None)

    def errors(self) -> list[bytes]:
        """Return the answers to what is left."""
        problem = RequestError(SERVER_BUSY, "the process that served the request ended before it was done")
        return [encode_error(id, problem) for id in self._left if id is not None]


@final
@attrs.define(eq=False)
class EventStream:
    """One stream of a legacy session: numbered events, for whichever connection reads it at the moment.

    Messages are queued. The connection reads the queue, and so does the session's `EventWriter`, so that a later
    connection can begin where the last one ended. An event leaves the queue when both have had it. What a
    connection missed before the queue begins it reads from the store; between the two there is no gap, however
    slow the store is, and no event comes twice. Nothing here waits for a client.

    A connection that has had everything is sent the next message by whoever queues it (`_idle`), and its task
    goes on only if it has not taken all of that. An answer is left to the task, which sends the end with it.

    Args:
        session: The id of the session, for the store.
        number: Its number in the session; the ids of its events begin with it.
        store: Keeps its events; `None` if the stream cannot be resumed.
        to_be_stored: Called when events wait to be stored.
        max_bytes: How many bytes may be queued before notifications wait.
        keep_alive: Seconds of silence after which a connection gets a keep-alive comment.
        event_type: The type of its events; `None` for the default.
        is_optional: Whether a client may never read it. While it is neither read nor stored, nobody waits for
            room, and the oldest events are dropped.
        on_dropped: Called with the number of each event that is dropped.
        on_queued: Called with how many more bytes are queued, or less. May end the stream.

    Attributes:
        dropped: How many events were dropped.
        is_ended: Whether no more events will follow.
        last: The number of the last event; 0 if there was none.
        position: The number of the last event that a connection was sent.
        offered: The number of the last event of which any connection may have been sent a part.
    """

    _session: str
    number: int
    _store: EventStore | None
    _to_be_stored: Callable[[EventStream], object]
    _max_bytes: int = attrs.field(alias="max_bytes", kw_only=True)
    _keep_alive: float = attrs.field(alias="keep_alive", kw_only=True)
    _event_type: str | None = attrs.field(alias="event_type", kw_only=True)
    _is_optional: bool = attrs.field(alias="is_optional", kw_only=True)
    _on_dropped: Callable[[int], object] = attrs.field(alias="on_dropped", kw_only=True)
    _on_queued: Callable[[int], object] = attrs.field(alias="on_queued", kw_only=True)
    dropped: int = attrs.field(default=0, init=False)
    _retry_ms: int = attrs.field(default=RETRY_MS, init=False)
    is_ended: bool = attrs.field(default=False, init=False)
    last: int = attrs.field(default=0, init=False)
    position: int = attrs.field(default=0, init=False)
    offered: int = attrs.field(default=0, init=False)
    _withdrawn: dict[int, None] | None = attrs.field(default=None, init=False)  # what the store may keep
    _queue: OrderedDict[int, bytes] = attrs.field(factory=OrderedDict[int, bytes], init=False)
    _queued_bytes: int = attrs.field(default=0, init=False)
    _stored: float = attrs.field(init=False)  # up to which number; infinite without a store
    _is_kept: bool = attrs.field(default=False, init=False)  # whether events go to the store
    _asked: bytes = attrs.field(default=b"", init=False)  # until that is stored
    _connection: object | None = attrs.field(default=None, init=False)
    _is_abandoned: bool = attrs.field(default=False, init=False)
    _is_released: bool = attrs.field(default=False, init=False)
    _changed: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _answered: int = attrs.field(default=0, init=False)  # the number of the last answer
    _idle: StreamWriter | None = attrs.field(default=None, init=False)  # of the connection, while it waits
    _waiting: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)  # where its task does
    _heard_at: float = attrs.field(default=0.0, init=False)  # when its client has heard of it last

    def __attrs_post_init__(self) -> None:
        self._stored = 0 if self._store is not None else math.inf

    # What the session calls to send.

    def put(self, data: bytes, *, is_answer: bool = False) -> int | None:
        """Send or queue a message. Never waits.

        Args:
            data: The message.
            is_answer: Whether it is an answer, with which the stream may end.

        Returns:
            Its number; `None` if it was dropped because the stream has ended.
        """
        if self._is_abandoned or self.is_ended:
            return None
        self.last = number = self.last + 1
        self._queue[number] = data
        self._count(len(data))
        if number not in self._queue:
            return None  # there was no room for it
        if self._is_optional and not self._has_reader:
            while self._queued_bytes > self._max_bytes and len(self._queue) > 1:
                self._drop_first()
        if is_answer:
            self._answered = number
        if is_answer or self._idle is None or not self._send_now(self._idle, number, data):
            self._change()
        if self._is_kept and self._store is not None:
            self._to_be_stored(self)
        return number

    def _send_now(self, idle: StreamWriter, number: int, data: bytes) -> bool:
        """Send a message to the connection that waits for it. Returns whether that has taken all of it."""
        if number != self.position + 1:
            return False
        self.offered = max(self.offered, number)
        try:
            if idle.send_nowait(self._encoded(number, data)):
                self._had(number)
                self._heard_at = trio.current_time()
                return True
        except HttpRefused as refused:
            idle.cut(refused)
        self._idle = None
        return False

    def _change(self) -> None:
        """Let all look again that wait."""
        self._waiting.unpark_all()
        self._changed.unpark_all()

    def withdraw(self, number: int) -> bool:
        """Remove an event, unless a connection may have been sent it. Returns whether it is removed."""
        if number <= self.offered:
            return False
        self._count(-len(self._queue.pop(number, b"")))
        if self._is_kept and self._store is not None:
            self._withdrawn = withdrawn = self._withdrawn or {}
            withdrawn[number] = None
            if len(withdrawn) > MAX_WITHDRAWN:
                del withdrawn[next(iter(withdrawn))]
        self._changed.unpark_all()
        return True

    def drop_unread(self) -> None:
        """Drop what is queued, if the stream is optional and has no reader."""
        if self._is_optional and not self._has_reader:
            while self._queue:
                self._drop_first()

    def _drop_first(self) -> None:
        self.dropped += 1
        self._on_dropped(self._take_first())

    def _take_first(self) -> int:
        number, data = self._queue.popitem(last=False)
        self._count(-len(data))
        return number

    def _count(self, more: int) -> None:
        self._queued_bytes += more
        self._on_queued(more)

    def end(self) -> None:
        """End the stream: no more events follow."""
        self.is_ended = True
        self._change()

    def release(self, retry_after: float | None = None) -> None:
        """Close its connection, if its client can reconnect for the rest.

        Args:
            retry_after: How long the client should wait before that, in seconds; `None` for `RETRY_MS`.
        """
        if self._store is not None:
            if retry_after is not None:
                self._retry_ms = round(retry_after * 1000)
            self._is_released = True
            self._change()

    def abandon(self) -> None:
        """Drop what is queued and what follows.

        The client has gone before it knew how to reconnect, or there is no room for what it does not read.
        """
        self._is_abandoned = True
        self._queue.clear()
        self._count(-self._queued_bytes)
        self._change()

    @property
    def has_room(self) -> bool:
        """Whether notifications need not wait."""
        return (
            self._queued_bytes < self._max_bytes
            or self._is_abandoned
            or self.is_ended
            or (self._is_optional and not self._has_reader)
        )

    @property
    def _has_reader(self) -> bool:
        """Whether its events are read, or stored for a later connection."""
        return self._connection is not None or (self._is_kept and self._store is not None)

    async def wait_room(self) -> None:
        """Wait until notifications need not wait. Does not checkpoint if so."""
        while not self.has_room:
            await self._changed.park()

    # What the event writer calls.

    async def keep_asked(self, ids: Iterable[RequestId]) -> None:
        """Keep which requests it answers, for another process that takes the session; see `Unanswered`.

        A store that is away is not waited for longer than `ASKED_SECONDS`, and has it later.
        """
        if self._store is not None:
            self._asked, self._is_kept = Unanswered.encode(ids), True
            self._to_be_stored(self)
            with trio.move_on_after(ASKED_SECONDS):
                while self._asked:
                    await self._changed.park()

    def unstored(self) -> list[StoredEvent]:
        """Return the events that are not stored yet."""
        events: list[StoredEvent] = []
        for number in reversed(self._queue):  # looks at none that is stored
            if number <= self._stored:
                break
            events.append((number, self._queue[number]))
        if self._asked:
            events.append((0, self._asked))
        events.reverse()
        return events

    def to_store(self) -> list[StoredEvent]:
        """Return those of them that a later connection may ask for."""
        return self.unstored() if self._is_kept else []

    def mark_stored(self, number: int) -> None:
        """Note that every event up to this number is in the store, or never will be."""
        self._stored = max(self._stored, number)
        self._asked = b""
        self._trim()

    def _had(self, number: int) -> None:
        """Note that the connection was sent every event up to this number."""
        self.position = number
        self._trim()

    def _trim(self) -> None:
        """Remove what all readers have had. Without a connection that is the store, if there is one."""
        had = self._stored
        if self._connection is not None or not self._is_kept or self._store is None:
            had = min(had, self.position)
        while self._queue and next(iter(self._queue)) <= had:
            self._take_first()
        self._changed.unpark_all()

    # What the requests of the client call.

    @property
    def is_connected(self) -> bool:
        """Whether a connection reads it at the moment."""
        return self._connection is not None

    async def wait_changed(self) -> None:
        """Wait until anything about it changes."""
        await self._changed.park()

    async def wait_event(self) -> None:
        """Wait until there is an event to send, or never will be."""
        while not (self._queue or self.is_ended or self._is_released):
            await self._changed.park()

    def sole_message(self) -> bytes | None:
        """Return the message, if the stream has ended with exactly one."""
        return self._queue.get(1) if self.is_ended and self.last == 1 else None

    async def recall(self, after: int, *, is_orphan: bool = False) -> bool:
        """Become a stream that has ended and is only in the store; return whether that has event `after`.

        Args:
            after: The number.
            is_orphan: Whether its process is gone. Then requests that it has not answered fail.
        """
        self.is_ended = self._is_kept = True
        if self._store is None:
            return False
        left = await self._left_unanswered() if is_orphan else None
        events = await self._store.read(self._session, self.number, -1 if left else after - 1, 1)
        is_known = bool(events)
        while events:
            self.last = self._stored = events[-1][0]
            if left is not None:
                for _, data in events:
                    left.read(data)
            events = await self._store.read(self._session, self.number, self.last, READ_AT_ONCE)
        if left is not None and (errors := left.errors()):
            self.last = max(self.last, after)  # which was sent, and not stored any more
            await self._store.append(self._session, self.number, list(enumerate(errors, self.last + 1)))
            self.last = self._stored = self._answered = self.last + len(errors)
        return is_known and after <= self.last

    async def _left_unanswered(self) -> Unanswered | None:
        assert self._store is not None
        first = await self._store.read(self._session, self.number, -1, 1)
        return Unanswered(first[0][1]) if first and first[0][0] == 0 else None

    def go_on(self, number: int) -> None:
        """Be a stream whose events up to a number another process has sent and stored."""
        self.last = self.position = self.offered = number
        self._stored = number
        self._is_kept = True

    async def deliver(self, call: HttpCall, after: int, *, prime: bool, first: Sequence[bytes] = ()) -> bool:
        """Send events until the stream ends, or is released, or a newer connection takes it over.

        Cancelled when the connection breaks, it leaves the rest to the next one. Returns whether the answer to
        the request is complete.

        Args:
            call: The request whose answer has begun as a stream.
            after: The number after which to begin.
            prime: Whether to send first how the client can reconnect.
            first: What to send before everything else.
        """
        me = self._connection = object()
        self.position = after
        if not self._is_kept:
            self._is_kept = True
            if self._queue and self._store is not None:
                self._to_be_stored(self)
        self._idle = None
        self._change()  # the connection that had it before
        writer = StreamWriter(call)  # what is queued is lent to the session
        try:
            head = [*first]
            if prime and self._store is not None:
                # 2025-11-25: "an event ID and an empty data field in order to prime the client to reconnect".
                head.append(encode_sse_event(b"", id=f"{self.number}-{after}", retry=self._retry_ms))
            if (after + 1) not in self._queue:  # otherwise it is sent with the next event
                await writer.send(b"".join(head))
                head.clear()
            return await self._deliver(call, writer, me, b"".join(head))
        except HttpRefused as refused:
            writer.cut(refused)
            return False
        finally:
            if self._connection is me:
                self._connection = self._idle = None
                self._trim()

    async def _deliver(self, call: HttpCall, writer: StreamWriter, me: object, head: bytes) -> bool:
        while self._connection is me:
            if self.is_ended:
                call.on_answer()
            if writer.has_rest:
                await writer.send_rest()
                if self._connection is me:
                    self._had(self.position + 1)
            elif self.position < self.last and (events := await self._next()):
                number = events[-1][0]
                is_last = self.is_ended and number == self.last == self._answered
                self.offered = max(self.offered, number)
                withdrawn = self._withdrawn or ()
                piece = head + b"".join([self._encoded(*event) for event in events if event[0] not in withdrawn])
                events, head = (), b""  # what this task refers to while it waits cannot give way
                if piece:
                    await writer.send(piece, is_last=is_last)
                # What a broken connection did not take will be asked for again, by its number.
                if self._connection is me:
                    self._had(number)
                if is_last:
                    return True
            elif self.is_ended:
                return False
            elif self._is_released:
                self._is_released = False  # the next connection may stay
                await writer.send(encode_sse_event(None, retry=self._retry_ms))
                return False
            elif not await self._changes(writer, sends_now=call.sends_now):
                await writer.send(b"")
        return False

    async def _changes(self, writer: StreamWriter, *, sends_now: bool) -> bool:
        """Wait until its task has something to do. Returns false after `keep_alive` seconds of silence."""
        self._heard_at = now = trio.current_time()
        if sends_now:
            self._idle = writer
        while (until := self._heard_at + self._keep_alive) > now:
            with trio.move_on_at(until):
                await self._waiting.park()
                break
            now = trio.current_time()
        if self._idle is writer:
            self._idle = None
        return until > now

    async def _next(self) -> Sequence[StoredEvent]:
        """Return the events that follow, from the store or the queue."""
        begins = next(iter(self._queue)) if self._queue else self.last + 1
        if self.position + 1 < begins:
            if self._store is not None:
                events = await self._store.read(self._session, self.number, self.position, READ_AT_ONCE)
                # What was queued meanwhile is in both, and taken from here.
                if events:
                    return events
            self.position = begins - 1  # what was dropped for want of room
        events, size = list[StoredEvent](), 0
        for number in range(self.position + 1, self.last + 1):
            if (data := self._queue.get(number)) is not None:
                size += len(data)
                if events and size > PIECE:
                    break
                events.append((number, data))
        return events

    def _encoded(self, number: int, data: bytes) -> bytes:
        id = None if self._store is None else f"{self.number}-{number}"
        return encode_sse_event(data, event=self._event_type, id=id)


@final
class EventWriter:
    """Writes the events of one session's streams to the store: one call at a time, in a task that runs on demand.

    Args:
        store: The store.
        session: The id of the session.
        on_stored: Called with each stream of which everything was stored.
    """

    def __init__(self, store: EventStore, session: str, on_stored: Callable[[EventStream], object]) -> None:
        self._store = store
        self._session = session
        self._keep = store.keep if isinstance(store, MemoryEventStore) else None
        self._on_stored = on_stored
        self._unstored: OrderedDict[EventStream, None] = OrderedDict()
        self._is_running = False
        self._away_since = math.inf

    def soon(self, stream: EventStream, background: Background) -> None:
        """Store what is queued in a stream: at once, where that never waits. Never waits.

        Args:
            stream: The stream.
            background: Where the task runs; what is not stored when that ends is lost.
        """
        if self._keep is not None:
            if events := stream.unstored():
                self._keep(self._session, stream.number, events)
                self._note_stored(stream, events)
            return
        self._unstored[stream] = None
        if not self._is_running:
            self._is_running = True
            background.start_soon(self._run, name=f"storing events of HTTP session {self._session[:8]}…")

    async def _run(self) -> None:
        """Store events until none are left. What fails is logged, and lost for clients that reconnect."""
        try:
            while self._unstored:
                stream, _ = self._unstored.popitem(last=False)
                if not (events := stream.unstored()):
                    continue
                try:
                    await self._store.append(self._session, stream.number, events)
                except RequestError as error:
                    if self._may_retry():
                        self._unstored[stream] = None
                        await trio.sleep(RETRY_SECONDS)
                        continue
                    _log.error("events of %.8s… are lost: %s", self._session, error)
                except Exception:
                    _log.exception("the event store failed; events of %.8s… are lost", self._session)
                else:
                    self._away_since = math.inf
                self._note_stored(stream, events)
        finally:
            self._is_running = False

    def _may_retry(self) -> bool:
        """Whether a store that cannot be used now is waited for: what is not stored waits in the streams."""
        now = trio.current_time()
        self._away_since = min(self._away_since, now)
        return now < self._away_since + AWAY_SECONDS

    def _note_stored(self, stream: EventStream, events: Sequence[StoredEvent]) -> None:
        stream.mark_stored(events[-1][0])
        self._on_stored(stream)

    async def flush(self, seconds: float, streams: Iterable[EventStream]) -> None:
        """Store what streams still have that go on in another process, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                for stream in streams:
                    if events := stream.to_store():
                        await self._store.append(self._session, stream.number, events)
        except Exception:
            _log.exception("the event store failed; events of %.8s… are lost", self._session)

    async def forget(self, seconds: float) -> None:
        """Let the store drop everything of the session, within so many seconds."""
        try:
            with trio.move_on_after(seconds):
                await self._store.forget(self._session)
        except Exception:
            _log.exception("the event store failed; it may keep events of a session that has ended")


def read_event_id(value: str, last_stream: int) -> tuple[int, int]:
    """Return the numbers of a stream, and of an event in it, from its id.

    Raises:
        HttpRefused: It is none, or there is no such stream yet.
    """
    found = _EVENT_ID.fullmatch(value)
    if found is None or int(found[1]) > last_stream:
        raise HttpRefused(400, f"{LAST_EVENT_ID} {value[:100]!r} is not the id of an event")
    return int(found[1]), int(found[2])
