"""Notifications in order, and which of them goes when there is no room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared.core_notice_queue import drain, make_queue


def test_notices_come_out_in_the_order_they_came() -> None:
    """Promise 9, whatever their keys."""
    assert drain(make_queue(None, "a", None, "b", "a")) == [0, 1, 2, 3, 4]


def test_the_first_can_be_looked_at() -> None:
    """It stays until it is taken."""
    queue = make_queue("a", None)
    assert (queue.first, len(queue)) == (0, 2)
    assert (queue.pop(), queue.first, queue.pop(), queue.first) == (0, 1, 1, None)


def test_the_queue_says_when_it_is_full() -> None:
    """Promise 10: `Limits.max_notifications`. Who pushes all the same is not stopped: it has made room before."""
    fullness = [make_queue(*keys, max_length=2).is_full for keys in ([], [None], [None, "a"], [None] * 3)]
    assert fullness == [False, False, True, True]


def test_the_queue_is_full_of_bytes() -> None:
    """Promise 10: `Limits.max_message_bytes`, whether it becomes shorter by the first or by what is dropped."""
    queue = make_queue(None, None, "a", "a", max_bytes=40)
    assert (queue.size, queue.is_full, queue.is_relieved) == (40, True, False)
    queue.drop()
    queue.pop()
    assert (queue.size, queue.is_full, queue.is_relieved) == (20, False, True)
    drain(queue)
    assert queue.size == 0


def test_what_is_missed_least_goes_first(subtests: pytest.Subtests) -> None:
    """A slow consumer loses what a later notification makes up for."""
    cases: list[tuple[list[Hashable | None], int]] = [
        # The oldest of a series: newer progress says more.
        ([None], 0),
        ([None, None], 0),
        (["a", None, None], 1),
        (["a", "a", None], 2),
        (["a", "b", "a", None], 3),
        # Else the oldest that a later one repeats: "the list has changed" need not be said twice.
        (["a", "a"], 0),
        (["a", "b", "a"], 0),
        (["a", "b", "b"], 1),
        (["a", "b", "c", "b", "c"], 1),
        ([("uri", 1), ("uri", 2), ("uri", 1)], 0),
        # Else the oldest.
        (["a"], 0),
        (["a", "b", "c"], 0),
    ]
    for keys, dropped in cases:
        with subtests.test(keys=keys):
            queue = make_queue(*keys)
            assert queue.drop() == dropped
            assert drain(queue) == [number for number in range(len(keys)) if number != dropped]


def test_nothing_comes_out_of_an_empty_queue() -> None:
    """Neither way."""
    queue = make_queue()
    assert (queue.first, len(queue)) == (None, 0)
    with pytest.raises(IndexError):
        queue.pop()
    with pytest.raises(IndexError):
        queue.drop()


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12))
def test_dropping_loses_as_little_as_can_be(keys: list[Hashable | None]) -> None:
    """While one of a series or a repetition is left, no last word about anything is lost, and order stays."""
    queue = make_queue(*keys)
    left = dict(enumerate(keys))
    while left:
        number = queue.drop()
        key = left.pop(number)
        repeated = {k for k, count in Counter(left.values()).items() if k is not None and count > 1}
        if key is not None:
            assert None not in left.values(), "one of a series would have been missed less"
            assert key in left.values() or not repeated, "a repetition would have been missed less"
        else:
            assert number < min((n for n, k in left.items() if k is None), default=number + 1)
        assert len(queue) == len(left)
        assert queue.first == min(left, default=None)
