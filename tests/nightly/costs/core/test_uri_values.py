"""Which values of a template's variables are handed to a function."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
from inside_core import VariableRule
from processor_time import costs_of

RULE = VariableRule(with_slashes=frozenset({"path"}), windows=False)


@pytest.mark.parametrize("piece", ["%25", "a/", "..a", "\\", "%2", ". "])
def test_checking_takes_time_in_proportion(piece: str) -> None:
    """Every URI of a template is checked before anything is known of who has sent it."""

    def check(text: str) -> None:
        with contextlib.suppress(ValueError):
            RULE.check({"path": text})

    small, large = costs_of(*(partial(check, "a" + piece * count) for count in (2_000, 16_000)))
    assert large < 16 * small
