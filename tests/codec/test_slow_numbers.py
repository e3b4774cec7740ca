"""JSON takes its size to read, whatever it holds: what is short to write and long to read, and that it reads alike."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest
from costs import costs_of
from hypothesis import given
from hypothesis import strategies as st
from inside_wire import QUOTES, beside_strings, decode, stdlib_decode, without_middle

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


@pytest.mark.measured
@pytest.mark.parametrize("library", [decode, stdlib_decode], ids=["fast", "stdlib"])
@pytest.mark.parametrize("what", ITEMS)
def test_short_numbers_and_texts_take_about_their_size(what: str, library: Callable[[bytes], Any]) -> None:
    """4 MB of ``1e308`` took seven seconds to read, three hundred times as long as other numbers."""
    plain, odd = items(b"1.5"), items(ITEMS[what])
    plain_cost, odd_cost = costs_of(lambda: library(plain), lambda: library(odd))
    assert odd_cost / len(odd) < BOUND * plain_cost / len(plain)


@pytest.mark.measured
@pytest.mark.parametrize("surroundings", [b"1.5", b'"1e308"', b"[]"])
def test_slow_numbers_hide_behind_nothing(surroundings: bytes) -> None:
    """A text is looked at as a whole."""
    plain, odd = items(surroundings), items(b"1e308,1e308," + surroundings)
    floor = items(b"1.5")
    plain_cost, odd_cost, floor_cost = costs_of(lambda: decode(plain), lambda: decode(odd), lambda: decode(floor))
    assert odd_cost < BOUND * max(plain_cost, floor_cost)


@pytest.mark.measured
@pytest.mark.parametrize("size", [4_000, SIZE, 1_000_000])
@pytest.mark.parametrize("place", [0.0, 0.5, 0.9])
def test_slow_numbers_are_found_wherever_they_are(place: float, size: int) -> None:
    """Not all of a text is looked at, but nobody knows where it is."""
    odd = items(b"1e308", size // 8)
    text = b'{"before":"%b","odd":%b,"after":"%b"}' % (
        b"x" * int(place * size),
        odd,
        b"x" * int((1 - place) * size),
    )
    floor_cost, odd_cost = costs_of(lambda: decode(items(b"1.5", size)), lambda: decode(text))
    assert odd_cost < BOUND * floor_cost


@pytest.mark.parametrize("spelled", ["{}e{}", "{}.5E{:+}", "-{}e{:+05}", "0.{}e{}"])
def test_all_ways_of_reading_read_the_same_numbers(spelled: str) -> None:
    """Bit by bit, whichever way a text is read for its many large and small numbers."""
    numbers = random.Random(spelled)
    text = "[{}]".format(
        ",".join(
            spelled.format(numbers.randrange(10 ** numbers.randint(1, 19)), exponent)
            for exponent in [*range(-345, -280), *range(270, 289)] * 4
        )
    ).encode()
    value = decode(text)
    assert repr(value) == repr(stdlib_decode(text))
    assert repr(value) == repr([decode(number) for number in text[1:-1].split(b",")])


@pytest.mark.parametrize("odd", [b"1e999", b"-1e309", b"1e", b"01e300", b"1.e300", b"NaN", b"1e+", b"\xff"])
def test_what_is_no_number_is_refused_among_many_large_ones(odd: bytes) -> None:
    """By both libraries, as it is where it stands alone."""
    text = items(b"1e300,5e-324", 4_000)[:-1] + b"," + odd + b"]"
    for library in (decode, stdlib_decode):
        with pytest.raises(ValueError):
            library(text)


def test_half_pairs_among_many_large_numbers_cost_themselves() -> None:
    """Both kinds of oddities in one text."""
    text = items(rb'1e300,"\ud800\\\ud800\\ud800","\ude00\ud83d\ude00"', 4_000)
    value = decode(text)
    assert value == stdlib_decode(text)
    assert value[:3] == [1e300, "\ufffd\\\ufffd\\ud800", "\ufffd\N{GRINNING FACE}"]


def passed_over(data: bytes) -> bytes:
    """Return what `beside_strings` does, a byte at a time."""
    kept, quotes, at, is_within = bytearray(), 0, 0, False
    while at < len(data) and quotes < QUOTES:
        escape = is_within and data[at : at + 1] == b"\\"
        byte = data[at : at + 2] if escape else data[at : at + 1]
        is_quote = byte == b'"'
        quotes += byte.endswith(b'"')
        if not is_within or is_quote:
            kept += byte
        is_within ^= is_quote
        at += len(byte)
    return bytes(kept) + data[at:]


@given(st.lists(st.text(st.sampled_from('ab"\\\n{}[],é😀 e1'), max_size=100), max_size=60), st.booleans())
def test_what_is_in_the_first_strings_is_passed_over_and_nothing_else(texts: list[str], is_ascii: bool) -> None:
    """Most of a long text is in a few strings, and what is in them is neither a number nor a container."""
    data = json.dumps([*texts, "x" * 1024], ensure_ascii=is_ascii).encode()
    assert beside_strings(data) == passed_over(data)


@given(
    st.lists(st.text(st.sampled_from('ab"\\\n{}[]:,é😀 e1'), max_size=100) | st.just([1e300] * 9), max_size=20),
    st.text(st.sampled_from('ab:,"\\'), max_size=3),
    st.integers(0, 20),
    st.booleans(),
)
def test_the_string_in_the_middle_is_emptied_and_nothing_else(
    others: list[str | list[float]], beginning: str, at: int, is_named: bool
) -> None:
    """Whatever is around it, and however it begins: numbers are kept."""
    long = beginning + "x, 1e300" * 1_000
    items: list[object] = [*others]
    items.insert(at, {beginning: long} if is_named else long)
    text = json.dumps(items, ensure_ascii=False)
    rest = without_middle(text.encode())
    if not any(sign in beginning for sign in '"\\'):
        assert beginning[:1] in (":", ",") or len(rest) < len(text) // 2
    left = json.loads(rest)
    emptied = {beginning: ""} if is_named else ""
    place = min(at, len(others))
    assert left == items or left == [*items[:place], emptied, *items[place + 1 :]]


@pytest.mark.parametrize("around", [b'"a"', b'"a:"', rb'"a\""', rb'"\\"', b'""'])
def test_numbers_between_two_strings_are_not_taken_for_a_string(around: bytes) -> None:
    text = b"{" + around + b":[" + b",".join([b"1e300"] * 1_000) + b'],"b":0}'
    assert without_middle(text) == text
    text = b"[" + around + b", " + b" ,".join([b"1e300"] * 1_000) + b',"b"]'
    assert without_middle(text) == text
