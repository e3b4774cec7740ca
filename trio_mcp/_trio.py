"""What this library needs of Trio and the system and they do not give, in the order of the sections below.

Nurseries whose errors come out as themselves, blocks for code that is not ours, a small parking lot, coroutines
that begin in the task of another one, descriptors that are read and written without a stream around them, and
wall time that a test's clock can replace.
Nothing here knows of messages, requests or connections. What uses a private attribute of Trio is marked;
`tests/unit/test_contained.py` keeps it in step.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import sys
import time
import types
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Any, Final, Generic, NoReturn, Protocol, Self, TypeAlias, TypeVar, cast, final

import attrs
import trio

if sys.platform == "linux":
    import fcntl
    import termios

_MISSING: Final = object()
_T = TypeVar("_T")


# Hidden nurseries
#
# An object with background tasks is opened by a context manager that owns a nursery. Its users did not open that
# nursery, so they must not have to write ``except*`` for it: if one thing has failed, they see that error.
#
# A block that is left in another task than it was entered in, or after a cancel scope around it, cannot work:
# Trio keeps the scopes and nurseries of a task in a stack. Trio's own error is about its internal state. So both
# are noticed here, and one sentence says what to write instead.
#
# Kept true: the one error comes out with its own traceback and context, as if there were no nursery, also if it
# is a group that the body has raised (`_Carried`). Several errors come out as their group, because leaving one
# out would be a lie. No frame here keeps an error alive: an exception refers to its traceback, that to this
# frame, and the frame's variables to the exception, a cycle that would hold everything the error refers to until
# the garbage collector comes.


def open_hidden_nursery() -> AbstractAsyncContextManager[trio.Nursery]:
    """Open a nursery of which the one error comes out as itself, and several as their group; see `sole_error`."""
    return _HiddenNursery()


@final
class _HiddenNursery:
    def __init__(self) -> None:
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery
        self._inside: object = None

    async def __aenter__(self) -> trio.Nursery:
        nursery = await self._manager.__aenter__()
        self._nursery = nursery
        self._inside = _innermost_or_none(nursery.parent_task)
        return nursery

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if trio.lowlevel.current_task() is not self._nursery.parent_task:
            raise RuntimeError(_OTHER_TASK) from error  # the nursery is not this task's to end
        if _innermost_or_none(self._nursery.parent_task) is not self._inside:
            self._nursery.cancel_scope.cancel(reason="a cancel scope around its block was left before it")
            with suppress(Exception, BaseExceptionGroup, trio.Cancelled):  # it is all about the same
                await self._manager.__aexit__(kind, error, traceback)  # noqa: ASYNC102
            raise RuntimeError(_SCOPE_LEFT) from error
        carried = error
        if error is not None and _is_group_without_cancellation(error):
            carried = _Carried(error)
        try:
            return await self._manager.__aexit__(kind, carried, traceback)  # noqa: ASYNC102 - as Trio does
        except _Carried:  # Trio runs without strict groups
            return False
        except BaseExceptionGroup as group:
            whole = group if carried is error else _with_the_carried(group)
            sole = sole_error(whole)
            if sole is None:
                if whole is group:
                    raise
                sole = whole
            del whole
        finally:
            del carried
        if sole is error:
            return False
        context = sole.__context__
        try:
            raise sole
        finally:
            sole.__context__ = context  # raising it has set this to the group
            del sole, error, traceback, context  # see above: no cycle


@final
class _Carried(BaseException):
    """Has the group that a body has raised, on the way through Trio's nursery.

    A scope that was cancelled takes the cancellations out of a group with `split`, which makes another one of all
    groups inside, also where there is none: of the class that ``derive`` makes, without attributes.
    """

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:  # in the reason of the cancellation
        return repr(self.error)


def _is_group_without_cancellation(error: BaseException) -> bool:
    if not isinstance(error, BaseExceptionGroup):
        return False
    return cast("BaseExceptionGroup[BaseException]", error).subgroup(trio.Cancelled) is None


def _with_the_carried(group: BaseExceptionGroup[BaseException]) -> BaseExceptionGroup[BaseException]:
    """Return an equal group with what was carried in its place."""
    errors = [error.error if isinstance(error, _Carried) else error for error in group.exceptions]
    whole = group.derive(errors).with_traceback(group.__traceback__)
    whole.__cause__, whole.__context__ = group.__cause__, group.__context__
    return whole


_OTHER_TASK: Final = (
    "a block of trio_mcp was entered in one task and left in another: enter and leave it in the same task; "
    "`await nursery.start(run_client, target)` opens a client for other tasks, and `open_clients` opens several"
)
_SCOPE_LEFT: Final = (
    "a cancel scope around a block of trio_mcp, such as `trio.fail_after` around `enter_async_context`, was left "
    "before the block: put it around the whole block, or set Limits(connect_timeout=...) to limit opening; "
    "`open_clients` opens several servers, and `wait_ready` there waits for them under any deadline"
)


def _innermost_or_none(task: trio.lowlevel.Task) -> object:
    """Return what `_innermost_scope` returns; without the private attribute, the same for all."""
    return getattr(task, "_cancel_status", None)


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the one exception that a nursery wrapped, or `None` if there are several.

    It looks one level deep only: a group that the body has raised belongs to the body. Cancellations, and groups
    of them, count only if there is nothing else. An exit (`KeyboardInterrupt`, `SystemExit`) wins over
    everything: among others, an equal one is returned with the group as its cause.
    """
    for error in group.exceptions:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            leaving = type(error)(*error.args)
            leaving.__cause__ = group
            return leaving if len(group.exceptions) > 1 else error
    errors = [error for error in group.exceptions if not is_cancellation(error)]
    if not errors:
        return group.exceptions[0]
    return errors[0] if len(errors) == 1 else None


def is_cancellation(error: BaseException) -> bool:
    """Return whether it is `trio.Cancelled`, or a group of nothing else."""
    if not isinstance(error, BaseExceptionGroup):
        return isinstance(error, trio.Cancelled)
    return cast("BaseExceptionGroup[BaseException]", error).split(trio.Cancelled)[1] is None


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
        cancellations, failures = group.split(trio.Cancelled)
        # `split` makes a new group even where nothing is left out; callers compare with the one that they have.
        return cancellations if failures else group
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
        return getattr(self._task, "_cancel_status", _MISSING) is self._inside  # as `_innermost_scope`

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
        is_cancelled = trio.current_effective_deadline() == -math.inf
        if passing is not None and not (_holds_interrupt(passing) or is_cancelled):
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
        nursery._closed = True
        task._child_nurseries.remove(nursery)


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

    Attributes:
        parked: `None` if no task waits; for code that asks very often, and changes nothing.
    """

    __slots__ = ("parked",)

    def __init__(self) -> None:
        self.parked: trio.lowlevel.Task | OrderedDict[trio.lowlevel.Task, None] | None = None

    def __bool__(self) -> bool:
        """Whether a task waits."""
        return self.parked is not None

    async def park(self, *, is_first: bool = False) -> None:
        """Wait to be woken. Cancelled, it has not been woken, and no wake-up is lost.

        Args:
            is_first: Whether to be woken before all others: for a task that was woken for nothing.
        """
        task, parked = trio.lowlevel.current_task(), self.parked
        if parked is None:
            self.parked = task
        elif isinstance(parked, OrderedDict):
            parked[task] = None
            if is_first:
                parked.move_to_end(task, last=False)
        elif is_first:
            self.parked = OrderedDict.fromkeys((task, parked))
        else:
            self.parked = OrderedDict.fromkeys((parked, task))

        def leave(_: object) -> trio.lowlevel.Abort:
            self._take_out(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _take_out(self, task: trio.lowlevel.Task) -> None:
        parked = self.parked
        if isinstance(parked, OrderedDict):
            del parked[task]
            if parked:
                return
        self.parked = None

    def unpark(self) -> bool:
        """Wake the task that has waited longest. Returns whether there was one. Never waits."""
        parked = self.parked
        if parked is None:
            return False
        task = next(iter(parked)) if isinstance(parked, OrderedDict) else parked
        self._take_out(task)
        trio.lowlevel.reschedule(task)
        return True

    def unpark_all(self) -> None:
        """Wake all tasks. Never waits."""
        parked, self.parked = self.parked, None
        if isinstance(parked, OrderedDict):
            for task in parked:
                trio.lowlevel.reschedule(task)
        elif parked is not None:
            trio.lowlevel.reschedule(parked)


def run_now(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    coroutine.close()
    raise AssertionError("it waits")


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
                # What is passed on has no name here: an error refers to its traceback, and that to this frame.
                step: Any = coroutine.send
                try:
                    passed: list[Any] = [(yield trap)]
                except BaseException as error:  # whatever it is, it is the coroutine's  # noqa: ASYNC103
                    step, passed = coroutine.throw, [error]
                trap = step(passed.pop())
        except StopIteration as done:
            result: _T = done.value
            return result
        finally:
            task.context = variables


async def _pass() -> None:
    await trio.lowlevel.cancel_shielded_checkpoint()


PASS: Final[object] = _pass().send(None)
"""What a checkpoint yields to the event loop: it waits for a pass, and for nothing else."""


@types.coroutine
def noticing_waits(
    coroutine: Coroutine[Any, Any, _T], notice: Callable[[object], object]
) -> Generator[Any, Any, _T]:
    """Run a coroutine in the current task, and call a function each time when it is about to wait.

    Args:
        coroutine: The coroutine.
        notice: Called with what it yields to the event loop; `PASS` for a checkpoint.
    """
    step: Any = coroutine.send
    passed: list[Any] = [None]
    try:
        while True:
            trap = step(passed.pop())
            notice(trap)
            step = coroutine.send
            try:  # without names, as in `InlineTask.go_on`
                passed = [(yield trap)]
            except BaseException as error:  # whatever it is, it is the coroutine's  # noqa: ASYNC103
                step, passed = coroutine.throw, [error]
    except StopIteration as done:
        result: _T = done.value
        return result


# Bytes in and out of pipes, sockets and other streams, with as few turns of the event loop as possible. Framing,
# messages and HTTP are above.

READ_BYTES: Final = 64 * 1024
"""How much is read at once: what a pipe holds."""

JOINED_BYTES: Final = 3 * READ_BYTES
"""Up to how many bytes behind a full read are joined to it, so that several messages are served in one turn. More
is most likely a part of one, and waits for the next turn: copying it would take longer."""

WIDE_PIPE_BYTES: Final = 1 << 20
"""How much a pipe holds once a longer message has gone through it: the most that Linux allows every user."""

Read: TypeAlias = Callable[[], Awaitable[bytes]]
"""Waits for some bytes and returns them; ``b""`` at the end. Cancelled, it has read nothing.

Raises `trio.BrokenResourceError` if the stream failed, and `trio.ClosedResourceError` if it was closed here.
"""


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        ...


def _descriptor(stream: object) -> _HasDescriptor | None:
    if sys.platform != "win32":
        if isinstance(stream, trio.lowlevel.FdStream):
            return stream
        if isinstance(stream, trio.SocketStream):
            return stream.socket
    return None


def reader_of(
    stream: trio.abc.ReceiveStream,
    *,
    reads_at_once: int = 1,
    reads_on: Callable[[bytes], bool] = lambda _: True,
    ahead: list[bytes] | None = None,
) -> Read:
    """Return the function that reads from a stream.

    Args:
        stream: The stream.
        reads_at_once: Up to how many times `READ_BYTES` are read at once behind a full read.
        reads_on: Whether so much may be read behind these bytes, and returned in one piece; asked once they are a
            full read.
        ahead: Where what was read behind a full read is kept until it is returned, the last piece first. Whose
            it is may clear it.
    """
    holder = _descriptor(stream)
    if holder is not None:
        return _DescriptorReader(holder, reads_at_once, reads_on, [] if ahead is None else ahead).read

    async def read() -> bytes:
        return bytes(await stream.receive_some(READ_BYTES))

    return read


@final
class _DescriptorReader:
    def __init__(
        self, holder: _HasDescriptor, reads_at_once: int, reads_on: Callable[[bytes], bool], ahead: list[bytes]
    ) -> None:
        self._holder = holder
        self._reads_at_once = reads_at_once
        self._reads_on = reads_on
        self._is_wide = False
        self._ahead = ahead

    async def read(self) -> bytes:
        while True:
            descriptor = self._holder.fileno()
            if descriptor < 0:
                await trio.lowlevel.checkpoint()
                raise trio.ClosedResourceError("the stream was closed")
            if self._ahead:
                await trio.lowlevel.checkpoint()
                if self._ahead:
                    return self._ahead.pop()
            await trio.lowlevel.wait_readable(descriptor)
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                _fail(error)
            if len(data) == READ_BYTES and self._reads_at_once > 1 and self._reads_on(data):
                return self._read_on(descriptor, data)
            return data

    def _read_on(self, descriptor: int, data: bytes) -> bytes:
        """Read more: a peer that waits to write a long message fills the pipe again at once."""
        if not self._is_wide:
            self._is_wide = True
            _widen(descriptor)
        try:
            more = os.read(descriptor, READ_BYTES * (self._reads_at_once - 1))
        except OSError:
            return data  # nothing more now; the next `read` meets every other error again
        if not self._reads_on(more):
            starts = range(0, len(more), READ_BYTES)
            self._ahead.extend(more[start : start + READ_BYTES] for start in reversed(starts))
        elif len(more) <= JOINED_BYTES:
            return data + more
        else:
            self._ahead.append(more)
        return data


@final
class ByteWriter:
    """Writes to a stream, for one task at a time.

    Attributes:
        can_write_now: Whether `write_nowait` may be called.
    """

    def __init__(self, stream: trio.abc.SendStream) -> None:
        self._stream = stream
        self._holder = _descriptor(stream)
        self._is_wide = False
        self.can_write_now: Final = self._holder is not None

    def write_nowait(self, *parts: bytes | memoryview) -> int:
        """Write as much as the system takes now, which may be nothing, and return how much that was.

        Raises:
            trio.BrokenResourceError: The stream failed.
            trio.ClosedResourceError: It was closed here.
        """
        assert self._holder is not None
        try:
            if sys.platform != "win32" and len(parts) != 1:  # there no descriptors are written to
                return os.writev(self._holder.fileno(), parts)
            return os.write(self._holder.fileno(), parts[0])
        except BlockingIOError:
            return 0
        except OSError as error:
            _fail(error)

    async def write(self, *parts: bytes | memoryview) -> None:
        """Write everything; to a descriptor, without waiting if it fits. Cancelled, it may have written a part.

        Raises:
            Like `write_nowait`.
        """
        if self._holder is None:
            await self._stream.send_all(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        await trio.lowlevel.checkpoint_if_cancelled()
        for part in behind(parts, self.write_nowait(*parts)):
            written = 0
            while written < len(part):
                await trio.lowlevel.wait_writable(self._holder.fileno())
                written += self.write_nowait(part[written:])

    def widen_for(self, data: bytes | memoryview) -> None:
        """Let a pipe hold a long message that is about to be written."""
        if not self._is_wide and len(data) > READ_BYTES and self._holder is not None:
            self._is_wide = True
            _widen(self._holder.fileno())


def behind(parts: Sequence[bytes | memoryview], size: int) -> list[memoryview]:
    """Return what is left of the parts of something when so many bytes of it are gone. Nothing is copied."""
    rest: list[memoryview] = []
    for part in parts:
        if size < len(part):
            rest.append(memoryview(part)[size:])
        size = max(0, size - len(part))
    return rest


def _widen(descriptor: int) -> None:
    """Let a pipe hold a long message, so that its two ends need not wake each other for each piece of it."""
    if sys.platform == "linux" and descriptor >= 0:
        with suppress(OSError):  # it is not a pipe, or this user has too many wide ones
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)


def unread_bytes(stream: trio.abc.SendStream) -> int:
    """Return how many bytes that were written to a pipe nobody has read; 0 where the system does not say."""
    holder = _descriptor(stream)
    if sys.platform == "linux" and holder is not None:
        with suppress(OSError, ValueError):  # it is closed
            return int.from_bytes(fcntl.ioctl(holder.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)
    return 0


def _fail(error: OSError) -> NoReturn:
    if error.errno == errno.EBADF:
        raise trio.ClosedResourceError("the stream was closed") from None
    raise trio.BrokenResourceError from error


def plain_stream(stream: trio.abc.Stream) -> trio.abc.Stream:
    """Return the stream that lies below TLS; the same one if there is none."""
    while isinstance(stream, trio.SSLStream):
        stream = cast("trio.SSLStream[trio.abc.Stream]", stream).transport_stream
    return stream


def readiness_of(stream: trio.abc.Stream) -> Callable[[], bool]:
    """Return the function that says whether bytes, or the end, of a socket's stream have arrived. Over TLS, too.

    For a stream of another kind it always says no.
    """
    plain = plain_stream(stream)
    if not isinstance(plain, trio.SocketStream):
        return lambda: False
    descriptor = plain.socket.fileno()
    if sys.platform != "win32":  # where `select` refuses descriptors above 1023
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        look: Callable[[], Iterable[object]] = partial(poll.poll, 0)
    else:
        look = partial(select.select, [descriptor], [], [], 0)
    return lambda: any(look())


# Sockets without a stream around them, for servers with thousands of connections.


async def open_unix_socket(path: str | os.PathLike[str]) -> trio.SocketStream:
    """Connect to a Unix socket; while as many as may wait there to be accepted, wait.

    Linux connects nobody then, and says so by an error that Trio takes for a connection on its way.

    Raises:
        OSError: Nobody listens there.
    """
    while True:
        stream = await trio.open_unix_socket(path)
        with suppress(OSError):
            if sys.platform == "linux":
                stream.socket.getpeername()
            return stream
        stream.socket.close()
        await trio.sleep(0.05)


def take_over(stream: trio.SocketStream) -> socket.socket:
    """Return the socket of a stream, which must not be used any more."""
    old = stream.socket
    # Copied, not asked of the system: some systems do not report it once the peer has gone.
    taken = socket.socket(old.family, old.type, old.proto, fileno=old.detach())
    taken.setblocking(False)
    return taken


def send_some(connection: socket.socket, *parts: bytes | memoryview) -> int:
    """Send as much as the system takes now, which may be nothing, and return how much that was. Never waits.

    Raises:
        trio.BrokenResourceError: The peer has gone.
    """
    try:
        if sys.platform != "win32" and len(parts) != 1:  # it has no `sendmsg`
            return connection.sendmsg(parts)
        return connection.send(parts[0])
    except BlockingIOError:
        return 0
    except OSError as error:
        raise trio.BrokenResourceError("the peer has gone") from error


def close(connection: socket.socket) -> None:
    """Close a socket at once; closing again does nothing. A task that waits for it gets an error."""
    if connection.fileno() >= 0:
        trio.lowlevel.notify_closing(connection)
        connection.close()


# Where Trio does not run


def check_trio_runs(name: str) -> None:
    """Check that Trio runs the caller: Trio's own errors are about its internal state.

    Args:
        name: The public function, as users write it.

    Raises:
        RuntimeError: It does not. The text says what to write.
    """
    if trio.lowlevel.in_trio_run():
        return
    if _asyncio_runs():
        raise RuntimeError(
            f"{name} needs Trio, and asyncio runs here: start the program with trio.run(main), or put the part "
            "that uses trio_mcp into a thread: await asyncio.to_thread(trio.run, main)"
        )
    raise RuntimeError(f"{name} needs Trio, which does not run here: call it in what trio.run(main) runs")


def check_nothing_runs(name: str, function: str, arguments: str) -> None:
    """Check that no event loop runs the caller, which is about to start Trio and would keep that loop waiting.

    Args:
        name: The public function that starts Trio, as users write it.
        function: What serves inside of Trio, in its place.
        arguments: What that is called with.

    Raises:
        RuntimeError: One does. The text says what to write.
    """
    if trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{name} starts Trio itself; inside Trio write: await {function}({arguments})")
    if _asyncio_runs():
        raise RuntimeError(
            f"{name} starts Trio itself, and asyncio runs here: call it in a program of its own, or write: "
            f"await asyncio.to_thread(trio.run, functools.partial({function}, {arguments}))"
        )


def _asyncio_runs() -> bool:
    asyncio = sys.modules.get("asyncio")  # not imported for this alone
    return asyncio is not None and asyncio._get_running_loop() is not None


def check_thread(home: int, what: str, call: str) -> None:
    """Check that something is used in the thread whose event loop it belongs to.

    In another one Trio fails in the middle of things, by a bare assertion, and what has been used is broken.

    Args:
        home: The number of that thread (`threading.get_ident`).
        what: What it is.
        call: What is called, as users write it.

    Raises:
        RuntimeError: It is not. The text says what to write.
    """
    if get_ident() != home:
        raise RuntimeError(
            f"{what} belongs to the trio.run of another thread: write trio.from_thread.run({call}, ...) in this "
            "thread, in place of a trio.run of its own"
        )


# Time that others must understand


def is_clock_mocked() -> bool:
    """Return whether time passes as a test wants it to."""
    testing = sys.modules.get("trio.testing")  # without it there is no such clock
    return testing is not None and isinstance(trio.lowlevel.current_clock(), testing.MockClock)


_mocked_since: Final = trio.lowlevel.RunVar[tuple[float, float]]("trio_mcp_mocked_since")


def wall_time() -> float:
    """Return the seconds since 1970, for what other processes must understand, or what outlives this one.

    On a `trio.testing.MockClock` they pass as they do there, from the first look on: so a test of what expires
    after an hour takes no hour.
    """
    if not is_clock_mocked():
        return time.time()
    now = trio.current_time()
    try:
        begin, then = _mocked_since.get()
    except LookupError:
        begin, then = time.time(), now
        _mocked_since.set((begin, then))
    return begin + now - then
