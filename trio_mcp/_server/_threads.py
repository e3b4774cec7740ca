"""Users' plain functions, called in threads: how many run, for whom, and what ends them.

What the functions are, and how their arguments are made, is in `_functions`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from contextvars import ContextVar
from enum import Enum, auto
from typing import Any, Final, ParamSpec, TypeVar, cast, final
from weakref import WeakKeyDictionary

import attrs
import trio

from .._core._account import Loan, Overdrawn, Pool
from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits
from .._peer._exchange import Exchange

# A thread cannot be cancelled. When its call is given up, the thread is left behind: waiting for it would let one
# stuck function hold up a cancellation, or the end of the program. But what the thread waits for in the event
# loop, through `trio.from_thread.run`, can be cancelled. Trio runs that in a system task, which takes along the
# thread's context variables; so the call is kept in one (`_call`). What waits on behalf of the thread, above all
# a question to the client, waits in a cancel scope of the call, and the thread gets the cancellation as an
# exception.

MAX_LOOKED_AT: Final = 64
"""How many of the clients that wait for a place are compared; the others come after them."""

LEAVES_ONE_IN: Final = 4
"""One in this many of the free places stays free when one client of many takes all it can get."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


@final
@attrs.frozen
class Holder:
    """A client that threads work for.

    Attributes:
        name: Its name: tasks of one name share their places.
        is_one_of_many: Whether it has to leave places to others before these ask for them.
    """

    name: str
    is_one_of_many: bool = attrs.field(default=False, eq=False)


@final
class Threads:
    """The threads that run users' functions. Each run of Trio has its own places for them.

    Args:
        limits: How many threads there may be, and how long to wait when all were left behind.
        holder: Returns the fields of the `Holder` that the current task works for. A client that waits gets as
            many places as the others that wait.
        exchange: Returns the request that the current task works for, if it does, to note what it waits for.
    """

    def __init__(
        self,
        limits: Limits,
        holder: Callable[[], tuple[str, bool]],
        exchange: Callable[[], Exchange | None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._holder = holder
        self._exchange = exchange
        # A thread that outlives its run of Trio never gives its place back; the next run has new places.
        self._places: WeakKeyDictionary[trio.lowlevel.TrioToken, _Places] = WeakKeyDictionary()

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a plain function in a thread.

        Cancelled, this leaves the thread behind, and cancels what the thread waits for in the event loop.

        Raises:
            RequestError: For `Limits.thread_timeout`, all threads were busy with calls that had been given up.
            Others: What the function raises.
        """
        token = trio.lowlevel.current_trio_token()
        places = self._places.get(token)
        if places is None:
            places = self._places[token] = _Places(self._limits)
        exchange = self._exchange()
        call = _Call(places, Holder(*self._holder()), exchange)
        with nullcontext() if exchange is None else exchange.waiting("a thread"):
            return await call.run(functools.partial(function, *args, **kwargs))


@final
class _Places:
    """The places of the threads of one run of Trio. A place is taken by a call, or by a thread left behind.

    A thread that waits for an answer of its client gives its place to others, and takes an asking place instead.
    When it has its answer, it waits in line for a place before it goes on. When its question is cancelled it
    cannot wait for anything: it keeps its asking place until it ends or asks again. So there are never more
    threads than both kinds of places together.

    A client that has the server to itself, over a pipe or in memory, may have all places. One of many gets a
    free place as long as it has fewer than `LEAVES_ONE_IN` - 1 times as many as are free, so that the next client
    need not wait until a function of the one before ends. Each client has its own line, and a place goes to
    the client that has fewest; among equals in turn.

    Args:
        limits: How many places there are, and how long to wait when the threads in all of them were left behind.
    """

    def __init__(self, limits: Limits) -> None:
        self._free = self._total = limits.max_threads
        self._timeout = limits.thread_timeout
        self._asking = Pool("max_asking_threads", limits.max_asking_threads, unit="places")
        self._left_behind = 0
        self._held: dict[Holder, int] = {}
        self._lines: dict[Holder, dict[trio.lowlevel.Task, None]] = {}  # the one served last comes last
        self._waiting: dict[trio.CancelScope, Holder] = {}

    async def acquire(self, holder: Holder) -> None:
        """Wait for a place for a client.

        Raises:
            RequestError: For `Limits.thread_timeout`, all places it could have were taken by threads left behind.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._may_take(holder):
            self._free -= 1
            self._give(holder)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        with trio.CancelScope() as scope:
            scope.deadline = self._deadline(holder)
            self._waiting[scope] = holder
            try:
                await self._wait(holder)
                return
            finally:
                del self._waiting[scope]
        raise RequestError(
            SERVER_BUSY,
            f"all {self._left_behind} threads are still busy with requests that were given up (max_threads)",
        )

    def _may_take(self, holder: Holder) -> bool:
        """Whether the client may take one more place at once."""
        if not holder.is_one_of_many:
            return self._free > 0
        return self._held.get(holder, 0) < (LEAVES_ONE_IN - 1) * self._free

    async def _wait(self, holder: Holder) -> None:
        task = trio.lowlevel.current_task()
        self._lines.setdefault(holder, {})[task] = None

        def abort(_: object) -> trio.lowlevel.Abort:
            line = self._lines[holder]
            del line[task]
            if not line:
                del self._lines[holder]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, holder: Holder, *, was_left_behind: bool) -> None:
        """Give back the place of a thread that has ended, or that waits for an answer."""
        self.count_left_behind(-was_left_behind)
        held = self._held.pop(holder) - 1
        if held:
            self._held[holder] = held
        self._free += 1
        if not self._lines:
            return
        # Only the first are compared: a client with very many addresses must not make this slow.
        may = filter(self._may_take, itertools.islice(self._lines, MAX_LOOKED_AT))
        next_holder = min(may, key=lambda waiting: self._held.get(waiting, 0), default=None)
        if next_holder is None:
            return  # each client that waits already has its share
        line = self._lines.pop(next_holder)
        task = next(iter(line))
        del line[task]
        if line:  # it comes last now
            self._lines[next_holder] = line
        self._free -= 1
        self._give(next_holder)
        trio.lowlevel.reschedule(task)

    def _give(self, holder: Holder) -> None:
        self._held[holder] = self._held.get(holder, 0) + 1

    def begin_asking(self, holder: Holder) -> Loan:
        """Take a place among the threads that wait for answers. A client gets no more than it leaves to others.

        Raises:
            RequestError: There is none.
        """
        try:
            return self._asking.lend(holder.name, "asking", 1)
        except Overdrawn:
            asking = self._asking.lent
            raise RequestError(
                SERVER_BUSY, f"{asking} threads wait for answers of their clients already (max_asking_threads)"
            ) from None

    def count_left_behind(self, more: int) -> None:
        """Count threads that keep their places although their calls have ended: one more, one less, or none."""
        if more:
            self._left_behind += more
            for scope, holder in self._waiting.items():
                scope.deadline = self._deadline(holder)

    def _deadline(self, holder: Holder) -> float:
        """Return until when it makes sense to wait for a place."""
        most = self._total - self._total // LEAVES_ONE_IN if holder.is_one_of_many else self._total
        return trio.current_time() + self._timeout if self._left_behind >= most else math.inf


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)


class _Has(Enum):
    """Which place the thread of a call has."""

    NONE = auto()  # it has not begun, or has ended
    RUNNING = auto()
    ASKING = auto()


@final
class _Call:
    """One call of a function in a thread. To Trio it is the limiter of that thread."""

    def __init__(self, places: _Places, holder: Holder, exchange: Exchange | None) -> None:
        self._places = places
        self._holder = holder
        self._exchange = exchange
        self._asking_place: Loan | None = None
        self._scopes: set[trio.CancelScope] = set()
        self._has = _Has.NONE
        self._questions = 0
        self._is_given_up = False
        self._is_left_behind = False

    async def run(self, function: Callable[[], _T]) -> _T:
        limiter = cast("trio.CapacityLimiter", self)
        try:
            return await trio.to_thread.run_sync(
                self._in_thread, function, abandon_on_cancel=True, limiter=limiter
            )
        finally:
            if self._has is not _Has.NONE:  # the thread has not ended
                self._give_up()

    def _in_thread(self, function: Callable[[], _T]) -> _T:
        _call.set(self)
        return function()

    def _give_up(self) -> None:
        self._is_given_up = True
        if self._has is _Has.RUNNING:
            self._leave_behind()
        for scope in self._scopes:
            scope.cancel(reason="the call that the thread was started for has ended")

    def _leave_behind(self) -> None:
        self._is_left_behind = True
        self._places.count_left_behind(1)

    async def attend(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for something on behalf of the thread, until the call ends."""
        cancelled: trio.Cancelled | None = None
        with trio.CancelScope() as scope:
            if self._is_given_up:
                scope.cancel(reason="the call that the thread was started for has ended")
            self._scopes.add(scope)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                return await begin()
            except trio.Cancelled as error:
                cancelled = error
                raise
            finally:
                self._scopes.discard(scope)
        # The task is Trio's and is not cancelled; raised here, the cancellation reaches the thread.
        assert cancelled is not None
        raise cancelled

    async def ask(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for an answer on behalf of the thread, which gives its place to others meanwhile.

        Args:
            begin: Returns what waits for the answer. It is called late: if this never begins, no coroutine is
                left unawaited.

        Raises:
            RequestError: Too many threads wait for answers; or the answer came, and there is no place to go on.
            Others: What awaiting the answer raises.
        """
        self._begin_asking()
        failure: Exception | None = None
        try:
            answer = await self._counted(begin)
        except Exception as error:
            failure = error
        else:
            if self._may_go_on():
                await self._go_on()
            return answer
        if self._may_go_on():
            await self._go_on()
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame

    async def _counted(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        self._questions += 1
        try:
            return await begin()
        finally:
            self._questions -= 1

    def _begin_asking(self) -> None:
        if self._has is _Has.RUNNING:
            self._asking_place = self._places.begin_asking(self._holder)
            self._has = _Has.ASKING
            self._places.release(self._holder, was_left_behind=self._is_left_behind)
            self._is_left_behind = False

    def _may_go_on(self) -> bool:
        """Whether the thread needs a place for what comes next, and waits for no other answer."""
        return self._has is _Has.ASKING and not self._questions

    async def _go_on(self) -> None:
        """Wait for a place to run in."""
        await self._places.acquire(self._holder)
        if not self._may_go_on():
            # Other tasks ask on behalf of the thread, too, or it has ended without waiting for this one.
            self._places.release(self._holder, was_left_behind=False)
            return
        self._has = _Has.RUNNING
        self._end_asking()
        if self._is_given_up:
            self._leave_behind()

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a place; see `trio.CapacityLimiter`."""
        del borrower
        exchange = self._exchange
        with nullcontext() if exchange is None else exchange.waiting("a place for a thread"):
            await self._places.acquire(self._holder)
        self._has = _Has.RUNNING

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give the place back: the thread has ended; see `trio.CapacityLimiter`."""
        del borrower
        if self._has is _Has.RUNNING:
            self._places.release(self._holder, was_left_behind=self._is_left_behind)
        else:
            self._end_asking()
        self._has = _Has.NONE

    def _end_asking(self) -> None:
        """Give the asking place back."""
        if self._asking_place is not None:
            self._asking_place.give_back()
            self._asking_place = None


def ends_with_its_thread(
    function: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Cancel what a thread waits for when the thread's call ends; callers in other tasks notice nothing."""
    return _by_thread(function, _Call.attend)


def leaves_its_place(function: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Let a thread give its place to others while it waits for an answer; callers in other tasks notice nothing.

    The function is called by one that `ends_with_its_thread`.
    """
    return _by_thread(function, _Call.ask)


def _by_thread(
    function: Callable[_P, Coroutine[Any, Any, _T]],
    wait: Callable[[_Call, Callable[[], Awaitable[_T]]], Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    @functools.wraps(function)
    def begin(*args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, _T]:
        call = _call.get()
        if call is None:
            return function(*args, **kwargs)
        return wait(call, functools.partial(function, *args, **kwargs))

    return begin


def detached() -> None:
    """Let the current task, which a thread has started, outlive the thread's call."""
    _call.set(None)


@final
class LimiterPerRun:
    """A limiter for each run of Trio: a server may be served by several, in one thread each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("trio_mcp_limiter")

    def get(self) -> trio.CapacityLimiter:
        """Return that of the present run."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._most)
            self._limiter.set(limiter)
            return limiter
