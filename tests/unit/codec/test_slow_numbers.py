"""JSON takes its size to read, whatever it holds: what is short to write and long to read, and that it reads alike."""

from __future__ import annotations

import json
import random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside_wire import QUOTES, beside_strings, decode, stdlib_decode, without_middle

SIZE: Final = 100_000


def items(item: bytes, size: int = SIZE) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1) + 1)) + b"]"


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


def test_what_is_no_number_is_refused_among_many_large_ones(subtests: pytest.Subtests) -> None:
    """By both libraries, as it is where it stands alone."""
    for odd in (b"1e999", b"-1e309", b"1e", b"01e300", b"1.e300", b"NaN", b"1e+", b"\xff"):
        with subtests.test(odd=odd):
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
