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
    text = data.decode("utf-8")
    value: Any = _STDLIB.decode(text)
    if "\\ud" in text or "\\uD" in text:
        value = _cleaned(value)
    return value


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
    fast_encode = msgspec.json.Encoder().encode

    def decode(data: bytes) -> Any:
        try:
            return fast_decode(data) if len(data) < LARGE else _undisturbed(fast_decode, data)
        except msgspec.DecodeError:
            if b"\\ud" in data or b"\\uD" in data:
                return stdlib_decode(data)
            raise

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
