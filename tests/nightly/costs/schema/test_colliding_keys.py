"""Untrusted values that Python keeps in sets and dictionaries: a client must not be able to choose their hashes."""

from __future__ import annotations

import decimal
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import pytest
from costs import costs_of
from inside_schema import InvalidValue, JsonType

MODULUS = sys.hash_info.modulus
"""Whole numbers of the same remainder have the same hash."""


@attrs.frozen
class Point:
    x: int
    y: int


KINDS: dict[str, tuple[Any, Callable[[int], object]]] = {
    "int": (set[int], lambda n: n * MODULUS),
    "negative": (frozenset[int], lambda n: -n * MODULUS - 5),
    "uuid": (set[uuid.UUID], lambda n: str(uuid.UUID(int=n * MODULUS))),
    "decimal": (set[decimal.Decimal], lambda n: str(n * MODULUS)),
    "class": (frozenset[Point], lambda n: {"x": n * MODULUS, "y": 1}),
    "tuple": (set[tuple[int, int]], lambda n: [1, n * MODULUS]),
    "union": (set[int | str], lambda n: n * MODULUS),
}


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
