"""Whose requests begin in which pass: the rule alone, in numbers."""

from __future__ import annotations

from inside_core import LONG, MOST_OWED, MOST_OWED_BY_SMALL, SHARE, SMALL_LONG, TIMES, TIMES_LONG, Turns


def waiting(turns: Turns[str], holder: str, count: int, *, is_great: bool = False, prefix: str = "") -> list[str]:
    names = [f"{holder}{prefix}{n}" for n in range(count)]
    for name in names:
        turns.wait(holder, name, is_great=is_great)
    return names


def test_a_share_of_each_holder_begins_in_a_pass() -> None:
    """First come, first served, and who wants little does not wait for who wants much."""
    turns: Turns[str] = Turns()
    hog = waiting(turns, "hog", 3 * SHARE)
    honest = waiting(turns, "honest", 1)
    assert turns.next(0.0, is_shared=True) == hog[:SHARE] + honest
    assert turns.next(0.0, is_shared=True) == hog[SHARE : 2 * SHARE]
    assert turns.waiting == SHARE


def test_what_begins_at_once_counts_for_the_pass() -> None:
    """And nobody overtakes who waits."""
    turns: Turns[str] = Turns()
    assert [turns.begin("hog", 0.0, is_great=False) for _ in range(SHARE + 1)] == [True] * SHARE + [False]
    (first,) = waiting(turns, "hog", 1)
    assert turns.begin("honest", 0.0, is_great=False)
    assert turns.next(0.0, is_shared=True) == [first]
    waiting(turns, "hog", 1)
    assert not turns.begin("hog", 0.0, is_great=False)


def test_a_sole_holder_never_waits() -> None:
    """All begin in the next pass, and what was owed is forgotten."""
    turns: Turns[str] = Turns()
    turns.charge("hog", 1.0, 0.0, is_great=True)
    small = waiting(turns, "hog", 3 * SHARE)
    great = waiting(turns, "hog", 3, is_great=True, prefix=" great ")
    assert turns.next(0.0, is_shared=False) == small + great
    assert not turns
    assert turns.begin("hog", 0.0, is_great=True)


def test_a_great_one_takes_the_whole_share_and_lets_small_ones_in_between() -> None:
    """So a cancellation is not stuck behind great requests."""
    turns: Turns[str] = Turns()
    great = waiting(turns, "hog", 2, is_great=True, prefix=" great ")
    small = waiting(turns, "hog", SHARE + 1)
    passes = [turns.next(0.0, is_shared=True) for _ in range(5)]
    assert passes == [small[:SHARE], [great[0]], small[SHARE:], [great[1]], []]
    assert not turns


def test_who_has_held_the_loop_waits_a_multiple_of_it() -> None:
    """With great requests alone; small ones go on."""
    turns: Turns[str] = Turns()
    assert turns.begin("hog", 0.0, is_great=True)
    turns.charge("hog", LONG, 0.0, is_great=True)
    (great,) = waiting(turns, "hog", 1, is_great=True, prefix=" great ")
    (small,) = waiting(turns, "hog", 1)
    assert turns.next(0.0, is_shared=True) == [small]
    assert turns.next(0.0, is_shared=True) == []
    due = turns.next_at(0.0)
    assert abs(due - TIMES * LONG) < 1e-9
    assert turns.begin("honest", 0.0, is_great=True)
    assert turns.next(due, is_shared=True) == [great]


def test_a_long_pause_weighs_more_than_short_ones() -> None:
    """So that nineteen of twenty requests of others do not meet one, however long it is."""
    turns: Turns[str] = Turns()
    turns.charge("hog", LONG + 0.25, 0.0, is_great=True)
    waiting(turns, "hog", 1, is_great=True)
    due = turns.next_at(0.0)
    assert abs(due - TIMES * LONG - TIMES_LONG * 0.25) < 1e-9
    assert 0.25 / (0.25 + due) < 1 / 20


def test_what_is_owed_has_a_bound_and_is_forgotten_afterwards() -> None:
    """However long it took; and nothing is kept of who never comes back."""
    turns: Turns[str] = Turns()
    turns.charge("hog", 1_000.0, 0.0, is_great=True)
    (great,) = waiting(turns, "hog", 1, is_great=True)
    assert turns.next_at(0.0) == MOST_OWED
    assert turns.next(MOST_OWED, is_shared=True) == [great]
    for n in range(1_000):
        turns.charge(f"client {n}", 0.001, 100.0 * n, is_great=True)
    assert len(turns._owed_until) == 1


def test_small_requests_with_great_answers_wait_too() -> None:
    """Not for long: one may be a cancellation. What is quickly done counts for nothing."""
    turns: Turns[str] = Turns()
    turns.charge("hog", SMALL_LONG / 2, 0.0, is_great=False)
    assert turns.begin("hog", 0.0, is_great=False)
    turns.next(0.0, is_shared=True)
    turns.charge("hog", 0.02, 0.0, is_great=False)
    assert not turns.begin("hog", 0.0, is_great=False)
    small = waiting(turns, "hog", 2)
    assert turns.next(0.0, is_shared=True) == []
    due = turns.next_at(0.0)
    assert abs(due - TIMES * 0.02) < 1e-9
    assert turns.begin("honest", 0.0, is_great=False)
    assert turns.next(due, is_shared=True) == small
    for _ in range(100):
        turns.charge("hog", 1.0, 0.0, is_great=False)
    waiting(turns, "hog", 1)
    turns.next(0.0, is_shared=True)
    assert turns.next_at(0.0) == MOST_OWED_BY_SMALL


def test_a_great_one_does_not_wait_for_what_small_ones_took() -> None:
    """Nor they for it; each has its own account."""
    turns: Turns[str] = Turns()
    turns.charge("hog", 0.02, 0.0, is_great=False)
    waiting(turns, "hog", 1)
    (great,) = waiting(turns, "hog", 1, is_great=True, prefix=" great ")
    assert turns.next(0.0, is_shared=True) == [great]


def test_who_leaves_is_not_waited_for() -> None:
    """And takes no part of the share with it."""
    turns: Turns[str] = Turns()
    hog = waiting(turns, "hog", SHARE + 2)
    turns.leave("hog", hog[0])
    assert turns.next(0.0, is_shared=True) == hog[1 : SHARE + 1]
    turns.leave("hog", hog[SHARE + 1])
    assert turns.next(0.0, is_shared=True) == []
    assert turns.waiting == 0
    assert not turns
