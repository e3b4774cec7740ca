"""Bytes to plain JSON values and back: the one place that names a JSON library.

Plain values are `dict`, `list`, `str`, `int`, `float`, `bool` and `None`. msgspec does the work; where it has
no wheel the standard library does, held to the same rules, and every test of this module runs over both.

The rules where JSON libraries differ: NaN and infinities are not JSON (read: refused, written: `null`);
numbers too large for a float are refused, integers of any size are kept; half a surrogate pair, which
JavaScript programs do send, becomes U+FFFD in either direction rather than costing the message.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeGuard, cast

__all__ = ["decode", "encode", "is_array", "is_object", "stdlib_decode", "stdlib_encode"]


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
"""From how many bytes on a text is decoded with the garbage collector held off."""


_FEW: Final = 512
"""Up to how many bytes of a text it does not matter how it is read: a millisecond at most."""

_SPELLED: Final = bytes.maketrans(b"123456789E", b"000000000e")


def _is_slow_to_read(data: bytes) -> bool:
    """Return whether there are many numbers in a text whose exponents are of three digits or more.

    msgspec takes ten microseconds for one near the ends of what a float can hold, which is five hundred times as
    long as for another. A few do no harm. Other numbers can be slow as well, but not for how long they are. What
    looks like such a number in a string counts, too: that does no harm either.
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

    All that is made is kept until the end, so there is nothing to be found; and looking for it after every few
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
    # It takes as long for any float as for another.
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
