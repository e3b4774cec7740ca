"""Users' plain functions, called in threads: how many run, for whom, and what ends them.

What the functions are, and how their arguments are made, is in `_functions`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, nullcontext
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, cast, final
from weakref import WeakKeyDictionary, WeakValueDictionary

import trio

from .._core._account import Loan, Overdrawn, Pool, Tally
from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits
from .._peer._exchange import Exchange

# A thread cannot be cancelled. When its call is given up, the thread is left behind: waiting for it would let one
# stuck function hold up a cancellation, or the end of the program. But what the thread waits for in the event
# loop, through `trio.from_thread.run`, can be cancelled. Trio runs that in a system task, which takes along the
# thread's context variables; so the call is kept in one (`_call`). What waits on behalf of the thread, above all
# a question to the client, waits in a cancel scope of the call, and the thread gets the cancellation as an
# exception.

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Async: TypeAlias = Callable[_P, Coroutine[Any, Any, _T]]

Client: TypeAlias = tuple[str, bool]
"""The name of a client that threads work for, and whether the server may have others beside it."""


@final
class PerRun(Generic[_T]):
    """Something that each run of Trio has its own of: a server may be served by several, in one thread each."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._of: WeakKeyDictionary[trio.lowlevel.TrioToken, _T] = WeakKeyDictionary()

    def get(self) -> _T:
        """Return that of the present run."""
        token = trio.lowlevel.current_trio_token()
        if token not in self._of:
            self._of[token] = self._make()
        return self._of[token]


@final
class Threads:
    """The threads that run users' functions. Each run of Trio has its own places for them.

    Args:
        limits: How many threads there may be, and how long to wait when all were left behind.
        client: Returns the client that the current task works for.
        exchange: Returns the request that it works for, if it does, to note what that waits for.
    """

    def __init__(
        self, limits: Limits, client: Callable[[], Client], exchange: Callable[[], Exchange | None]
    ) -> None:
        self._client = client
        self._exchange = exchange
        # A thread that outlives its run of Trio never gives its place back; the next run has new places.
        self._places = PerRun(lambda: _Places(limits))

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a plain function in a thread.

        Cancelled, this leaves the thread behind, and cancels what the thread waits for in the event loop.

        Raises:
            RequestError: For `Limits.thread_timeout`, all threads were busy with calls that had been given up.
            Others: What the function raises.
        """
        exchange = self._exchange()
        call = _Call(self._places.get(), self._client(), exchange)
        with nullcontext() if exchange is None else exchange.waiting("a thread"):
            return await call.run(functools.partial(function, *args, **kwargs))


@final
class _Places:
    """The places of the threads of one run of Trio. A place is taken by a call, or by a thread left behind.

    A client that has the server to itself, over a pipe or in memory, may have all places. One of many waits for
    one of its own places first, three quarters of all. Those who wait are served in turn.

    A thread that waits for an answer of its client gives its place to others, and takes an asking place instead.
    When it has its answer, it waits in line for a place before it goes on. When its question is cancelled it
    cannot wait for anything: it keeps its asking place until it ends or asks again. So there are never more
    threads than both kinds of places together.

    Args:
        limits: How many places there are, and how long to wait when the threads in all of them were left behind.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.max_threads
        self._most_of_one = max(1, 3 * limits.max_threads // 4)
        self._timeout = limits.thread_timeout
        self._all = trio.CapacityLimiter(self._most)
        self._of_one: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        self._asking = Pool("max_asking_threads", limits.max_asking_threads, unit="places")
        self._left_behind = Tally()
        self._waiting: dict[trio.CancelScope, Client] = {}

    async def take(self, client: Client) -> ExitStack:
        """Wait for a place for a client. Closed, it is given back.

        Raises:
            RequestError: For `Limits.thread_timeout`, all places it could have were taken by threads left behind.
        """
        name, is_one_of_many = client
        with trio.CancelScope(deadline=self._deadline(client)) as scope, ExitStack() as place:
            self._waiting[scope] = client
            try:
                if is_one_of_many:  # its limiter is kept by those who have places of it, or wait for one
                    own = self._of_one.setdefault(name, trio.CapacityLimiter(self._most_of_one))
                    await _borrow(own, place)
                await _borrow(self._all, place)
                return place.pop_all()
            finally:
                del self._waiting[scope]
        count = self._left_behind.total
        raise RequestError(
            SERVER_BUSY, f"all {count} threads are still busy with requests that were given up (max_threads)"
        )

    def leave_behind(self, place: ExitStack, client: Client) -> None:
        """Note that the call of a thread has ended, and the thread has not."""
        self._left_behind.add(client[0])
        self._set_deadlines()
        place.callback(self._set_deadlines)
        place.callback(self._left_behind.remove, client[0])  # called first

    def _set_deadlines(self) -> None:
        for scope, client in self._waiting.items():
            deadline = self._deadline(client)
            scope.deadline = deadline if deadline == math.inf else min(scope.deadline, deadline)

    def _deadline(self, client: Client) -> float:
        """Return until when it makes sense to wait for a place."""
        name, is_one_of_many = client
        is_in_vain = self._left_behind.total >= self._most or (
            is_one_of_many and self._left_behind.of(name) >= self._most_of_one
        )
        return trio.current_time() + self._timeout if is_in_vain else math.inf

    def begin_asking(self, client: Client) -> Loan:
        """Take a place among the threads that wait for answers. A client gets no more than it leaves to others.

        Raises:
            RequestError: There is none.
        """
        try:
            return self._asking.lend(client[0], "asking", 1)
        except Overdrawn:
            count = self._asking.lent
        raise RequestError(
            SERVER_BUSY, f"{count} threads wait for answers of their clients already (max_asking_threads)"
        )


async def _borrow(limiter: trio.CapacityLimiter, place: ExitStack) -> None:
    await limiter.acquire_on_behalf_of(place)
    place.callback(limiter.release_on_behalf_of, place)


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)


@final
class _Call:
    """One call of a function in a thread. To Trio it is the limiter of that thread.

    It has a place while the thread runs, an asking place while that asks, and none before it begins and after it
    has ended.
    """

    def __init__(self, places: _Places, client: Client, exchange: Exchange | None) -> None:
        self._places = places
        self._client = client
        self._exchange = exchange
        self._place: ExitStack | None = None
        self._asking: Loan | None = None
        self._questions = 0
        self._scopes: set[trio.CancelScope] = set()
        self._is_given_up = False

    async def run(self, function: Callable[[], _T]) -> _T:
        # Trio's documentation asks for an object with these two methods; its annotation asks for more.
        limiter = cast("trio.CapacityLimiter", self)
        try:
            return await trio.to_thread.run_sync(
                self._in_thread, function, abandon_on_cancel=True, limiter=limiter
            )
        finally:
            if self._place is not None or self._asking is not None:  # the thread has not ended
                self._is_given_up = True
                self._note_left_behind()
                for scope in self._scopes:
                    scope.cancel(reason="the call that the thread was started for has ended")

    def _in_thread(self, function: Callable[[], _T]) -> _T:
        _call.set(self)
        return function()

    def _note_left_behind(self) -> None:
        if self._place is not None and self._is_given_up:
            self._places.leave_behind(self._place, self._client)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a place; see `trio.CapacityLimiter`."""
        del borrower
        exchange = self._exchange
        with nullcontext() if exchange is None else exchange.waiting("a place for a thread"):
            self._place = await self._places.take(self._client)

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give the place back: the thread has ended; see `trio.CapacityLimiter`."""
        del borrower
        self._have()

    def _have(self, place: ExitStack | None = None, asking: Loan | None = None) -> None:
        """Give back what place the thread has, and take this instead."""
        if self._place is not None:
            self._place.close()
        if self._asking is not None:
            self._asking.give_back()
        self._place, self._asking = place, asking
        self._note_left_behind()

    async def attend(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for something on behalf of the thread, until the call ends."""
        cancelled: list[trio.Cancelled] = []
        with trio.CancelScope() as scope:
            if self._is_given_up:
                scope.cancel(reason="the call that the thread was started for has ended")
            self._scopes.add(scope)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                return await begin()
            except trio.Cancelled as error:
                cancelled.append(error)
                raise
            finally:
                self._scopes.discard(scope)
        # The task is Trio's and is not cancelled; raised here, the cancellation reaches the thread.
        raise cancelled.pop()  # its frames have this one: kept in it, it would be a cycle

    async def ask(self, begin: Callable[[], Awaitable[_T]]) -> _T:
        """Wait for an answer on behalf of the thread, which gives its place to others meanwhile.

        Args:
            begin: Returns what waits for the answer. It is called late: if this never begins, no coroutine is
                left unawaited.

        Raises:
            RequestError: Too many threads wait for answers; or the answer came, and there is no place to go on.
            Others: What awaiting the answer raises.
        """
        if self._place is not None:
            self._have(asking=self._places.begin_asking(self._client))
        try:
            self._questions += 1
            try:
                answer = await begin()
            finally:
                self._questions -= 1
        except Exception:
            await self._go_on()  # noqa: ASYNC120 - cancelled, it ends with that
            raise
        await self._go_on()
        return answer

    async def _go_on(self) -> None:
        """Wait for a place to run in, unless the thread waits for more answers."""
        if self._may_go_on():
            with await self._places.take(self._client) as place:
                if self._may_go_on():  # other tasks may ask for it, too, or it has ended without this answer
                    self._have(place.pop_all())

    def _may_go_on(self) -> bool:
        """Whether the thread needs a place for what comes next, and waits for no other answer."""
        return self._asking is not None and not self._questions


def ends_with_its_thread(function: _Async[_P, _T]) -> _Async[_P, _T]:
    """Cancel what a thread waits for when the thread's call ends; callers in other tasks notice nothing."""
    return _by_thread(function, _Call.attend)


def leaves_its_place(function: _Async[_P, _T]) -> _Async[_P, _T]:
    """Let a thread give its place to others while it waits for an answer; callers in other tasks notice nothing.

    The function is called by one that `ends_with_its_thread`.
    """
    return _by_thread(function, _Call.ask)


def _by_thread(
    function: _Async[_P, _T],
    wait: Callable[[_Call, Callable[[], Awaitable[_T]]], Coroutine[Any, Any, _T]],
) -> _Async[_P, _T]:
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
