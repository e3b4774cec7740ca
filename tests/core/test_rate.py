"""How many requests each client may make in a time."""

from __future__ import annotations

from inside_core import RateTable


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
