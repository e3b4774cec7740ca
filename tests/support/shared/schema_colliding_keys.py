"""What the tests of colliding keys share in several layers."""

from __future__ import annotations

import decimal
import sys
import uuid
from collections.abc import Callable
from typing import Any

import attrs

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
