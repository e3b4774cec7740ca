"""How many requests each client may make in a time."""

from __future__ import annotations

import pytest
from inside_core import MAX_BUCKETS, RateTable, read_rate


def test_a_token_that_is_given_back_can_be_taken_again() -> None:
    """But a bucket never holds more than it can, and nobody gets one by giving back what they never had."""
    table = RateTable(1.0, 2)
    assert [table.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    table.give_back("a")
    assert [table.take("a", 0.0) for _ in range(2)] == [0.0, 1.0]
    for _ in range(9):
        table.give_back("a")
        table.give_back("b")
    assert [table.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert [table.take("b", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]


def test_a_rate_is_read_as_it_is_said(subtests: pytest.Subtests) -> None:
    """As many at once as in one period; then one after the other, evenly."""
    cases: list[tuple[str, int, int]] = [
        ("10/minute", 10, 60),
        ("10 / 1 minute", 10, 60),
        (" 100/15 minutes ", 100, 900),
        ("1/s", 1, 1),
        ("3/10s", 3, 10),
        ("5/min", 5, 60),
        ("5/hour", 5, 3_600),
        ("5/2h", 5, 7_200),
        ("1000000000/day", 1_000_000_000, 86_400),
    ]
    for text, count, seconds in cases:
        with subtests.test(text=text):
            rate = read_rate("rate", text)
            assert (rate.count, rate.seconds, rate.text) == (count, seconds, text.strip())
            table = rate.table()
            if count <= 10:
                assert [table.take("a", 0.0) for _ in range(count)] == [0.0] * count
            elif count <= 100:
                assert not any(table.take("a", 0.0) for _ in range(count))
            if count <= 100:
                assert table.take("a", 0.0) == pytest.approx(seconds / count)


def test_what_is_no_rate_is_refused_by_its_value(subtests: pytest.Subtests) -> None:
    """The error says what to write."""
    cases: list[str] = [
        "",
        "10",
        "10/",
        "/minute",
        "ten/minute",
        "10/fortnight",
        "-1/s",
        "1.5/s",
        "10 per minute",
        "1/s/s",
        "\u0661/s",
    ]
    for text in cases:
        with subtests.test(text=text):
            with pytest.raises(
                ValueError, match=r"^rate must be a rate such as '10/minute' or '100/15 minutes'"
            ) as caught:
                read_rate("rate", text)
            assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0/s", "1/0s", "1000000001/s", "1/1000000001s", "9" * 10_000 + "/s"])
def test_a_rate_has_bounds(text: str) -> None:
    """Python refuses to read integers of thousands of digits with an error of its own."""
    with pytest.raises(ValueError, match=r"^limit: the numbers of a rate are"):
        read_rate("limit", text)


@pytest.mark.parametrize("rate", ["7/minute", "3/s", "1/day", "999/hour"])
def test_who_waits_as_long_as_it_was_told_is_served(rate: str) -> None:
    """Whatever the rounding."""
    table, now = read_rate("rate", rate).table(), 1_000_000.1
    while not table.take("a", now):
        pass
    for _ in range(100):
        now += table.take("a", now)
        assert table.take("a", now) == 0.0
        assert table.take("a", now) > 0


def test_a_clock_that_is_behind_takes_nothing_away() -> None:
    """A server may be served in one run of Trio after the other, and each has a clock of its own."""
    table = RateTable(1.0, 2)
    assert table.take("a", 1_000_000.0) == 0.0
    assert table.take("a", 5.0) == 0.0
    assert table.take("a", 5.0) == 1.0
    assert table.take("a", 6.0) == 0.0


def test_no_more_clients_are_remembered_than_there_is_room_for() -> None:
    """Who has been silent longest is forgotten."""
    table = RateTable(1.0, 1)
    for number in range(MAX_BUCKETS + 1):
        assert table.take(str(number), 0.0) == 0.0
    assert table.take(str(MAX_BUCKETS), 0.0) > 0
    assert table.take("0", 0.0) == 0.0
