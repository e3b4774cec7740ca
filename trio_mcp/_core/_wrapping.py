"""Structured output that is no object, for revisions in which it must be one: ``{"result": ...}``.

From 2026-07-28 on it may be any JSON value; 2025-06-18 and 2025-11-25 know objects only (server/tools, "Output
Schema"; `Tool.outputSchema` in their schemas).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ._subschemas import with_changed_subschemas

__all__ = ["RESULT_MEMBER", "needs_wrapping", "wrapped_schema"]

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
