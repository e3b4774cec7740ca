"""What is kept for clients: who gets how much, and who gives way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside_core import Account, Loan, Overdrawn, Pool


def _waiting(pool: Pool, holder: str, amount: int, gone: list[str], name: str | None = None) -> Loan:
    return pool.lend(holder, "waiting", amount, lambda: gone.append(name or holder))


def test_a_pool_that_is_not_full_lends_all_of_it_to_one_holder() -> None:
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


def test_in_a_full_pool_the_oldest_loan_of_the_largest_holder_gives_way() -> None:
    """Others keep what they have, and the newcomer finds room."""
    pool, gone = Pool("most", 10), list[str]()
    _waiting(pool, "b", 3, gone)
    for i in range(7):
        _waiting(pool, "a", 1, gone, f"a{i}")
    _waiting(pool, "c", 2, gone)
    assert gone == ["a0", "a1"]
    assert (pool.lent_to("a"), pool.lent_to("b"), pool.lent_to("c")) == (5, 3, 2)


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_among_holders_with_about_as_much_the_largest_gives_way(names: str) -> None:
    """Whoever came first; they are in the same class of sizes."""
    pool, gone = Pool("most", 13), list[str]()
    for name in names:
        for _ in range(7 if name == "a" else 6):
            _waiting(pool, name, 1, gone)
    _waiting(pool, "c", 1, gone)
    assert (gone, pool.lent_to("a"), pool.lent_to("b")) == (["a"], 6, 6)


def test_a_holder_that_would_hold_most_gets_nothing_from_others() -> None:
    """Otherwise two of them would take from each other for ever."""
    pool, gone = Pool("most", 10), list[str]()
    _waiting(pool, "a", 5, gone)
    _waiting(pool, "b", 5, gone)
    with pytest.raises(Overdrawn, match="; most is"):
        _waiting(pool, "a", 1, gone)
    with pytest.raises(Overdrawn):
        _waiting(pool, "c", 6, gone)
    assert not gone
    assert pool.statistics().refused == 2


def test_the_own_oldest_gives_way_where_that_was_asked_for() -> None:
    """A client that begins one session after another loses its own."""
    pool, gone = Pool("most", 2), list[str]()
    for name in ("first", "second", "third"):
        pool.lend("a", "session", 1, lambda name=name: gone.append(name), own_gives_way=True)  # type: ignore[misc]
    assert gone == ["first"]


def test_what_is_held_stays() -> None:
    """A session in which something is going on is not idle."""
    pool, gone = Pool("most", 2), list[str]()
    first = _waiting(pool, "a", 1, gone, "first")
    _waiting(pool, "a", 1, gone, "second")
    first.hold()
    _waiting(pool, "b", 1, gone)
    assert gone == ["second"]
    with pytest.raises(Overdrawn):
        _waiting(pool, "b", 1, gone)
    first.rest()
    pool.lend("b", "request", 1)
    assert len(gone) == 2


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
    for holder in "abcd":
        with pytest.raises(Overdrawn):
            while True:
                pool.lend(holder, "request", 1)
    assert pool.lent < 1_000
    assert pool.lent_to("a") == 500
    pool.lend("e", "request", 10)


def test_what_is_being_worked_on_goes_before_what_waits() -> None:
    """An idle session is worth less than a request, be it of the same client."""
    pool, gone = Pool("most", 10), list[str]()
    for i in range(10):
        _waiting(pool, "a", 1, gone, f"a{i}")
    pool.lend("a", "request", 1)
    assert gone == ["a0"]
    pool.lend("b", "request", 2)
    assert gone == ["a0", "a1", "a2"]


def test_one_holder_has_a_bound_of_its_own() -> None:
    """Whatever else there is."""
    pool = Pool("most", 100, 10, own_setting="most_of_one")
    loan = pool.lend("a", "request", 10)
    with pytest.raises(Overdrawn, match=r"10 bytes are kept for you already; most_of_one is 10"):
        pool.lend("a", "request", 1)
    loan.give_back()
    loan.give_back()
    pool.lend("a", "request", 1)


def test_a_loan_that_grows_makes_others_give_way_and_not_itself() -> None:
    """Growing is asking for more."""
    pool, gone = Pool("most", 10), list[str]()
    _waiting(pool, "a", 6, gone)
    mine = _waiting(pool, "b", 2, gone)
    mine.change(4)
    assert not gone
    mine.change(5)
    assert gone == ["a"]
    mine.change(1)
    assert (pool.lent, mine.amount) == (1, 1)
    with pytest.raises(Overdrawn):
        mine.change(11)
    assert (pool.lent, mine.amount) == (1, 1)


def test_statistics_say_for_what_there_are_loans() -> None:
    """The operator of a server can see where the memory is."""
    account = Account(100, 50)
    places = account.places("sessions", "max_sessions", 2)
    assert account.places("sessions", "max_sessions", 2) is places
    account.bytes.lend("a", "bodies", 10)
    account.bytes.lend("b", "sessions", 5, lambda: None)
    places.lend("b", "sessions", 1, lambda: None)
    statistics = account.statistics()
    assert statistics["bytes"].of == {"bodies": 10, "sessions": 5}
    assert statistics["bytes"].holders == 2
    assert (statistics["sessions"].lent, statistics["sessions"].most) == (1, 2)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["lend", "firm", "back", "change", "hold", "rest"]),
        st.sampled_from("abc"),
        st.integers(0, 12),
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
    for step, holder, amount, which in steps:
        of_this = loans[which % len(loans)][1] if loans else None
        try:
            if step == "lend":
                loans.append((holder, pool.lend(holder, step, amount, lambda: None)))
            elif step == "firm":
                loans.append((holder, pool.lend(holder, step, amount)))
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
    assert pool.statistics().holders == pool.lent == 0


def test_nothing_gives_way_to_what_is_refused_all_the_same() -> None:
    """A session would end for a request that finds no room either way."""
    pool = Pool("max_things", 100, 50, own_setting="max_things_of_one")
    gone: list[str] = []
    pool.lend("hog", "sessions", 10, lambda: gone.append("session"))
    pool.lend("hog", "requests", 30)
    with pytest.raises(Overdrawn, match="max_things_of_one"):
        pool.lend("hog", "requests", 30)
    assert not gone
    pool.lend("hog", "requests", 20)
    assert gone == ["session"]


def test_a_loan_of_nothing_counts_for_its_holder_once_it_grows() -> None:
    """The pool forgot whose it was when the same holder had given everything else back."""
    pool = Pool("most", 10)
    empty = pool.lend("a", "stream", 0)
    pool.lend("a", "session", 4).give_back()
    empty.change(3)
    assert (pool.lent_to("a"), pool.statistics().holders) == (3, 1)
    empty.give_back()
    assert (pool.lent, pool.statistics().holders) == (0, 0)


def test_a_loan_that_goes_with_what_gives_way_for_it_stays_given_back() -> None:
    """It came back among those that wait, and was taken for ever."""
    pool = Pool("most", 10)
    pool.lend("a", "session", 4, lambda: grown.give_back())
    grown = pool.lend("a", "stream", 4, lambda: pytest.fail("it is given back already"))
    grown.change(8, own_gives_way=True)
    assert (pool.lent, grown.is_given_back) == (0, True)
    pool.lend("b", "stream", 10, lambda: None)
    assert pool.statistics().taken_back == 1
