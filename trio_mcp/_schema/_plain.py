"""Plain JSON values: what kinds there are, and which are the same. Nothing here knows of hints or schemas."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, TypeGuard

__all__ = ["Kind", "Scalar", "is_array", "is_object", "kind_of", "same_key"]

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
