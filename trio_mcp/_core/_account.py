"""What a server keeps for its clients: lent by holder and in all, and taken back from who holds most.

    whatever is kept for somebody ──> a loan from a pool, in the holder's name ──> given back when it is gone

A holder is a client: a principal, or an address where nobody authenticates. There is one pool of bytes, and one
for each kind of places. A pool that is not full lends to everybody. In one that is full whoever holds most gives
way: what waits (an idle session, a parked handler, an answer that nobody reads) can be taken back, and goes, the
oldest first; what is being worked on cannot. So of the latter each holder gets only as much as is left to others,
and however many take what they can get, the next one finds room.

No clock and no I/O: whoever lends says what giving way means.

Which addresses are one client's. Pure functions over text: no sockets, no look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final, Self, final

import attrs

MAX_LOOKED_AT: Final = 64
"""Of holders that hold about the same, so many are compared: finding the one with most takes as long among
a hundred holders as among a million."""


@final
class Overdrawn(Exception):
    """There is nothing left to lend.

    Attributes:
        setting: The bound that was met.
        is_own: Whether it is the holder who has too much; otherwise all together have.
    """

    def __init__(self, what: str, setting: str, *, is_own: bool) -> None:
        super().__init__(f"{what} ({setting})")
        self.setting = setting
        self.is_own = is_own


@final
@attrs.frozen
class PoolStatistics:
    """What a pool has lent.

    Attributes:
        lent: How much, in bytes or places.
        most: How much there is.
        holders: To how many.
        refused: How often there was nothing left for who asked.
        taken_back: How often something gave way.
        of: How much of `lent` is for what.
    """

    lent: int
    most: int
    holders: int
    refused: int
    taken_back: int
    of: Mapping[str, int]


@final
class _Holder:
    """What one client holds.

    Attributes:
        key: Who it is.
        loans: How many there are; some may be of nothing.
        held: How much, in all.
        firm: What of it is being worked on.
        idle: What of it can be taken back.
        waiting: The loans that can be taken back, the oldest first.
    """

    __slots__ = ("firm", "held", "idle", "key", "loans", "waiting")

    def __init__(self, key: str) -> None:
        self.key: str = key
        self.loans: int = 0
        self.held: int = 0
        self.firm: int = 0
        self.idle: int = 0
        self.waiting: dict[Loan, None] = {}


@final
class Loan:
    """Something that is kept for a client. A context that gives it back.

    Attributes:
        amount: How much it is.
    """

    __slots__ = ("_give_way", "_holder", "_kind", "_pool", "amount")

    def __init__(
        self, pool: Pool, holder: _Holder, kind: str, amount: int, give_way: Callable[[], object] | None
    ) -> None:
        self._pool: Pool | None = pool
        self._holder = holder
        self._kind = kind
        self._give_way = give_way
        self.amount: int = amount

    @property
    def is_given_back(self) -> bool:
        """Whether it is over: given back, or taken."""
        return self._pool is None

    def give_back(self) -> None:
        """Nothing is kept any more. May be called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.end(self, self._holder, self._kind)

    def change(self, amount: int, *, own_gives_way: bool = False) -> None:
        """It is more now, or less.

        Args:
            amount: How much it is.
            own_gives_way: Whether the holder's own oldest gives way to it when the holder has most; never itself.

        Raises:
            Overdrawn: There is not so much; it is as before. Never for less.
        """
        if self._pool is not None:
            self._pool.change(self, self._holder, self._kind, amount - self.amount, own_gives_way=own_gives_way)

    def hold(self) -> None:
        """From now on it is in use, and cannot be taken back, until it rests."""
        if self._pool is not None:
            self._pool.hold(self, self._holder)

    def rest(self) -> None:
        """From now on it is not in use, and was until now: others of the same holder give way before it."""
        if self._pool is not None and self._give_way is not None:
            self._pool.rest(self, self._holder)

    def take(self) -> None:
        """Take it back. For the pool to call."""
        self.give_back()
        if self._give_way is not None:
            self._give_way()

    @property
    def gives_way(self) -> bool:
        """Whether it can be taken back at all."""
        return self._give_way is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


@final
class Pool:
    """Something of which there is only so much.

    Args:
        setting: What its bound is called.
        most: How much there is.
        most_of_one: How much one holder may have.
        own_setting: What that bound is called.
        unit: What it is counted in.
    """

    def __init__(
        self,
        setting: str,
        most: int,
        most_of_one: int | None = None,
        *,
        own_setting: str = "",
        unit: str = "bytes",
    ) -> None:
        self._setting = setting
        self._most = most
        self._most_of_one = most if most_of_one is None else min(most, most_of_one)
        self._own_setting = own_setting if own_setting and self._most_of_one < most else setting
        self._unit = unit
        self._holders: dict[str, _Holder] = {}
        self._by_size: dict[int, dict[_Holder, None]] = {}  # those with something to take back, by its logarithm
        self._of: dict[str, int] = {}
        self._total = 0
        self._firm = 0
        self._refused = 0
        self._taken_back = 0

    @property
    def most_of_one(self) -> int:
        """How much one holder may have."""
        return self._most_of_one

    @property
    def own_setting(self) -> str:
        """What that bound is called."""
        return self._own_setting

    @property
    def lent(self) -> int:
        """How much is lent, to all."""
        return self._total

    def lent_to(self, holder: str) -> int:
        """How much one holder has."""
        found = self._holders.get(holder)
        return 0 if found is None else found.held

    def statistics(self) -> PoolStatistics:
        """Return counters."""
        of = {kind: amount for kind, amount in self._of.items() if amount}
        return PoolStatistics(self._total, self._most, len(self._holders), self._refused, self._taken_back, of)

    def lend(
        self,
        holder: str,
        kind: str,
        amount: int,
        give_way: Callable[[], object] | None = None,
        *,
        own_gives_way: bool = False,
    ) -> Loan:
        """Lend something.

        Args:
            holder: Who gets it.
            kind: For what; statistics tell them apart.
            amount: How much.
            give_way: Called when it is taken back, which may be at any time while it is not held (`Loan.hold`):
                ends what is kept. Must not wait, nor raise. `None` if it is being worked on and cannot be taken
                back. Then one holder gets at most as much as is left to others.
            own_gives_way: Whether the holder's own oldest gives way to this when the holder has most.

        Raises:
            Overdrawn: There is nothing left, for anybody or for this holder.
        """
        found = self._holders.get(holder)
        if found is None:
            found = _Holder(holder)
        self._make_room(found, amount, is_firm=give_way is None, own_gives_way=own_gives_way)
        found = self._holders.get(holder, found)  # what gave way may have asked for something, too
        loan = Loan(self, found, kind, amount, give_way)
        self._holders[holder] = found
        found.loans += 1
        self._add(found, kind, amount)
        if give_way is None:
            found.firm += amount
            self._firm += amount
        else:
            self.rest(loan, found)
        return loan

    def _add(self, holder: _Holder, kind: str, amount: int) -> None:
        holder.held += amount
        self._total += amount
        self._of[kind] = self._of.get(kind, 0) + amount

    def take_oldest_of(self, holder: str) -> bool:
        """Take back what has waited longest of one holder. Returns whether there was anything."""
        found = self._holders.get(holder)
        return found is not None and self._take_from(found)

    # What loans call.

    def end(self, loan: Loan, holder: _Holder, kind: str) -> None:
        self._add(holder, kind, -loan.amount)
        if loan.gives_way:
            self.hold(loan, holder)
        else:
            holder.firm -= loan.amount
            self._firm -= loan.amount
        holder.loans -= 1
        if not holder.loans:
            del self._holders[holder.key]

    def change(self, loan: Loan, holder: _Holder, kind: str, more: int, *, own_gives_way: bool = False) -> None:
        is_waiting = loan in holder.waiting
        if more > 0:
            if is_waiting:
                self.hold(loan, holder)  # not itself
            try:
                self._make_room(holder, more, is_firm=not loan.gives_way, own_gives_way=own_gives_way)
            finally:
                if is_waiting and not loan.is_given_back:
                    self.rest(loan, holder)
        if loan.is_given_back:
            return  # what gave way for it has taken it along
        loan.amount += more
        self._add(holder, kind, more)
        if not loan.gives_way:
            holder.firm += more
            self._firm += more
        elif is_waiting:
            self._set_idle(holder, holder.idle + more)

    def hold(self, loan: Loan, holder: _Holder) -> None:
        if loan in holder.waiting:
            del holder.waiting[loan]
            self._set_idle(holder, holder.idle - loan.amount)

    def rest(self, loan: Loan, holder: _Holder) -> None:
        if loan in holder.waiting:
            del holder.waiting[loan]  # it is the newest from now on
            holder.waiting[loan] = None
            return
        holder.waiting[loan] = None
        self._set_idle(holder, holder.idle + loan.amount)

    def _set_idle(self, holder: _Holder, idle: int) -> None:
        before, after = holder.idle.bit_length(), idle.bit_length()
        holder.idle = idle
        if before != after:
            if before:
                del self._by_size[before][holder]
                if not self._by_size[before]:
                    del self._by_size[before]
            if after:
                self._by_size.setdefault(after, {})[holder] = None

    # Who gives way.

    def _make_room(self, holder: _Holder, amount: int, *, is_firm: bool, own_gives_way: bool) -> None:
        if is_firm and holder.firm + amount > self._most - self._firm:
            self._refuse(holder, self._setting, is_own=holder.firm > 0)
        if holder.held - holder.idle + amount > self._most_of_one:  # nobody gives way in vain
            self._refuse(holder, self._own_setting, is_own=self._most_of_one < self._most)
        while holder.held + amount > self._most_of_one:
            if not ((is_firm or own_gives_way) and self._take_from(holder)):
                self._refuse(holder, self._own_setting, is_own=self._most_of_one < self._most)
        while self._total + amount > self._most:
            victim = self._who_has_most()
            if victim is None:
                self._refuse(holder, self._setting, is_own=False)
            elif victim is holder or (not is_firm and holder.held + amount > victim.held):
                if not ((is_firm or own_gives_way) and self._take_from(holder)):
                    self._refuse(holder, self._setting, is_own=victim is holder)
            else:
                self._take_from(victim)

    def _who_has_most(self) -> _Holder | None:
        """Return who has most of what can be taken back; among many with about as much, one of the first."""
        if not self._by_size:
            return None
        candidates = self._by_size[max(self._by_size)]
        most: _Holder | None = None
        for candidate, _ in zip(candidates, range(MAX_LOOKED_AT), strict=False):
            if most is None or candidate.idle > most.idle:
                most = candidate
        return most

    def _take_from(self, holder: _Holder) -> bool:
        oldest = next(iter(holder.waiting), None)
        if oldest is None:
            return False
        self._taken_back += 1
        oldest.take()
        return True

    def _refuse(self, holder: _Holder, setting: str, *, is_own: bool) -> None:
        self._refused += 1
        if is_own:
            raise Overdrawn(f"{holder.held} {self._unit} are kept for you already", setting, is_own=True)
        raise Overdrawn(f"{self._total} {self._unit} are kept already", setting, is_own=False)


def lend_all(
    amounts: Iterable[tuple[Pool, int]],
    holder: str,
    kind: str,
    give_way: Callable[[], object] | None = None,
    *,
    own_gives_way: bool = False,
) -> tuple[Loan, ...]:
    """Lend from several pools, or from none of them; see `Pool.lend`.

    Args:
        amounts: How much from which.
        holder: Who gets it.
        kind: For what.
        give_way: Called when one of the loans is taken back.
        own_gives_way: Whether the holder's own oldest gives way.

    Raises:
        Overdrawn: One has nothing left.
    """
    with ExitStack() as lent:
        loans = tuple(
            [
                lent.enter_context(pool.lend(holder, kind, amount, give_way, own_gives_way=own_gives_way))
                for pool, amount in amounts
            ]
        )
        lent.pop_all()
        return loans


@final
class Account:
    """Everything that one running server keeps for its clients.

    Args:
        max_bytes: What it may weigh together (`Limits.max_kept_bytes`).
        max_bytes_of_one: What one client's may (`Limits.max_kept_bytes_per_principal`).

    Attributes:
        bytes: The bytes.
    """

    def __init__(self, max_bytes: int, max_bytes_of_one: int) -> None:
        self.bytes: Final = Pool(
            "max_kept_bytes", max_bytes, max_bytes_of_one, own_setting="max_kept_bytes_per_principal"
        )
        self._pools: dict[str, Pool] = {"bytes": self.bytes}

    def places(
        self, kind: str, setting: str, most: int, most_of_one: int | None = None, own_setting: str = ""
    ) -> Pool:
        """Return the pool of one kind of places; made when it is first asked for."""
        if kind not in self._pools:
            self._pools[kind] = Pool(setting, most, most_of_one, own_setting=own_setting, unit="places")
        return self._pools[kind]

    def statistics(self) -> dict[str, PoolStatistics]:
        """Return what each pool has lent."""
        return {kind: pool.statistics() for kind, pool in self._pools.items()}


PREFIX_BITS: Final = 64
"""What an IPv6 network gives to one subscriber at least: whoever has one address of it has all of them, 2**64."""


def holder_of(address: str | None) -> str:
    """Return by what a client is counted that is known by its address alone.

    Whoever counts by address must ask this, or one client is 2**64: of IPv6 the network (its first 64 bits) is
    the client. An IPv4 address that a socket for both kinds shows as IPv6 is the IPv4 address.

    Args:
        address: As a socket or a trusted proxy shows it; `None` where there are no addresses. What is no address
            stands for itself.
    """
    if address is None:
        return ""
    return _network_of(address) if ":" in address else address


@lru_cache(maxsize=1024)
def _network_of(address: str) -> str:
    try:
        read = IPv6Address(address)
    except AddressValueError:
        return address
    if read.ipv4_mapped is not None:
        return str(read.ipv4_mapped)
    network = IPv6Address(int(read) >> (128 - PREFIX_BITS) << (128 - PREFIX_BITS))
    zone = "" if read.scope_id is None else f"%{read.scope_id}"  # the same network is another on another wire
    return f"{network}{zone}/{PREFIX_BITS}"
