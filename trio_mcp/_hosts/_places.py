"""How many connections there may be, and which gives way when there are no more places. Knows nothing of HTTP."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar, final

import trio

from .._logs import Log
from .._parking_lot import LightParkingLot

__all__ = ["Places"]

_log: Final = Log("trio_mcp.http")

REST_SECONDS: Final = 5.0
"""How long a connection may rest while there are no places: who has just asked may be about to ask again."""

_T = TypeVar("_T", bound=Hashable)


@final
class Places(Generic[_T]):
    """The places for connections.

    A connection rests before it has asked anything, and once everything that was asked is answered. When all
    places are taken, the one that has rested longest gives way, so whoever says nothing, or is slow to, keeps
    nobody out. One address gets only so many places: beyond, its own connections give way, or it gets no more.
    Whatever it does with them, the rest is for others. Connections whose request is being read or served are
    never cut.

    Args:
        limit: How many there are.
        address_limit: How many of them one address may have.
        cut: Ends a connection at once; its task then leaves. Must not wait.
    """

    def __init__(self, limit: int, address_limit: int, cut: Callable[[_T], None]) -> None:
        self._limit = limit
        self._address_limit = address_limit
        self._cut = cut
        self._addresses: dict[_T, str | None] = {}
        self._taken: Counter[str] = Counter()
        self._resting: dict[_T, float] = {}
        self._cut_ones: set[_T] = set()
        self._changed = LightParkingLot()
        self._warned_of: set[str] = set()

    def enter(self, connection: _T, address: str | None) -> bool:
        """Give a connection a place, if its address may have one more. It has asked nothing yet.

        Args:
            connection: The connection.
            address: Where it comes from; `None` if that says nothing of who it is.
        """
        if address is not None and self._taken[address] >= self._address_limit:
            self._warn("max_connections_per_address", self._address_limit)
            oldest = next((each for each in self._resting if self._addresses[each] == address), None)
            if oldest is None:
                return False
            self._end(oldest)
        self._addresses[connection] = address
        if address is not None:
            self._taken[address] += 1
        self.rest(connection)
        return True

    def work(self, connection: _T) -> None:
        """A request has come over it."""
        self._resting.pop(connection, None)

    def rest(self, connection: _T) -> None:
        """What was asked is answered."""
        if connection in self._addresses and connection not in self._cut_ones:
            self._resting[connection] = trio.current_time()
            self._changed.unpark_all()

    def leave(self, connection: _T) -> None:
        """It has ended."""
        address = self._addresses.pop(connection)
        if connection not in self._cut_ones:
            self._release(address)
        self._cut_ones.discard(connection)
        self._resting.pop(connection, None)
        if len(self._addresses) <= min(self._limit, self._address_limit) // 2:
            self._warned_of.clear()
        self._changed.unpark_all()

    async def wait_place(self) -> None:
        """Wait until there is a place for one more, and make one if possible."""
        while len(self._addresses) >= self._limit:
            self._warn("max_connections", self._limit)
            with trio.move_on_at(math.inf if self._cut_ones else self._make_place()):
                await self._changed.park()

    def _make_place(self) -> float:
        """End the connection that has to give way, or return when one may have to."""
        for connection, since in self._resting.items():  # the longest first
            if since + REST_SECONDS > trio.current_time():
                return since + REST_SECONDS
            self._end(connection)
            break
        return math.inf

    def must_give_way(self, connection: _T) -> bool:
        """Whether a connection is to end although the next request has come over it already.

        Who sends ahead never rests, and would keep the places of all others for as long as there is something to
        answer.
        """
        address = self._addresses[connection]
        most = min(self._address_limit, self._limit // 2 + 1)
        return address is not None and len(self._addresses) >= self._limit and self._taken[address] >= most

    def _end(self, connection: _T) -> None:
        """Cut a connection. It counts for its address no more, and takes its place until its task leaves."""
        del self._resting[connection]
        self._cut_ones.add(connection)
        self._release(self._addresses[connection])
        self._cut(connection)

    def _release(self, address: str | None) -> None:
        if address is not None:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]

    def _warn(self, setting: str, limit: int) -> None:
        if setting not in self._warned_of:
            self._warned_of.add(setting)
            _log.warning("%d connections are open (%s); those that rest give way", limit, setting)

    async def end_idle(self, after: float) -> None:
        """End what has rested for so many seconds, for as long as this runs.

        One task does it for all connections, so that a request costs no timer.
        """
        while after < math.inf:
            longest = next(iter(self._resting), None)
            if longest is None:
                await self._changed.park()
            elif (due := self._resting[longest] + after) > trio.current_time():
                await trio.sleep_until(due)
            else:
                self._end(longest)

    def cut_resting(self) -> None:
        """End those at once that rest."""
        for connection in tuple(self._resting):
            self._end(connection)

    async def wait_empty(self) -> None:
        """Wait until all have left."""
        while self._addresses:
            await self._changed.park()

    def cut_all(self) -> None:
        """End all of them at once."""
        for connection in tuple(self._addresses):
            self._cut(connection)
