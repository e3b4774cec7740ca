"""Doing something after the n-th step of any task, for tests in which it must work whenever it happens."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio

__all__ = ["after_steps", "cancelled_after_steps"]


class _Steps(trio.abc.Instrument):
    def __init__(self, n: int, act: Callable[[], object]) -> None:
        self._left = n
        self._act = act

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        self._left -= 1
        if self._left == 0:
            self._act()


@contextmanager
def after_steps(n: int, act: Callable[[], object]) -> Generator[None]:
    """Call a function after the n-th step that any task takes in the block."""
    instrument = _Steps(n, act)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)


@contextmanager
def cancelled_after_steps(n: int) -> Generator[trio.CancelScope]:
    """Cancel the block after the n-th step that any task takes in it."""
    with trio.CancelScope() as scope, after_steps(n, lambda: scope.cancel(reason="in the middle of things")):
        yield scope
