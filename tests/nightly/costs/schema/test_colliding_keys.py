"""Untrusted values that Python keeps in sets and dictionaries: a client must not be able to choose their hashes."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
from inside_schema import InvalidValue, JsonType
from processor_time import costs_of
from shared.schema_colliding_keys import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_a_set_takes_time_by_its_size(name: str) -> None:
    hint, make = KINDS[name]
    kind = JsonType(hint)

    def decode(value: object) -> None:
        with suppress(InvalidValue):
            kind.decode(value)

    small, large = costs_of(
        *(partial(decode, [make(number) for number in range(size)]) for size in (2_000, 16_000))
    )
    assert large / small < 16
