"""What a JSON text costs in memory once it is decoded, estimated from its bytes. No decoding happens here.

A byte of JSON can become fifty bytes of Python objects: ``[[],[],…`` is three bytes a list, and a list takes
eighty. What is bounded in memory is therefore bounded by this, and not by the length of what came.

The estimate is never less than what the objects take, whichever library decodes them, and for what people send
seldom more than four times as much. It follows from a few facts. A value that is no container comes after a comma
of its own, but for one. A member of an object comes after a comma or the object's brace, and has a string for its
name. A quote with a single backslash before it neither begins a string nor ends one. And a string takes as much
for each character as for its widest one, so that one emoji makes four bytes of each letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from . import _json

__all__ = [
    "SHORT",
    "close_weight_of",
    "cost_of",
    "cost_of_json",
    "explain_cost",
    "harmless_size",
    "is_costlier",
    "most_cost_of_json",
    "most_weight",
    "weight_of",
]

# Bytes of CPython on a 64-bit machine, its largest of all supported versions, as its allocator rounds them up.
_OBJECT: Final = 176  # a dict with its table and its place in what holds it, less what `_MEMBER` counts
_ARRAY: Final = 128  # a list, room for its first items, and its place in what holds it
_MEMBER: Final = 48  # a place in the table, which is half empty when it has just grown
_ITEM: Final = 44  # a number, and a place in a list
_STRING: Final = 64  # what a string takes beside its characters
_WIDE_STRING: Final = 96  # the same, if it is not ASCII

_BASE: Final = 128

_MOST_PER_BYTE: Final = 64
"""What a byte of JSON costs at most: half a list within a list."""

SHORT: Final = 400
"""Up to how many bytes a text is short: what counting would tell is not worth the counting."""

_SHORT_BYTE: Final = 24
"""What a byte of a short text costs at most that opens no container: strings of a letter, and their names."""

_CHUNK: Final = 1 << 16
"""How many bytes of what is counted are taken apart at once, which costs fifty times as much for a moment."""

_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""

_OTHERS: Final = bytes(set(range(256)) - set(b'"[{,'))
"""What does not say how many values there are."""


def most_cost_of_json(size: int) -> int:
    """Return how many bytes a JSON text of a size takes in memory at most, whatever it says, once it is decoded.

    It takes no time, and is ten times what ordinary texts cost: where that is bearable, nothing need be counted.

    Args:
        size: How many bytes the text is long.
    """
    return _BASE + _MOST_PER_BYTE * size


def harmless_size(most: int) -> int:
    """Return how long a JSON text may be that takes no more memory than it may, whatever it says.

    Args:
        most: How many bytes it may take once it is decoded.
    """
    return (most - _BASE) // _MOST_PER_BYTE


def is_costlier(data: bytes, most: int) -> bool:
    """Return whether a JSON text would take more memory than it may, once it is decoded.

    Args:
        data: The text, in UTF-8.
        most: How many bytes it may take. Texts that cannot take more whatever they say are not looked at.
    """
    return len(data) > harmless_size(most) and cost_of_json(data) > most


def explain_cost(size: int, most: int) -> str:
    """Return what to call a message of a size that `is_costlier`."""
    told = f"a message of {size} bytes that takes too much memory once it is decoded"
    return f"{told}; max_decoded_bytes is {most}"


def most_weight(size: int) -> int:
    """Return what a JSON text of a size takes in memory at most, together with its values once it is decoded."""
    return _BASE + (_MOST_PER_BYTE + 1) * size


def weight_of(data: bytes) -> int:
    """Return what a JSON text takes in memory at most, together with its values once it is decoded."""
    return len(data) + cost_of_json(data)


def cost_of(value: object) -> int:
    """Return what `cost_of_json` does of a value that is decoded already.

    Raises:
        Like `_json.encode`.
    """
    return cost_of_json(_json.encode(value))


def cost_of_json(data: bytes) -> int:
    """Return how many bytes the values of a JSON text take in memory at most, once it is decoded.

    The text itself is not part of it. This takes time linear in the length of the text. What is no JSON costs
    something, too.

    Args:
        data: The text, in UTF-8.
    """
    if len(data) <= SHORT:
        return _BASE + _SHORT_BYTE * len(data) + _OBJECT * data.count(b"{") + _ARRAY * data.count(b"[")
    return _counted_cost(data)


def close_weight_of(data: bytes) -> int:
    """Return what `weight_of` does, counted closely even where it is short: for what seldom comes and stays."""
    return len(data) + _counted_cost(data)


def _counted_cost(data: bytes) -> int:
    has_escapes = 0x5C in data
    if data.isascii() and not (has_escapes and b"\\u" in data):
        string, text = _STRING, len(data)
    else:
        string, text = _WIDE_STRING, _wide_text(data)
    marks = data.translate(None, _OTHERS)
    strings = (marks.count(b'"') + 1) >> 1
    if has_escapes and strings * string > text:
        # After two backslashes a quote is escaped or is not: it counts as what costs more. So below.
        strings -= max(0, data.count(b'\\"') - data.count(b'\\\\"')) >> 1
    values = _cost_of_values(marks, strings)
    if strings and values > 8 * strings * string + len(data) // 4:
        # There are few strings, and perhaps long ones. What looks like a value in them is none.
        values = sum(_cost_of_values(part, strings) for part in _outside_strings(data, has_escapes=has_escapes))
    return _BASE + values + strings * string + text


def _cost_of_values(marks: bytes, strings: int) -> int:
    """Return what all takes but strings."""
    objects, commas = marks.count(b"{"), marks.count(b",")
    members = min(strings, commas + objects)
    return objects * _OBJECT + marks.count(b"[") * _ARRAY + members * _MEMBER + (commas + 1) * _ITEM


def _wide_text(data: bytes) -> int:
    """Return what the characters of a text take, some of which are not ASCII.

    With each such string its UTF-8 may be kept, once it was encoded.
    """
    size = len(data) - 5 * max(0, data.count(b"\\u") - data.count(b"\\\\u"))
    is_astral = b"\\ud" in data or b"\\uD" in data
    if not data.isascii():
        size -= len(data) - len(data.translate(None, _CONTINUATIONS))
        is_astral = is_astral or 0xF0 in data or 0xF1 in data or 0xF2 in data or 0xF3 in data or 0xF4 in data
    return (4 if is_astral else 2) * max(0, size) + len(data)


def _outside_strings(data: bytes, *, has_escapes: bool) -> Iterator[bytes]:
    """Yield, in parts, what of the marks is not within strings."""
    if has_escapes:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(None, _OTHERS)
    is_within = False
    for start in range(0, len(marks), _CHUNK):
        parts = marks[start : start + _CHUNK].split(b'"')
        yield b"".join(parts[is_within::2])
        is_within ^= len(parts) % 2 == 0
