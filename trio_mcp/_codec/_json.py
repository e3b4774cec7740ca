"""Bytes to plain JSON values and back, and what those cost in memory. The one module that names a JSON library.

Plain values are `dict`, `list`, `str`, `int`, `float`, `bool` and `None`. msgspec does the work; where it has no
wheel the standard library does, by the same rules, and every test of this module runs over both. No I/O, and no
knowledge of messages.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, TypeGuard, cast

# Decoding and encoding
#
# The rules where JSON libraries differ: NaN and infinities are not JSON (read: refused, written: `null`). Numbers
# too large for a float are refused, integers of any size are kept. Half a surrogate pair, which programs in
# JavaScript do send, becomes U+FFFD in either direction: refusing it would cost the whole message.


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a plain value is a JSON object."""
    return type(value) is dict


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a plain value is a JSON array."""
    return type(value) is list


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"number out of range: {digits[:40]}")
    return value


_STDLIB: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


LARGE: Final = 1 << 16
"""The size of a text, in bytes, from which it is decoded with the garbage collector held off."""


_FEW: Final = 512
"""The size of a text, in bytes, up to which even slow numbers take a millisecond at most."""

_SPELLED: Final = bytes.maketrans(b"123456789E", b"000000000e")


def _is_slow_to_read(data: bytes) -> bool:
    """Return whether there are many numbers in a text whose exponents have three digits or more.

    msgspec takes ten microseconds for a number near the ends of what a float can hold, five hundred times as long
    as for others, so that many of them would hold up the event loop. Other slow numbers are long, and so take no
    more time for each byte. What looks like such a number in a string is counted as well, which does no harm.
    """
    return data.translate(_SPELLED, b"+-").count(b"0e000") > len(data) >> 8


_ESCAPED_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPED_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE: Final = re.compile(
    rb"\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!"
    + _ESCAPED_LOW
    + rb")|(?<!"
    + _ESCAPED_HIGH
    + rb"\\u[dD])[c-fC-F][0-9a-fA-F]{2})"
)


def _has_surrogates(data: bytes) -> bool:
    return b"\\ud" in data or b"\\uD" in data


def _without_lone_surrogates(data: bytes) -> bytes:
    """Return a JSON text with U+FFFD in place of each escaped half of a surrogate pair that lacks the other."""
    return _LONE.sub(rb"\\ufffd", data.replace(rb"\\", rb"\u005c"))  # from now on a backslash begins an escape


def _undisturbed(decode: Callable[[bytes], Any], data: bytes) -> Any:
    """Decode a text while the garbage collector is held off.

    All objects made are kept until the end, so it would find none to free; and looking for them after every few
    hundred objects takes six times as long as making them.
    """
    if not gc.isenabled():
        return decode(data)
    gc.disable()
    try:
        return decode(data)
    finally:
        gc.enable()


def stdlib_decode(data: bytes) -> Any:
    """Do what `decode` does with the standard library alone."""
    return _stdlib_decode(data) if len(data) < LARGE else _undisturbed(_stdlib_decode, data)


def _stdlib_decode(data: bytes) -> Any:
    if _has_surrogates(data):
        data = _without_lone_surrogates(data)
    return _STDLIB.decode(data.decode("utf-8"))


def stdlib_encode(value: object) -> bytes:
    """Do what `encode` does with the standard library alone."""
    try:
        return _dumps(value)
    except ValueError:
        return _dumps(_cleaned(value))


def _dumps(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _cleaned(value: Any) -> Any:
    """Return a copy of a plain value without lone surrogates, NaN and infinities."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_object(value):
        return {_cleaned(name): _cleaned(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in cast("Sequence[Any]", value)]
    return value


def _fastest_codec() -> tuple[Callable[[bytes], Any], Callable[[object], bytes]]:
    try:
        import msgspec
    except ModuleNotFoundError:
        return stdlib_decode, stdlib_encode
    fast_decode = msgspec.json.Decoder().decode
    # With a hook of ours every float takes the same time.
    even_decode = msgspec.json.Decoder(float_hook=_parse_float).decode
    fast_encode = msgspec.json.Encoder().encode

    def decode(data: bytes) -> Any:
        read = even_decode if len(data) > _FEW and _is_slow_to_read(data) else fast_decode
        try:
            return read(data) if len(data) < LARGE else _undisturbed(read, data)
        except msgspec.DecodeError:
            if not _has_surrogates(data):
                raise
        data = _without_lone_surrogates(data)
        return read(data) if len(data) < LARGE else _undisturbed(read, data)

    def encode(value: object) -> bytes:
        try:
            return fast_encode(value)
        except UnicodeEncodeError:
            return fast_encode(_cleaned(value))

    return decode, encode


decode, encode = _fastest_codec()
"""`decode` turns UTF-8 JSON text into plain values; `encode` turns plain values into text without newlines.

`decode` raises `ValueError` for what is not JSON, not UTF-8 or not a finite number. `encode` is for plain values:
for others it may raise `TypeError`, or write what the library makes of them. Both raise `RecursionError` about a
thousand levels deep, and `ValueError` for integers of thousands of digits.
"""


# The cost of the values of a text, estimated from its bytes
#
# A byte of JSON can become fifty bytes of Python objects: ``[[],[],…`` is three bytes a list, and a list takes
# eighty. So what is bounded in memory is bounded by this, not by the length of the text.
#
# Kept true: the estimate is never less than what the objects take, whichever library decodes them, and for
# ordinary messages seldom more than four times as much. It follows from a few facts. Each value that is no
# container follows a comma, except the first. A member of an object follows a comma or the brace that opens the
# object, and has a string as its name. A quote after a single backslash neither begins a string nor ends one. A
# string takes for each character as much as its widest one does, so that one emoji makes four bytes of each
# letter.
#
# It would be too low if a library made more than one object for a value, or Python's objects became larger.

# Bytes of CPython on a 64-bit machine, the most of all supported versions, as its allocator rounds them up.
_OBJECT: Final = 176  # a dict with its table and its place in its container, less what `_MEMBER` counts
_ARRAY: Final = 128  # a list, room for its first items, and its place in its container
_MEMBER: Final = 48  # a place in the table, which is half empty when it has just grown
_ITEM: Final = 44  # a number, and a place in a list
_STRING: Final = 64  # a string without its characters
_WIDE_STRING: Final = 96  # the same, if it is not ASCII

_BASE: Final = 128

_MOST_PER_BYTE: Final = 64
"""What a byte of JSON costs at most: half a list within a list."""

SHORT: Final = 400
"""The size of a text, in bytes, up to which counting its values costs more than it gains."""

_SHORT_BYTE: Final = 24
"""What a byte of a short text costs at most that opens no container: strings of a letter, and their names."""

_CHUNK: Final = 1 << 16
"""How many bytes of marks are split at once. Splitting takes fifty times as much memory for a moment."""

_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""

_OTHERS: Final = bytes(set(range(256)) - set(b'"[{,'))
"""All bytes but the marks, by which values are counted."""


def most_cost_of_json(size: int) -> int:
    """Return how many bytes the values of any JSON text of a size take in memory at most.

    That is ten times what ordinary texts cost. Where it can be afforded, the text need not be looked at.

    Args:
        size: The size of the text, in bytes.
    """
    return _BASE + _MOST_PER_BYTE * size


def harmless_size(most: int) -> int:
    """Return the size up to which no JSON text can cost more than it may: the inverse of `most_cost_of_json`.

    Args:
        most: How many bytes the values may take.
    """
    return (most - _BASE) // _MOST_PER_BYTE


def is_costlier(data: bytes, most: int) -> bool:
    """Return whether the values of a JSON text would take more memory than they may.

    Args:
        data: The text, in UTF-8. It is not looked at if no text of its size can take more.
        most: How many bytes they may take.
    """
    return len(data) > harmless_size(most) and cost_of_json(data) > most


def explain_cost(size: int, most: int) -> str:
    """Describe a message that `is_costlier`, for an error."""
    return f"a message of {size} bytes that takes too much memory once it is decoded; max_decoded_bytes is {most}"


def most_weight(size: int) -> int:
    """Return what any JSON text of a size takes in memory at most, together with its values."""
    return _BASE + (_MOST_PER_BYTE + 1) * size


def weight_of(data: bytes) -> int:
    """Return what a JSON text takes in memory at most, together with its values."""
    return len(data) + cost_of_json(data)


def cost_of(value: object) -> int:
    """Return what `cost_of_json` returns for the text of a plain value.

    Raises:
        Others: Whatever `encode` raises.
    """
    return cost_of_json(encode(value))


def cost_of_json(data: bytes) -> int:
    """Return how many bytes the values of a JSON text take in memory at most, without the text itself.

    Takes time linear in the size of the text, which need not be valid JSON.

    Args:
        data: The text, in UTF-8.
    """
    if len(data) <= SHORT:
        return _BASE + _SHORT_BYTE * len(data) + _OBJECT * data.count(b"{") + _ARRAY * data.count(b"[")
    return _counted_cost(data)


def close_weight_of(data: bytes) -> int:
    """Return what `weight_of` returns, counted even for short texts: for those that are few and are kept long."""
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
        # A quote after two backslashes may be escaped or not. It is counted as whichever costs more, here and
        # below.
        strings -= max(0, data.count(b'\\"') - data.count(b'\\\\"')) >> 1
    values = _cost_of_values(marks, strings)
    if strings and values > 8 * strings * string + len(data) // 4:
        # There are few strings, and they may be long. Marks inside them do not count as values.
        values = sum(_cost_of_values(part, strings) for part in _outside_strings(data, has_escapes=has_escapes))
    return _BASE + values + strings * string + text


def _cost_of_values(marks: bytes, strings: int) -> int:
    """Return what everything takes except strings."""
    objects, commas = marks.count(b"{"), marks.count(b",")
    members = min(strings, commas + objects)
    return objects * _OBJECT + marks.count(b"[") * _ARRAY + members * _MEMBER + (commas + 1) * _ITEM


def _wide_text(data: bytes) -> int:
    """Return what the characters of the strings take in a text that is not all ASCII.

    Once such a string was encoded, Python may keep its UTF-8 with it.
    """
    size = len(data) - 5 * max(0, data.count(b"\\u") - data.count(b"\\\\u"))
    is_astral = b"\\ud" in data or b"\\uD" in data
    if not data.isascii():
        size -= len(data) - len(data.translate(None, _CONTINUATIONS))
        is_astral = is_astral or 0xF0 in data or 0xF1 in data or 0xF2 in data or 0xF3 in data or 0xF4 in data
    return (4 if is_astral else 2) * max(0, size) + len(data)


def _outside_strings(data: bytes, *, has_escapes: bool) -> Iterator[bytes]:
    """Yield, in parts, the marks that are not inside strings."""
    if has_escapes:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = data.translate(None, _OTHERS)
    is_within = False
    for start in range(0, len(marks), _CHUNK):
        parts = marks[start : start + _CHUNK].split(b'"')
        yield b"".join(parts[is_within::2])
        is_within ^= len(parts) % 2 == 0
