"""A cancel scope that progress keeps alive, and what a callee may be told about its caller's deadline."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import final

import attrs
import trio

from .._limits import check_seconds

__all__ = ["SilenceScope", "current_silence_scope", "fail_after_silence", "granted_deadline"]


@final
@attrs.define(eq=False)
class SilenceScope:
    """What `fail_after_silence` yields.

    Attributes:
        idle: Seconds without progress after which it fails.
        latest: The deadline that progress cannot push further, on Trio's clock.
    """

    idle: float
    latest: float
    _scope: trio.CancelScope
    _enclosing: SilenceScope | None
    _is_over: bool = False

    @property
    def deadline(self) -> float:
        """When it fails if nothing is heard until then, on Trio's clock."""
        return self._scope.deadline

    def push(self) -> None:
        """Something was heard: start the idle time again, here and in the scopes around this one."""
        now = trio.current_time()
        scope: SilenceScope | None = self
        while scope is not None:
            scope._scope.deadline = min(now + scope.idle, scope.latest)  # noqa: SLF001 - the same class
            scope = scope._enclosing  # noqa: SLF001 - the same class


_current: ContextVar[SilenceScope | None] = ContextVar("trio_mcp_silence_scope", default=None)


def current_silence_scope() -> SilenceScope | None:
    """Return the innermost `fail_after_silence` around the current task.

    A task that was started inside one may live longer, and is then inside no more.
    """
    silence = _current.get()
    while silence is not None and silence._is_over:  # noqa: SLF001 - this module's own
        silence = silence._enclosing  # noqa: SLF001 - this module's own
    return silence


@contextmanager
def fail_after_silence(idle: float, *, at_most: float) -> Generator[SilenceScope]:
    """Fail when the requests inside have been silent for too long, or have taken too long altogether.

    Each progress notification of a request made inside starts the idle time again. The callee is told `at_most`
    as its deadline, because the idle time is not one: it ends when the callee is silent, not when it is slow.

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
        silence = SilenceScope(idle, latest, scope, _current.get())
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
    moment it can be pushed to. Trio knows which scopes those are: not that in which the task was merely started.
    """
    silence = current_silence_scope()
    if silence is None:
        return trio.current_effective_deadline()
    lifted: list[tuple[trio.CancelScope, float]] = []
    while silence is not None:
        scope = silence._scope  # noqa: SLF001 - this module's own
        lifted.append((scope, scope.deadline))
        scope.deadline = silence.latest
        silence = silence._enclosing  # noqa: SLF001 - this module's own
    # No checkpoint in here, so nobody sees the scopes with these deadlines.
    try:
        return trio.current_effective_deadline()
    finally:
        for scope, deadline in lifted:
            scope.deadline = deadline
