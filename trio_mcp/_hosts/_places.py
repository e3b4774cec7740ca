"""How many connections there may be, and which gives way when there are no more places. Knows nothing of HTTP.

    accepted ──> is there a place? ──> it rests, works, rests … and leaves
                     └──> it waits without being read, while somebody gives way to it

A connection rests before it has asked anything, and once everything that was asked is answered. What gives way is
a matter of addresses, not of connections: whoever holds most is the first, so that one client, or ten, cannot
take what all others need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Final, Generic, TypeVar, final

import trio

from .._logs import Log
from .._parking_lot import LightParkingLot

__all__ = ["Places"]

_log: Final = Log("trio_mcp.http")

REST_SECONDS: Final = 5.0
"""How long a connection may rest that gives way to one of an address that holds as much: who has just asked may
be about to ask again."""

PATIENCE_SECONDS: Final = 1.0
"""How long one waits for an address that holds more to end something by itself, before that is cut."""

MAX_WAITING: Final = 64
"""How many may wait for a place. Each takes a descriptor, and nothing else."""

MAX_LOOKED_AT: Final = 1_000
"""How many connections are looked at to find one that rests. Beyond, all are taken to work."""

_T = TypeVar("_T", bound=Hashable)


@final
class _Party(Generic[_T]):
    """One address, or one connection of which no address says whose it is.

    Attributes:
        key: Which.
        placed: Its connections that have a place, in the order in which they came. Those that were cut are not
            counted.
        waiting: How many of its connections wait for one.
    """

    __slots__ = ("key", "placed", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.placed: dict[_T, None] = {}
        self.waiting = 0

    @property
    def weight(self) -> int:
        """How many connections it has."""
        return len(self.placed) + self.waiting


@final
class Places(Generic[_T]):
    """The places for connections.

    When all are taken, a new connection waits, and somebody gives way to it:

    * A connection that rests, of the address that has most, if that has two more at least than the new one's.
    * If no such one rests for `PATIENCE_SECONDS`, the youngest connection of that address, although it works.
    * Otherwise the one that has rested longest, after `REST_SECONDS`, of an address that has no fewer.

    So what works is cut only for an address that has less, and whoever has most finds room only where its own
    connections rest. One address gets only so many places in any case: beyond, its own give way, or it gets no
    more. A place is free when the task of the connection has left it.

    Args:
        limit: How many there are.
        address_limit: How many of them one address may have.
        cut: Ends a connection at once; its task then leaves. Must not wait.
    """

    def __init__(self, limit: int, address_limit: int, cut: Callable[[_T], None]) -> None:
        self._limit = limit
        self._address_limit = address_limit
        self._cut = cut
        self._parties: dict[Hashable, _Party[_T]] = {}
        self._ranks: dict[int, dict[_Party[_T], None]] = {}  # by how many places they have
        self._party_of: dict[_T, _Party[_T]] = {}  # of all whose tasks have not left
        self._placed = 0  # without those that were cut
        self._resting: dict[_T, float] = {}  # since when; the longest first
        self._heads: dict[_T, float] = {}  # of those that rest: whose next request has begun to come
        self._waiting: dict[_T, float] = {}
        self._leaving: set[_T] = set()  # cut, and their places are not free yet
        self._cut_ones: set[_T] = set()
        self._changed = LightParkingLot()
        self._alarm = LightParkingLot()
        self._sleeps = False
        self._warned_of: set[str] = set()

    # Coming and going.

    def enter(self, connection: _T, address: str | None) -> bool:
        """Take a connection in, if its address may have one more: it has a place, or waits for one.

        Args:
            connection: The connection. It has asked nothing yet.
            address: Where it comes from; `None` if that says nothing of who it is.
        """
        key: Hashable = (None, connection) if address is None else address
        party = self._parties.get(key)
        if party is None:
            party = _Party[_T](key)
        if address is not None and party.weight >= self._address_limit:
            self._warn("max_connections_per_address", self._address_limit)
            own = self._longest_resting_of(party)
            if own is None:
                return False
            self._end(own)
        is_full = self._placed + len(self._leaving) >= self._limit
        if is_full or self._waiting:
            if is_full:
                self._warn("max_connections", self._limit)
            if len(self._waiting) >= MAX_WAITING and not self._drop_heavier(party):
                return False
            self._waiting[connection] = trio.current_time()
            party.waiting += 1
            self._alarm.unpark_all()
        self._parties[key] = party
        self._party_of[connection] = party
        if connection not in self._waiting:
            self._place(connection, party)
        return True

    def _place(self, connection: _T, party: _Party[_T]) -> None:
        self._rank(party, 1, connection)
        self.rest(connection)

    def _rank(self, party: _Party[_T], more: int, connection: _T) -> None:
        """One place more for a party, or one less."""
        before = len(party.placed)
        if before:
            rank = self._ranks[before]
            del rank[party]
            if not rank:
                del self._ranks[before]
        if more > 0:
            party.placed[connection] = None
        else:
            del party.placed[connection]
        if party.placed:
            self._ranks.setdefault(len(party.placed), {})[party] = None
        elif not party.waiting:
            self._parties.pop(party.key, None)
        self._placed += more

    async def wait_place(self, connection: _T) -> bool:
        """Wait until a connection that has entered has a place. Returns false if it was cut instead."""
        while connection in self._waiting:
            await self._changed.park()
        return connection not in self._cut_ones

    async def wait_door(self) -> None:
        """Wait until another connection may be accepted.

        That is always, unless as many wait as may, and nobody has more than one: then there is nobody who would
        have to give way, and the next one may as well wait in the system.
        """
        while not self.is_door_open:
            await self._changed.park()

    @property
    def is_door_open(self) -> bool:
        """Whether `wait_door` would not wait."""
        return len(self._waiting) < MAX_WAITING or self._has_crowd

    @property
    def _has_crowd(self) -> bool:
        return max(self._ranks, default=0) > 1 or any(self._party_of[each].weight > 1 for each in self._waiting)

    def _drop_heavier(self, newcomer: _Party[_T]) -> bool:
        """Drop one that waits, of the address that has most, unless that is the newcomer's."""
        heaviest = max(self._waiting, key=lambda each: self._party_of[each].weight)
        party = self._party_of[heaviest]
        if party is newcomer or party.weight <= newcomer.weight + 1:
            return False
        self._end(next(each for each in reversed(self._waiting) if self._party_of[each] is party))
        return True

    def work(self, connection: _T) -> None:
        """A request has come over it."""
        self._resting.pop(connection, None)
        if self._heads:
            self._heads.pop(connection, None)

    def begin(self, connection: _T) -> None:
        """A part of a request has come over it. It rests still, and has only so long for the rest of the head."""
        if connection in self._resting and connection not in self._heads:
            self._heads[connection] = trio.current_time()
            if len(self._heads) == 1:
                self._alarm.unpark_all()

    def rest(self, connection: _T) -> None:
        """What was asked is answered."""
        if connection in self._party_of and connection not in self._cut_ones:
            self._resting[connection] = trio.current_time()
            if self._sleeps or self._waiting:
                self._alarm.unpark_all()

    def leave(self, connection: _T) -> None:
        """It has ended."""
        if connection not in self._cut_ones:
            self._forget(connection)
        del self._party_of[connection]
        self._cut_ones.discard(connection)
        self._leaving.discard(connection)
        if len(self._party_of) <= min(self._limit, self._address_limit) // 2:
            self._warned_of.clear()
        self._settle()
        self._changed.unpark_all()

    def _forget(self, connection: _T) -> None:
        """It counts for its address no more."""
        party = self._party_of[connection]
        self._resting.pop(connection, None)
        self._heads.pop(connection, None)
        if self._waiting.pop(connection, None) is None:
            self._rank(party, -1, connection)
        else:
            party.waiting -= 1
            if not party.weight:
                self._parties.pop(party.key, None)

    def _end(self, connection: _T) -> None:
        """Cut a connection. It counts for its address no more, and takes its place until its task leaves."""
        has_place = connection not in self._waiting
        self._forget(connection)
        self._cut_ones.add(connection)
        if has_place:
            self._leaving.add(connection)
        self._cut(connection)
        self._changed.unpark_all()

    # Who gives way.

    def _settle(self) -> float:
        """Give free places to those who wait, and let others give way to them. Returns when to look again."""
        now = trio.current_time()
        if not self._waiting:
            return math.inf
        # Who has least is first; among them, who has waited longest.
        line = sorted(self._waiting, key=lambda each: len(self._party_of[each].placed))
        free = self._limit - self._placed - len(self._leaving)
        for connection in line[: max(0, free)]:
            party = self._party_of[connection]
            del self._waiting[connection]
            party.waiting -= 1
            self._place(connection, party)
            self._changed.unpark_all()
        for connection in line[max(0, free) + len(self._leaving) :]:
            is_patient = now < self._waiting[connection] + PATIENCE_SECONDS
            victim = self._who_gives_way(len(self._party_of[connection].placed), now, is_patient=is_patient)
            if victim is None:
                break
            self._end(victim)
        if not self._waiting:
            return math.inf
        patient = (since + PATIENCE_SECONDS for since in self._waiting.values())
        rested = (since + REST_SECONDS for since in islice(self._resting.values(), MAX_LOOKED_AT))
        return min(next((due for due in dues if due > now), math.inf) for dues in (patient, rested))

    def _who_gives_way(self, has: int, now: float, *, is_patient: bool) -> _T | None:
        """Return the connection that has to end for one of an address that has so many already."""
        looked_at = 0
        for rank in sorted((rank for rank in self._ranks if rank >= has + 2), reverse=True):
            for party in self._ranks[rank]:
                found = self._longest_resting_of(party)
                looked_at += rank
                if found is not None:
                    return found
                if looked_at > MAX_LOOKED_AT:
                    break
            if looked_at > MAX_LOOKED_AT:
                break
        for connection, since in islice(self._resting.items(), MAX_LOOKED_AT):
            if since + REST_SECONDS > now:
                break
            if len(self._party_of[connection].placed) >= has:
                return connection
        most = max(self._ranks, default=0)
        if is_patient or most < has + 2:
            return None
        return next(reversed(next(iter(self._ranks[most])).placed))

    def _longest_resting_of(self, party: _Party[_T]) -> _T | None:
        resting = [each for each in islice(party.placed, MAX_LOOKED_AT) if each in self._resting]
        return min(resting, key=self._resting.__getitem__, default=None)

    def make_room(self, *, is_patient: bool) -> bool:
        """Let one give way because the machine has no room, or say that there is none.

        Args:
            is_patient: Whether only what rests has to.
        """
        victim = self._who_gives_way(0, trio.current_time(), is_patient=is_patient)
        if victim is None:
            return False
        self._end(victim)
        return True

    def must_give_way(self, connection: _T) -> bool:
        """Whether a connection is to end although the next request has come over it already.

        Who sends requests ahead never rests. When all places are taken, that must not keep them from others; but
        only if its address is the crowd: most of them are its, or as many as it may have.
        """
        party = self._party_of[connection]
        most = min(self._address_limit, self._limit // 2 + 1)
        is_known = isinstance(party.key, str)
        return is_known and self._placed + len(self._leaving) >= self._limit and len(party.placed) >= most

    def _warn(self, setting: str, limit: int) -> None:
        if setting not in self._warned_of:
            self._warned_of.add(setting)
            _log.warning("%d connections are open (%s); those that rest give way", limit, setting)

    # Time.

    async def attend(self, idle_timeout: float, head_timeout: float) -> None:
        """End what has rested, or waited, for too long, and let others give way, for as long as this runs.

        One task does it for all connections, so that a request costs no timer.

        Args:
            idle_timeout: How long one may rest, or wait for a place.
            head_timeout: How long one may rest once a request has begun to come.
        """
        while True:
            due = min(self._end_overdue(idle_timeout, head_timeout), self._settle())
            self._sleeps = due == math.inf
            with trio.move_on_at(due):
                await self._alarm.park()
            self._sleeps = False

    def _end_overdue(self, idle_timeout: float, head_timeout: float) -> float:
        """End what is overdue. Returns when the next one will be."""
        due = math.inf
        for since_of, timeout in (
            (self._heads, head_timeout),
            (self._resting, idle_timeout),
            (self._waiting, idle_timeout),
        ):
            while (first := next(iter(since_of), None)) is not None:
                ends = since_of[first] + timeout
                if ends > trio.current_time():
                    due = min(due, ends)
                    break
                self._end(first)
        return due

    def cut_resting(self) -> None:
        """End those at once that rest, or wait."""
        for connection in (*self._resting, *self._waiting):
            self._end(connection)

    async def wait_empty(self) -> None:
        """Wait until all have left."""
        while self._party_of:
            await self._changed.park()

    def cut_all(self) -> None:
        """End all of them at once."""
        for connection in tuple(self._party_of):
            self._cut(connection)
