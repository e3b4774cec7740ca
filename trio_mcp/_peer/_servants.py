"""The tasks of a connection that serve no request: they read, write and deliver notifications."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TypeAlias, final

import trio

__all__ = ["Servants"]

Work: TypeAlias = Callable[[], Awaitable[object]]


@final
class Servants:
    """Tasks that are shielded, and end when they have nothing more to do or with `end`.

    The body of a connection goes first and its servants after it, so that what cleans up can still say something.
    Each task has a shielded scope of its own inside the nursery of the connection, and whatever wakes it, it runs
    with the context variables of the task that has opened the connection.

    Args:
        nursery: Where they run.
        owner: Whose they are, for their names.
    """

    def __init__(self, nursery: trio.Nursery, owner: str) -> None:
        self._nursery = nursery
        self._owner = owner
        self._variables = copy_context()
        self._scopes: dict[Work, trio.CancelScope] = {}
        self._has_ended = False

    def wake(self, work: Work, doing: str) -> bool:
        """Start a task, unless it runs already or everything has ended. Returns whether it did. Never waits.

        Args:
            work: What it does. Between finding that nothing is left and its return there must be no checkpoint.
            doing: The same in words.
        """
        if work in self._scopes or self._has_ended:
            return False
        self._scopes[work] = trio.CancelScope(shield=True)
        name = f"{doing} {self._owner}"
        self._variables.run(lambda: self._nursery.start_soon(self._run, work, name=name))
        return True

    async def _run(self, work: Work) -> None:
        try:
            with self._scopes[work]:
                await work()
        finally:
            del self._scopes[work]

    def end(self, reason: str) -> None:
        """Cancel them all, and start none any more. Never waits."""
        self._has_ended = True
        for scope in self._scopes.values():
            scope.cancel(reason=reason)
