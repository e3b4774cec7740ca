"""One run of a server: what lives as long as it serves, however many connections it has."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Generic, final

import trio
from typing_extensions import TypeVar

from .._core._account import Account
from .._core._sealing import Sealer
from .._limits import Limits
from .._logs import Log
from ._background import Background, open_background
from ._parking import Parking
from ._shutdown import Shutdown

__all__ = ["EndedBeforeStart", "Lifetime", "Service", "open_service"]

_log: Final = Log("trio_mcp.server")

_State = TypeVar("_State")


@final
class EndedBeforeStart(Exception):
    """The server was told to end while its lifespan was being entered. That was cancelled; nobody was served."""


@final
class Lifetime:
    """How long a lifespan may take to be entered and to be left.

    Whoever wants the server to end can say so twice: `Shutdown.drain`, `Shutdown.abort`. What is said while the
    lifespan is entered, or left, cancels it. What was said before it is left was meant for those being served:

        nothing was said    it may take its time; but where the only client has gone, and perhaps nobody is left
                            who could say something, it has `Limits.lifespan_timeout`
        drain               it may take its time; who has said this can say more
        abort               it has `Limits.goodbye_timeout`

    Args:
        shutdown: Says when to end.
        limits: How long things may take.
        of_client: Whether the server is there for one client and ends with it.
    """

    def __init__(self, shutdown: Shutdown, limits: Limits, *, of_client: bool = False) -> None:
        self.scope: Final = trio.CancelScope()
        self._shutdown = shutdown
        self._limits = limits
        self._of_client = of_client
        self._is_entering = False
        self._patience = math.inf  # how much may have been said without an effect

    def lose_client(self) -> None:
        """The only client will say nothing more; what it has said may still be waiting to be served."""
        if self._is_entering:
            self.scope.deadline = trio.current_time() + self._limits.drain_timeout

    # What the service says, in this order.

    def enter(self) -> None:
        """The lifespan is entered."""
        self._is_entering = True
        self._patience = 0
        self._shutdown.call_on_drain(self._look)
        self._look()

    def serve(self) -> None:
        """The lifespan was entered."""
        self._is_entering = False
        self._patience = math.inf
        self.scope.deadline = math.inf

    def leave(self) -> None:
        """The lifespan is left."""
        limits = self._limits
        alone = limits.lifespan_timeout if self._of_client else math.inf
        allowed = (alone, math.inf, limits.goodbye_timeout)[self._said]
        self.scope.deadline = trio.current_time() + allowed
        self._patience = self._said

    def end(self) -> None:
        """The lifespan was left."""
        self._shutdown.do_not_call(self._look)

    @property
    def _said(self) -> int:
        return self._shutdown.is_draining + self._shutdown.is_aborting

    def _look(self) -> None:
        if self._said > self._patience:
            self.scope.cancel(reason="the server is to end")


@final
class Service(Generic[_State]):
    """What the connections of a running server share.

    Attributes:
        state: What the lifespan yielded.
        background: Starts tasks that last as long as the server runs.
        parking: Handlers that wait for their clients between two requests.
        account: What is kept for clients.
    """

    def __init__(self, state: _State, background: Background, parking: Parking, account: Account) -> None:
        self.state = state
        self.background = background
        self.parking = parking
        self.account = account


@asynccontextmanager
async def open_service(
    name: str,
    lifespan: AbstractAsyncContextManager[_State],
    sealer: Sealer,
    limits: Limits,
    lifetime: Lifetime | None = None,
    *,
    single_use_states: bool = False,
) -> AsyncGenerator[Service[_State]]:
    """Run a server for as long as the body runs: inside its lifespan, with a nursery around all connections.

    When the body is left, background tasks and parked handlers are cancelled and their cleanup runs, and then the
    lifespan's. An exception of the body comes out as itself.

    Args:
        name: The server's name.
        lifespan: What surrounds it.
        sealer: Makes and reads the states that clients carry.
        limits: How many handlers may be parked, and for how long.
        lifetime: How long the lifespan may take.
        single_use_states: Whether states that clients carry are good for one request only.

    Raises:
        EndedBeforeStart: The lifespan was cancelled while it was being entered.
    """
    lifetime = Lifetime(Shutdown(), limits) if lifetime is None else lifetime
    has_started = False
    failure: BaseException | None = None
    try:
        with lifetime.scope:
            lifetime.enter()
            async with lifespan as state, open_background(f"server {name}") as background:
                lifetime.serve()
                has_started = True
                try:
                    account = Account(limits.max_kept_bytes, limits.max_kept_bytes_per_principal)
                    parking = Parking(
                        background, limits, sealer, name, account, single_use_states=single_use_states
                    )
                    yield Service(state, background, parking, account)
                except BaseException as error:
                    failure = error
                    raise
                finally:
                    lifetime.leave()
        if lifetime.scope.cancelled_caught:
            if not has_started:
                raise EndedBeforeStart
            _log.warning("the lifespan of server %s was cancelled, because it took too long to end", name)
            if not (failure is None or isinstance(failure, trio.Cancelled)):
                raise failure
    finally:
        lifetime.end()
        del failure  # its traceback holds this frame
