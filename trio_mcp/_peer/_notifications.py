"""Delivers the notifications that one connection receives.

    progress        ──> the call that wants it, whose task handles it: one after another, in wire order
    everything else ──> one queue, one task: one at a time, in wire order

So a slow handler holds up its own kind alone. A full line holds up reading, for a limited time.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from heapq import heappop, heappush
from typing import Any, Final, Generic, Literal, TypeAlias, TypeGuard, TypeVar, final

import attrs
import trio

from .._channel import Origin
from .._codec import _json
from .._codec._json import weight_of
from .._codec._jsonrpc import Notification, encode_notification
from .._logs import Log
from .._trio import Contained, InlineTask, LightParkingLot, propagating
from ._call import Call, ProgressRoom
from ._exchange import Progress, end_message, hold_message, report_failure
from ._send_queue import Link
from ._sender import Sender

_T = TypeVar("_T")


@final
@attrs.define(eq=False)
class NotificationQueue(Generic[_T]):
    """A bounded queue that knows which notifications to drop. No I/O, no Trio, no clock.

    A notification with a key repeats every other with that key ("the list of tools has changed"): one of them is
    enough. One without a key belongs to a series (log messages), of which the newest matter most.

    Args:
        max_length: How many there may be.
        max_bytes: What they may weigh together.

    Attributes:
        size: What they weigh together.
        last_number: How many were ever added; each has the number that this had then.
    """

    _max_length: int
    _max_bytes: int
    size: int = attrs.field(default=0, init=False)
    # By number, oldest first, each with its key and its weight.
    _entries: OrderedDict[int, tuple[Hashable | None, _T, int]] = attrs.field(
        factory=OrderedDict[int, tuple[Hashable | None, _T, int]], init=False
    )
    last_number: int = attrs.field(default=0, init=False)
    # The next to drop must be found without a search: in a flood each that comes drops one.
    # No key; `None`, as an empty deque is large.
    _series: deque[int] | None = attrs.field(default=None, init=False)
    _latest: dict[Hashable, int] = attrs.field(factory=dict[Hashable, int], init=False)  # of each key
    # Those of which there is a later one, as a heap.
    _repeated: list[int] = attrs.field(factory=list[int], init=False)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether one must go before the next can come."""
        return len(self._entries) >= self._max_length or self.size >= self._max_bytes

    @property
    def is_relieved(self) -> bool:
        """Whether at most half of the room is taken."""
        return len(self._entries) * 2 <= self._max_length and self.size * 2 <= self._max_bytes

    @property
    def first(self) -> _T | None:
        """The oldest, which stays in the queue, or `None` if there is none."""
        return next(iter(self._entries.values()))[1] if self._entries else None

    @property
    def first_number(self) -> int:
        """The number of the oldest; if there is none, that of the next to come."""
        return next(iter(self._entries), self.last_number + 1)

    def push(self, key: Hashable | None, item: _T, size: int) -> None:
        """Add a notification with its weight, whether there is room or not."""
        self.last_number = number = self.last_number + 1
        self._entries[number] = key, item, size
        self.size += size
        if key is None:
            if self._series is None:
                self._series = deque()
            self._series.append(number)
        else:
            earlier = self._latest.get(key)
            if earlier is not None:
                heappush(self._repeated, earlier)
            self._latest[key] = number

    def pop(self) -> _T:
        """Take the oldest.

        Raises:
            IndexError: There is none.
        """
        if not self._entries:
            raise IndexError("the queue is empty")
        return self._take_out(next(iter(self._entries)))

    def drop(self) -> _T:
        """Drop a notification to make room, and return it.

        The oldest without a key, else the oldest that a later one repeats, else the oldest.

        Raises:
            IndexError: There is none.
        """
        if self._series:
            return self._take_out(self._series[0])
        if self._repeated:
            return self._take_out(self._repeated[0])
        return self.pop()

    def _take_out(self, number: int) -> _T:
        """Remove the oldest, the oldest without a key, or the oldest repeated one: each is first in its list."""
        key, item, size = self._entries.pop(number)
        self.size -= size
        if key is None:
            assert self._series is not None, "it was pushed"
            self._series.popleft()
            if not self._series:
                self._series = None
        elif self._latest[key] == number:
            del self._latest[key]
        else:
            heappop(self._repeated)
        return item


_log: Final = Log("trio_mcp.peer")

PROGRESS: Final = "notifications/progress"
OTHERS: Final = "others"
ALL_PROGRESS: Final = "all progress"

MAX_TURNS: Final = 4
"""After how many passes of the event loop a handler counts as waiting. One that does not wait takes two."""

_Line: TypeAlias = Call | Literal["others", "all progress"]
"""What can be full: the line of a call, the line of all others, and the weight of all progress together."""


@final
@attrs.define
class _Received:
    notification: Notification
    origin: Origin | None


@final
@attrs.define(eq=False)
class Notifications:
    """Bounded lines of notifications: one for each call that wants progress, and one for all others.

    A slow handler makes its line grow, and a full line holds up reading when more comes for it, but only for
    `Limits.slow_consumer_timeout`: a slow handler must not keep answers from their callers, least of all from
    itself. From then on, until that line is half empty or its call is over, nothing holds up reading: in every
    full line the oldest notifications of a series, or those that a later one repeats, are dropped and counted.

    What is handled in different tasks is begun in wire order all the same: before reading passes something to
    another task it pauses, with `wait_begun`, until the handler of what was passed on before has begun, or turns
    out to wait.

    Attributes:
        has_unbegun: Whether something that is no progress waits to be handled, and not for another's handler.
        has_called: Whether progress was given to calls since reading has paused for them. If either is so, a
            request that comes then waits as well, with `wait_begun`.
        dropped: How many notifications were dropped so far.
    """

    _link: Link
    _sender: Sender  # has the calls that progress is for
    has_unbegun: bool = attrs.field(default=False, init=False)
    has_called: bool = attrs.field(default=False, init=False)
    dropped: int = attrs.field(default=0, init=False)
    _queue: NotificationQueue[_Received] = attrs.field(init=False)
    _progress: ProgressRoom = attrs.field(init=False)
    _something: LightParkingLot | None = attrs.field(init=False)  # `None` if `_deliver` ends when nothing is left
    _room: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _delivered: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _handling: Notification | None = attrs.field(default=None, init=False)
    _taken: int = attrs.field(default=0, init=False)  # the number of that one, or of the last
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)  # which delivers
    _is_delivering: bool = attrs.field(default=False, init=False)
    # Dicts where sets would do: an empty set is three times as large, and every session has these.
    # Whose line was full, and is not half empty yet.
    _full: dict[Call, None] = attrs.field(factory=dict[Call, None], init=False)
    _awaited: _Line | None = attrs.field(default=None, init=False)  # the line that reading waits for
    # Those for which it has waited long enough.
    _lagging: dict[_Line, None] = attrs.field(factory=dict[_Line, None], init=False)

    def __attrs_post_init__(self) -> None:
        limits = self._link.limits
        self._queue = NotificationQueue(limits.max_notifications, limits.max_notification_bytes)
        self._progress = ProgressRoom(self._look_at)
        self._something = None if self._link.rests else LightParkingLot()

    def start(self) -> None:
        """Start the task that delivers, unless it runs. Never waits."""
        self._link.start_shielded(self._deliver, "notifications of")

    def must_wait(self, method: object, params: object) -> bool:
        """Whether reading should pause, with `wait_begun` and `wait_room`, before a notification is offered.

        Args:
            method: Its method, as it came.
            params: Its parameters, as they came.
        """
        self._awaited = None
        if self.has_unbegun if method == PROGRESS else self.has_called:
            return True
        if self._lagging:
            return False
        if method != PROGRESS:
            self._awaited = OTHERS if self._queue.is_full else None
        elif self._full or self._progress.taken >= self._link.limits.max_notification_bytes:
            call = self._sender.calls.of_progress(
                params.get("progressToken") if _json.is_object(params) else None
            )
            if call is not None:
                self._awaited = next((line for line in (call, ALL_PROGRESS) if self._is_full(line)), None)
        return self._awaited is not None

    def _is_full(self, line: _Line) -> bool:
        if isinstance(line, Call):
            return line.waiting >= self._link.limits.max_notifications
        if line == OTHERS:
            return self._queue.is_full
        return self._progress.taken >= self._link.limits.max_notification_bytes

    async def wait_begun(self) -> None:
        """Wait until the handlers of what was offered have begun, unless they wait for another handler."""
        turns = 0
        first = self._queue.first
        while self.has_unbegun:
            if turns == MAX_TURNS:
                self.has_unbegun = False
                break
            await trio.lowlevel.checkpoint()
            turns = turns + 1 if self._queue.first is first else 0
            first = self._queue.first
        if self.has_called:
            self.has_called = False
            # Their tasks run in the next pass of the event loop; this one in that and the next.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()

    async def wait_delivered(self) -> None:
        """Wait until every notification that was offered is handled."""
        await trio.lowlevel.checkpoint()
        while self._is_delivering or self._queue.first is not None:
            await self._delivered.park()

    async def wait_received(self) -> None:
        """Wait until every notification that was offered so far is handled. Does not checkpoint if all are.

        Does not wait in a handler, which would wait for itself.
        """
        if trio.lowlevel.current_task() is self._task:
            return
        last = self._queue.last_number
        while self._queue.first_number <= last or (self._handling is not None and self._taken <= last):
            await self._delivered.park()

    def abandon(self) -> None:
        """Drop what waits, and count it: nothing is delivered any more."""
        self.dropped += len(self._queue)
        while len(self._queue):
            self._queue.pop()
        self._delivered.unpark_all()

    async def wait_room(self) -> None:
        """Wait for room in the line that made `must_wait` true, for `Limits.slow_consumer_timeout` at most.

        Does not checkpoint if there is.
        """
        line = self._awaited
        if line is None:
            return
        with trio.move_on_after(self._link.limits.slow_consumer_timeout):
            while self._is_full(line):
                await self._room.park()
            self._awaited = None
            return
        self._awaited = None
        if not self._is_full(line):  # room came in the pass in which the time ran out
            return
        self._lagging[line] = None
        _log.warning(
            "%s faster than they are handled; as many are waiting as may (max_notifications is %d, "
            "max_message_bytes is %d), so progress and log messages are dropped, oldest first",
            f"progress notifications of {line.method} come" if isinstance(line, Call) else "notifications come",
            self._link.limits.max_notifications,
            self._link.limits.max_notification_bytes,
        )

    def offer(self, notification: Notification, origin: Origin | None, data: bytes | None = None) -> None:
        """Take a notification for delivery. Never waits.

        Args:
            notification: The notification.
            origin: Where it came from.
            data: Its bytes, if it came alone.
        """
        if notification.method == PROGRESS:
            self._offer_progress(notification.params or {})
            return
        while self._queue.is_full:
            end_message(self._queue.drop().origin)
            self.dropped += 1
        if data is None:
            data = encode_notification(notification.method, notification.params)
        size = weight_of(data)
        hold_message(origin)
        self._queue.push(
            self._link.dispatcher.notification_key(notification), _Received(notification, origin), size
        )
        self.has_unbegun = self.has_unbegun or len(self._queue) == 1
        if self._something is None:
            self.start()
        else:
            self._something.unpark()

    def _offer_progress(self, params: Mapping[str, Any]) -> None:
        call = self._sender.calls.of_progress(params.get("progressToken"))
        if call is None:
            _log.debug("ignored progress for a request that is over or never asked for it: %.200r", params)
            return
        progress = _read_progress(params)
        if progress is None:
            _log.warning("ignored progress that is no number: %.200r", params)
            return
        call.hear()
        if call.on_progress is None:
            return
        if self._full and call in self._full and self._is_full(call):
            call.take_progress()
            self.dropped += 1
        if self._progress.taken >= self._link.limits.max_notification_bytes:
            while call.waiting and self._is_full(ALL_PROGRESS):
                call.take_progress()
                self.dropped += 1
            if self._is_full(ALL_PROGRESS):  # with what waits for other calls
                self.dropped += 1
                return
        waiting = call.hand_over(progress, self._progress)
        self.has_called = True
        if waiting == self._link.limits.max_notifications:
            self._full[call] = None

    def _look_at(self, call: Call) -> None:
        """The line of a call has become shorter."""
        if self._full and call.waiting * 2 <= self._link.limits.max_notifications:
            self._full.pop(call, None)
            self._lagging.pop(call, None)
        if self._lagging and self._progress.taken * 2 <= self._link.limits.max_notification_bytes:
            self._lagging.pop(ALL_PROGRESS, None)
        if self._room.parked is not None:
            self._room.unpark_all()

    async def _deliver(self) -> None:
        """Handle one notification after another, except progress: for ever, or until the queue is empty."""
        goes_on = True
        self._task = trio.lowlevel.current_task()
        try:
            while goes_on:
                with Contained(self._note_failure) as block:
                    goes_on = await self._deliver_in(block)
        finally:
            self._task = self._handling = None
            self._delivered.unpark_all()

    async def _deliver_in(self, block: Contained) -> bool:
        """Handle them until a handler has left something open in the block. Returns whether to enter another."""
        while True:
            self._is_delivering = self._queue.first is not None
            if self._delivered:
                self._delivered.unpark_all()
            if self._queue.first is None:
                if self._something is None:
                    return False
                await self._something.park()
            else:
                await self._handle(self._pop())
                if not block.is_clean:
                    return True
                self._handling = None

    def _pop(self) -> _Received:
        self._taken = self._queue.first_number
        received = self._queue.pop()
        self.has_unbegun = self._queue.first is not None
        if self._queue.is_relieved:
            self._lagging.pop(OTHERS, None)
        self._room.unpark_all()
        return received

    async def _handle(self, received: _Received) -> None:
        self._handling = received.notification
        task = trio.lowlevel.current_task()
        steps = InlineTask(self._notified(received), self._link.variables.copy())
        if not steps.begin(task):
            await steps.go_on(task)

    async def _notified(self, received: _Received) -> None:
        try:
            await self._link.dispatcher.notified(received.notification, received.origin)
        except BaseException as error:  # noqa: ASYNC103
            # The boundary of one notification: its handler's failure must not end the task.
            if propagating(error) is error:  # with a name it would be a cycle with this frame
                raise
            _log.exception("a handler of %s failed", received.notification.method)
            report_failure(self._sender, None, error)
            if (passing := propagating(error)) is not None:
                raise passing from None  # noqa: ASYNC104
        finally:
            end_message(received.origin)

    def _note_failure(self, error: BaseException) -> None:
        """A handler has left something open, or has raised the cancellation of a scope that it has left."""
        notification, self._handling = self._handling, None
        if notification is None:
            raise error
        _log.error("a handler of %s failed", notification.method, exc_info=error)
        report_failure(self._sender, None, error)


def _read_progress(params: Mapping[str, Any]) -> Progress | None:
    """Read the parameters of a progress notification. `None` if they are invalid."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not (type(progress) is int or _is_number(progress)):
        return None
    return Progress(
        progress,
        total if type(total) is int or (total is not None and _is_number(total)) else None,
        message if isinstance(message, str) else None,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
