"""From the text in a URI to what a schema asks for.

What does not look like that stays text, and is refused when it is bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

__all__ = ["kinds_of", "value_for"]

_Schema: TypeAlias = Mapping[str, Any]

# One spelling for each number, and no more digits than Python reads willingly.
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,99}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?")


def kinds_of(schema: _Schema, root: _Schema) -> set[str]:
    """Return the kinds of JSON value that a schema allows; none if it does not say.

    Args:
        schema: The schema.
        root: The schema that its references begin at.
    """
    return {kind for branch in _branches(schema, root) for kind in _kinds(branch)}


def value_for(schema: _Schema, root: _Schema, found: str | Sequence[str]) -> object:
    """Return plain JSON for a variable of a URI, or for the parts of one.

    A number or truth value is only taken for one if the schema allows that, and is then preferred to text.

    Args:
        schema: The schema of the parameter.
        root: The schema that its references begin at.
        found: The variable, decoded.
    """
    branches = _branches(schema, root)
    if not isinstance(found, str):
        return [value_for(_item(branches, n), root, part) for n, part in enumerate(found)]
    for branch in branches:
        if "enum" in branch or "const" in branch:
            for value in branch.get("enum", [branch.get("const")]):
                if _spelled(value) == found:
                    return value
            continue
        kinds = _kinds(branch)
        if "integer" in kinds and _INTEGER.fullmatch(found) is not None:
            return int(found)
        if "number" in kinds and _NUMBER.fullmatch(found) is not None:
            return float(found)
        if "boolean" in kinds and found in {"true", "false"}:
            return found == "true"
    return found


def _item(branches: Sequence[_Schema], index: int) -> _Schema:
    """Return the schema of one part of a list."""
    anything: _Schema = {}
    array = next((branch for branch in branches if "array" in _kinds(branch)), anything)
    fixed: Sequence[_Schema] = array.get("prefixItems", ())
    items: _Schema = fixed[index] if index < len(fixed) else array.get("items", anything)
    return items


def _branches(schema: _Schema, root: _Schema) -> list[_Schema]:
    """Return what a schema allows, one by one. A reference that leads round in a circle is followed once."""
    found: list[_Schema] = []
    ahead: list[_Schema] = [schema]
    seen: set[str] = set()
    while ahead:
        branch = ahead.pop(0)
        found.append(branch)
        reference = branch.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            seen.add(reference)
            ahead.append(_resolved(reference, root))
        ahead += branch.get("anyOf", ())
    return found


def _resolved(reference: str, root: _Schema) -> _Schema:
    # Our own generator writes `#` and `#/$defs/Name`, whose names need no escaping.
    place: Any = root
    for step in reference.split("/")[1:]:
        place = place[step]
    schema: _Schema = place
    return schema


def _kinds(schema: _Schema) -> Sequence[str]:
    kind: str | Sequence[str] = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else kind


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
