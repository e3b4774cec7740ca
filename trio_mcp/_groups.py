"""The edges that own a hidden nursery: how its errors come out, and how what outlives the body is started."""

from __future__ import annotations

import math
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import final

import trio

__all__ = ["open_hidden_nursery", "shield_started", "sole_error"]


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
