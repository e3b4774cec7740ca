"""A task that waits for the answer to one request, and runs the request's progress callbacks while it does.

Cancel scopes that progress and questions keep alive, and what callees are told of their callers' deadlines.
"""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, final

import attrs
import trio

from .._limits import check_seconds
from .._trio import LightParkingLot
from ._exchange import OnProgress, Progress
from ._outbox import OutboundRequest, OutboxEntry


@attrs.define(eq=False)
class Clock(abc.ABC):
    """A scope whose time is not simply that of the clock on the wall.

    It stands still while the user of this side is being asked something: that time is not the other side's.
    """

    _scope: trio.CancelScope
    _enclosing: Clock | None
    _is_over: bool = False
    _stops: int = 0

    @property
    def deadline(self) -> float:
        """When it fails if nothing happens until then, on Trio's clock."""
        return self._scope.deadline

    @property
    def heeds_progress(self) -> bool:
        """Whether progress makes a difference, here or in the scopes around this one."""
        return any(isinstance(clock, SilenceScope) for clock in self._chain())

    def push(self) -> None:
        """Something was heard: start the idle time again, here and in the scopes around this one."""
        now = trio.current_time()
        for clock in self._chain():
            if not clock._stops:  # noqa: SLF001 - the same class
                clock._hear(now)  # noqa: SLF001 - the same class

    def stop(self) -> None:
        """Let the time stand still, here and in the scopes around this one, until `start` was called as often."""
        now = trio.current_time()
        for clock in self._chain():
            clock._stops += 1  # noqa: SLF001 - the same class
            if clock._stops == 1:  # noqa: SLF001 - the same class
                clock._stop(now)  # noqa: SLF001 - the same class

    def start(self) -> None:
        """Let the time go on."""
        now = trio.current_time()
        for clock in self._chain():
            clock._stops -= 1  # noqa: SLF001 - the same class
            if not clock._stops:  # noqa: SLF001 - the same class
                clock._start(now)  # noqa: SLF001 - the same class

    def _chain(self) -> Iterator[Clock]:
        clock: Clock | None = self
        while clock is not None:
            yield clock
            clock = clock._enclosing  # noqa: SLF001 - the same class

    @abc.abstractmethod
    def granted(self) -> float:
        """Return the deadline that a callee may be told."""

    @abc.abstractmethod
    def _hear(self, now: float) -> None: ...

    @abc.abstractmethod
    def _stop(self, now: float) -> None: ...

    @abc.abstractmethod
    def _start(self, now: float) -> None: ...


@final
@attrs.define(eq=False, kw_only=True)
class SilenceScope(Clock):
    """What `fail_after_silence` yields.

    Attributes:
        idle: Seconds without progress after which it fails.
        latest: The deadline that progress cannot push further, on Trio's clock.
    """

    idle: float
    latest: float

    def granted(self) -> float:
        """Return the latest moment that it can be pushed to."""
        return self.latest

    def _hear(self, now: float) -> None:
        self._scope.deadline = min(now + self.idle, self.latest)

    def _stop(self, now: float) -> None:
        del now
        self._scope.deadline = self.latest

    def _start(self, now: float) -> None:
        self._hear(now)


@final
@attrs.define(eq=False, kw_only=True)
class TimeoutScope(Clock):
    """The time that a request may take, without what the user of this side takes of it.

    Attributes:
        is_told: Whether the callee is told. Not where it may stand still while the callee's own goes on.
    """

    is_told: bool
    _left: float = 0.0

    def granted(self) -> float:
        """Return when it ends, if it may be told."""
        return self._scope.deadline if self.is_told else math.inf

    def _hear(self, now: float) -> None:
        pass

    def _stop(self, now: float) -> None:
        self._left = self._scope.deadline - now
        self._scope.deadline = math.inf

    def _start(self, now: float) -> None:
        self._scope.deadline = now + self._left


_current: ContextVar[Clock | None] = ContextVar("trio_mcp_clock", default=None)


def current_clock() -> Clock | None:
    """Return the innermost `fail_after_silence` or `request_timeout` around the current task.

    A task that was started inside one may live longer, and is then inside no more.
    """
    clock = _current.get()
    while clock is not None and clock._is_over:  # noqa: SLF001 - this module's own
        clock = clock._enclosing  # noqa: SLF001 - this module's own
    return clock


@contextmanager
def clock_stopped() -> Generator[None]:
    """Let the time of the scopes around the current task stand still during a block."""
    clock = current_clock()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.start()


@contextmanager
def move_on_after_answer_time(seconds: float, *, is_told: bool) -> Generator[trio.CancelScope]:
    """Cancel what is inside when it has taken so many seconds, not counting those in which the user was asked.

    Args:
        seconds: How many.
        is_told: Whether callees are told; see `TimeoutScope`.
    """
    with trio.move_on_after(seconds) as scope:
        clock = TimeoutScope(scope, _current.get(), is_told=is_told)
        token = _current.set(clock)
        try:
            yield scope
        finally:
            clock._is_over = True  # noqa: SLF001 - this module's own
            _current.reset(token)


@contextmanager
def fail_after_silence(idle: float, *, at_most: float) -> Generator[SilenceScope]:
    """Fail when the requests inside have been silent for too long, or have taken too long altogether.

    Each progress notification of a request made inside starts the idle time again. The callee is told `at_most`
    as its deadline, because the idle time is not one: it ends when the callee is silent, not when it is slow.

    A question of the callee is a sign of life, too, and while this side's handlers answer it (`on_elicit` and its
    like) the idle time stands still. In the eras before 2026-07-28 a question does not say which request it is
    about: it counts for all that are pending on its connection when it comes.

    Args:
        idle: Seconds without progress.
        at_most: Seconds altogether, whatever progress there is; ``math.inf`` for no end.

    Raises:
        trio.TooSlowError: Either was exceeded. What was inside was cancelled, as with `trio.fail_after`.
        ValueError: A duration is negative or not a number.

    Spec: 2026-07-28, basic/patterns/cancellation, "Timeouts".
    """
    for name, seconds in (("idle", idle), ("at_most", at_most)):
        check_seconds(name, seconds)
    now = trio.current_time()
    latest = now + at_most
    with trio.CancelScope(deadline=min(now + idle, latest)) as scope:
        silence = SilenceScope(scope, _current.get(), idle=idle, latest=latest)
        token = _current.set(silence)
        try:
            yield silence
        finally:
            silence._is_over = True  # noqa: SLF001 - this module's own
            _current.reset(token)
    if scope.cancelled_caught:
        raise trio.TooSlowError(
            f"no progress for {idle} s" if trio.current_time() < latest else f"not done after {at_most} s"
        )


def granted_deadline() -> float:
    """Return the deadline that a request made now may tell its callee, on Trio's clock.

    It is that of the cancel scopes around the current task, where a `fail_after_silence` counts with the latest
    moment it can be pushed to, and a `request_timeout` that may stand still does not count. Trio knows which
    scopes those are: not that in which the task was merely started.
    """
    clock = current_clock()
    if clock is None:
        return trio.current_effective_deadline()
    lifted: list[tuple[trio.CancelScope, float]] = []
    while clock is not None:
        scope = clock._scope  # noqa: SLF001 - this module's own
        lifted.append((scope, scope.deadline))
        scope.deadline = clock.granted()
        clock = clock._enclosing  # noqa: SLF001 - this module's own
    # No checkpoint in here, so nobody sees the scopes with these deadlines.
    try:
        return trio.current_effective_deadline()
    finally:
        for scope, deadline in lifted:
            scope.deadline = deadline


_PROGRESS_BYTES: Final = 512
"""What progress takes in memory beside its text and great numbers."""

_GREAT: Final = 1 << 60


@final
@attrs.define
class ProgressRoom:
    """What the progress that waits for all calls of one connection takes in memory.

    Attributes:
        taken: How many bytes.
    """

    taken: int = 0


def weight_of_progress(progress: Progress) -> int:
    """Return what progress takes in memory while it waits."""
    size = _PROGRESS_BYTES
    if progress.message is not None:
        size += len(progress.message) * (1 if progress.message.isascii() else 5)
    for number in (progress.progress, progress.total):
        if number.__class__ is not float and number is not None and not -_GREAT < number < _GREAT:
            size += int(number).bit_length() >> 2
    return size


@final
@attrs.define(eq=False)
class Call:
    """The waiting side of an `OutboundRequest`.

    Progress callbacks run here, in the caller's task: what they raise comes out of the call, its deadline covers
    them, and when the call is over none of them is left. Progress comes here when it is read, before the answer
    behind it, so that a callback holds up its own call and no other. When the connection ends it may run until
    `end_callbacks` says.

    Attributes:
        request: What is waited for.
        entry: Where it lies in the outbox until it is written, perhaps with others as a batch.
        on_progress: Called for each progress notification, if the caller wants them.
        clock: The innermost `fail_after_silence` or `request_timeout` around the caller.
        on_room: Called when one less progress notification waits, or none will any more.
        room: What its progress takes is counted here.
    """

    request: OutboundRequest
    entry: OutboxEntry | None = None
    on_progress: OnProgress | None = None
    clock: Clock | None = None
    on_room: Callable[[Call], object] | None = None
    room: ProgressRoom | None = None
    _progress: deque[tuple[Progress, int]] | None = None
    _is_handling: bool = False
    _stops: int = 0
    _callback: trio.CancelScope | None = None
    _callbacks_end: float = math.inf
    _why_cut: Exception | None = None
    _doubt: tuple[float, Callable[[], object]] | None = None
    _wake: LightParkingLot = attrs.field(factory=LightParkingLot)

    @property
    def wants_progress(self) -> bool:
        """Whether anybody would notice progress."""
        return self.on_progress is not None or (self.clock is not None and self.clock.heeds_progress)

    def wake(self) -> None:
        """Let the caller look again whether it can go on."""
        self._wake.unpark()

    @property
    def waiting(self) -> int:
        """How many progress notifications were received and wait to be handled."""
        return 0 if self._progress is None else len(self._progress)

    @property
    def is_behind(self) -> bool:
        """Whether progress was received that is not handled yet."""
        return self._is_handling or bool(self._progress)

    async def wait(self) -> None:
        """Wait until the request is settled and every progress notification before its answer was handled.

        Does not checkpoint if that is so already.
        """
        while True:
            while self._progress:
                progress = self._next_progress()
                if self.on_room is not None:
                    self.on_room(self)
                await self._handle(progress)
            if self.request.is_settled:
                return
            if self._doubt is None:
                await self._wake.park()
            else:
                await self._wait_in_doubt(*self._doubt)

    async def _wait_in_doubt(self, until: float, fail: Callable[[], object]) -> None:
        with trio.move_on_at(until):
            await self._wake.park()
            return
        self._doubt = None
        fail()

    async def _handle(self, progress: Progress) -> None:
        assert self.on_progress is not None
        self._is_handling = True
        outcome = self.on_progress(progress)
        if isinstance(outcome, Awaitable):
            with trio.CancelScope(deadline=self._callbacks_end) as scope:
                self._callback = scope
                await outcome
            self._callback = None
            if scope.cancelled_caught:
                self.request.error = self._why_cut
                self.forget_progress()
        self._is_handling = False

    def doubt(self, until: float, fail: Callable[[], object]) -> None:
        """The other side may have refused the request without saying which: if no answer comes, it fails."""
        if self._doubt is None:
            self._doubt = until, fail
            self._wake.unpark()

    def hand_over(self, progress: Progress, room: ProgressRoom) -> None:
        """Give progress to the caller. Never waits."""
        if self._progress is None:
            self._progress = deque()
            self.room = room
        weight = weight_of_progress(progress)
        self._progress.append((progress, weight))
        room.taken += weight
        self._wake.unpark()

    def _next_progress(self) -> Progress:
        assert self._progress
        assert self.room is not None
        progress, weight = self._progress.popleft()
        self.room.taken -= weight
        return progress

    @property
    def has_stopped_clock(self) -> bool:
        """Whether there is a `stop_clock` to be taken back."""
        return self._stops > 0

    def stop_clock(self) -> None:
        """The user is being asked, perhaps for this call: that is not the server's time."""
        if self.clock is not None:
            self._stops += 1
            self.clock.stop()

    def start_clock(self) -> None:
        """Take one `stop_clock` back, if there is one left."""
        if self._stops and self.clock is not None:
            self._stops -= 1
            self.clock.start()

    def drop_oldest(self) -> None:
        """The progress that has waited longest makes room."""
        self._next_progress()

    def end_callbacks(self, deadline: float, why: Exception) -> None:
        """Cancel what of its callbacks has not ended by the deadline, or begun; then the call fails."""
        self._callbacks_end, self._why_cut = deadline, why
        if self._callback is not None:
            self._callback.deadline = deadline

    def forget_progress(self) -> None:
        """No progress will be handled any more."""
        while self._progress:
            self._next_progress()
        self._progress = None
        if self.on_room is not None:
            self.on_room(self)
