"""One run of a server: what lives as long as it serves, however many connections it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, final

from typing_extensions import TypeVar

from .._core._sealing import Sealer
from .._limits import Limits
from ._background import Background, open_background
from ._parking import Parking

__all__ = ["Service", "open_service"]

_State = TypeVar("_State")


@final
class Service(Generic[_State]):
    """What the connections of a running server share.

    Attributes:
        state: What the lifespan yielded.
        background: Starts tasks that last as long as the server runs.
        parking: Handlers that wait for their clients between two requests.
    """

    def __init__(self, state: _State, background: Background, parking: Parking) -> None:
        self.state = state
        self.background = background
        self.parking = parking


@asynccontextmanager
async def open_service(
    name: str, lifespan: AbstractAsyncContextManager[_State], sealer: Sealer, limits: Limits
) -> AsyncGenerator[Service[_State]]:
    """Run a server for as long as the body runs: inside its lifespan, with a nursery around all connections.

    When the body is left, background tasks and parked handlers are cancelled and their cleanup runs, and then the
    lifespan's. An exception of the body comes out as itself.

    Args:
        name: The server's name.
        lifespan: What surrounds it.
        sealer: Makes and reads the states that clients carry.
        limits: How many handlers may be parked, and for how long.
    """
    async with lifespan as state, open_background(f"server {name}") as background:
        yield Service(state, background, Parking(background, limits, sealer, name))
