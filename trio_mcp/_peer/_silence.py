"""Cancel scopes that progress and questions keep alive, and what callees are told of their callers' deadlines."""

from __future__ import annotations

import abc
import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

import attrs
import trio

from .._limits import check_seconds

__all__ = [
    "Clock",
    "SilenceScope",
    "clock_stopped",
    "current_clock",
    "fail_after_silence",
    "granted_deadline",
    "move_on_after_answer_time",
]


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
