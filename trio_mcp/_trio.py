"""What this library needs of Trio and Trio does not give, in the order of the sections below.

Nurseries whose errors come out as themselves, blocks for code that is not ours, a small parking lot, and
coroutines that begin in the task of another one. Nothing here knows of messages, requests or connections.
What uses a private attribute of Trio is marked; `tests/test_contained.py` keeps it in step.
"""

from __future__ import annotations

import math
import types
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast, final

import attrs
import trio

_MISSING: Final = object()
_T = TypeVar("_T")


# Hidden nurseries
#
# An object with background tasks is opened by a context manager that owns a nursery. Its users did not open that
# nursery, so they must not have to write ``except*`` for it: if one thing has failed, they see that error.
#
# Kept true: the one error comes out with its own traceback and context, as if there were no nursery. Several
# errors come out as their group, because leaving one out would be a lie. No frame here keeps an error alive: an
# exception refers to its traceback, that to this frame, and the frame's variables to the exception, a cycle that
# would hold everything the error refers to until the garbage collector comes.


def open_hidden_nursery() -> AbstractAsyncContextManager[trio.Nursery]:
    """Open a nursery of which the one error comes out as itself, and several as their group; see `sole_error`."""
    return _HiddenNursery()


@final
class _HiddenNursery:
    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    async def __aenter__(self) -> trio.Nursery:
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._manager.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - as Trio does
        except BaseExceptionGroup as group:
            sole = sole_error(group)
            if sole is None:
                raise
        if sole is error:
            return False  # noqa: ASYNC910 - leaving Trio's was one
        context = sole.__context__
        try:
            raise sole
        finally:
            sole.__context__ = context  # raising it has set this to the group
            del sole, error, traceback, context  # see above: no cycle


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one exception that a nursery wrapped, or `None` if there are several.

    It looks one level deep only: a group that the body has raised belongs to the body. Cancellations count only
    if there is nothing else. An exit (`KeyboardInterrupt`, `SystemExit`) wins over everything: among others, an
    equal one is returned with the group as its cause.
    """
    for error in group.exceptions:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            leaving = type(error)(*error.args)
            leaving.__cause__ = group
            return leaving if len(group.exceptions) > 1 else error
    errors = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
    if not errors:
        return group.exceptions[0]
    return errors[0] if len(errors) == 1 else None


def shield_started(scope: trio.CancelScope) -> None:
    """Shield a scope of the current task, which has just called ``task_status.started()``.

    Not before that, and not if the task is cancelled already: such a task stays in the nursery of its ``start``
    call, and is to be cancelled with that call. Shielded, it could not be ended there. Does not checkpoint.
    """
    if trio.current_effective_deadline() != -math.inf:
        scope.shield = True


# Blocks for code that is not ours
#
# A handler can end in more ways than by an `Exception`. It can exit (``SystemExit``), raise what only another
# framework understands (``asyncio.CancelledError``), or leave a cancel scope or a nursery open in the task that
# runs it: an async generator that is not run to its end does so, or an ``AsyncExitStack`` that is never closed.
# Trio keeps the scopes of a task in a stack; a scope left on it would cancel whatever the task does next.
#
# Kept true: after a `Contained` block the task is as it was before it. The block is a cancel scope; leaving it
# takes off the stack what lies above it, at which Trio raises, and that is reported as a failure of the code. So
# is a cancellation that comes out although no scope around the block is cancelled: it belongs to a scope that was
# left open. What goes on outwards are real cancellations and ``KeyboardInterrupt``, and nothing else.
#
# It breaks if Trio renames `_closed` or `_child_nurseries`, which have no public equivalent. Without
# `_cancel_status` it is only slower.


def propagating(error: BaseException) -> BaseException | None:
    """Return the part of an exception that must go on where foreign code ends: `None` for a mere failure.

    A cancellation belongs to the scope that was cancelled, and ``KeyboardInterrupt`` ends the program. Everything
    else is a failure of the code that has raised it, also what is no `Exception`. Of a group with failures and
    cancellations the cancellations propagate.
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

    It is entered once, and left in the task that has entered it. Leaving it does not checkpoint.

    Attributes:
        on_failure: Called with the failure that comes out of the block; with an error of Trio's if the block has
            left scopes or nurseries open. Their tasks are cancelled.
        scope: The scope of the block.
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
        """Whether nothing was left open so far. If false, something may have been; leaving the block shows it."""
        return _innermost_scope(self._task) is self._inside

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Leave the block."""
        outcome = error
        try:
            if self.scope.__exit__(kind, error, traceback):
                outcome = None
        except BaseException as other:  # it is reported or raised below  # noqa: ASYNC103
            outcome = other
        _abandon_nurseries(self._task, self._nurseries)
        if outcome is None:
            return True
        passing = propagating(outcome)
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


def _innermost_scope(task: trio.lowlevel.Task) -> object:
    """Return an object that is the same as long as a task is in the same cancel scopes. Private to Trio.

    Entering and leaving a scope for each request would show that as well, but costs a tenth of a call in memory.
    It is the fallback: without the attribute this returns another object each time.
    """
    status = getattr(task, "_cancel_status", _MISSING)
    return object() if status is _MISSING else status


def _abandon_nurseries(task: trio.lowlevel.Task, count: int) -> None:
    """Make a task forget its nurseries except the first `count`, as if it ended here. Private to Trio.

    Their tasks are cancelled, and nothing new starts there. Trio does the same when a task ends, but then also
    takes down the nursery that the task is in, which it shares with other requests.
    """
    for nursery in task.child_nurseries[count:]:
        nursery.cancel_scope.cancel(reason="it was left open by code that has ended")
        nursery._closed = True  # noqa: SLF001
        task._child_nurseries.remove(nursery)  # noqa: SLF001


# A small parking lot
#
# There are some of these in every request, call and stream, and hardly ever does a task wait in one. Trio's
# `ParkingLot` has an OrderedDict from the start. This one is a single field: `None` while no task waits, the task
# while one does, and an OrderedDict, first come first served, only from the second one on.
#
# Kept true: a task is in the field exactly while it is parked. It is taken out before it is woken, and when it is
# cancelled. Nothing here is protected against ``KeyboardInterrupt``, as Trio's lot is: one that comes between the
# two ends the program, so that no task waits in vain.


@final
class LightParkingLot:
    """Trio's parking lot in a fraction of the memory and time, for places where seldom more than one task waits.

    It has neither `repark` nor statistics.
    """

    __slots__ = ("_parked",)

    def __init__(self) -> None:
        self._parked: trio.lowlevel.Task | OrderedDict[trio.lowlevel.Task, None] | None = None

    def __bool__(self) -> bool:
        """Whether a task waits."""
        return self._parked is not None

    async def park(self, *, is_first: bool = False) -> None:
        """Wait to be woken. Cancelled, it has not been woken, and no wake-up is lost.

        Args:
            is_first: Whether to be woken before all others: for a task that was woken for nothing.
        """
        task, parked = trio.lowlevel.current_task(), self._parked
        if parked is None:
            self._parked = task
        elif isinstance(parked, OrderedDict):
            parked[task] = None
            if is_first:
                parked.move_to_end(task, last=False)
        elif is_first:
            self._parked = OrderedDict.fromkeys((task, parked))
        else:
            self._parked = OrderedDict.fromkeys((parked, task))

        def leave(_: object) -> trio.lowlevel.Abort:
            self._take_out(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _take_out(self, task: trio.lowlevel.Task) -> None:
        parked = self._parked
        if isinstance(parked, OrderedDict):
            del parked[task]
            if parked:
                return
        self._parked = None

    def unpark(self) -> bool:
        """Wake the task that has waited longest. Returns whether there was one. Never waits."""
        parked = self._parked
        if parked is None:
            return False
        task = next(iter(parked)) if isinstance(parked, OrderedDict) else parked
        self._take_out(task)
        trio.lowlevel.reschedule(task)
        return True

    def unpark_all(self) -> None:
        """Wake all tasks. Never waits."""
        parked, self._parked = self._parked, None
        if isinstance(parked, OrderedDict):
            for task in parked:
                trio.lowlevel.reschedule(task)
        elif parked is not None:
            trio.lowlevel.reschedule(parked)


# Coroutines that begin in the task of another one
#
# Most requests are served without waiting for anything. A task of its own for each costs more than such a request
# does. So the task that has read the request runs the handler's coroutine itself, by hand, up to where it first
# waits; only then does another task have to take over the reading.
#
# Kept true: the coroutine has context variables of its own, as a task would. What it yields is for Trio's event
# loop, so the first thing it yields is kept (`_trap`), and `go_on` yields that before anything else. Between
# `begin` and `go_on` the task must not wait for anything: the trap has to reach the event loop as the task's next
# one.
#
# Trio runs each step of a task with `task.context`, and what runs on behalf of the task, such as a function that
# a thread calls through `trio.from_thread.run`, looks there too. So that is set while the coroutine runs.


@final
class InlineTask(Generic[_T]):
    """A coroutine that runs inside the current task, with its own context variables.

    Args:
        coroutine: The coroutine, not yet begun.
        context: Its variables. Not copied.

    Attributes:
        result: What it has returned, if `begin` has run it to its end.
    """

    __slots__ = ("_context", "_coroutine", "_trap", "result")

    result: _T

    def __init__(self, coroutine: Coroutine[Any, Any, _T], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context
        self._trap: object = None  # what it has yielded to the event loop last

    def begin(self, task: trio.lowlevel.Task) -> bool:
        """Run it until it is done or has to wait. Returns whether it is done; if not, call `go_on` next.

        Args:
            task: The current task.
        """
        variables, task.context = task.context, self._context
        try:
            self._trap = self._context.run(self._coroutine.send, None)
        except StopIteration as done:
            self.result = done.value
            return True
        finally:
            task.context = variables
        return False

    @types.coroutine
    def go_on(self, task: trio.lowlevel.Task) -> Generator[Any, Any, _T]:
        """Run it to its end, in the task that has begun it, and return its result.

        Then the task has its own variables again, but the code that runs up to its next wait still has the
        coroutine's.

        Args:
            task: The current task.
        """
        coroutine, trap = self._coroutine, self._trap
        variables, task.context = task.context, self._context
        try:
            while True:
                try:
                    answer = yield trap
                except BaseException as error:  # whatever it is, it is the coroutine's  # noqa: ASYNC103
                    step: Any = (coroutine.throw, error)
                else:
                    step = (coroutine.send, answer)
                trap = step[0](step[1])
        except StopIteration as done:
            result: _T = done.value
            return result
        finally:
            task.context = variables
