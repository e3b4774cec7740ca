"""The connections of a host: how many there are, how long they may idle, and how they end. Knows no HTTP library.

Whatever reads HTTP on a connection is a `Connection`; what one of them does costs no other anything.
"""

from __future__ import annotations

import abc
import logging
import math
from collections.abc import Callable
from typing import Final, TypeAlias, final

import trio

from .._core._http_settings import HttpServerSettings
from ._wires import Wire

__all__ = ["Connection", "Connections", "OpenConnection"]

_log: Final = logging.getLogger("trio_mcp.http")

IDLE_STEPS: Final = 64
"""Into how many steps `idle_timeout` is cut. Looking at every connection more often would not help anybody."""


class Connection(abc.ABC):
    """One connection.

    Args:
        wire: Its bytes.
        settings: What it may cost.

    Attributes:
        wire: Its bytes.
        idle_until: When it has been without a request for too long; `math.inf` while one is being served.
        is_draining: Whether no request is to follow the one that is being served.
    """

    def __init__(self, wire: Wire, settings: HttpServerSettings) -> None:
        self.wire: Final = wire
        self.idle_until: float = math.inf
        self.is_draining: bool = False
        self._idle_timeout = settings.idle_timeout
        self._reading = trio.CancelScope()

    @final
    async def serve(self) -> None:
        """Serve it until it ends."""
        self.be_idle()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                with self._reading:
                    await self._read()
                await self._end()
        finally:
            self.wire.cut()

    @abc.abstractmethod
    async def _read(self) -> None:
        """Read, and let requests be served in the nursery, until nothing comes or nothing is wanted any more."""

    @abc.abstractmethod
    async def _end(self) -> None:
        """There is nothing more to read. The request that is being served, if there is one, is given up."""

    @final
    def be_idle(self) -> None:
        """No request is being served from now on."""
        self.idle_until = trio.current_time() + self._idle_timeout
        if self.is_draining:
            self.stop_reading("no more requests are served")

    @final
    def be_busy(self) -> None:
        """A request is being served from now on."""
        self.idle_until = math.inf

    @final
    def stop_reading(self, reason: str) -> None:
        """Read no further. Called while nothing is being read, or by the task that reads."""
        self._reading.cancel(reason=reason)

    @final
    def drain(self) -> None:
        """End it after the request that is being served."""
        self.is_draining = True
        if self.idle_until < math.inf:
            self.stop_reading("no more requests are served")


OpenConnection: TypeAlias = Callable[[Wire], Connection]


@final
class Connections:
    """The connections there are.

    Args:
        open_connection: Makes one.
        settings: How many there may be, and what each may cost.
    """

    def __init__(self, open_connection: OpenConnection, settings: HttpServerSettings) -> None:
        self._open_connection = open_connection
        self._settings = settings
        self._wires: set[Wire] = set()
        self._connections: set[Connection] = set()
        self._is_draining = False
        self._changed = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._wires)

    async def wait_place(self) -> None:
        """Wait until there may be one more. Does not checkpoint if so."""
        while len(self._wires) >= self._settings.max_connections:
            await self._changed.park()

    def enter(self, wire: Wire) -> None:
        """Count one that is about to be served."""
        self._wires.add(wire)
        self._changed.unpark_all()

    async def serve(self, wire: Wire) -> None:
        """Serve one until it ends. Whatever happens on it costs nobody else theirs."""
        connection: Connection | None = None
        try:
            await wire.start()
            connection = self._open_connection(wire)
            connection.is_draining = self._is_draining
            self._connections.add(connection)
            await connection.serve()
        except trio.BrokenResourceError:
            pass  # there was no agreement on TLS
        except Exception:
            # The boundary of one connection.
            _log.exception("a connection failed")
        finally:
            if connection is not None:
                self._connections.discard(connection)
            self._wires.discard(wire)
            self._changed.unpark_all()
            wire.cut()

    async def close_idle(self) -> None:
        """Close what has been idle for too long, for as long as this runs.

        One task does it for all of them, so that a request costs no timer.
        """
        timeout = self._settings.idle_timeout
        while timeout < math.inf:
            if not self._wires:
                await self._changed.park()
                continue
            # What becomes idle while this sleeps is not due before the longest it sleeps is over.
            now = trio.current_time()
            soonest = min((each.idle_until for each in self._connections), default=math.inf)
            await trio.sleep_until(min(max(soonest, now + timeout / IDLE_STEPS), now + timeout))
            now = trio.current_time()
            for connection in tuple(self._connections):
                if connection.idle_until <= now:
                    connection.stop_reading("it was idle for too long")

    async def finish(self) -> None:
        """Close what is idle, and let the rest finish what was begun."""
        self._is_draining = True
        for connection in tuple(self._connections):
            connection.drain()
        while self._wires:
            await self._changed.park()

    def abort(self) -> None:
        """Cut every connection."""
        for wire in tuple(self._wires):
            wire.cut()
