"""What is ready to be written: bounded, in order, and open to second thoughts until the writer takes it.

Shows the messages of a connection to whoever looks on.

The requests this side has made: what state each is in and what giving it up costs.

Decisions only: no I/O, no Trio, no clock. The peer waits and writes; this table says whether a word must be
said to the other side, and there is exactly one place that can answer "yes", once per request.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from .._channel import Outgoing
from .._codec._jsonrpc import RequestId
from .._logs import Log
from .._trio import LightParkingLot
from ._exchange import Exchange

_log: Final = Log("trio_mcp.peer")

OnFrame: TypeAlias = Callable[[Literal["sent", "received"], bytes], object]
"""Called with each message as it is handed to the wire or comes from it, for logs and tests."""


@final
class Frames:
    """Calls a bystander, as long as that goes well: what it does must not change what it looks at.

    Args:
        on_frame: The bystander.
    """

    def __init__(self, on_frame: OnFrame) -> None:
        self._on_frame: OnFrame | None = on_frame

    def sent(self, data: bytes) -> None:
        """A message is handed to the wire."""
        self._show("sent", data)

    def received(self, data: bytes) -> None:
        """A message has come."""
        self._show("received", data)

    def _show(self, direction: Literal["sent", "received"], data: bytes) -> None:
        if self._on_frame is not None:
            try:
                self._on_frame(direction, data)
            except Exception:
                _log.exception("on_frame failed and is not called again")
                self._on_frame = None


@final
class OutboundState(enum.Enum):
    """Where a request of ours stands."""

    __hash__ = object.__hash__  # each is one object; Enum would hash the name, in Python

    QUEUED = "not a byte of it has been handed to the transport"
    WRITTEN = "the transport has it; from here on giving up must be said"
    ANSWERED = "its answer is here, or the connection is gone: there is nothing left to give up"
    GIVEN_UP = "nobody waits for it any more"


@final
class OutboundEvent(enum.Enum):
    """What can happen to a request of ours."""

    __hash__ = object.__hash__

    WRITE = enum.auto()
    ANSWER = enum.auto()
    GIVE_UP = enum.auto()


_TRANSITIONS: Final[Mapping[tuple[OutboundState, OutboundEvent], OutboundState]] = MappingProxyType(
    {
        (OutboundState.QUEUED, OutboundEvent.WRITE): OutboundState.WRITTEN,
        # The connection can end, and fail every request, before this one was written.
        (OutboundState.QUEUED, OutboundEvent.ANSWER): OutboundState.ANSWERED,
        (OutboundState.QUEUED, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
        (OutboundState.WRITTEN, OutboundEvent.ANSWER): OutboundState.ANSWERED,
        (OutboundState.WRITTEN, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
        # The caller may be cancelled after the answer came and before it looked.
        (OutboundState.ANSWERED, OutboundEvent.GIVE_UP): OutboundState.ANSWERED,
        # An exception in the caller ends what leaving the client had given up already.
        (OutboundState.GIVEN_UP, OutboundEvent.GIVE_UP): OutboundState.GIVEN_UP,
    }
)
"""Every pair that is not here is a bug and raises `KeyError`."""


@final
@attrs.define(eq=False)
class OutboundRequest:
    """One request of ours, from the moment its caller asked until its caller goes on.

    Attributes:
        id: Its id on this connection.
        method: Its method.
        state: Where it stands; only `OutboundTable` sets it.
        number: Which of the messages that were written it went out with, counted from 1; 0 before it did.
        result: The result, once answered with one.
        error: Why there is no result, once there is a reason.
    """

    id: RequestId
    method: str
    state: OutboundState = OutboundState.QUEUED
    number: int = 0
    result: dict[str, Any] | None = None
    error: Exception | None = None

    @property
    def is_settled(self) -> bool:
        """Whether its caller can go on: there is a result, or an error to raise."""
        return self.result is not None or self.error is not None


@final
class OutboundTable:
    """The requests of ours that somebody waits for.

    Args:
        max_requests: How many there may be at once.
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._requests: dict[RequestId, OutboundRequest] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_full(self) -> bool:
        """Whether the next caller has to wait."""
        return len(self._requests) >= self._max_requests

    def open(self, method: str) -> OutboundRequest:
        """Enter a request under a new id. Ids are never used twice on one connection."""
        self._last_id += 1
        request = OutboundRequest(self._last_id, method)
        self._requests[request.id] = request
        return request

    def get(self, id: RequestId | None) -> OutboundRequest | None:
        """Return the request that an answer with this id is for: one that is written and that somebody waits for.

        `1` and `"1"` are two ids.
        """
        request = None if id is None else self._requests.get(id)
        return request if request is not None and request.state is OutboundState.WRITTEN else None

    def mark_written(self, request: OutboundRequest) -> None:
        """Say that the transport has the request now."""
        self._move(request, OutboundEvent.WRITE)

    def answer(self, request: OutboundRequest, outcome: dict[str, Any] | Exception) -> None:
        """Enter how the request ended. A second answer to the same request is a stray and never gets here."""
        self._move(request, OutboundEvent.ANSWER)
        if isinstance(outcome, dict):
            request.result = outcome
        else:
            request.error = outcome
        del self._requests[request.id]

    def give_up(self, request: OutboundRequest) -> bool:
        """Take the request out because nobody waits any more.

        Returns:
            Whether the other side must be told: it may have the request, has not answered it, was not told
            yet, and the request is not ``initialize``, which must not be cancelled (2025-11-25,
            basic/utilities/cancellation, "Behavior Requirements").
        """
        was = request.state
        self._move(request, OutboundEvent.GIVE_UP)
        if request.state is OutboundState.GIVEN_UP:
            self._requests.pop(request.id, None)
        return was is OutboundState.WRITTEN and request.method != "initialize"

    @staticmethod
    def _move(request: OutboundRequest, event: OutboundEvent) -> None:
        request.state = _TRANSITIONS[request.state, event]


COALESCED_BYTES: Final = 64 * 1024
"""How much is handed to the transport in one go: a pipe's buffer. More would only be called written too early."""

FEW_HOLES: Final = 8
"""How many places of entries that have left are stepped over, beside as many as there are entries."""


@final
@attrs.define(eq=False)
class OutboxEntry:
    """One message in the outbox.

    Attributes:
        message: What is to be written.
        requests: The requests of ours that are in it.
        exchange: The request of the other side it belongs to. It goes when that is given up.
        goodbye_to: The id of the request of ours that it gives up.
        urgent: Whether it came without waiting for room.
    """

    message: Outgoing
    requests: tuple[OutboundRequest, ...] = ()
    exchange: Exchange | None = None
    goodbye_to: RequestId | None = None
    urgent: bool = False


@final
class _Index:
    """Finds what lies in an outbox by what it belongs to.

    Mostly nothing is withdrawn, or little lies there. So there is an index only from the first withdrawal until
    the outbox is empty, which costs each entry one more look, and all others nothing.

    Attributes:
        answers: What answers one request, by its id.
    """

    def __init__(self, entries: Iterable[OutboxEntry]) -> None:
        self.answers: dict[RequestId, OutboxEntry] = {}
        self._of: dict[Exchange, dict[OutboxEntry, None]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: OutboxEntry) -> None:
        if entry.exchange is not None:
            self._of.setdefault(entry.exchange, {})[entry] = None
        answers = entry.message.answers
        if len(answers) == 1:
            self.answers[answers[0]] = entry

    def remove(self, entry: OutboxEntry) -> None:
        exchange, answers = entry.exchange, entry.message.answers
        if exchange is not None:
            entries = self._of[exchange]
            del entries[entry]
            if not entries:
                del self._of[exchange]
        if len(answers) == 1 and self.answers.get(answers[0]) is entry:
            del self.answers[answers[0]]

    def entries_of(self, exchange: Exchange) -> tuple[OutboxEntry, ...]:
        """Return everything that belongs to a request of the other side, in order."""
        return tuple(self._of.get(exchange, ()))


@final
class Outbox:
    """A queue between the tasks that have something to say and whoever writes it.

    Putting is atomic: what is cancelled while it waits for room has put nothing. An entry that nobody has taken
    can be withdrawn, and then was never written. After `close` nothing waits here any more, and what is put is
    lost.

    Args:
        max_bytes: How much may lie here before senders wait. One message of any size fits when that is free.
        wake: Called when something is put, if the writer may be gone.

    Attributes:
        is_held: Whether the writer is not to be woken by what is put, because somebody is about to write it who
            will not wait before that.
        is_overfull: Whether so much came without waiting that its source should pause: the other side does not
            read.
        on_question_withdrawn: Called with requests of ours that were taken back together with the request of the
            other side for which they are: whoever waits for them must learn of it.
    """

    def __init__(self, max_bytes: int, wake: Callable[[], object] | None = None) -> None:
        self._max_bytes = self._full_from = max_bytes
        self._in_line = 0
        self._is_waking = False
        self._entries: dict[OutboxEntry, None] = {}
        self._holes = 0
        self._index: _Index | None = None
        self._bytes = 0
        self._urgent_bytes = 0
        self._being_written = False
        self._has_rest = False
        self._closed = False
        self.is_held = False
        self.is_overfull = False
        self.on_question_withdrawn: Callable[[OutboxEntry], object] | None = None
        self._room = LightParkingLot()
        self._urgent_room = LightParkingLot()
        self._nothing = LightParkingLot()
        self._something: LightParkingLot | None = None
        if wake is None:
            self._something = LightParkingLot()
            wake = self._something.unpark
        self._wake = wake

    @property
    def size(self) -> int:
        """Bytes that lie here; what is being written is not counted."""
        return self._bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies here; something may be being written all the same."""
        return not self._entries

    @property
    def is_full(self) -> bool:
        """Whether senders wait: there is no room, or there are others who wait for it."""
        return self._bytes >= self._full_from

    async def wait_room(self) -> None:
        """Wait in line until there is room. Does not checkpoint if there is, and nobody waits.

        There is no checkpoint between the return of this and the caller's `put`, so what is put had room. One
        waiter wakes the next, so that a thousand of them are not woken for the room of one. While there is a
        line, everybody who comes joins it, and who was woken for room that is gone again keeps its place: nobody
        is overtaken but by what cannot wait.
        """
        if self._bytes < self._full_from or self._closed:
            return
        self._in_line += 1
        self._full_from = 0
        try:
            await self._room.park()
            self._is_waking = False
            while self._bytes >= self._max_bytes and not self._closed:
                await self._room.park(is_first=True)
                self._is_waking = False
        finally:
            self._in_line -= 1
            if not self._in_line:
                self._full_from = self._max_bytes
        self._wake_first()

    def _wake_first(self) -> None:
        """Let who is first in line look for room; one at a time: tasks that are woken run in any order."""
        if not self._is_waking:
            self._is_waking = self._room.unpark()

    async def wait_urgent_room(self) -> None:
        """Wait until it is not overfull. Does not checkpoint if it is not."""
        while self.is_overfull and not self._closed:
            await self._urgent_room.park()

    def put(self, entry: OutboxEntry) -> None:
        """Add an entry, room or no room; whoever can wait has waited for room.

        What cannot wait is marked urgent: cancellations, of which there is at most one per request that was
        written, and what the reader answers itself, which pauses while the outbox is overfull.
        """
        if self._closed:
            return
        self._entries[entry] = None
        if self._index is not None:
            self._index.add(entry)
        self._bytes += len(entry.message.data)
        if entry.urgent:
            self._count_urgent(len(entry.message.data))
        if not self.is_held:
            self.wake_writer()

    def wake_writer(self) -> None:
        """Let the writer look what there is."""
        self._wake()

    def release(self) -> None:
        """Whoever has held it will not write after all: the writer does."""
        self.is_held = False
        if self._entries:
            self.wake_writer()

    def withdraw(self, entry: OutboxEntry) -> None:
        """Take back an entry, unless it was taken to be written."""
        if entry in self._entries:
            self._take_out(entry)
        self._after_leaving()

    def withdraw_all_of(self, exchange: Exchange) -> None:
        """Take back everything that belongs to a request which its sender gave up."""
        if self._entries:
            for entry in self._indexed().entries_of(exchange):
                self._take_out(entry)
                if entry.requests and self.on_question_withdrawn is not None:
                    self.on_question_withdrawn(entry)
        self._after_leaving()

    def withdraw_answer(self, id: RequestId) -> bool:
        """Take back the answer to a request of the other side, and what its exchange has said before.

        Returns whether nobody had taken the answer.
        """
        entry = self._indexed().answers.get(id) if self._entries else None
        if entry is None:
            return False
        if entry.exchange is None:
            self.withdraw(entry)
        else:
            self.withdraw_all_of(entry.exchange)
            entry.exchange.end_companion("its caller gave it up before the answer was written")
        return True

    def _indexed(self) -> _Index:
        """Return the index, which is kept from the first withdrawal until the outbox is empty."""
        if self._index is None:
            self._index = _Index(self._entries)
        return self._index

    def first(self) -> list[OutboxEntry]:
        """Return as much as goes to the transport at once, which stays; nothing during another write."""
        entries = self._entries
        if not entries or self._being_written:
            return []
        if self._bytes <= COALESCED_BYTES:
            return list(entries)
        taken: list[OutboxEntry] = []
        size = 0
        for entry in entries:
            size += len(entry.message.data)
            if size > COALESCED_BYTES and taken:
                break
            taken.append(entry)
        return taken

    def remove_first(self, count: int, *, has_rest: bool) -> None:
        """The transport has taken so many entries; the rest of the last one perhaps not yet."""
        for entry in list(islice(self._entries, count)):
            self._take_out(entry)
        self._being_written = self._has_rest = has_rest
        if has_rest:
            self.wake_writer()
        self._after_leaving()

    async def take(self) -> list[OutboxEntry]:
        """Wait until there is something, and take as much of it as goes to the transport at once.

        Taking more says that what was taken before is on the wire. Nothing is taken when the transport has a rest
        to write first.
        """
        if not self._has_rest:
            self._being_written = False
        self._after_leaving()
        while not (self._has_rest or self._entries):
            assert self._something is not None, "a writer that is woken finds something"
            await self._something.park()
        taken = self.first()
        for entry in taken:
            self._take_out(entry)
        self._being_written = True
        self._has_rest = False
        self._after_leaving()
        return taken

    def may_rest(self) -> bool:
        """Say that what was taken is on the wire, and return whether nothing is left to take."""
        if not self._has_rest:
            self._being_written = False
        self._after_leaving()
        return not (self._has_rest or self._entries)

    async def wait_empty(self) -> None:
        """Wait until everything is on the wire. Does not checkpoint if it is."""
        while (self._entries or self._being_written) and not self._closed:
            await self._nothing.park()

    def close(self) -> None:
        """Throw everything away and let everybody go."""
        self._closed = True
        unsaid = [
            entry.exchange for entry in self._entries if entry.message.answers and entry.exchange is not None
        ]
        self._entries.clear()
        self._index = None
        self._bytes = self._urgent_bytes = 0
        self.is_overfull = False
        for lot in (self._room, self._urgent_room, self._nothing):
            lot.unpark_all()
        for exchange in unsaid:
            exchange.end_companion("the connection has ended before the answer was written")

    def _take_out(self, entry: OutboxEntry) -> None:
        entries = self._entries
        del entries[entry]
        if self._index is not None:
            self._index.remove(entry)
            if not entries:
                self._index = None
        self._holes += 1
        if self._holes > FEW_HOLES + len(entries):
            self._entries = dict.fromkeys(entries)
            self._holes = 0
        size = len(entry.message.data)
        self._bytes -= size
        if entry.urgent:
            self._count_urgent(-size)

    def _count_urgent(self, size: int) -> None:
        self._urgent_bytes += size
        self.is_overfull = self._urgent_bytes >= self._max_bytes

    def _after_leaving(self) -> None:
        # Mostly nobody waits, and asking that first spares the rest.
        if self._room and self._bytes < self._max_bytes:
            self._wake_first()
        if self._urgent_room and not self.is_overfull:
            self._urgent_room.unpark_all()
        if self._nothing and not self._entries and not self._being_written:
            self._nothing.unpark_all()
