"""From the text in a URI to what a schema asks for.

What does not look like that stays text, and is refused when it is bound.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["is_list_only", "value_for"]

# One spelling for each number, and no more digits than Python reads willingly.
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,99}")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?")


def is_list_only(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool | None:
    """Whether what a schema allows is a list: yes, no, or `None` if it allows both, or anything."""
    kinds = {kind for branch in _branches(schema, root) for kind in _kinds(branch)}
    if not kinds or {"array", "string"} <= kinds:
        return None
    return "array" in kinds


def value_for(schema: Mapping[str, Any], root: Mapping[str, Any], found: str | Sequence[str]) -> object:
    """Return plain JSON for a variable of a URI, or for the parts of one.

    A number or truth value is only taken for one if the schema allows that, and is then preferred to text.

    Args:
        schema: The schema of the parameter.
        root: The schema that its references begin at.
        found: The variable, decoded.
    """
    branches = _branches(schema, root)
    if not isinstance(found, str):
        items = next((branch for branch in branches if "array" in _kinds(branch)), {})
        fixed: Sequence[Any] = items.get("prefixItems", ())
        rest = items.get("items", {})
        return [value_for(fixed[n] if n < len(fixed) else rest, root, part) for n, part in enumerate(found)]
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


def _branches(schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a schema allows, one by one. A reference that leads round in a circle is followed once."""
    found: list[Mapping[str, Any]] = []
    ahead: list[Any] = [schema]
    seen: set[str] = set()
    while ahead:
        branch = ahead.pop(0)
        reference = branch.get("$ref") if isinstance(branch, Mapping) else None
        if isinstance(reference, str):
            if reference not in seen:
                seen.add(reference)
                ahead.insert(0, _resolved(reference, root))
        elif isinstance(branch, Mapping):
            found.append(branch)
            ahead[:0] = branch.get("anyOf", ())
    return found


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    place: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        place = place.get(step) if isinstance(place, Mapping) else None
    return place


def _kinds(schema: Mapping[str, Any]) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else kind


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
