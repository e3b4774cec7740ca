"""Goodbyes that come before their requests are kept, and never many or large ones."""

from __future__ import annotations

from inside_endpoint import KEPT_FOR, MAX_ID_LENGTH, MAX_IDS, EarlyCancellations


def test_a_goodbye_is_for_one_request() -> None:
    """1 and "1" are two ids; and who asks again wants an answer."""
    goodbyes = EarlyCancellations()
    goodbyes.add(1, 0)
    assert not goodbyes.take("1", 0)
    assert goodbyes.take(1, 0)
    assert not goodbyes.take(1, 0)


def test_a_goodbye_is_kept_for_a_while() -> None:
    """As long as its request may still be on its way."""
    goodbyes = EarlyCancellations()
    goodbyes.add(1, 100)
    goodbyes.add(2, 100)
    assert goodbyes.take(1, 100 + KEPT_FOR - 1)
    assert not goodbyes.take(2, 100 + KEPT_FOR)


def test_what_was_here_is_not_given_up_in_advance() -> None:
    """Its goodbye has been understood, or is late."""
    goodbyes = EarlyCancellations()
    assert not goodbyes.take(1, 0)
    goodbyes.add(1, 0)
    assert not goodbyes.take(1, 0)


def test_the_newest_are_kept() -> None:
    """Of goodbyes as of requests."""
    goodbyes = EarlyCancellations()
    for id in range(MAX_IDS + 2):
        goodbyes.add(id, 0)
    assert [id for id in range(MAX_IDS + 2) if not goodbyes.take(id, 0)] == [0, 1]
    assert len(goodbyes._seen) == MAX_IDS
    goodbyes.add(2, 0)
    assert not goodbyes.take(2, 0)


def test_neither_table_grows_with_what_a_client_sends() -> None:
    """Goodbyes to nothing, requests that follow their goodbyes or come before them: so many are kept, and no more."""
    goodbyes = EarlyCancellations()
    for id in range(0, 10 * MAX_IDS, 3):
        goodbyes.add(id, id)
        goodbyes.take(id + 1, id)
        goodbyes.add(id + 1, id)
        goodbyes.add(id + 2, id)
        goodbyes.take(id + 2, id)
        assert len(goodbyes._early) <= MAX_IDS
        assert len(goodbyes._seen) <= MAX_IDS
    assert len(goodbyes._seen) == MAX_IDS
    goodbyes = EarlyCancellations()
    for id in range(MAX_IDS):
        goodbyes.add(id, 0)
        assert goodbyes.take(id, 0)
    assert not goodbyes._early, "what was found is not kept"


def test_long_ids_are_not_kept() -> None:
    """What is kept has a bound in bytes."""
    goodbyes = EarlyCancellations()
    id = "x" * (MAX_ID_LENGTH + 1)
    goodbyes.add(id, 0)
    assert not goodbyes.take(id, 0)
    assert not goodbyes._early
    assert not goodbyes._seen
