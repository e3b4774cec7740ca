"""JSON takes its size to read, whatever it holds: what is short to write and long to read, and that it reads alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, Final

import pytest
from inside_wire import decode, stdlib_decode
from processor_time import costs_of

SIZE: Final = 100_000
BOUND: Final = 64
"""Times what floats of one digit cost, which for the fast library is little: Python's own float takes ten times it,
and twenty while coverage is measured, which follows each call into Python. What this is about took five hundred."""

ITEMS: Final = {
    "the largest floats": b"1e308",
    "large ones, padded": b"1E+000308",
    "the smallest": b"1e-308",
    "subnormal ones": b"5e-324",
    "half the smallest": b"2.47032822920623272088284396434110686182e-324",
    "all digits of the largest": b"1.7976931348623157e308",
    "between two floats": b"9007199254740993.0",
    "many zeros": b"0." + b"0" * 300 + b"1",
    "many digits": b"9" * 308 + b".0",
    "less than nothing": b"-0.0",
    "integers that are just readable": b"1" * 4300,
    "escapes": rb'"\u0000"',
    "pairs": rb'"\ud83d\ude00"',
    "half pairs": rb'"\ud83d"',
    "half pairs in a row": b'"' + rb"\ud83d" * 100 + b'"',
    "backslashes": rb'"\\\\\\ud83d"',
}


def items(item: bytes, size: int = SIZE) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1) + 1)) + b"]"


@pytest.mark.parametrize("library", [decode, stdlib_decode], ids=["fast", "stdlib"])
def test_short_numbers_and_texts_take_about_their_size(
    library: Callable[[bytes], Any], subtests: pytest.Subtests
) -> None:
    """4 MB of ``1e308`` took seven seconds to read, three hundred times as long as other numbers."""
    plain = items(b"1.5")
    for what, item in ITEMS.items():
        with subtests.test(what):
            odd = items(item)
            plain_cost, odd_cost = costs_of(partial(library, plain), partial(library, odd))
            assert odd_cost / len(odd) < BOUND * plain_cost / len(plain)


@pytest.mark.parametrize("surroundings", [b"1.5", b'"1e308"', b"[]"])
def test_slow_numbers_hide_behind_nothing(surroundings: bytes) -> None:
    """A text is looked at as a whole."""
    plain, odd = items(surroundings), items(b"1e308,1e308," + surroundings)
    floor = items(b"1.5")
    plain_cost, odd_cost, floor_cost = costs_of(lambda: decode(plain), lambda: decode(odd), lambda: decode(floor))
    assert odd_cost < BOUND * max(plain_cost, floor_cost)


def test_slow_numbers_are_found_wherever_they_are(subtests: pytest.Subtests) -> None:
    """Not all of a text is looked at, but nobody knows where it is."""
    for size, place in product((4_000, SIZE, 1_000_000), (0.0, 0.5, 0.9)):
        with subtests.test(size=size, place=place):
            before, odd, after = int(place * size), items(b"1e308", size // 8), int((1 - place) * size)
            text = b'{"before":"%b","odd":%b,"after":"%b"}' % (b"x" * before, odd, b"x" * after)
            floor_cost, odd_cost = costs_of(partial(decode, items(b"1.5", size)), partial(decode, text))
            assert odd_cost < BOUND * floor_cost
