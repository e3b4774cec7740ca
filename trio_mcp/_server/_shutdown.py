"""How a running server is told to end."""

from __future__ import annotations

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
        self._ended_by_drain: set[trio.Event] = set()

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
        for event in self._ended_by_drain:
            event.set()

    def abort(self) -> None:
        """Cancel every handler now, run its cleanup, end. No answer is sent any more."""
        self.drain()
        self._aborting.set()

    async def wait_drain(self) -> None:
        """Wait until serving is to end."""
        await self._draining.wait()

    async def wait_abort(self) -> None:
        """Wait until serving is to end at once."""
        await self._aborting.wait()

    async def wait_drain_or(self, event: trio.Event) -> None:
        """Wait until serving is to end, or an event is set; it is set in either case.

        A server with many clients waits here for each of them, with nothing but the event.
        """
        if self.is_draining:
            event.set()
        self._ended_by_drain.add(event)
        try:
            await event.wait()
        finally:
            self._ended_by_drain.discard(event)
