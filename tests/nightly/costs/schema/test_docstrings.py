"""Docstrings of all styles, tidy and untidy."""

from __future__ import annotations

import pytest
from inside_schema import parse_docstring
from processor_time import costs_of


@pytest.mark.parametrize(
    ("before", "unit", "behind"),
    [
        ("\nReturns:\n    a", "[]|a", " what"),
        ("\nReturns:\n    a[", "]", " what"),
        ("\nReturns:\n    a", " | b[c]", "!"),
        (":param a", " ", "b"),
        ("Args", " ", "x"),
        ("\nArgs:\n    a (", ") ", "b"),
    ],
)
def test_a_line_is_read_in_time_by_its_length(before: str, unit: str, behind: str) -> None:
    """Of thirty alternatives in front of a text without a colon, there were a billion ways to read them."""
    small, large = (before + unit * (size // len(unit)) + behind for size in (2_000, 16_000))
    once, more = costs_of(lambda: parse_docstring(small), lambda: parse_docstring(large))
    assert more < 24 * max(once, 5e-5)
