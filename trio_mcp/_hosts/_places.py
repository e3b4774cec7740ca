"""How many connections there may be, and which gives way when there are no more places. Knows nothing of HTTP."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar, final

import trio

__all__ = ["Places"]

_log: Final = logging.getLogger("trio_mcp.http")

CROWD_SECONDS: Final = 0.25
"""How long a connection may rest while there are no places, if its address holds more than half of them."""

REST_SECONDS: Final = 5.0
"""The same, for everybody else: who has just asked something may be about to ask again."""

_T = TypeVar("_T", bound=Hashable)


@final
class Places(Generic[_T]):
    """The places for connections.

    A connection rests before it has asked anything, and once everything that was asked is answered. When all
    places are taken, the one that has rested longest gives way: soon, if its address holds more than half of the
    places, or else after a while. So whoever opens many connections, and is slow to say anything or says nothing,
    keeps out nobody but themselves. Connections whose request is being read or served are never cut.

    Args:
        limit: How many there are.
        cut: Ends a connection at once; its task then leaves. Must not wait.
    """

    def __init__(self, limit: int, cut: Callable[[_T], None]) -> None:
        self._limit = limit
        self._cut = cut
        self._addresses: dict[_T, str] = {}
        self._taken: Counter[str] = Counter()
        self._resting: dict[_T, float] = {}
        self._cut_ones: set[_T] = set()
        self._changed = trio.lowlevel.ParkingLot()
        self._has_warned = False

    def enter(self, connection: _T, address: str) -> None:
        """Give a connection a place. It has asked nothing yet."""
        self._addresses[connection] = address
        self._taken[address] += 1
        self.rest(connection)

    def work(self, connection: _T) -> None:
        """A request has come over it."""
        self._resting.pop(connection, None)

    def rest(self, connection: _T) -> None:
        """What was asked is answered."""
        if connection in self._addresses and connection not in self._cut_ones:
            self._resting[connection] = trio.current_time()
            if self._changed:
                self._changed.unpark_all()

    def leave(self, connection: _T) -> None:
        """It has ended."""
        address = self._addresses.pop(connection)
        self._taken[address] -= 1
        if not self._taken[address]:
            del self._taken[address]
        self._resting.pop(connection, None)
        self._cut_ones.discard(connection)
        if len(self._addresses) <= self._limit // 2:
            self._has_warned = False
        self._changed.unpark_all()

    async def wait_place(self) -> None:
        """Wait until there is a place for one more, and make one if possible."""
        while len(self._addresses) >= self._limit:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("%d connections are open (max_connections); those that rest give way", self._limit)
            with trio.move_on_at(math.inf if self._cut_ones else self._make_place()):
                await self._changed.park()

    def _make_place(self) -> float:
        """Cut the connection that has to give way, or return when one may have to."""
        next_time = math.inf
        for connection, since in self._resting.items():  # the longest first
            time = since + (CROWD_SECONDS if self._is_crowd(connection) else REST_SECONDS)
            if time <= trio.current_time():
                self._end(connection)
                return math.inf  # its task leaves at once
            next_time = min(next_time, time)
        return next_time

    def _is_crowd(self, connection: _T) -> bool:
        return self._taken[self._addresses[connection]] > self._limit // 2

    def must_give_way(self, connection: _T) -> bool:
        """Whether a connection is to end although the next request has come over it already.

        Who sends ahead never rests, and would keep the places of all others for as long as there is something to
        answer.
        """
        return len(self._addresses) >= self._limit and self._is_crowd(connection)

    def _end(self, connection: _T) -> None:
        del self._resting[connection]
        self._cut_ones.add(connection)
        self._cut(connection)

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
