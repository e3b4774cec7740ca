"""What becomes of the notifications of one connection.

    progress        ──> the call that wants it, whose task handles it: one after another, in wire order
    everything else ──> one queue, one task: one at a time, in wire order

So what is slow holds up its own kind alone. What waits too long in one of these lines holds up reading, for once.

A bounded queue of notifications that knows which of them may go when it overflows.

No I/O, no Trio, no clock: how long an overflow is waited out is the peer's business.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Any, Final, Generic, Literal, TypeAlias, TypeGuard, TypeVar, final

import attrs
import trio

from .._channel import Origin
from .._codec import _json
from .._codec._json import weight_of
from .._codec._jsonrpc import Notification, encode_notification
from .._limits import Limits
from .._logs import Log
from .._trio import Contained, LightParkingLot, Steps, propagating
from ._call import Call, ProgressRoom
from ._exchange import Dispatcher, Progress
from ._sending import Calls

_T = TypeVar("_T")


@final
class NoticeQueue(Generic[_T]):
    """Notices in the order they came.

    A notice with a key says the same as every other with that key ("the list of tools has changed"): one of them
    is enough. A notice without a key is one of a series (progress, log messages), of which the newest matter
    most.

    Args:
        max_length: How many there may be.
        max_bytes: What they may weigh together.

    Attributes:
        size: What they weigh together.
    """

    def __init__(self, max_length: int, max_bytes: int) -> None:
        self._max_length = max_length
        self._max_bytes = max_bytes
        # By number, oldest first, each with its key and what it weighs.
        self._notices: OrderedDict[int, tuple[Hashable | None, _T, int]] = OrderedDict()
        self.size = 0
        self._last_number = 0
        # Which one is missed least must not be searched for: a flood makes room once for each notice that comes.
        self._series: deque[int] | None = None  # without a key; none, because an empty one weighs much
        self._latest: dict[Hashable, int] = {}  # of each key
        self._repeated: list[int] = []  # those of which there is a later one, as a heap

    def __len__(self) -> int:
        return len(self._notices)

    @property
    def is_full(self) -> bool:
        """Whether one must go before the next can come."""
        return len(self._notices) >= self._max_length or self.size >= self._max_bytes

    @property
    def is_relieved(self) -> bool:
        """Whether at most half of the room is taken."""
        return len(self._notices) * 2 <= self._max_length and self.size * 2 <= self._max_bytes

    @property
    def first(self) -> _T | None:
        """The oldest notice, which stays, or `None` if there is none."""
        return next(iter(self._notices.values()))[1] if self._notices else None

    def push(self, key: Hashable | None, notice: _T, size: int) -> None:
        """Add a notice, and what it weighs. Does not look whether there is room."""
        self._last_number = number = self._last_number + 1
        self._notices[number] = key, notice, size
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
        """Take the oldest notice.

        Raises:
            IndexError: There is none.
        """
        if not self._notices:
            raise IndexError("there is no notice")
        return self._take_out(next(iter(self._notices)))

    def drop(self) -> _T:
        """Take out the notice that is missed least, to make room.

        That is the oldest of a series, else the oldest that a later one repeats, else the oldest.

        Raises:
            IndexError: There is none.
        """
        if self._series:
            return self._take_out(self._series[0])
        if self._repeated:
            return self._take_out(self._repeated[0])
        return self.pop()

    def _take_out(self, number: int) -> _T:
        """Take out the oldest notice, or the oldest of a series, or the oldest that is repeated.

        So each leads the list that it is on.
        """
        key, notice, size = self._notices.pop(number)
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
        return notice


_log: Final = Log("trio_mcp.peer")

PROGRESS: Final = "notifications/progress"
OTHERS: Final = "others"
ALL_PROGRESS: Final = "all progress"

MAX_TURNS: Final = 4
"""After how many turns of the event loop a handler counts as one that waits. One that does not takes two."""

_Line: TypeAlias = Call | Literal["others", "all progress"]
"""What can be full: the line of a call, that of all others, and what those of all calls weigh together."""


@final
@attrs.define
class _Notice:
    notification: Notification
    origin: Origin | None


@final
class Notices:
    """Bounded lines of notifications: one for each call that wants progress, and one for all others.

    A handler that is slow makes its line grow, and a full line holds up reading when more comes for it, but only
    for `Limits.slow_consumer_timeout`: a slow handler must not keep answers from their callers, least of all from
    itself. From then on, until that line is half empty or its call is over, nothing holds up reading: in every
    line that is full, the notifications that are missed least make room for new ones, and are counted.

    Args:
        calls: Knows which call a progress token belongs to.
        dispatcher: Handles everything but progress.
        limits: How long a line may be, and how long it may hold up reading.
        wake: Called when something is offered, if the task ends when it has emptied the queue.

    What is handled in different tasks is begun in wire order all the same: before reading gives something to
    another task it pauses, with `wait_begun`, until the one before has begun with what it was given, or turns out
    to wait.

    Attributes:
        has_unbegun: Whether something that is no progress waits to be handled, and not for another's handler.
        has_called: Whether progress was given to calls since reading has paused for them. If either is so, a
            request that comes then waits as well, with `wait_begun`.
        dropped: How many notifications had to make room so far.
    """

    def __init__(
        self,
        calls: Calls,
        dispatcher: Dispatcher,
        limits: Limits,
        wake: Callable[[], object] | None = None,
    ) -> None:
        self._calls = calls
        self._dispatcher = dispatcher
        self._limits = limits
        self._queue: NoticeQueue[_Notice] = NoticeQueue(limits.max_notifications, limits.max_notification_bytes)
        self._progress = ProgressRoom()
        self._something = LightParkingLot() if wake is None else None
        self._wake = wake
        self._room = LightParkingLot()
        self._delivered = LightParkingLot()
        self._variables = copy_context()
        self._handling: Notification | None = None
        self._is_delivering = False
        # Dicts where sets would do: an empty set weighs three times as much, and every session has these.
        self._full: dict[Call, None] = {}  # those whose line was full, and is not half empty yet
        self._awaited: _Line | None = None  # the one that reading waits for
        self._lagging: dict[_Line, None] = {}  # those for which it has waited long enough
        self.has_unbegun = False
        self.has_called = False
        self.dropped = 0

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
        elif self._full or self._is_full(ALL_PROGRESS):
            call = self._calls.find(params.get("progressToken") if _json.is_object(params) else None)
            if call is not None:
                self._awaited = next((line for line in (call, ALL_PROGRESS) if self._is_full(line)), None)
        return self._awaited is not None

    def _is_full(self, line: _Line) -> bool:
        if isinstance(line, Call):
            return line.waiting >= self._limits.max_notifications
        if line == OTHERS:
            return self._queue.is_full
        return self._progress.taken >= self._limits.max_notification_bytes

    async def wait_begun(self) -> None:
        """Wait until the handling of what was offered has begun, unless it has to wait for something else."""
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
            # Their tasks run in the next turn of the event loop; this one in that and the next.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()

    async def wait_delivered(self) -> None:
        """Wait until nothing is left, and what was handed on is handled."""
        await trio.lowlevel.checkpoint()
        while self._is_delivering or self._queue.first is not None:
            await self._delivered.park()

    async def wait_room(self) -> None:
        """Wait until there is room for what `must_wait` was asked about, or until that has become unreasonable.

        Does not checkpoint if there is.
        """
        line = self._awaited
        if line is None:
            return
        with trio.move_on_after(self._limits.slow_consumer_timeout):
            while self._is_full(line):
                await self._room.park()
            self._awaited = None
            return
        self._awaited = None
        if not self._is_full(line):  # room came in the turn in which the time ran out
            return
        self._lagging[line] = None
        _log.warning(
            "%s faster than they are handled; as many are waiting as may (max_notifications is %d, "
            "max_notification_bytes is %d), so progress and log messages are dropped, oldest first",
            f"progress notifications of {line.request.method} come"
            if isinstance(line, Call)
            else "notifications come",
            self._limits.max_notifications,
            self._limits.max_notification_bytes,
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
            self._queue.drop()
            self.dropped += 1
        if data is None:
            data = encode_notification(notification.method, notification.params)
        size = weight_of(data)
        self._queue.push(self._dispatcher.notice_key(notification), _Notice(notification, origin), size)
        self.has_unbegun = self.has_unbegun or len(self._queue) == 1
        self._wake_up()

    def _offer_progress(self, params: Mapping[str, Any]) -> None:
        call = self._calls.find(params.get("progressToken"))
        if call is None:
            _log.debug("ignored progress for a request that is over or never asked for it: %.200r", params)
            return
        progress = _read_progress(params)
        if progress is None:
            _log.warning("ignored progress that is no number: %.200r", params)
            return
        if call.clock is not None:
            call.clock.push()
        if call.on_progress is None:
            return
        if call in self._full and self._is_full(call):
            call.drop_oldest()
            self.dropped += 1
        if self._is_full(ALL_PROGRESS):
            while call.waiting and self._is_full(ALL_PROGRESS):
                call.drop_oldest()
                self.dropped += 1
            if self._is_full(ALL_PROGRESS):  # with what waits for other calls
                self.dropped += 1
                return
        call.hand_over(progress, self._progress)
        self.has_called = True
        call.on_room = self._look_at
        if call.waiting == self._limits.max_notifications:
            self._full[call] = None

    def _look_at(self, call: Call) -> None:
        """The line of a call has become shorter."""
        if self._full and call.waiting * 2 <= self._limits.max_notifications:
            self._full.pop(call, None)
            self._lagging.pop(call, None)
        if self._lagging and self._progress.taken * 2 <= self._limits.max_notification_bytes:
            self._lagging.pop(ALL_PROGRESS, None)
        self._room.unpark_all()

    def _wake_up(self) -> None:
        """Let the task that delivers look what there is."""
        if self._wake is not None:
            self._wake()
        elif self._something is not None:
            self._something.unpark()

    async def deliver(self) -> None:
        """Handle one notification after another but progress: for ever, or until there is none left."""
        goes_on = True
        while goes_on:
            with Contained(self._note_failure) as block:
                goes_on = await self._deliver(block)

    async def _deliver(self, block: Contained) -> bool:
        """Do so until a handler has left something open in the block. Returns whether to go on with another."""
        while True:
            self._is_delivering = self._queue.first is not None
            if self._queue.first is None:
                self._delivered.unpark_all()
                if self._something is None:
                    return False
                await self._something.park()
            else:
                await self._handle(self._pop())
                if not block.is_clean:
                    return True
                self._handling = None

    def _pop(self) -> _Notice:
        notice = self._queue.pop()
        self.has_unbegun = self._queue.first is not None
        if self._queue.is_relieved:
            self._lagging.pop(OTHERS, None)
        self._room.unpark_all()
        return notice

    async def _handle(self, notice: _Notice) -> None:
        self._handling = notice.notification
        task = trio.lowlevel.current_task()
        steps = Steps(self._notified(notice), self._variables.copy())
        if not steps.begin(task):
            await steps.go_on(task)

    async def _notified(self, notice: _Notice) -> None:
        try:
            await self._dispatcher.notified(notice.notification, notice.origin)
        except BaseException as error:  # noqa: ASYNC103
            # The boundary of one notification: its handler's failure costs nobody else anything.
            passing = propagating(error)
            if passing is error:
                raise
            _log.exception("a handler of %s failed", notice.notification.method)
            if passing is not None:
                raise passing from None  # noqa: ASYNC104

    def _note_failure(self, error: BaseException) -> None:
        """A handler has left something open, or what it has raised before has come back."""
        notification, self._handling = self._handling, None
        if notification is None:
            raise error
        _log.error("a handler of %s failed", notification.method, exc_info=error)


def _read_progress(params: Mapping[str, Any]) -> Progress | None:
    """Read the parameters of a progress notification, or nothing if they are not its."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not _is_number(progress):
        return None
    return Progress(
        progress,
        total if _is_number(total) else None,
        message if isinstance(message, str) else None,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
