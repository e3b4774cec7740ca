"""Structured output that is no object, for revisions in which it must be one: ``{"result": ...}``.

From 2026-07-28 on it may be any JSON value; 2025-06-18 and 2025-11-25 know objects only (server/tools, "Output
Schema"; `Tool.outputSchema` in their schemas).

The places in a JSON Schema where further schemas stand; everything else in it is data, not to be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

_BY_NAME: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose members are schemas."""

_NESTED: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema, or several in an array."""


def is_schema(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value, where a schema may stand, is one with keywords."""
    return isinstance(value, Mapping)


def _is_several(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def direct_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """Yield keyword, name (where the keyword has names) and schema of all that stand directly in a schema."""
    for keyword, value in schema.items():
        if keyword in _BY_NAME and is_schema(value):
            for name, inner in value.items():
                if is_schema(inner):
                    yield keyword, name, inner
        elif keyword in _NESTED:
            for inner in value if _is_several(value) else (value,):
                if is_schema(inner):
                    yield keyword, None, inner


def with_changed_subschemas(
    schema: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a copy of a schema in which those that stand directly in it are changed."""

    def changed(value: Any) -> Any:
        return change(value) if is_schema(value) else value

    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _BY_NAME and is_schema(value):
            copy[keyword] = {name: changed(inner) for name, inner in value.items()}
        elif keyword in _NESTED:
            copy[keyword] = [changed(inner) for inner in value] if _is_several(value) else changed(value)
        else:
            copy[keyword] = value
    return copy


RESULT_MEMBER: Final = "result"
"""The member that holds the value."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def needs_wrapping(schema: Mapping[str, Any]) -> bool:
    """Whether output of this schema must be wrapped for revisions that want the schema of an object."""
    return schema.get("type") != "object"


def wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose member `result` has the given schema."""
    inner = dict(schema)
    wrapped: dict[str, Any] = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
    wrapped["type"] = "object"
    wrapped["properties"] = {RESULT_MEMBER: _moved(inner)}
    wrapped["required"] = [RESULT_MEMBER]
    return wrapped


def _moved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema with references that still lead to the same place, now that it stands deeper."""
    if "$id" in schema:
        return schema  # what is in it refers to it, wherever it stands
    moved = with_changed_subschemas(schema, _moved)
    for keyword in _REFERENCES:
        target = moved.get(keyword)
        if target == "#" or (isinstance(target, str) and target.startswith("#/")):
            moved[keyword] = f"#/properties/{RESULT_MEMBER}{target[1:]}"
    return moved
