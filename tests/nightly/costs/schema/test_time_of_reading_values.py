"""Untrusted texts and numbers that are converted to other types: double the size, at most double the time."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import attrs
import pytest
from inside_schema import InvalidValue, JsonType, inspect_callable
from processor_time import costs_of

from trio_mcp import Field

Colour = enum.Enum("Colour", {"RED": "red", "ONE": 1})

CENTS = Annotated[decimal.Decimal, Field(ge=1, multiple_of=decimal.Decimal("0.01"))]

READ: dict[str, tuple[Any, Callable[[int], object]]] = {
    "decimal": (decimal.Decimal, lambda n: "9" * n),
    "decimal fraction": (decimal.Decimal, lambda n: "0." + "9" * n),
    "no decimal": (decimal.Decimal, lambda n: "9" * n + "x"),
    "bounded decimal": (CENTS, lambda n: "9" * n),
    "decimals in a set": (set[decimal.Decimal], lambda n: ["9" * n]),
    "decimals as names": (dict[decimal.Decimal, int], lambda n: {"9" * n: 1}),
    "moment": (dt.datetime, lambda n: f"2026-01-01T00:00:00.{'1' * n}Z"),
    "date": (dt.date, lambda n: "1" * n),
    "time": (dt.time, lambda n: f"12:00:00.{'1' * n}"),
    "duration": (dt.timedelta, lambda n: f"P{'1' * n}D"),
    "durations": (dt.timedelta, lambda n: "PT" + "1S" * n),
    "uuid": (uuid.UUID, lambda n: "0" * n),
    "bytes": (bytes, lambda n: "AAAA" * (n // 4)),
    "no bytes": (bytes, lambda n: "A A=" * (n // 4)),
    "path": (pathlib.PurePosixPath, lambda n: "/../" * n),
    "windows path": (pathlib.PureWindowsPath, lambda n: "a\\..\\" * n),
    "integer": (int, lambda n: 10**n),
    "float of an integer": (float, lambda n: 10**n),
    "text as a float": (float, lambda n: "1" * n),
    "choice": (Literal["a", 1], lambda n: [1] * n),
    "member": (Colour, lambda n: 10**n),
    "multiple": (Annotated[int, Field(multiple_of=3)], lambda n: 10**n),
    "names": (dict[int, int], lambda n: {str(i): 1 for i in range(n)}),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_takes_time_by_its_size(name: str) -> None:
    """A message may have 16 MB: what is quadratic holds the event loop for hours."""
    hint, make = READ[name]
    kind = JsonType(hint)

    def decode(value: object) -> None:
        for _ in range(20):
            with suppress(InvalidValue):
                kind.decode(value)

    small, large = costs_of(*(partial(decode, make(size)) for size in (2_000, 16_000)), times=7)
    assert large < 16 * max(small, 20 * 5e-6), (small, large)


def test_what_is_meant_by_many_items_takes_as_long_among_many_alternatives() -> None:
    """Those that an item may fit are found once for all of them."""

    def reading(alternatives: int) -> Callable[[], object]:
        item: Any = None
        for n in range(alternatives):
            item |= attrs.make_class(f"Kind{n}", {f"a{n}": attrs.field(type=int)})

        def take(items: Any) -> None:
            del items

        take.__annotations__["items"] = list[item]
        arguments = {"items": [{"a0": 1}] * 20_000}
        return partial(inspect_callable(take).decode_leniently, arguments, 1_000_000, leaves_out=False)

    few, many = costs_of(reading(1), reading(100), times=7)
    assert many < 2 * few, (few, many)
