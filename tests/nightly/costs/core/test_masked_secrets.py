"""Secrets that are looked for in what others quote: their length is no matter of each text."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, Final

import pytest
from inside_base import without_secrets
from inside_http import error_without_secrets
from processor_time import costs_of

TOKEN: Final = random.Random(7).randbytes(600).hex()

ERRORS: Final[dict[str, dict[str, Any]]] = {
    "many short texts": {"message": ["a"] * 5_000},
    "many names": {"message": {str(n): None for n in range(5_000)}},
    "many members": {str(n): None for n in range(5_000)},
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_long_secret_costs_a_long_error_as_much_as_a_short_one(name: str) -> None:
    """An answer may have a million texts: what is done to a token for each of them holds the event loop."""
    short, long = (
        partial(error_without_secrets, ERRORS[name], [(b"authorization", f"Bearer {token}/".encode())])
        for token in (TOKEN[:15], TOKEN)
    )
    cheap, dear = costs_of(short, long)
    assert dear < 2 * cheap + 0.001, (cheap, dear)


def test_a_secret_that_is_looked_for_as_a_whole_is_found_as_any_text_is() -> None:
    text = "x" * 1_000_000
    whole, parts = costs_of(*(partial(without_secrets, text, [TOKEN], only_whole=each) for each in (True, False)))
    assert whole < parts / 5, (whole, parts)
