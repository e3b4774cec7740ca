"""Configurations of servers: what is read from them, and what is said about what is wrong in them."""

from __future__ import annotations

from typing import Any

from inside_parsers import _object, _Twice
from processor_time import costs_of


def test_names_that_are_there_many_times_take_their_number() -> None:
    """Each was looked for among all the others: a megabyte took minutes."""

    def pairs(number: int) -> list[tuple[str, Any]]:
        return [(f"a{each % (number - 1)}", 1) for each in range(number)]

    assert [name for name, value in _object(pairs(10)).items() if isinstance(value, _Twice)] == ["a0"]
    small, large = pairs(2_000), pairs(16_000)
    once, more = costs_of(lambda: _object(small), lambda: _object(large))
    assert more < 24 * once
