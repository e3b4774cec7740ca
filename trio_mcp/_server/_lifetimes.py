"""How a running server ends (`Shutdown`), and the background tasks that end with it (`Background`).

Signals and processes are in `_serve`.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeAlias, TypeVarTuple, final

import trio

from .._logs import Log
from .._trio import Contained, open_hidden_nursery
from ._threads import detached


@final
class Shutdown:
    """Ends what serves: orderly (`drain`), or at once (`abort`). Pass one to a ``serve_…`` function and keep it.

    One object may end any number of servers. Nothing here waits, and neither can be undone.
    """

    def __init__(self) -> None:
        self._draining = trio.Event()
        self._aborting = trio.Event()
        self._wakers: set[Callable[[], object]] = set()
        self._owns_process = False

    def own_process(self) -> None:
        """Record that this process does nothing but serve; see `serving`."""
        self._owns_process = True

    def serving(self) -> None:
        """Record that clients can connect from now on.

        In a process that does nothing but serve, what exists by now stays until the end, so the garbage collector
        leaves it out. Scanning it would take a tenth of a second for every few thousand connections or sessions.
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
        """Register a function to call when serving is to end, and again when at once. It must not wait.

        It costs a server with many clients less than a task for each that waits.
        """
        self._wakers.add(wake)

    def do_not_call(self, wake: Callable[[], object]) -> None:
        """Remove a function registered with `call_on_drain`."""
        self._wakers.discard(wake)


_log: Final = Log("trio_mcp.server")

_Args = TypeVarTuple("_Args")
_Work: TypeAlias = Callable[[], Awaitable[object]]


@final
class Background:
    """Starts tasks that end with their owner.

    Args:
        nursery: Where they run; its end cancels them.
        owner: A name for what they belong to, for errors.
    """

    def __init__(self, nursery: trio.Nursery, owner: str) -> None:
        self._nursery = nursery
        self._owner = owner

    def start_soon(
        self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args, name: object = None
    ) -> None:
        """Start a task. What it raises is logged, and ends nothing else.

        Raises:
            trio.ClosedResourceError: The owner has ended.
        """
        self._start(self._run, partial(async_fn, *args), async_fn if name is None else name)

    def start_own(self, async_fn: Callable[[*_Args], Awaitable[object]], *args: *_Args, name: object) -> None:
        """Start a task of the package itself, which leaves nothing open. Else as `start_soon`."""
        self._start(self._run_own, partial(async_fn, *args), name)

    def _start(self, run: Callable[[_Work], Awaitable[object]], work: _Work, name: object) -> None:
        try:
            self._nursery.start_soon(run, work, name=name)
        except RuntimeError as error:
            raise trio.ClosedResourceError(f"{self._owner} has ended") from error

    async def _run_own(self, work: _Work) -> None:
        try:
            await work()
        except Exception as error:
            self._log_failure(error)

    async def _run(self, work: _Work) -> None:
        detached()
        # The boundary of one task: no caller waits for it. It may leave nurseries and scopes open.
        with Contained(self._log_failure):
            await work()

    def _log_failure(self, error: BaseException) -> None:
        _log.error("a background task of %s failed", self._owner, exc_info=error)


@asynccontextmanager
async def open_background(owner: str) -> AsyncGenerator[Background]:
    """Run background tasks for as long as the body runs; then cancel them, and wait for their cleanup.

    An exception of the body is raised unwrapped.
    """
    async with open_hidden_nursery() as nursery:
        try:
            yield Background(nursery, owner)
        finally:
            nursery.cancel_scope.cancel(reason=f"{owner} has ended")
