"""Messages that are ready to be written, and the writing of them.

    put ──> the queue ──> written at once, if nothing else is under way and the wire takes it
                      ──> by the writer task, if the wire does not
                      ──> by the task that holds the queue, together with what that sends itself

`SendQueue` is bounded, in order, and open to withdrawal; `Writer` gives what is in it to the transport. What is
sent is decided by `Sender` and `Exchanges`. Below them is the `Link`, which all parts of one end of a connection
stand on: its tasks, and the `on_frame` hook, which is called with each message.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, TypeVarTuple, final

import attrs
import trio

from .._channel import Channel, Outgoing
from .._codec._jsonrpc import Notification, RequestId
from .._errors import ConnectionLost, McpError
from .._limits import Limits
from .._logs import Log, is_wire_shown
from .._trio import LightParkingLot
from ._call import Calls, QueuedMessage
from ._exchange import Dispatcher, Exchange, InboundTable, OnServed, Several, end_message

_log: Final = Log("trio_mcp.peer")

OnFrame: TypeAlias = Callable[[Literal["sent", "received"], bytes], object]
"""Called with each message as it is handed to the wire or received from it, for logs and tests."""


@final
@attrs.define(eq=False)
class FrameHook:
    """Calls `on_frame` until it fails: it must not disturb the connection it observes."""

    _on_frame: OnFrame | None

    def report(self, direction: Literal["sent", "received"], data: bytes) -> None:
        """Report a message that is handed to the wire, or was received."""
        if self._on_frame is not None:
            try:
                self._on_frame(direction, data)
            except Exception:
                _log.exception("on_frame failed and is not called again")
                self._on_frame = None


DEBUG_VARIABLE: Final = "TRIO_MCP_DEBUG"
"""The environment variable that has them written to standard error, if it is neither empty nor ``0``."""


def wire_log() -> Callable[[str, Literal["sent", "received"], bytes], None] | None:
    """Return what shows messages, called with the name of the other side; `None` if nobody wants to see them.

    Asked once for a connection, so messages cost nothing more while it is off. A program that has every logger at
    DEBUG has not asked for it: messages are long, and may be private.
    """
    if not is_wire_shown(by_itself=os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0")):
        return None
    from ._frame_record import show_frame  # it loads what only records need

    return show_frame


def frame_hook(on_frame: OnFrame | None, other_side: str) -> FrameHook | None:
    """Return what takes the messages of one connection: the user's `on_frame`, the log, both, or nothing."""
    show = wire_log()
    if show is None:
        return None if on_frame is None else FrameHook(on_frame)
    if on_frame is None:
        return FrameHook(partial(show, other_side))

    def take(direction: Literal["sent", "received"], data: bytes) -> None:
        show(other_side, direction, data)
        on_frame(direction, data)

    return FrameHook(take)


@final
@attrs.frozen(kw_only=True)
class Hooks:
    """What the owner of a connection wants to learn of it. None of these may wait or raise, except the first.

    Attributes:
        on_frame: Called with each message in either direction.
        on_notification_read: Called with each notification but progress while it is being read, before any later
            message is looked at.
        on_failure: Called with failures that the transport reports and that concern no single request.
        on_stray: Called with each result that no call waits for: it was given up.
        on_served: Called with each request of the other side that is over.
        after_id: The ids of this side's requests are greater: answers to others' may still come.
    """

    on_frame: OnFrame | None = None
    on_notification_read: Callable[[Notification], object] | None = None
    on_failure: Callable[[McpError], object] | None = None
    on_stray: Callable[[Mapping[str, Any]], object] | None = None
    on_served: OnServed | None = None
    after_id: int = 0


_Args = TypeVarTuple("_Args")
Work: TypeAlias = Callable[[], Awaitable[object]]


@final
@attrs.define(eq=False)
class Link:
    """What the parts of one end of a connection have in common: its channel, its rules, and its tasks.

    The body of a connection ends first and its shielded tasks after it, so that cleanup in the body can still
    send. They end when they have nothing to do, or with `end`. Every task runs with the context variables of the
    task that has opened the connection, wherever it is started.

    Attributes:
        channel: The transport.
        dispatcher: Decides what the messages of the other side mean.
        limits: What the connection may cost.
        hooks: What its owner wants to learn.
        rests: Whether tasks run only while there is something to do; see `Channel.rests`.
        on_end: Called with the error that shows that no message will come any more. Unless that is
            `trio.EndOfChannel`, none can be sent either.
        frames: Called with the bytes of each message; `None` if nobody wants to see them.
        variables: The context variables of its tasks. Code that may change them gets a copy.
    """

    channel: Channel
    dispatcher: Dispatcher
    limits: Limits
    hooks: Hooks
    rests: bool
    on_end: Callable[[Exception], object]
    _nursery: trio.Nursery
    frames: FrameHook | None = attrs.field(init=False)
    _other_side: str = attrs.field(init=False)
    variables: Context = attrs.field(factory=copy_context, init=False)
    _scopes: dict[Work, trio.CancelScope] = attrs.field(factory=dict[Work, trio.CancelScope], init=False)
    _has_ended: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._other_side = self.channel.description
        self.frames = frame_hook(self.hooks.on_frame, self._other_side)

    def start(self, serve: Callable[[*_Args], Awaitable[object]], *args: *_Args) -> None:
        """Start a task that reads or serves; it is cancelled together with the body. Never waits."""
        self._spawn(partial(serve, *args), "serving")

    def start_shielded(self, work: Work, doing: str) -> None:
        """Start a shielded task, unless it runs already or `end` was called. Never waits.

        Args:
            work: What it does. Between finding that nothing is left and its return there must be no checkpoint.
            doing: What it does, for its name.
        """
        if work not in self._scopes and not self._has_ended:
            self._scopes[work] = trio.CancelScope(shield=True)
            self._spawn(partial(self._run, work), doing)

    def _spawn(self, work: Work, doing: str) -> None:
        self.variables.run(partial(self._nursery.start_soon, work, name=f"{doing} {self._other_side}"))

    async def _run(self, work: Work) -> None:
        try:
            with self._scopes[work]:
                await work()
        finally:
            del self._scopes[work]

    def call_outside(self, function: Callable[[*_Args], object], *args: *_Args) -> None:
        """Call a function with the variables of the task that has opened the connection, not a handler's."""
        self.variables.copy().run(function, *args)

    def end(self, reason: str) -> None:
        """Cancel the shielded tasks, and start no more. Never waits."""
        self._has_ended = True
        for scope in self._scopes.values():
            scope.cancel(reason=reason)


COALESCED_BYTES: Final = 64 * 1024
"""How many bytes are handed to the transport at once: a pipe's buffer. More would count as written too early."""

FEW_HOLES: Final = 8
"""How many places of removed messages are stepped over, beside as many as there are messages."""


# What can still be withdrawn, and what that costs.
#
# A message is in one of three places: here, being written, or gone. Only while it is here can it be withdrawn,
# and then it was never sent. So a request that is given up here costs no cancellation, and a cancellation that is
# here when the answer comes is not sent either. That gives exactly one cancellation for each request that was
# written, given up, and not answered before the cancellation could be written, and none for any other. It is
# deterministic: there is no checkpoint between taking messages out of the queue and `Call.mark_written`, and
# `Call.give_up` decides by that state alone. A queue that handed its messages to a buffer of its own, or a
# writer with a checkpoint in between, would break it.
#
# `send_nowait` of a channel may take messages and keep a rest of the last one. They count as written from then
# on, and nothing else is written before that rest (`_has_rest`), which the writer task waits for.
#
# Withdrawing must not search: a peer may give up a thousand requests in one read. The entries are a dict, so each
# is found by itself; finding them by exchange or by id needs an index, which exists only from the first
# withdrawal until the queue is empty, so that connections on which nothing is withdrawn do not pay for it.
#
# The answers to a batch are one message, which stays here and is counted as it is until it is taken. Until then
# what is left out is only noted: a client may give up a thousand parts one after another, and to encode the rest
# for each would cost a thousand times as much.


@final
class _Index:
    """Finds messages in a queue by what they belong to.

    Attributes:
        of: All that belongs to a request of the other side.
        answers: What answers requests, by their ids.
        rests: What encodes the answers to a batch again, as some were left out since the last time.
    """

    def __init__(self, entries: Iterable[QueuedMessage]) -> None:
        self.of: Several[Exchange, QueuedMessage] = Several()
        self.answers: Several[RequestId, QueuedMessage] = Several()
        self.rests: dict[QueuedMessage, Callable[[], Outgoing]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: QueuedMessage) -> None:
        if entry.exchange is not None:
            self.of.add(entry.exchange, entry)
        for id in entry.message.answers:
            self.answers.add(id, entry)

    def remove(self, entry: QueuedMessage) -> None:
        if entry.exchange is not None:
            self.of.remove(entry.exchange, entry)
        for id in entry.message.answers:
            self.answers.remove(id, entry)
        self.rests.pop(entry, None)


def _end(entry: QueuedMessage) -> None:
    """A message is written, or never will be."""
    if entry.ends is not None:
        end_message(entry.ends)


@final
@attrs.define(eq=False)
class SendQueue:
    """A queue between the tasks that send messages and the one that writes them.

    Putting is atomic: a sender that is cancelled while it waits for room has put nothing. A message that was not
    taken yet can be withdrawn, and then was never written. After `close` no method waits, and what is put is
    lost.

    Args:
        max_bytes: How many bytes may be here before senders wait. A message of any size fits while less is here.
        start_writer: Called when something is put; it starts the writer task unless that runs. `None` if the
            writer always runs.
        on_question_withdrawn: Called with a message with requests of this side that was withdrawn together with
            the exchange that made them: their callers must be notified.

    Attributes:
        size: How many bytes are queued; what is being written is not counted.
        is_held: If true, `put` does not wake the writer: the current task will flush the queue before it waits.
        is_overfull: Whether so much was put without waiting that reading should pause: the other side does not
            read.
    """

    _max_bytes: int
    _start_writer: Callable[[], object] | None = None
    _on_question_withdrawn: Callable[[QueuedMessage], object] | None = None
    size: int = attrs.field(default=0, init=False)
    is_held: bool = attrs.field(default=False, init=False)
    is_overfull: bool = attrs.field(default=False, init=False)
    # 0 while a sender waits for room, so that later ones wait behind it.
    _full_from: int = attrs.field(init=False)
    _in_line: int = attrs.field(default=0, init=False)
    _is_waking: bool = attrs.field(default=False, init=False)
    _entries: dict[QueuedMessage, None] = attrs.field(factory=dict[QueuedMessage, None], init=False)
    _holes: int = attrs.field(default=0, init=False)
    _index: _Index | None = attrs.field(default=None, init=False)
    # Of requests of this side.
    _cancellations: dict[RequestId, QueuedMessage] = attrs.field(
        factory=dict[RequestId, QueuedMessage], init=False
    )
    _urgent_bytes: int = attrs.field(default=0, init=False)
    _being_written: bool = attrs.field(default=False, init=False)
    _taken: Sequence[QueuedMessage] = attrs.field(default=(), init=False)  # which is that
    _has_rest: bool = attrs.field(default=False, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _urgent_room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _nothing: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _something: LightParkingLot | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._full_from = self._max_bytes
        if self._start_writer is None:
            self._something = LightParkingLot()
            self._start_writer = self._something.unpark

    @property
    def is_full(self) -> bool:
        """Whether senders must wait: there is no room, or others wait for it."""
        return self.size >= self._full_from

    @property
    def is_idle(self) -> bool:
        """Whether a message may be given to the transport without a stay in the queue."""
        return not (self._entries or self._being_written or self.is_held or self._closed)

    @property
    def is_busy(self) -> bool:
        """Whether something is queued or being written."""
        return bool(self._entries) or self._being_written

    @property
    def has_cancellations(self) -> bool:
        """Whether cancellations of requests of this side are queued."""
        return bool(self._cancellations)

    async def wait_room(self) -> None:
        """Wait in line until there is room. Does not checkpoint if there is room and no line.

        There must be no checkpoint between the return of this and the caller's `put`, so that what is put had
        room. One waiter wakes the next, so that a thousand of them are not woken for the room of one. While there
        is a line, each new sender joins it, and one that was woken for room that is gone again keeps its place:
        only urgent messages overtake.
        """
        if self.size < self._full_from or self._closed:
            return
        self._in_line += 1
        self._full_from = 0
        try:
            await self._room.park()
            self._is_waking = False
            while self.size >= self._max_bytes and not self._closed:
                await self._room.park(is_first=True)
                self._is_waking = False
        finally:
            self._in_line -= 1
            if not self._in_line:
                self._full_from = self._max_bytes
        self._wake_first()

    def _wake_first(self) -> None:
        """Wake the first in line; one at a time, because tasks that are woken run in any order."""
        if not self._is_waking:
            self._is_waking = self._room.unpark()

    async def wait_urgent_room(self) -> None:
        """Wait until it is not overfull. Does not checkpoint if it is not."""
        while self.is_overfull and not self._closed:
            await self._urgent_room.park()

    def put(self, entry: QueuedMessage) -> None:
        """Add a message, whether there is room or not; senders that can wait have called `wait_room`.

        Those that cannot wait mark it urgent: cancellations, of which there is at most one for each request that
        was written, and answers of the reader itself, which pauses while the queue is overfull.
        """
        if self._closed:
            return
        self._entries[entry] = None
        if self._index is not None:
            self._index.add(entry)
        self.size += len(entry.message.data)
        if entry.urgent:
            self._count_urgent(len(entry.message.data))
            if entry.cancels is not None:
                self._cancellations[entry.cancels] = entry
        if not self.is_held:
            self.wake_writer()

    def wake_writer(self) -> None:
        """Let the writer take what is queued."""
        assert self._start_writer is not None
        self._start_writer()

    def release(self) -> None:
        """The task that has set `is_held` will not flush after all: the writer does."""
        self.is_held = False
        if self._entries:
            self.wake_writer()

    def withdraw(self, entry: QueuedMessage) -> None:
        """Withdraw a message, unless it was taken to be written."""
        if entry in self._entries:
            self._take_out(entry)
            _end(entry)
        self._after_leaving()

    def withdraw_all_of(self, exchange: Exchange) -> None:
        """Withdraw everything that belongs to a request which its sender gave up."""
        if self._entries:
            for entry in tuple(self._indexed().of.get(exchange, ())):
                self._take_out(entry)
                _end(entry)
                if entry.calls and self._on_question_withdrawn is not None:
                    self._on_question_withdrawn(entry)
        self._after_leaving()

    def withdraw_answer(self, id: RequestId) -> bool:
        """Withdraw the answer to a request of the other side, and what its exchange has sent before.

        There are several answers if its id was used again. Returns whether one had not been taken to be written.
        """
        if not self._entries:
            return False
        index = self._indexed()
        found = tuple(index.answers.get(id, ()))
        for entry in found:
            if entry.exchange is not None:
                self.withdraw_all_of(entry.exchange)
                entry.exchange.end_parked("its caller gave it up before the answer was written")
            elif entry.without is not None and (rest := entry.without(id)) is not None:
                index.answers.remove(id, entry)
                index.rests[entry] = rest
            else:
                self.withdraw(entry)
        return bool(found)

    def withdraw_cancellation(self, id: RequestId) -> None:
        """Withdraw the cancellation of a request of this side, if it was not taken to be written."""
        entry = self._cancellations.get(id)
        if entry is not None:
            self.withdraw(entry)

    def _indexed(self) -> _Index:
        """Return the index, which is kept from the first withdrawal until the queue is empty."""
        if self._index is None:
            self._index = _Index(self._entries)
        return self._index

    def first(self) -> list[QueuedMessage]:
        """Return as much as goes to the transport at once, and leave it here; nothing during another write."""
        entries = self._entries
        if not entries or self._being_written:
            return []
        if self.size <= COALESCED_BYTES:
            taken = list(entries)
        else:
            taken = list[QueuedMessage]()
            size = 0
            for entry in entries:
                size += len(entry.message.data)
                if size > COALESCED_BYTES and taken:
                    break
                taken.append(entry)
        if self._index is not None and self._index.rests:
            self._encode_rests(taken, self._index)
        return taken

    def _encode_rests(self, taken: Iterable[QueuedMessage], index: _Index) -> None:
        for entry in taken:
            if (rest := index.rests.pop(entry, None)) is not None:
                self.size -= len(entry.message.data)
                entry.message = rest()
                self.size += len(entry.message.data)

    def remove_first(self, count: int, *, has_rest: bool) -> None:
        """The transport has taken so many messages; it may keep a rest of the last one."""
        taken = list(islice(self._entries, count))
        if count == len(self._entries):  # mostly all
            self._clear()
        else:
            for entry in taken:
                self._take_out(entry)
        if has_rest:
            self.keep_rest(taken.pop())
        for entry in taken:
            _end(entry)
        self._after_leaving()

    def keep_rest(self, entry: QueuedMessage) -> None:
        """The transport keeps a rest of what it has taken last: nothing is written before that."""
        self._being_written = self._has_rest = True
        self._taken = (entry,)
        self.wake_writer()

    def _confirm(self) -> None:
        """What was being written is on the wire, unless there is a rest to write first."""
        if not self._has_rest:
            self._being_written = False
            taken, self._taken = self._taken, ()
            for entry in taken:
                _end(entry)
        self._after_leaving()

    def _clear(self) -> None:
        self._entries.clear()
        self._cancellations.clear()
        self._index = None
        self._holes = self.size = self._urgent_bytes = 0
        self.is_overfull = False

    async def take(self) -> list[QueuedMessage]:
        """Wait until something is queued, and take as much of it as goes to the transport at once.

        The next call confirms that what was taken before is on the wire. Returns an empty list when the transport
        has a rest to write first.
        """
        self._confirm()
        while not (self._has_rest or self._entries):
            assert self._something is not None, "a writer that was started finds something"
            await self._something.park()
        taken = self.first()
        for entry in taken:
            self._take_out(entry)
        if not self._has_rest:
            self._taken = taken
        self._being_written = True
        self._has_rest = False
        self._after_leaving()
        return taken

    def may_rest(self) -> bool:
        """Confirm that what was taken is on the wire. Returns whether the writer may end; see `start_writer`."""
        if self._something is not None:
            return False
        self._confirm()
        return not (self._has_rest or self._entries)

    async def wait_empty(self) -> None:
        """Wait until everything is on the wire. Does not checkpoint if it is."""
        while self.is_busy and not self._closed:
            await self._nothing.park()

    def close(self) -> None:
        """Drop everything, also what was taken, and wake all tasks that wait here."""
        self._closed = True
        unsent = [
            entry.exchange for entry in self._entries if entry.message.answers and entry.exchange is not None
        ]
        self._clear()
        self._taken = ()
        for lot in (self._room, self._urgent_room, self._nothing):
            lot.unpark_all()
        for exchange in unsent:
            exchange.end_parked("the connection has ended before the answer was written")

    def _take_out(self, entry: QueuedMessage) -> None:
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
        self.size -= size
        if entry.urgent:
            self._count_urgent(-size)
            if entry.cancels is not None:
                del self._cancellations[entry.cancels]

    def _count_urgent(self, size: int) -> None:
        self._urgent_bytes += size
        self.is_overfull = self._urgent_bytes >= self._max_bytes

    def _after_leaving(self) -> None:
        # Mostly no task waits, and checking that first saves the rest.
        if self._room.parked is not None and self.size < self._max_bytes:
            self._wake_first()
        if self._urgent_room.parked is not None and not self.is_overfull:
            self._urgent_room.unpark_all()
        if self._nothing.parked is not None and not self._entries and not self._being_written:
            self._nothing.unpark_all()


@final
@attrs.define(eq=False)
class Writer:
    """Writes what one end of a connection sends.

    Args:
        link: Where to.
        calls: The requests of this side.
        inbound: Those of the other side.

    Attributes:
        queue: What is ready to be written.
        written: How many messages were written, of any kind.
    """

    _link: Link
    _calls: Calls
    _inbound: InboundTable[Any, Any]
    queue: SendQueue = attrs.field(init=False)
    written: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        start = self.start if self._link.rests else None
        self.queue = SendQueue(self._link.limits.max_outbox_bytes, start, self._calls.fail_withdrawn)

    def start(self) -> None:
        """Start the writer task, unless it runs. Never waits."""
        self._link.start_shielded(self._write, "writing to")

    def put(self, message: QueuedMessage, *, by_itself: bool = False) -> None:
        """Send a message: at once, if nothing else is under way; else together with others. Never waits.

        Args:
            message: The message.
            by_itself: Whether to send it at once also while requests are under way, unless others are queued.
        """
        queue = self.queue
        # What is queued already could not be written at once, and its writer is awake. To try again with each new
        # message would look at all the others each time.
        if not (queue.is_idle and (by_itself or len(self._inbound.active) + len(self._calls) <= 1)):
            queue.put(message)
            return
        try:
            is_written = self._link.channel.send_nowait((message.message,))
        except trio.WouldBlock:
            queue.put(message)
        except (ConnectionLost, trio.ClosedResourceError) as error:
            queue.put(message)  # with it ends what waits for it
            self._link.on_end(error)
        else:
            self._mark_written((message,))
            if is_written:
                _end(message)
            else:
                queue.keep_rest(message)

    def flush(self) -> None:
        """Write what is queued, as far as the wire takes it now; the writer task does the rest. Never waits."""
        queue = self.queue
        queue.is_held = False
        while first := queue.first():
            try:
                is_written = self._link.channel.send_nowait([queued.message for queued in first])
            except trio.WouldBlock:
                queue.wake_writer()
                return
            except (ConnectionLost, trio.ClosedResourceError) as error:
                self._link.on_end(error)
                return
            self._mark_written(first)
            queue.remove_first(len(first), has_rest=not is_written)
            if not queue.size:
                return

    def withdraw_answer(self, id: RequestId) -> bool:
        """Withdraw the answer to a request of the other side, as far as the other side does not have it yet.

        Returns whether there was anything to withdraw.
        """
        return self.queue.withdraw_answer(id) or self._link.channel.withdraw_answer(id)

    async def _write(self) -> None:
        """Be the writer task: as long as the connection lasts, or until `SendQueue.may_rest`."""
        try:
            while not self.queue.may_rest():
                taken = await self.queue.take()
                self._mark_written(taken)
                await self._link.channel.send([queued.message for queued in taken])
                del taken  # an idle connection keeps nothing of what it has sent
        except (ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self._link.on_end(error)

    def _mark_written(self, messages: Sequence[QueuedMessage]) -> None:
        for queued in messages:
            self.written += 1
            for call in queued.calls:
                call.mark_written(self.written)
            if self._link.frames is not None:
                self._link.frames.report("sent", queued.message.data)
