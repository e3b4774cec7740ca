"""What a server keeps for its clients, and what it does for each: bounded for every one and for all together.

All that is kept for a client is a loan from a pool, in its name, and given back when it is gone. A client is a
principal, or an address (`client_at`) if there is no authentication. Rates are in `_rates`. Decisions only: no
clock and no I/O; the borrower passes a function that ends what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final, Self, final

import attrs

from .._errors import RequestError

# There is one pool of bytes, and one for each kind of places (sessions, parked handlers, …). Each lends to a
# client up to its cap, and to all together up to what there is. Beyond that, what is new is refused.
#
# Nothing is taken back but places of what rests (an idle session, a parked handler), where a place can be taken
# back at all: when there is none left, the one goes that has rested longest, whoever has it. Everything else is
# firm. So that however many take what they can get, the next client finds room, a firm loan is refused if with it
# its client had more than is left for all others.
#
# Kept true: `_held` is the sum of the loans of each client that has any, and `lent` that of all; `_resting` is
# the loans that can be taken back, the oldest first, and `_own` the same for each client that has any. Taking a
# loan back calls its `give_way`, which may give back others; so what was looked up before is looked up again
# after it.


@final
class Overdrawn(Exception):
    """A pool has nothing left to lend.

    Attributes:
        setting: The setting with the limit that was met.
        is_own: Whether it is the limit of one client; otherwise it is that of all together.
    """

    def __init__(self, what: str, setting: str, most: int, *, is_own: bool) -> None:
        super().__init__(f"{what}; {setting} is {most}")
        self.setting = setting
        self.is_own = is_own

    def marked(self, refusal: RequestError) -> RequestError:
        """Return the refusal of a request, which then says whether its client has used up its own share."""
        refusal.is_own_share = self.is_own
        return refusal


@final
@attrs.frozen
class PoolStatistics:
    """What a pool has lent.

    Attributes:
        lent: How much is lent, in bytes or places.
        most: How much there is.
        clients: The number of clients that have something.
        refused: How often a loan was refused.
        taken_back: How often a loan was taken back.
        of: How much of `lent` is lent for each kind of use.
    """

    lent: int
    most: int
    clients: int
    refused: int
    taken_back: int
    of: Mapping[str, int]


@final
@attrs.define(eq=False, weakref_slot=False)
class Loan:
    """Something that is kept for a client. A context that gives it back.

    Attributes:
        amount: How much it is.
        client: Whose it is.
        kind: The kind of use.
        give_way: Called when it is taken back; `None` if it cannot be.
    """

    _pool: Pool | None
    client: Final[str]
    kind: Final[str]
    amount: int
    give_way: Final[Callable[[], object] | None]

    @property
    def is_given_back(self) -> bool:
        """Whether it was given back, or taken back."""
        return self._pool is None

    def give_back(self) -> None:
        """Give the loan back: nothing is kept any more. May be called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.hold(self)
            pool.add(self, -self.amount)

    def change(self, amount: int) -> None:
        """Set how much is lent.

        Raises:
            Overdrawn: Not so much is left; the loan is unchanged. Never raised for less.
        """
        if self._pool is not None:
            more = amount - self.amount
            if more > 0:
                self._pool.make_room(self.client, more)
            self._pool.add(self, more)
            self.amount = amount

    def hold(self) -> None:
        """Mark it as in use: it cannot be taken back until `rest` is called."""
        if self._pool is not None:
            self._pool.hold(self)

    def rest(self) -> None:
        """Mark it as not in use from now on: those that rest longer are taken back before it."""
        if self._pool is not None and self.give_way is not None:
            self._pool.rest(self)

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
        most_of_one: How much one client may have.
        own_setting: The name of the setting with that limit.
        unit: The unit, in the plural.

    Attributes:
        most_of_one: How much one client may have.
        own_setting: The name of the setting that limits one client.
        lent: How much is lent, to all clients.
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
        self._held: dict[str, int] = {}
        self._of: dict[str, int] = {}
        self._resting: dict[Loan, None] = {}
        self._own: dict[str, dict[Loan, None]] = {}
        self.lent: int = 0
        self.on_much_returned: Callable[[], object] = lambda: None
        self._returned = 0  # since that was called
        self._refused = 0
        self._taken_back = 0

    def lent_to(self, client: str) -> int:
        """How much one client has."""
        return self._held.get(client, 0)

    def statistics(self) -> PoolStatistics:
        """Return counters."""
        of = {kind: amount for kind, amount in self._of.items() if amount}
        return PoolStatistics(self.lent, self._most, len(self._held), self._refused, self._taken_back, of)

    def lend(
        self,
        client: str,
        kind: str,
        amount: int,
        give_way: Callable[[], object] | None = None,
        *,
        own_gives_way: bool = False,
    ) -> Loan:
        """Lend something.

        Args:
            client: Whose it will be.
            kind: The kind of use; statistics count each.
            amount: How much.
            give_way: Called when the loan is taken back, which may be at any time while it rests: ends what is
                kept. Must not wait, nor raise. `None` for a firm loan: it cannot be taken back, and its client
                gets at most as much as is left to others.
            own_gives_way: Whether a client that has as much as it may loses what has rested longest of its own.

        Raises:
            Overdrawn: There is nothing left, for any client or for this one.
        """
        if give_way is None:
            self.make_room(client, amount)
        else:
            self._make_place(client, amount, own_gives_way=own_gives_way)
        loan = Loan(self, client, kind, amount, give_way)
        self.add(loan, amount)
        loan.rest()
        return loan

    def make_room(self, client: str, amount: int) -> None:
        """Check that a client may have more of what cannot be taken back; see `lend`."""
        held = self._held.get(client, 0)
        if held + amount > self.most_of_one:
            self._refuse(client, self.own_setting, is_own=self.most_of_one < self._most)
        if held + amount > self._most - self.lent:
            self._refuse(client, self._setting, is_own=held > 0)

    def _make_place(self, client: str, amount: int, *, own_gives_way: bool) -> None:
        while self._held.get(client, 0) + amount > self.most_of_one:
            if not (own_gives_way and self._take_oldest(self._own.get(client, {}))):
                self._refuse(client, self.own_setting, is_own=self.most_of_one < self._most)
        while self.lent + amount > self._most:
            if not self._take_oldest(self._resting):
                self._refuse(client, self._setting, is_own=False)

    def _take_oldest(self, resting: dict[Loan, None]) -> bool:
        oldest = next(iter(resting), None)
        if oldest is None:
            return False
        self._taken_back += 1
        oldest.give_back()
        assert oldest.give_way is not None, "it rests"
        oldest.give_way()
        return True

    def _refuse(self, client: str, setting: str, *, is_own: bool) -> None:
        self._refused += 1
        most = self.most_of_one if setting == self.own_setting else self._most
        if is_own:
            problem = f"{self.lent_to(client)} {self._unit} are kept for you already"
            raise Overdrawn(problem, setting, most, is_own=True)
        raise Overdrawn(f"{self.lent} {self._unit} are kept already", setting, most, is_own=False)

    # Called by loans.

    def add(self, loan: Loan, more: int) -> None:
        if held := self._held.get(loan.client, 0) + more:
            self._held[loan.client] = held
        else:
            self._held.pop(loan.client, None)
        if more < 0 and 4 * self.lent > self._most:
            self._note_returned(-more)
        self.lent += more
        self._of[loan.kind] = self._of.get(loan.kind, 0) + more

    def _note_returned(self, amount: int) -> None:
        self._returned += amount
        if 8 * self._returned >= self._most or 4 * (self.lent - amount) <= self._most:
            self._returned = 0
            self.on_much_returned()

    def hold(self, loan: Loan) -> None:
        if loan in self._resting:
            del self._resting[loan]
            own = self._own[loan.client]
            del own[loan]
            if not own:
                del self._own[loan.client]

    def rest(self, loan: Loan) -> None:
        self.hold(loan)  # it is the newest from now on
        self._resting[loan] = self._own.setdefault(loan.client, {})[loan] = None

    @property
    def has_plenty(self) -> bool:
        """Whether less than half is lent, so that something more may be in memory before it is counted."""
        return 2 * self.lent < self._most


def lend_all(
    amounts: Iterable[tuple[Pool, int]],
    client: str,
    kind: str,
    give_way: Callable[[], object] | None = None,
    *,
    own_gives_way: bool = False,
) -> tuple[Loan, ...]:
    """Lend from several pools, or from none of them; see `Pool.lend`.

    Args:
        amounts: The pools, and how much from each.
        client: Whose it will be.
        kind: The kind of use.
        give_way: Called when the first of the loans is taken back, a place. The others are firm.
        own_gives_way: Whether the place that has rested longest of the same client may be taken back for it.

    Raises:
        Overdrawn: A pool has nothing left.
    """
    loans = list[Loan]()
    with ExitStack() as lent:
        # The place last: none is taken back from others for what is refused all the same.
        for number, (pool, amount) in reversed([*enumerate(amounts)]):
            ends = None if number else give_way
            loan = pool.lend(client, kind, amount, ends, own_gives_way=own_gives_way)
            loans.insert(0, lent.enter_context(loan))
        lent.pop_all()
    return tuple(loans)


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


def client_at(address: str | None) -> str:
    """Return the client that is known by its address alone.

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
