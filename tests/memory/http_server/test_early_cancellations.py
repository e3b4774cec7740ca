"""Cancellations that arrive before their requests are kept, bounded in number and in size."""

from __future__ import annotations

from inside_endpoint import KEPT_FOR, MAX_ID_LENGTH, MAX_IDS, EarlyCancellations


def test_a_cancellation_is_for_one_request() -> None:
    """1 and "1" are two ids; and who asks again wants an answer."""
    early = EarlyCancellations()
    early.add(1, 0)
    assert not early.take("1", 0)
    assert early.take(1, 0)
    assert not early.take(1, 0)


def test_a_cancellation_is_kept_for_a_while() -> None:
    """As long as its request may still be on its way."""
    early = EarlyCancellations()
    early.add(1, 100)
    early.add(2, 100)
    assert early.take(1, 100 + KEPT_FOR - 1)
    assert not early.take(2, 100 + KEPT_FOR)


def test_what_has_waited_too_long_is_not_kept() -> None:
    """A client that cancels nothing once a minute, for hours, takes no more than one that does it once."""
    early = EarlyCancellations()
    early.add(0, 0)
    size = early.size
    for minute in range(1, 300):
        early.add(minute, 60 * minute)
        assert early.size == size
    early.add("soon", 60 * 299 + KEPT_FOR - 1)
    assert early.size == 2 * size


def test_what_was_here_is_not_given_up_in_advance() -> None:
    """Its cancellation was handled, or is late."""
    early = EarlyCancellations()
    assert not early.take(1, 0)
    early.add(1, 0)
    assert not early.take(1, 0)


def test_the_newest_are_kept() -> None:
    """Of cancellations as of requests."""
    early = EarlyCancellations()
    for id in range(MAX_IDS + 2):
        early.add(id, 0)
    assert [id for id in range(MAX_IDS + 2) if not early.take(id, 0)] == [0, 1]
    assert len(early._seen) == MAX_IDS
    early.add(2, 0)
    assert not early.take(2, 0)


def test_neither_table_grows_with_what_a_client_sends() -> None:
    """Cancellations of nothing, before their requests, or after them: so many are kept, and no more."""
    early = EarlyCancellations()
    for id in range(0, 10 * MAX_IDS, 3):
        early.add(id, id)
        early.take(id + 1, id)
        early.add(id + 1, id)
        early.add(id + 2, id)
        early.take(id + 2, id)
        assert len(early._early) <= MAX_IDS
        assert len(early._seen) <= MAX_IDS
    assert len(early._seen) == MAX_IDS
    early = EarlyCancellations()
    for id in range(MAX_IDS):
        early.add(id, 0)
        assert early.take(id, 0)
    assert not early._early, "what was found is not kept"


def test_long_ids_are_not_kept() -> None:
    """What is kept has a bound in bytes."""
    early = EarlyCancellations()
    id = "x" * (MAX_ID_LENGTH + 1)
    early.add(id, 0)
    assert not early.take(id, 0)
    assert not early._early
    assert not early._seen
