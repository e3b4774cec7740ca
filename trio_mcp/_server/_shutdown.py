"""How a running server is told to end."""

from __future__ import annotations

import gc
from collections.abc import Callable
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
        self._wakers: set[Callable[[], object]] = set()
        self._owns_process = False

    def own_process(self) -> None:
        """Serving is all that this process is for; see `serving`."""
        self._owns_process = True

    def serving(self) -> None:
        """Clients can come from now on: what there is by now stays until the process ends.

        Where nothing but serving goes on, the garbage collector need not look at it any more, which would take a
        tenth of a second each time that some thousands of connections or sessions have come.
        """
        if self._owns_process:
            gc.freeze()

    @property
    def is_draining(self) -> bool:
        """Whether serving is to end."""
        return self._draining.is_set()

    @property
    def is_aborting(self) -> bool:
        """Whether serving is to end at once."""
        return self._aborting.is_set()

    def drain(self) -> None:
        """Take no new requests, let handlers finish within `Limits.drain_timeout`, cancel the rest, end.

        A lifespan that is still being entered is cancelled. One that is being left may take its time.
        """
        self._draining.set()
        self._wake()

    def abort(self) -> None:
        """Cancel every handler now, run its cleanup, end. No answer is sent any more.

        A lifespan that is being left already is cancelled, too. One that is left after this has
        `Limits.goodbye_timeout`.
        """
        self._draining.set()
        self._aborting.set()
        self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._wakers):
            wake()

    async def wait_drain(self) -> None:
        """Wait until serving is to end."""
        await self._draining.wait()

    async def wait_abort(self) -> None:
        """Wait until serving is to end at once."""
        await self._aborting.wait()

    def call_on_drain(self, wake: Callable[[], object]) -> None:
        """Have something called when serving is to end from now on, and when at once. It must not wait.

        A server with many clients keeps one of these for each of them, and no second task that waits.
        """
        self._wakers.add(wake)

    def do_not_call(self, wake: Callable[[], object]) -> None:
        """Take back what was said with `call_on_drain`."""
        self._wakers.discard(wake)
