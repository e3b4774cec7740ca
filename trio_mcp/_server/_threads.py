"""Users' plain functions, called in threads: what a thread may do in the event loop, and what ends that.

A thread cannot be cancelled. When its call is given up it is left behind: waiting for it would let one stuck
function hold up a cancellation, or the end of the program. But what it waits for in the event loop, by way of
`trio.from_thread.run`, can be. Trio runs that in a task of its own, which belongs to nobody, and takes along the
context variables of the thread: so the call is one of these. What waits on behalf of it, a question to the client
above all, waits in a scope of the call, and gives the thread the cancellation back as an exception.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from enum import Enum, auto
from typing import Any, Final, ParamSpec, TypeVar, cast, final
from weakref import WeakKeyDictionary

import trio

from .._core._account import Loan, Overdrawn, Pool
from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits

MAX_LOOKED_AT: Final = 64
"""Of the clients that wait for a place, so many are compared: the others come after them."""

LEAVES_ONE_IN: Final = 4
"""Of the places that are left, one in so many stays free when a client takes what it can get."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


@final
class Threads:
    """The threads that run users' functions. Each run of Trio has places of its own for them.

    Args:
        limits: How many there may be, and how long to wait when all were left behind.
        holder: Returns for whom the current task works: a client gets no more of them than others that wait. And
            whether that is one of many, and has to leave some to others before these ask for them.
    """

    def __init__(self, limits: Limits, holder: Callable[[], tuple[str, bool]]) -> None:
        self._limits = limits
        self._holder = holder
        # What still runs when its run of Trio ends can give its place back to nobody: it takes the places along.
        self._places: WeakKeyDictionary[trio.lowlevel.TrioToken, _Places] = WeakKeyDictionary()

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a plain function in a thread. Cancelled, this leaves it behind, but not what it asks for.

        Raises:
            RequestError: All threads are busy with calls that were given up, and stay so.
            Others: What the function raises.
        """
        token = trio.lowlevel.current_trio_token()
        places = self._places.get(token)
        if places is None:
            places = self._places[token] = _Places(self._limits)
        holder, is_one_of_many = self._holder()
        call = _Call(places, holder, is_one_of_many=is_one_of_many)
        return await call.run(functools.partial(function, *args, **kwargs))


@final
class _Places:
    """The places of the threads of one run of Trio, at work for a call or left behind by one.

    A thread that waits for an answer of its client leaves its place to others, and has one among those that ask
    instead. When it has its answer it waits in line for a place before it goes on. When its question is cancelled
    it cannot wait for anything: it goes on with the place it has, until it ends or asks again. So there are never
    more threads than both kinds of places together.

    A client that has the server to itself, over a pipe or in memory, may have all of them. One of many gets a
    free place as long as it has fewer than `LEAVES_ONE_IN` - 1 times as many as are free, so that the next one
    need not wait until a function of the one before ends. Each client has a line of its own, and a place goes to
    the client that has fewest; among equals in turn.

    Args:
        limits: How many places there are, and how long to wait when the threads in all of them were left behind.
    """

    def __init__(self, limits: Limits) -> None:
        self._free = self._total = limits.max_threads
        self._timeout = limits.thread_timeout
        self._asking = Pool("max_asking_threads", limits.max_asking_threads, unit="places")
        self._left_behind = 0
        self._held: dict[str, int] = {}
        self._lines: dict[str, dict[trio.lowlevel.Task, None]] = {}  # who was served last comes last
        self._are_many: set[str] = set()  # of those in lines, who leaves some to others
        self._waiting: dict[trio.CancelScope, bool] = {}

    async def acquire(self, holder: str, *, is_one_of_many: bool = False) -> None:
        """Wait for a place.

        Args:
            holder: The client it is for.
            is_one_of_many: Whether it has to leave some to others.

        Raises:
            RequestError: All threads it could have are busy with calls that were given up, and stay so.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._may_take(holder, is_one_of_many=is_one_of_many):
            self._free -= 1
            self._give(holder)
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        with trio.CancelScope() as scope:
            scope.deadline = self._patience(is_one_of_many=is_one_of_many)
            self._waiting[scope] = is_one_of_many
            try:
                await self._wait(holder, is_one_of_many=is_one_of_many)
                return
            finally:
                del self._waiting[scope]
        raise RequestError(
            SERVER_BUSY,
            f"all {self._left_behind} threads are still busy with requests that were given up (max_threads)",
        )

    def _may_take(self, holder: str, *, is_one_of_many: bool) -> bool:
        """Whether one place more can be had at once."""
        if not is_one_of_many:
            return self._free > 0
        return self._held.get(holder, 0) < (LEAVES_ONE_IN - 1) * self._free

    async def _wait(self, holder: str, *, is_one_of_many: bool) -> None:
        task = trio.lowlevel.current_task()
        self._lines.setdefault(holder, {})[task] = None
        if is_one_of_many:
            self._are_many.add(holder)

        def abort(_: object) -> trio.lowlevel.Abort:
            line = self._lines[holder]
            del line[task]
            if not line:
                self._end_line(holder)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def release(self, holder: str, *, was_left_behind: bool) -> None:
        """A thread has ended, or waits for an answer."""
        self._count(-was_left_behind)
        held = self._held.pop(holder) - 1
        if held:
            self._held[holder] = held
        self._free += 1
        if not self._lines:
            return
        # As many are looked at as find one that has few, even if somebody has very many addresses.
        first = itertools.islice(self._lines, MAX_LOOKED_AT)
        may = (one for one in first if self._may_take(one, is_one_of_many=one in self._are_many))
        next_holder = min(may, key=lambda waiting: self._held.get(waiting, 0), default=None)
        if next_holder is None:
            return  # those that wait have as many as they leave to others
        line = self._lines[next_holder]
        task = next(iter(line))
        del line[task]
        if line:  # it comes last now
            del self._lines[next_holder]
            self._lines[next_holder] = line
        else:
            self._end_line(next_holder)
        self._free -= 1
        self._give(next_holder)
        trio.lowlevel.reschedule(task)

    def _end_line(self, holder: str) -> None:
        del self._lines[holder]
        self._are_many.discard(holder)

    def _give(self, holder: str) -> None:
        self._held[holder] = self._held.get(holder, 0) + 1

    def begin_asking(self, holder: str) -> Loan:
        """Take a place among the threads that wait for answers. A client gets as many as are left to others.

        Raises:
            RequestError: There is none.
        """
        try:
            return self._asking.lend(holder, "asking", 1)
        except Overdrawn:
            asking = self._asking.lent
            raise RequestError(
                SERVER_BUSY, f"{asking} threads wait for answers of their clients already (max_asking_threads)"
            ) from None

    def leave_behind(self) -> None:
        """A thread goes on in its place, and nobody waits for it any more."""
        self._count(1)

    def _count(self, more: int) -> None:
        if more:
            self._left_behind += more
            for scope, is_one_of_many in self._waiting.items():
                scope.deadline = self._patience(is_one_of_many=is_one_of_many)

    def _patience(self, *, is_one_of_many: bool) -> float:
        """Return until when it makes sense to wait for a place."""
        most = self._total - self._total // LEAVES_ONE_IN if is_one_of_many else self._total
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

    def __init__(self, places: _Places, holder: str, *, is_one_of_many: bool) -> None:
        self._places = places
        self._holder = holder
        self._is_one_of_many = is_one_of_many
        self._question_place: Loan | None = None
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
        self._places.leave_behind()

    async def attend(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for something on behalf of the thread, for as long as the call lasts."""
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
        # The task is Trio's and is not cancelled: the thread is, and this is how it learns of it.
        assert cancelled is not None
        raise cancelled

    async def ask(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for an answer on behalf of the thread, which leaves its place to others meanwhile.

        Args:
            begin: Makes what waits for it. Only then: if this is never begun, nothing must be left unawaited.

        Raises:
            RequestError: Too many threads wait for answers; or it has its answer, and there is no place to go on.
            Others: What is begun here raises.
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
            self._question_place = self._places.begin_asking(self._holder)
            self._has = _Has.ASKING
            self._places.release(self._holder, was_left_behind=self._is_left_behind)
            self._is_left_behind = False

    def _may_go_on(self) -> bool:
        """Whether the thread needs a place for what comes next, and waits for no other answer."""
        return self._has is _Has.ASKING and not self._questions

    async def _go_on(self) -> None:
        """Wait for a place to run in."""
        await self._places.acquire(self._holder, is_one_of_many=self._is_one_of_many)
        if not self._may_go_on():
            # Several tasks ask on behalf of the thread, or one that it has started and does not wait for.
            self._places.release(self._holder, was_left_behind=False)
            return
        self._has = _Has.RUNNING
        self._end_asking()
        if self._is_given_up:
            self._leave_behind()

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a place; see `trio.CapacityLimiter`."""
        del borrower
        await self._places.acquire(self._holder, is_one_of_many=self._is_one_of_many)
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
        """Give the place among the threads that wait for answers back."""
        if self._question_place is not None:
            self._question_place.give_back()
            self._question_place = None


def ends_with_its_thread(
    function: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Let what a thread waits for end with the call that it runs for; for everybody else, change nothing."""

    @functools.wraps(function)
    def begin(*args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, _T]:
        call = _call.get()
        if call is None:
            return function(*args, **kwargs)
        return call.attend(functools.partial(function, *args, **kwargs))

    return begin


def leaves_its_place(
    function: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Let a thread that waits for an answer leave its place to others; for everybody else, change nothing.

    The function is part of one that `ends_with_its_thread`.
    """

    @functools.wraps(function)
    def begin(*args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, _T]:
        call = _call.get()
        if call is None:
            return function(*args, **kwargs)
        return call.ask(functools.partial(function, *args, **kwargs))

    return begin


def detached() -> None:
    """Let the current task be no thread's any more: it was started by one, and goes on without."""
    _call.set(None)
