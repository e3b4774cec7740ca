"""Users' plain functions, called in threads: what a thread may do in the event loop, and what ends that.

A thread cannot be cancelled. When its call is given up it is left behind: waiting for it would let one stuck
function hold up a cancellation, or the end of the program. But what it waits for in the event loop, by way of
`trio.from_thread.run`, can be. Trio runs that in a task of its own, which belongs to nobody, and takes along the
context variables of the thread: so the call is one of these. What waits on behalf of it, a question to the client
above all, waits in a scope of the call, and gives the thread the cancellation back as an exception.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast, final

import trio

from .._errors import SERVER_BUSY, RequestError
from .._limits import Limits

__all__ = ["Threads", "detached", "ends_with_its_thread"]

_T = TypeVar("_T")
_P = ParamSpec("_P")


@final
class Threads:
    """The places of the threads that run users' functions, at work for a call or left behind by one.

    Args:
        limits: How many there may be, and how long to wait when all were left behind.
    """

    def __init__(self, limits: Limits) -> None:
        self._limiter = trio.CapacityLimiter(limits.max_threads)
        self._timeout = limits.thread_timeout
        self._left_behind = 0
        self._waiting: set[trio.CancelScope] = set()

    async def run(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a plain function in a thread. Cancelled, this leaves it behind, but not what it asks for.

        Raises:
            RequestError: All threads are busy with calls that were given up, and stay so.
            Others: What the function raises.
        """
        return await _Call(self).run(functools.partial(function, *args, **kwargs))

    # What calls tell.

    async def acquire(self, borrower: object) -> None:
        """Wait for a place."""
        with trio.CancelScope() as scope:
            scope.deadline = self._patience()
            self._waiting.add(scope)
            try:
                await self._limiter.acquire_on_behalf_of(borrower)
                return
            finally:
                self._waiting.discard(scope)
        raise RequestError(
            SERVER_BUSY,
            f"all {self._left_behind} threads are still busy with requests that were given up (max_threads)",
        )

    def release(self, borrower: object, *, was_left_behind: bool) -> None:
        """A thread has ended."""
        self._count(-was_left_behind)
        self._limiter.release_on_behalf_of(borrower)

    def leave_behind(self) -> None:
        """A thread goes on, and nobody waits for it any more."""
        self._count(1)

    def _count(self, more: int) -> None:
        if more:
            self._left_behind += more
            deadline = self._patience()
            for scope in self._waiting:
                scope.deadline = deadline

    def _patience(self) -> float:
        """Return until when it makes sense to wait for a place."""
        is_hopeless = self._left_behind >= self._limiter.total_tokens
        return trio.current_time() + self._timeout if is_hopeless else math.inf


_call: ContextVar[_Call | None] = ContextVar("_call", default=None)


@final
class _Call:
    """One call of a function in a thread. To Trio it is the limiter of that thread."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._scopes: set[trio.CancelScope] = set()
        self._has_place = False
        self._is_given_up = False

    async def run(self, function: Callable[[], _T]) -> _T:
        limiter = cast("trio.CapacityLimiter", self)
        try:
            return await trio.to_thread.run_sync(
                self._in_thread, function, abandon_on_cancel=True, limiter=limiter
            )
        finally:
            if self._has_place:  # the thread has not ended
                self._give_up()

    def _in_thread(self, function: Callable[[], _T]) -> _T:
        _call.set(self)
        return function()

    def _give_up(self) -> None:
        self._is_given_up = True
        self._threads.leave_behind()
        for scope in self._scopes:
            scope.cancel(reason="the call that the thread was started for has ended")

    async def attend(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Wait for something on behalf of the thread, for as long as the call lasts."""
        cancelled: trio.Cancelled | None = None
        with trio.CancelScope() as scope:
            if self._is_given_up:
                scope.cancel(reason="the call that the thread was started for has ended")
            self._scopes.add(scope)
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
                return await coroutine
            except trio.Cancelled as error:
                coroutine.close()  # it may not have begun
                cancelled = error
                raise
            finally:
                self._scopes.discard(scope)
        # The task is Trio's and is not cancelled: the thread is, and this is how it learns of it.
        assert cancelled is not None
        raise cancelled

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a place; see `trio.CapacityLimiter`."""
        await self._threads.acquire(borrower)
        self._has_place = True

    def release_on_behalf_of(self, borrower: object) -> None:
        """Give the place back: the thread has ended; see `trio.CapacityLimiter`."""
        self._has_place = False
        self._threads.release(borrower, was_left_behind=self._is_given_up)


def ends_with_its_thread(
    function: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Let what a thread waits for end with the call that it runs for; for everybody else, change nothing."""

    @functools.wraps(function)
    def begin(*args: _P.args, **kwargs: _P.kwargs) -> Coroutine[Any, Any, _T]:
        call = _call.get()
        coroutine = function(*args, **kwargs)
        return coroutine if call is None else call.attend(coroutine)

    return begin


def detached() -> None:
    """Let the current task be no thread's any more: it was started by one, and goes on without."""
    _call.set(None)
