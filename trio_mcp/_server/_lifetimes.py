"""How a running server ends (`Shutdown`, `Lifetime`), and the background tasks that end with it (`Background`).

Two do what is due: `MemoryReturn` returns memory to the system that was freed when clients had much of it, and
`DueTimes` ends what has a time.

Signals and processes are in `_serve`.
"""

from __future__ import annotations

import gc
import heapq
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, TypeVarTuple, final

import attrs
import trio

from .._codec._json import return_freed_memory
from .._limits import Limits
from .._logs import Log
from .._trio import Contained, LightParkingLot, open_hidden_nursery
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


@final
class EndedBeforeStart(Exception):
    """The server was shut down while its lifespan was being entered. That was cancelled; nothing was served."""


@final
class Lifetime:
    """How long a lifespan may take to be entered and to be left.

    A shutdown has two levels: `Shutdown.drain`, `Shutdown.abort`. A level that is reached while the lifespan is
    being entered, or left, cancels it. A level that was reached earlier, while requests were served, limits its
    exit:

        none     no limit; `Limits.lifespan_timeout` if the only client has gone: perhaps nothing is left that
                 could shut down the server
        drain    no limit; an abort can follow
        abort    `Limits.goodbye_timeout`

    Args:
        shutdown: The shutdown of the server.
        limits: The timeouts.
        of_client: Whether the server serves one client and ends with it.
    """

    def __init__(self, shutdown: Shutdown, limits: Limits, *, of_client: bool = False) -> None:
        self.scope: Final = trio.CancelScope()
        self._shutdown = shutdown
        self._limits = limits
        self._of_client = of_client
        self._is_entering = False
        self._ignored_level: float = math.inf  # up to this level a shutdown does not cancel the lifespan

    def lose_client(self) -> None:
        """The only client has gone. Messages it has sent may still be waiting to be served."""
        if self._is_entering:
            self.scope.deadline = trio.current_time() + self._limits.drain_timeout

    # Called by the service, in this order.

    def enter(self) -> None:
        """The lifespan is about to be entered."""
        self._is_entering = True
        self._ignored_level = 0
        self._shutdown.call_on_drain(self._check)
        self._check()

    def serve(self) -> None:
        """The lifespan was entered."""
        self._is_entering = False
        self._ignored_level = math.inf
        self.scope.deadline = math.inf

    def leave(self) -> None:
        """The lifespan is about to be left."""
        limits = self._limits
        alone = limits.lifespan_timeout if self._of_client else math.inf
        allowed = (alone, math.inf, limits.goodbye_timeout)[self._level]
        self.scope.deadline = trio.current_time() + allowed
        self._ignored_level = self._level

    def end(self) -> None:
        """The lifespan was left."""
        self._shutdown.do_not_call(self._check)

    @property
    def _level(self) -> int:
        return self._shutdown.is_draining + self._shutdown.is_aborting

    def _check(self) -> None:
        if self._level > self._ignored_level:
            self.scope.cancel(reason="the server is shutting down")


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

    @property
    def has_ended(self) -> bool:
        """Whether its owner has: what still runs is cleaning up."""
        return self._nursery.cancel_scope.cancel_called

    def start_soon(
        self,
        async_fn: Callable[[*_Args], Awaitable[object]],
        *args: *_Args,
        name: object = None,
        on_failure: Callable[[BaseException], object] = lambda _: None,
    ) -> None:
        """Start a task. What it raises is logged, `on_failure` is called with it, and it ends nothing else.

        Raises:
            trio.ClosedResourceError: The owner has ended.
        """
        run = partial(self._run, on_failure)
        self._start(run, partial(async_fn, *args), async_fn if name is None else name)

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

    async def _run(self, on_failure: Callable[[BaseException], object], work: _Work) -> None:
        def failed(error: BaseException) -> None:
            self._log_failure(error)
            on_failure(error)

        detached()
        # The boundary of one task: no caller waits for it. It may leave nurseries and scopes open.
        with Contained(failed):
            await work()

    def _log_failure(self, error: BaseException) -> None:
        _log.error("a background task of %s failed", self._owner, exc_info=error)


@final
@attrs.define(eq=False)
class MemoryReturn:
    """Returns freed memory to the system, once for all that is freed in one pass of the event loop.

    Args:
        background: Runs the task that does.
    """

    _background: Background
    _is_due: bool = attrs.field(default=False, init=False)

    def soon(self) -> None:
        """Do it in the next pass: what was given back to an account is not freed before this one is over."""
        if not self._is_due:
            self._is_due = True
            with suppress(trio.ClosedResourceError):
                self._background.start_own(self._return, name="return of freed memory")

    async def _return(self) -> None:
        await trio.lowlevel.checkpoint()
        self._is_due = False
        return_freed_memory()


@final
@attrs.define(eq=False)
class DueTimes:
    """Calls a function for each of many keys when its time has come, and then what that returns, one at a time.

    Args:
        background: Runs the one task that waits; there is none while nothing is due.
        due: Called with each key. Must not wait; whatever must, it returns.
        name: What the task is called.
    """

    _background: Background
    _due: Callable[[str], _Work]
    _name: str = attrs.field(kw_only=True, alias="name")
    _times: list[tuple[float, str]] = attrs.field(factory=list[tuple[float, str]], init=False)  # a heap
    _left: deque[_Work] = attrs.field(factory=deque[_Work], init=False)
    _is_running: bool = attrs.field(default=False, init=False)
    _sooner: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    def at(self, time: float, key: str) -> None:
        """Call the function with a key at a time on Trio's clock.

        Raises:
            trio.ClosedResourceError: The owner of the background has ended.
        """
        heapq.heappush(self._times, (time, key))
        if not self._is_running:
            self._is_running = True
            self._background.start_own(self._run, name=self._name)
        elif self._times[0][1] == key:
            self._sooner.unpark_all()

    async def _run(self) -> None:
        try:
            while self._times or self._left:
                while self._times and self._times[0][0] <= trio.current_time():
                    self._left.append(self._due(heapq.heappop(self._times)[1]))
                if self._left:
                    await self._left.popleft()()
                else:
                    with trio.move_on_at(self._times[0][0]):
                        await self._sooner.park()
        finally:
            self._is_running = False


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
