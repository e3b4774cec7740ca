"""The edges that own a hidden nursery: how its errors come out, and how what outlives the body is started.

Where tasks wait for each other, for objects of which there are thousands.

Where code that is not ours runs: what it raises and what it leaves behind reaches nobody else.

Code of a user's can end in more ways than by an exception that somebody expects. It can exit (``SystemExit``),
raise what only another framework understands (``asyncio.CancelledError``), or leave a cancel scope or a nursery
open in the task that it was lent: an async generator that is not run to its end does so, or an ``AsyncExitStack``
that nobody closes. Trio keeps the scopes of a task in a stack; what is left on it would cancel whatever the task
does next.

So each piece of such code runs in a scope of its own (`Contained`). Leaving that takes off the stack what lies on
it, and tells. A cancellation that comes out although nobody has cancelled anything is a failure like others.

A coroutine that runs in the task of another one, and tells when it has to wait for the first time.

Most requests are served without waiting for anything. Whoever has read one can serve it on the spot, and only
if it turns out to wait has somebody else to go on with the reading. Nothing here knows of requests.

Plain sockets without the stream that Trio puts around them: what the system takes at once costs no turn.
"""

from __future__ import annotations

import math
import socket
import types
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast, final

import attrs
import trio


def open_hidden_nursery() -> AbstractAsyncContextManager[trio.Nursery]:
    """Open a nursery that those outside know nothing of: the one error in it comes out as itself.

    Several come out as the group that they are; see `sole_error`. Otherwise it is like Trio's own.
    """
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
            sole.__context__ = context  # the group that it was taken from is none
            del sole, error, traceback, context  # all of them may hold it, and its own traceback holds this frame


def shield_started(scope: trio.CancelScope) -> None:
    """Shield a scope of the current task, which has just called ``task_status.started()``.

    Not before, and not if it is cancelled by then: such a task stays where it was started, in the nursery of the
    ``start`` call, where nobody can end it once it is shielded. It is to be cancelled like that call. Does not
    checkpoint.
    """
    if trio.current_effective_deadline() != -math.inf:
        scope.shield = True


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one exception that a nursery wrapped, or `None` if there are several.

    Looks one level deep only: a group that the caller's own nursery made is the caller's. Cancellations count
    only if there is nothing else. An exit that was asked for (`KeyboardInterrupt`, `SystemExit`) wins over
    everything and comes out as itself, with the group as its cause.
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


@final
class LightParkingLot:
    """Trio's parking lot in a fraction of the memory and the time, as long as hardly anybody waits there.

    It has no `repark` and nothing to count with, and `KeyboardInterrupt` may come while tasks are woken: it ends
    them all then.
    """

    __slots__ = ("_parked",)

    def __init__(self) -> None:
        # Mostly nobody, else mostly one task, and seldom several in the order in which they came.
        self._parked: trio.lowlevel.Task | OrderedDict[trio.lowlevel.Task, None] | None = None

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return self._parked is not None

    async def park(self, *, is_first: bool = False) -> None:
        """Wait to be woken; cancelled, as if this had not been called.

        Args:
            is_first: Whether to be woken before all others who wait: for a task that was woken for nothing.
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
        """Wake who has waited longest. Returns whether anybody has. Never waits."""
        parked = self._parked
        if parked is None:
            return False
        task = next(iter(parked)) if isinstance(parked, OrderedDict) else parked
        self._take_out(task)
        trio.lowlevel.reschedule(task)
        return True

    def unpark_all(self) -> None:
        """Wake everybody who waits. Never waits."""
        parked, self._parked = self._parked, None
        if isinstance(parked, OrderedDict):
            for task in parked:
                trio.lowlevel.reschedule(task)
        elif parked is not None:
            trio.lowlevel.reschedule(parked)


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


_T = TypeVar("_T")


@final
class InlineTask(Generic[_T]):
    """A coroutine, run with context variables of its own, like a task of its own.

    While it runs, they are those of the task, too: what Trio runs on behalf of the task, such as what a thread
    asks for by `trio.from_thread.run`, finds them there and gives them back.

    Args:
        coroutine: The coroutine, not yet begun.
        context: The variables. Taken over.

    Attributes:
        result: What it has returned, once it is done.
    """

    __slots__ = ("_context", "_coroutine", "_trap", "result")

    result: _T

    def __init__(self, coroutine: Coroutine[Any, Any, _T], context: Context) -> None:
        self._coroutine = coroutine
        self._context = context
        self._trap: object = None  # what it has told the event loop last

    def begin(self, task: trio.lowlevel.Task) -> bool:
        """Run it until it is done, or has to wait. Returns whether it is done; if not, `go_on` follows.

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
        """Run it to its end, in the task that has begun it.

        When it is done the task has its own variables again, but only from when it has waited next: what runs
        before that, runs with those of the coroutine.

        Args:
            task: The current task.
        """
        coroutine, trap = self._coroutine, self._trap
        # The event loop runs each step of a task with the task's variables. It has to be told once.
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


def take_over(stream: trio.SocketStream) -> socket.socket:
    """Return the socket of a stream, which is of no more use then."""
    old = stream.socket
    # What it is must not be asked of the system: some do not say it any more when the other side has gone.
    taken = socket.socket(old.family, old.type, old.proto, fileno=old.detach())
    taken.setblocking(False)
    return taken


def send_some(connection: socket.socket, data: bytes | memoryview) -> int:
    """Send as much as the system takes now. Never waits.

    Returns:
        How many bytes that were.

    Raises:
        trio.BrokenResourceError: The other side is gone.
    """
    try:
        return connection.send(data)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError("the other side is gone") from error


def close(connection: socket.socket) -> None:
    """Close it at once; again does nothing. Whoever waits for it finds it closed."""
    if connection.fileno() >= 0:
        trio.lowlevel.notify_closing(connection)
        connection.close()
