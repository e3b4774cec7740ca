"""What is kept for clients: who gets how much, what is refused, and which places are taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside_core import Account, Loan, Overdrawn, Pool, lend_all


def _waiting(pool: Pool, client: str, amount: int, gone: list[str], name: str | None = None) -> Loan:
    return pool.lend(client, "waiting", amount, lambda: gone.append(name or client))


def test_a_pool_that_is_not_full_lends_all_of_it_to_one_client() -> None:
    """What nobody else wants is nobody's loss."""
    pool, gone = Pool("most", 10), list[str]()
    for _ in range(10):
        _waiting(pool, "a", 1, gone)
    assert pool.lent == pool.lent_to("a") == 10
    assert not gone


def test_a_pool_tells_when_much_was_given_back_while_much_was_lent() -> None:
    """An eighth of all, above a quarter; and when no more than a quarter is left."""
    pool, told = Pool("most", 80), list[int]()
    pool.on_much_returned = lambda: told.append(pool.lent)
    small = [_waiting(pool, "a", 1, []) for _ in range(20)]
    for loan in small:
        loan.give_back()
    assert told == []  # a quarter is not much
    loans = [_waiting(pool, "a", 5, []) for _ in range(16)]
    loans[0].give_back()
    assert told == []
    loans[1].change(1)
    assert told == []
    loans[2].give_back()
    assert told == [71]  # it calls before the last of it is gone
    for loan in loans[3:]:
        loan.give_back()
    assert told == [71, 61, 51, 41, 31, 21]


def test_of_a_full_pool_the_place_that_has_rested_longest_is_taken_back() -> None:
    """Whoever has it, and however much."""
    pool, gone = Pool("most", 10), list[str]()
    _waiting(pool, "b", 3, gone)
    for i in range(7):
        _waiting(pool, "a", 1, gone, f"a{i}")
    _waiting(pool, "c", 2, gone)
    _waiting(pool, "c", 2, gone)
    assert gone == ["b", "a0"]
    assert (pool.lent_to("a"), pool.lent_to("b"), pool.lent_to("c")) == (6, 0, 4)
    assert pool.statistics().taken_back == 2


def test_at_its_cap_a_client_loses_its_own_oldest_where_that_was_asked_for() -> None:
    """A client that begins one session after another loses its own; where that was not asked for, it is refused."""
    pool, gone = Pool("most", 10, 2, own_setting="most_of_one"), list[str]()
    _waiting(pool, "b", 1, gone)
    for name in ("first", "second", "third"):
        pool.lend("a", "session", 1, lambda name=name: gone.append(name), own_gives_way=True)  # type: ignore[misc]
    assert gone == ["first"]
    with pytest.raises(Overdrawn, match="most_of_one"):
        _waiting(pool, "a", 1, gone)
    assert gone == ["first"]


def test_what_is_held_stays() -> None:
    """A session in which something is going on is not idle."""
    pool, gone = Pool("most", 2), list[str]()
    first = _waiting(pool, "a", 1, gone, "first")
    _waiting(pool, "a", 1, gone, "second")
    first.hold()
    _waiting(pool, "b", 1, gone)
    assert gone == ["second"]
    _waiting(pool, "c", 1, gone)
    assert gone == ["second", "b"]
    first.rest()
    _waiting(pool, "b", 1, gone)
    _waiting(pool, "b", 1, gone)
    assert gone == ["second", "b", "c", "first"]


def test_where_all_are_held_there_is_no_place() -> None:
    """Nobody loses what is in use."""
    pool, gone = Pool("most", 1), list[str]()
    _waiting(pool, "a", 1, gone).hold()
    with pytest.raises(Overdrawn, match="1 bytes are kept already; most is 1"):
        _waiting(pool, "b", 1, gone)
    assert (gone, pool.statistics().refused) == ([], 1)


def test_what_has_just_been_used_goes_last() -> None:
    """The oldest is the one that nobody has used for the longest time."""
    pool, gone = Pool("most", 3), list[str]()
    first = _waiting(pool, "a", 1, gone, "first")
    _waiting(pool, "a", 1, gone, "second")
    _waiting(pool, "a", 1, gone, "third")
    first.hold()
    first.rest()
    _waiting(pool, "b", 1, gone)
    assert gone == ["second"]


def test_what_rests_already_and_is_said_to_rest_goes_last() -> None:
    """Whoever used it did not have to hold it for that."""
    pool, gone = Pool("most", 3), list[str]()
    first = _waiting(pool, "a", 1, gone, "first")
    _waiting(pool, "a", 1, gone, "second")
    _waiting(pool, "a", 1, gone, "third")
    first.rest()
    _waiting(pool, "b", 1, gone)
    assert gone == ["second"]
    assert (pool.lent, first.is_given_back) == (3, False)


def test_of_what_is_being_worked_on_each_gets_as_much_as_is_left_to_others() -> None:
    """It cannot be taken back, so however many take what they can, the next one finds room."""
    pool = Pool("most", 1_000)
    for client in "abcd":
        with pytest.raises(Overdrawn):
            while True:
                pool.lend(client, "request", 1)
    assert pool.lent < 1_000
    assert pool.lent_to("a") == 500
    pool.lend("e", "request", 10)


def test_for_what_cannot_be_taken_back_nothing_is_taken_back() -> None:
    """When there is no more, what is new is refused: as one's own share if one has anything."""
    pool, gone = Pool("most", 10), list[str]()
    _waiting(pool, "a", 6, gone)
    pool.lend("b", "request", 2)
    with pytest.raises(Overdrawn, match="2 bytes are kept for you already; most is 10") as own:
        pool.lend("b", "request", 1)
    with pytest.raises(Overdrawn, match="8 bytes are kept already; most is 10") as others:
        pool.lend("c", "request", 3)
    assert (own.value.is_own, others.value.is_own, gone) == (True, False, [])
    pool.lend("c", "request", 2)


def test_one_client_has_a_bound_of_its_own() -> None:
    """Whatever else there is."""
    pool = Pool("most", 100, 10, own_setting="most_of_one")
    loan = pool.lend("a", "request", 10)
    with pytest.raises(Overdrawn, match=r"10 bytes are kept for you already; most_of_one is 10"):
        pool.lend("a", "request", 1)
    loan.give_back()
    loan.give_back()
    pool.lend("a", "request", 1)


def test_a_loan_that_cannot_grow_is_as_it_was() -> None:
    """Growing is asking for more."""
    pool = Pool("most", 10)
    loan = pool.lend("a", "answer", 2)
    loan.change(5)
    with pytest.raises(Overdrawn):
        loan.change(6)
    assert (pool.lent, loan.amount) == (5, 5)
    loan.change(1)
    assert (pool.lent, loan.amount) == (1, 1)
    loan.give_back()
    loan.change(7)
    assert pool.lent == 0


def test_statistics_say_for_what_there_are_loans() -> None:
    """The operator of a server can see where the memory is."""
    account = Account(100, 50)
    places = account.places("sessions", "max_sessions", 2)
    assert account.places("sessions", "max_sessions", 2) is places
    account.bytes.lend("a", "bodies", 10)
    account.bytes.lend("b", "sessions", 5)
    places.lend("b", "sessions", 1, lambda: None)
    statistics = account.statistics()
    assert statistics["bytes"].of == {"bodies": 10, "sessions": 5}
    assert statistics["bytes"].clients == 2
    assert (statistics["sessions"].lent, statistics["sessions"].most) == (1, 2)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lend", "firm", "back", "change", "hold", "rest"]),
        st.sampled_from("abc"),
        st.integers(0, 24),
        st.integers(0, 30),
    ),
    max_size=60,
)


@given(_STEPS)
@settings(max_examples=3 * settings().max_examples)
def test_whatever_is_asked_the_sums_are_right_and_no_bound_is_exceeded(
    steps: list[tuple[str, str, int, int]],
) -> None:
    """Checked against a list of the loans that there are."""
    pool = Pool("most", 30, 20, own_setting="most_of_one")
    loans: list[tuple[str, Loan]] = []
    for step, client, amount, which in steps:
        of_this = loans[which % len(loans)][1] if loans else None
        try:
            if step == "lend":
                loans.append((client, pool.lend(client, step, amount, lambda: None)))
            elif step == "firm":
                loans.append((client, pool.lend(client, step, amount)))
            elif of_this is not None:
                do: dict[str, Callable[[], object]] = {
                    "back": of_this.give_back,
                    "change": lambda loan=of_this, amount=amount: loan.change(amount),  # type: ignore[misc]
                    "hold": of_this.hold,
                    "rest": of_this.rest,
                }
                do[step]()
        except Overdrawn:
            pass
        held: Counter[str] = Counter()
        for owner, loan in loans:
            held[owner] += 0 if loan.is_given_back else loan.amount
        assert pool.lent == held.total() <= 30
        for owner in "abc":
            assert pool.lent_to(owner) == held[owner] <= 20
    for _, loan in loans:
        loan.give_back()
    assert pool.statistics().clients == pool.lent == 0


def test_a_loan_of_nothing_counts_for_its_client_once_it_grows() -> None:
    """The pool forgot whose it was when the same client had given everything else back."""
    pool = Pool("most", 10)
    empty = pool.lend("a", "stream", 0)
    pool.lend("a", "session", 4).give_back()
    empty.change(3)
    assert (pool.lent_to("a"), pool.statistics().clients) == (3, 1)
    empty.give_back()
    assert (pool.lent, pool.statistics().clients) == (0, 0)


def test_what_is_taken_back_may_give_back_and_borrow() -> None:
    """A session gives back all that it has; what ends with it may be of the client that asks."""
    pool = Pool("most", 4)
    places = Pool("places", 2)
    grown = pool.lend("a", "stream", 2)

    def end() -> None:
        grown.give_back()
        pool.lend("a", "goodbye", 1)

    lend_all(((places, 1), (pool, 0)), "a", "session", end)
    lend_all(((places, 1), (pool, 0)), "b", "session", end)
    lend_all(((places, 1), (pool, 1)), "b", "session", end)
    assert (pool.lent_to("a"), pool.lent_to("b"), places.lent) == (1, 1, 2)


def test_of_several_pools_all_lend_or_none() -> None:
    """A place without memory is no use."""
    places, pool, gone = Pool("places", 2), Pool("most", 2), list[str]()
    for amount, name in ((2, "first"), (1, "second")):
        try:
            lend_all(((places, 1), (pool, amount)), "a", "session", lambda name=name: gone.append(name))  # type: ignore[misc]
        except Overdrawn:
            gone.append(f"not {name}")
    assert (places.lent, pool.lent, gone) == (1, 2, ["not second"])


def test_no_place_is_taken_back_for_what_is_refused_all_the_same() -> None:
    """A client whose memory was used up ended the sessions of all others, one for each that it asked for in vain."""
    places, pool, gone = Pool("places", 2), Pool("most", 9, 3), list[str]()
    for name in ("a", "b"):
        lend_all(((places, 1), (pool, 1)), name, "session", lambda name=name: gone.append(name))  # type: ignore[misc]
    for _ in range(3):
        with pytest.raises(Overdrawn, match="most"):
            lend_all(((places, 1), (pool, 4)), "c", "session", lambda: None)
    assert (places.lent, pool.lent, gone) == (2, 2, [])
    place, _ = lend_all(((places, 1), (pool, 3)), "c", "session", lambda: None)
    assert (place.amount, gone, places.lent, pool.lent) == (1, ["a"], 2, 5)
