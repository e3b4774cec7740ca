"""Subschemas of a JSON Schema, and output schemas for revisions in which structured output must be an object.

From 2026-07-28 on structured output may be any JSON value; 2025-06-18 and 2025-11-25 allow objects only, so other
values are wrapped there: ``{"result": ...}``. Spec: server/tools, "Output Schema"; `Tool.outputSchema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

# Subschemas: the places in a JSON Schema that hold further schemas. Everything else in it is data.

BY_NAME: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose members are schemas."""

NESTED: Final = frozenset(
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
    """Whether a value in the place of a schema is an object, and not a boolean."""
    return isinstance(value, Mapping)


def _is_several(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))


def direct_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """Yield keyword, name (if the keyword has names) and schema of each direct subschema."""
    for keyword, value in schema.items():
        if keyword in BY_NAME and is_schema(value):
            for name, inner in value.items():
                if is_schema(inner):
                    yield keyword, name, inner
        elif keyword in NESTED:
            for inner in value if _is_several(value) else (value,):
                if is_schema(inner):
                    yield keyword, None, inner


def with_changed_subschemas(
    schema: Mapping[str, Any], change: Callable[[Mapping[str, Any], str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a copy of a schema in which the direct subschemas are changed, given each and its name, if any."""

    def changed(value: Any, name: str = "") -> Any:
        return change(value, name) if is_schema(value) else value

    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in BY_NAME and is_schema(value):
            copy[keyword] = {name: changed(inner, name) for name, inner in value.items()}
        elif keyword in NESTED:
            copy[keyword] = [changed(inner) for inner in value] if _is_several(value) else changed(value)
        else:
            copy[keyword] = value
    return copy


# Wrapping.

RESULT_MEMBER: Final = "result"
"""The member that holds the value."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def needs_wrapping(schema: Mapping[str, Any]) -> bool:
    """Whether output of this schema must be wrapped for revisions that allow objects only."""
    return schema.get("type") != "object"


def wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose member `result` has the given schema."""
    inner = dict(schema)
    wrapped: dict[str, Any] = {"$schema": inner.pop("$schema")} if "$schema" in inner else {}
    wrapped["type"] = "object"
    wrapped["properties"] = {RESULT_MEMBER: _moved(inner)}
    wrapped["required"] = [RESULT_MEMBER]
    return wrapped


def _moved(schema: Mapping[str, Any], _: str = "") -> Mapping[str, Any]:
    """Return the schema with its references adapted to its new, deeper place."""
    if "$id" in schema:
        return schema  # references in it are relative to it
    moved = with_changed_subschemas(schema, _moved)
    for keyword in _REFERENCES:
        target = moved.get(keyword)
        if target == "#" or (isinstance(target, str) and target.startswith("#/")):
            moved[keyword] = f"#/properties/{RESULT_MEMBER}{target[1:]}"
    return moved
