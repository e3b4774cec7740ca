"""How a running server is told to end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import final

import trio

__all__ = ["Shutdown"]


@final
class Shutdown:
    """Tells what serves to end: politely, and then not. Hand one to a ``serve_…`` function and keep it.

    One object may end any number of servers. Nothing here waits; what was told cannot be taken back.
    """

    def __init__(self) -> None:
        self._draining = trio.Event()
        self._aborting = trio.Event()
        self._until_drain: set[trio.CancelScope] = set()
        self._until_abort: set[trio.CancelScope] = set()

    @property
    def is_draining(self) -> bool:
        """Whether serving is to end."""
        return self._draining.is_set()

    @property
    def is_aborting(self) -> bool:
        """Whether serving is to end at once."""
        return self._aborting.is_set()

    def drain(self) -> None:
        """Take no new requests, let handlers finish within `Limits.drain_timeout`, cancel the rest, end."""
        self._draining.set()
        _cancel(self._until_drain)

    def abort(self) -> None:
        """Cancel every handler now, run its cleanup, end. No answer is sent any more."""
        self.drain()
        self._aborting.set()
        _cancel(self._until_abort)

    async def wait_drain(self) -> None:
        """Wait until serving is to end."""
        await self._draining.wait()

    async def wait_abort(self) -> None:
        """Wait until serving is to end at once."""
        await self._aborting.wait()

    def until_drain(self) -> AbstractContextManager[object]:
        """Run the body until serving is to end; then what is left of it is cancelled."""
        return _running_until(self._draining, self._until_drain)

    def until_abort(self) -> AbstractContextManager[object]:
        """Run the body until serving is to end at once; then what is left of it is cancelled."""
        return _running_until(self._aborting, self._until_abort)


@contextmanager
def _running_until(event: trio.Event, scopes: set[trio.CancelScope]) -> Generator[None]:
    with trio.CancelScope() as scope:
        if event.is_set():
            scope.cancel(reason="serving is to end")
        scopes.add(scope)
        try:
            yield
        finally:
            scopes.discard(scope)


def _cancel(scopes: set[trio.CancelScope]) -> None:
    for scope in scopes:
        scope.cancel(reason="serving is to end")
