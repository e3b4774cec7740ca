"""What a server keeps for its clients, and what it does for each: bounded for every one and for all together.

All that is kept for a client is a loan from a pool, in the name of a holder, and given back when it is gone. A
holder is a client: a principal, or an address (`holder_of`) if there is no authentication. What is done is shared
by turns (`Turns`); rates are in `_rates`. Decisions only: no clock and no I/O. Time is an argument, and the
borrower passes a function that ends what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final, Self, final

import attrs

# There is one pool of bytes, and one for each kind of places (sessions, parked handlers, …). A pool that is not
# full lends to every holder. When it is full, a holder that has most gives way to those that have less:
#
# * A loan that rests (an idle session, a parked handler, a result that is not read yet) can be taken back, the
#   oldest of a holder first.
# * A firm loan (what is being worked on) cannot be taken back. So a new one is refused if it would leave its
#   holder with more than is left for all others: however many take what they can get, the next one finds room.
#
# Kept true: `held` of a holder is the sum of its loans, `firm` that of its loans without `give_way`, `idle` that
# of the loans in `waiting`, which are those that rest, the oldest first; `_by_size` has exactly the holders with
# something idle, under the bit length of it. The last is worth it because it finds a victim in a time that does
# not depend on the number of holders, of which an attacker with many addresses can make a million. Taking a loan
# back calls `give_way`, which may borrow or give back; so what was looked up before must be looked up again after
# it.

MAX_COMPARED: Final = 64
"""How many holders that hold about the same are compared, to find in bounded time one that has most."""


@final
class Overdrawn(Exception):
    """A pool has nothing left to lend.

    Attributes:
        setting: The setting with the limit that was met.
        is_own: Whether it is the limit of one holder; otherwise it is that of all together.
    """

    def __init__(self, what: str, setting: str, most: int, *, is_own: bool) -> None:
        super().__init__(f"{what}; {setting} is {most}")
        self.setting = setting
        self.is_own = is_own


@final
@attrs.frozen
class PoolStatistics:
    """What a pool has lent.

    Attributes:
        lent: How much is lent, in bytes or places.
        most: How much there is.
        holders: The number of holders.
        refused: How often a loan was refused.
        taken_back: How often a loan was taken back.
        of: How much of `lent` is lent for each kind of use.
    """

    lent: int
    most: int
    holders: int
    refused: int
    taken_back: int
    of: Mapping[str, int]


@final
@attrs.define(eq=False, weakref_slot=False)
class _Holder:
    """What one client holds.

    Attributes:
        key: The principal or the address.
        loans: The number of its loans; some may be of nothing.
        held: How much it holds, in all.
        firm: How much of it is being worked on.
        idle: How much of it can be taken back.
        waiting: The loans that can be taken back, the oldest first.
    """

    key: str
    loans: int = 0
    held: int = 0
    firm: int = 0
    idle: int = 0
    waiting: dict[Loan, None] = attrs.field(factory=dict["Loan", None])


@final
@attrs.define(eq=False, weakref_slot=False)
class Loan:
    """Something that is kept for a client. A context that gives it back.

    Attributes:
        amount: How much it is.
    """

    _pool: Pool | None
    _holder: _Holder
    _kind: str
    amount: int
    _give_way: Callable[[], object] | None

    @property
    def is_given_back(self) -> bool:
        """Whether it was given back, or taken back."""
        return self._pool is None

    def give_back(self) -> None:
        """Give the loan back: nothing is kept any more. May be called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.end(self, self._holder, self._kind)

    def change(self, amount: int, *, own_gives_way: bool = False) -> None:
        """Set how much is lent.

        Args:
            amount: How much it is from now on.
            own_gives_way: Whether the oldest loan of the same holder, but never this one, is taken back if that
                holder has most.

        Raises:
            Overdrawn: Not so much is left; the loan is unchanged. Never raised for less.
        """
        if self._pool is not None:
            self._pool.change(self, self._holder, self._kind, amount - self.amount, own_gives_way=own_gives_way)

    def hold(self) -> None:
        """Mark it as in use: it cannot be taken back until `rest` is called."""
        if self._pool is not None:
            self._pool.hold(self, self._holder)

    def rest(self) -> None:
        """Mark it as not in use from now on: loans of its holder that rest longer are taken back before it."""
        if self._pool is not None and self._give_way is not None:
            self._pool.rest(self, self._holder)

    def take(self) -> None:
        """Take it back and call `give_way`. Only the pool calls this."""
        self.give_back()
        if self._give_way is not None:
            self._give_way()

    @property
    def gives_way(self) -> bool:
        """Whether it can be taken back while it rests."""
        return self._give_way is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


@final
class Pool:
    """A bounded amount of bytes or places.

    Args:
        setting: The name of the setting with its limit.
        most: How much there is.
        most_of_one: How much one holder may have.
        own_setting: The name of the setting with that limit.
        unit: The unit, in the plural.

    Attributes:
        most_of_one: How much one holder may have.
        own_setting: The name of the setting that limits one holder.
        lent: How much is lent, to all holders.
        on_much_returned: Called when an eighth of all was given back while more than a quarter was lent, and when
            no more than a quarter is lent again. Not called as long as clients take little.
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
        self.most_of_one: Final = most if most_of_one is None else min(most, most_of_one)
        self.own_setting: Final = own_setting if own_setting and self.most_of_one < most else setting
        self._unit = unit
        self._holders: dict[str, _Holder] = {}
        self._by_size: dict[int, dict[_Holder, None]] = {}  # holders with something idle, by its logarithm
        self._of: dict[str, int] = {}
        self.lent: int = 0
        self.on_much_returned: Callable[[], object] = lambda: None
        self._returned = 0  # since that was called
        self._firm = 0
        self._refused = 0
        self._taken_back = 0

    def lent_to(self, holder: str) -> int:
        """How much one holder has."""
        found = self._holders.get(holder)
        return 0 if found is None else found.held

    def statistics(self) -> PoolStatistics:
        """Return counters."""
        of = {kind: amount for kind, amount in self._of.items() if amount}
        return PoolStatistics(self.lent, self._most, len(self._holders), self._refused, self._taken_back, of)

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
            holder: The holder.
            kind: The kind of use; statistics count each.
            amount: How much.
            give_way: Called when the loan is taken back, which may be at any time while it rests: ends what is
                kept. Must not wait, nor raise. `None` for a firm loan: it cannot be taken back, and its holder
                gets at most as much as is left to others.
            own_gives_way: Whether the oldest loan of the same holder is taken back if that holder has most.

        Raises:
            Overdrawn: There is nothing left, for any holder or for this one.
        """
        found = self._holders.get(holder)
        if found is None:
            found = _Holder(holder)
        self._make_room(found, amount, is_firm=give_way is None, own_gives_way=own_gives_way)
        found = self._holders.get(holder, found)  # `give_way` of another loan may have borrowed for it
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
        if amount < 0 and 4 * self.lent > self._most:
            self._note_returned(-amount)
        self.lent += amount
        self._of[kind] = self._of.get(kind, 0) + amount

    def _note_returned(self, amount: int) -> None:
        self._returned += amount
        if 8 * self._returned >= self._most or 4 * (self.lent - amount) <= self._most:
            self._returned = 0
            self.on_much_returned()

    def take_oldest_of(self, holder: str) -> bool:
        """Take back the loan of a holder that has rested longest. Return whether there was one."""
        found = self._holders.get(holder)
        return found is not None and self._take_from(found)

    # Called by loans.

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
        if 0 < more <= min(self.most_of_one - holder.held, self._most - self.lent) and loan.gives_way:
            if is_waiting:  # as mostly, there is room: nothing is taken back for it
                self.rest(loan, holder)
        elif more > 0:
            if is_waiting:
                self.hold(loan, holder)  # not itself
            try:
                self._make_room(holder, more, is_firm=not loan.gives_way, own_gives_way=own_gives_way)
            finally:
                if is_waiting and not loan.is_given_back:
                    self.rest(loan, holder)
        if loan.is_given_back:
            return  # `give_way` of another loan has given it back
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

    @property
    def has_plenty(self) -> bool:
        """Whether less than half is lent, so that something more may be in memory before it is counted."""
        return 2 * self.lent < self._most

    # Who gives way.

    def _make_room(self, holder: _Holder, amount: int, *, is_firm: bool, own_gives_way: bool) -> None:
        if is_firm and holder.firm + amount > self._most - self._firm:
            self._refuse(holder, self._setting, is_own=holder.firm > 0)
        if holder.held - holder.idle + amount > self.most_of_one:  # otherwise loans would be taken back in vain
            self._refuse(holder, self.own_setting, is_own=self.most_of_one < self._most)
        while holder.held + amount > self.most_of_one:
            if not ((is_firm or own_gives_way) and self._take_from(holder)):
                self._refuse(holder, self.own_setting, is_own=self.most_of_one < self._most)
        while self.lent + amount > self._most:
            victim = self._who_has_most()
            if victim is None:
                self._refuse(holder, self._setting, is_own=False)
            elif victim is holder or (not is_firm and holder.held + amount > victim.held):
                if not ((is_firm or own_gives_way) and self._take_from(holder)):
                    self._refuse(holder, self._setting, is_own=victim is holder)
            else:
                self._take_from(victim)

    def _who_has_most(self) -> _Holder | None:
        """Return the holder with most that can be taken back; among many with about as much, one of the first."""
        if not self._by_size:
            return None
        candidates = self._by_size[max(self._by_size)]
        most: _Holder | None = None
        for candidate, _ in zip(candidates, range(MAX_COMPARED), strict=False):
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
        most = self.most_of_one if setting == self.own_setting else self._most
        if is_own:
            raise Overdrawn(f"{holder.held} {self._unit} are kept for you already", setting, most, is_own=True)
        raise Overdrawn(f"{self.lent} {self._unit} are kept already", setting, most, is_own=False)


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
        amounts: The pools, and how much from each.
        holder: The holder.
        kind: The kind of use.
        give_way: Called when one of the loans is taken back.
        own_gives_way: Whether the oldest loan of the same holder may be taken back.

    Raises:
        Overdrawn: A pool has nothing left.
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
class Tally:
    """How many there are of something: of each client, and in total.

    Attributes:
        by_client: How many each client has that has any.
        total: How many all have.
    """

    __slots__ = ("by_client", "total")

    def __init__(self) -> None:
        self.by_client: dict[str, int] = {}
        self.total: int = 0

    def of(self, client: str) -> int:
        """Return how many a client has."""
        return self.by_client.get(client, 0)

    def add(self, client: str, count: int = 1) -> None:
        """Count more."""
        self.by_client[client] = self.by_client.get(client, 0) + count
        self.total += count

    def remove(self, client: str, count: int = 1) -> None:
        """Count less."""
        left = self.by_client[client] - count
        self.total -= count
        if left:
            self.by_client[client] = left
        else:
            del self.by_client[client]


@final
class Account:
    """Everything that one running server keeps for its clients.

    Args:
        max_bytes: The bytes of all clients (`Limits.max_kept_bytes`).
        max_bytes_of_one: The bytes of one client (`Limits.max_kept_bytes_per_principal`).

    Attributes:
        bytes: The pool of bytes.
    """

    def __init__(self, max_bytes: int, max_bytes_of_one: int) -> None:
        self.bytes: Final = Pool(
            "max_kept_bytes", max_bytes, max_bytes_of_one, own_setting="max_kept_bytes_per_principal"
        )
        self._pools: dict[str, Pool] = {"bytes": self.bytes}

    def places(
        self, kind: str, setting: str, most: int, most_of_one: int | None = None, own_setting: str = ""
    ) -> Pool:
        """Return the pool of one kind of places, made at the first call."""
        if kind not in self._pools:
            self._pools[kind] = Pool(setting, most, most_of_one, own_setting=own_setting, unit="places")
        return self._pools[kind]

    def statistics(self) -> dict[str, PoolStatistics]:
        """Return what each pool has lent."""
        return {kind: pool.statistics() for kind, pool in self._pools.items()}


# Which addresses belong to one client.

PREFIX_BITS: Final = 64
"""The IPv6 network that one subscriber has at least: a client with one address of it has all of them, 2**64."""


def holder_of(address: str | None) -> str:
    """Return the holder for a client that is known by its address alone.

    Everything that counts by address must use this: in IPv6 the network (64 bits) is the client, not each of its
    2**64 addresses. An IPv4 address that a dual-stack socket shows as IPv6 is the IPv4 address.

    Args:
        address: As a socket or a trusted proxy shows it; `None` if there are no addresses. A text that is not an
            address is returned unchanged.
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
    zone = "" if read.scope_id is None else f"%{read.scope_id}"  # link-local networks differ by interface
    return f"{network}{zone}/{PREFIX_BITS}"
