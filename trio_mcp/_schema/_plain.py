"""Plain JSON values: what kinds there are, and which are the same. Nothing here knows of hints or schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, TypeGuard

__all__ = ["Kind", "Scalar", "have_colliding_hashes", "is_array", "is_object", "kind_of", "same_key"]

Kind: TypeAlias = Literal["null", "boolean", "integer", "number", "string", "array", "object"]
"""The types of JSON Schema. An integral number is an `integer` if Python has it as an `int`."""

Scalar: TypeAlias = str | int | float | bool | None

_KINDS: Final[dict[type, Kind]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def kind_of(value: object) -> Kind | None:
    """Return the kind of a JSON value, or `None` if it is not one."""
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    # A subclass of `str` or `dict`, say.
    return next((found for cls, found in _KINDS.items() if isinstance(value, cls)), None)


def same_key(value: object) -> object:
    """Return something hashable that is equal for equal JSON: 1 and 1.0 are, 1 and true are not."""
    if is_array(value):
        return ("array", tuple(same_key(item) for item in value))
    if is_object(value):
        return ("object", frozenset((name, same_key(item)) for name, item in value.items()))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return (type(value), value)


MAX_ALIKE: Final = 100
"""Different keys of one hash that may come together; others have two or three, if any."""


def have_colliding_hashes(keys: Sequence[object]) -> bool:
    """Whether so many different keys share a hash that a set or dictionary of them takes for ever.

    Python hashes numbers, and what is made of them (UUIDs, decimals, tuples, frozen classes), without a secret:
    multiples of 2**61 - 1 all have the hash 0, and each is compared with all before it.

    Raises:
        TypeError: A key has no hash.
    """
    if len(keys) <= MAX_ALIKE or len(keys) - len(set(map(hash, keys))) < MAX_ALIKE:
        return False
    by_hash: dict[int, list[object]] = {}
    for key in keys:
        alike = by_hash.setdefault(hash(key), [])
        if key not in alike:
            alike.append(key)
            if len(alike) > MAX_ALIKE:
                return True
    return False
