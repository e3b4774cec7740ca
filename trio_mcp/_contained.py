"""Where code that is not ours runs: what it raises and what it leaves behind reaches nobody else.

Code of a user's can end in more ways than by an exception that somebody expects. It can exit (``SystemExit``),
raise what only another framework understands (``asyncio.CancelledError``), or leave a cancel scope or a nursery
open in the task that it was lent: an async generator that is not run to its end does so, or an ``AsyncExitStack``
that nobody closes. Trio keeps the scopes of a task in a stack; what is left on it would cancel whatever the task
does next.

So each piece of such code runs in a scope of its own (`Contained`). Leaving that takes off the stack what lies on
it, and tells. A cancellation that comes out although nobody has cancelled anything is a failure like others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, cast, final

import attrs
import trio

__all__ = ["Contained", "going_on"]

_MISSING: Final = object()


def going_on(error: BaseException) -> BaseException | None:
    """Return what of an exception must not be stopped where one piece of code ends: `None` for a mere failure.

    A cancellation belongs to whoever has cancelled, ``KeyboardInterrupt`` ends the program. Everything else is
    the failure of the code that has raised it, also what is no `Exception`. Of a group with failures and
    cancellations the cancellations go on.
    """
    if isinstance(error, Exception):
        return None
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if group.subgroup(KeyboardInterrupt) is not None:
            return group
        return group.subgroup(trio.Cancelled)
    if isinstance(error, GeneratorExit):
        # Thrown in by the interpreter when the event loop itself has broken down, unless the code has raised it.
        return None if trio.lowlevel.in_trio_task() else error
    return error if isinstance(error, (trio.Cancelled, KeyboardInterrupt)) else None


@final
@attrs.define(eq=False)
class Contained:
    """A block for code that is not ours. After it the task is as it was before, whatever the code has done.

    The block may be left in the task that has entered it only, once. Leaving it does not checkpoint.

    Attributes:
        scope: The scope of the block.
        on_failure: Called with what has failed in the block and comes out of it; with an error of Trio's if the
            block has left scopes or nurseries open. Their tasks are cancelled.
    """

    on_failure: Callable[[BaseException], object]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _task: trio.lowlevel.Task = attrs.field(init=False)
    _nurseries: int = attrs.field(init=False)
    _inside: object = attrs.field(init=False)

    def __enter__(self) -> Self:
        """Enter the block."""
        self._task = task = trio.lowlevel.current_task()
        self._nurseries = len(task.child_nurseries)
        self.scope.__enter__()
        self._inside = _innermost_scope(task)
        return self

    @property
    def is_clean(self) -> bool:
        """Whether it is certain that nothing was left open so far; else leaving the block tells."""
        return _innermost_scope(self._task) is self._inside

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Leave the block."""
        outcome = error
        try:
            if self.scope.__exit__(kind, error, traceback):
                outcome = None
        except BaseException as other:  # it is looked at below  # noqa: ASYNC103
            outcome = other
        _abandon_nurseries(self._task, self._nurseries)
        if outcome is None:
            return True
        passing = going_on(outcome)
        if passing is not None and not (_holds_interrupt(passing) or _is_cancelled()):
            passing = None
            stray = RuntimeError("it has raised the cancellation of a scope that was left before")
            stray.__cause__ = outcome
            outcome = stray
        if passing is not outcome:
            self.on_failure(outcome)
        if passing is None:
            return True
        if passing is error:
            return False
        raise passing


def _is_cancelled() -> bool:
    return trio.current_effective_deadline() == -math.inf


def _holds_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.subgroup(KeyboardInterrupt) is not None
    return not isinstance(error, trio.Cancelled)


# What Trio has no public word for. `tests/test_contained.py` keeps both in step with it.


def _innermost_scope(task: trio.lowlevel.Task) -> object:
    """Return what is the same as long as a task is in the same cancel scopes.

    Entering and leaving a scope for each request would tell as well, and costs a tenth of what a call in memory
    costs. If Trio should lose the attribute that is what happens: what is returned is never the same then.
    """
    status = getattr(task, "_cancel_status", _MISSING)
    return object() if status is _MISSING else status


def _abandon_nurseries(task: trio.lowlevel.Task, count: int) -> None:
    """Make a task forget the nurseries that were left open in it, but for so many, as if it ended here.

    Their tasks are cancelled, and nothing new starts there. Trio does the same when a task ends, but then takes
    down the nursery of that task, which is everybody's.
    """
    for nursery in task.child_nurseries[count:]:
        nursery.cancel_scope.cancel(reason="it was left open by code that has ended")
        nursery._closed = True  # noqa: SLF001
        task._child_nurseries.remove(nursery)  # noqa: SLF001
