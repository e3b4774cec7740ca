"""Where a value does not fit a JSON Schema, and why, as far as it is found in a bounded number of steps.

Libraries make every error there is, each with a copy of what it is about, before the first can be looked at. This
looks at the common keywords only and stops at the tenth problem. What it says is true; where it says nothing, the
value may still not fit: whether it does was decided before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, final

from ._plain import is_array, is_object
from ._problems import MAX_PROBLEMS, shown

__all__ = ["Found", "explain"]

Found = tuple[tuple[str | int, ...], str]
"""The members and items that lead to a part of the value, and what is wrong with it."""

MAX_STEPS: Final = 50_000
"""Parts of a value that are looked at, each against one subschema: some hundredths of a second."""

MAX_TOLD: Final = 3
"""Alternatives whose problem is told when none of them fits."""

_KINDS: Final[Mapping[str, tuple[str, type | tuple[type, ...]]]] = {
    "null": ("null", type(None)),
    "boolean": ("a boolean", bool),
    "integer": ("an integer", int),
    "number": ("a number", (int, float)),
    "string": ("a string", str),
    "array": ("an array", list),
    "object": ("an object", dict),
}


class _EnoughError(Exception):
    """There is no time to look further, or no need to."""


class _UnfitError(Exception):
    """The alternative that is looked at does not fit; the reason is known."""


def explain(schema: object, value: object, *, is_draft_07: bool) -> list[Found]:
    """Say what is wrong with a value that is known not to fit. There may be nothing that is found.

    Args:
        schema: A valid schema.
        value: Plain JSON.
        is_draft_07: Whether the schema is one of draft-07, or else of 2020-12.
    """
    look = _Look(schema, is_draft_07=is_draft_07)
    with suppress(_EnoughError, RecursionError):
        look.at(schema, value, (), look.found)
    return look.found[:MAX_PROBLEMS]


@final
class _Look:
    def __init__(self, root: object, *, is_draft_07: bool) -> None:
        self.found: list[Found] = []
        self._root = root
        self._is_draft_07 = is_draft_07
        self._steps = 0

    def at(self, schema: object, value: object, path: tuple[str | int, ...], found: list[Found]) -> None:
        """Look at a part of the value.

        Args:
            schema: What it is checked against.
            value: The part.
            path: What leads to it.
            found: Where problems are put.
        """
        self._step()
        if schema is False:
            self._add(found, path, "is not allowed here")
        if not is_object(schema):
            return
        reference = schema.get("$ref")
        if reference is not None:
            self.at(self._target(reference), value, path, found)
            if self._is_draft_07:
                return  # what stands beside it does not count there
        kinds = schema.get("type")
        if kinds is not None and not _is_of(kinds, value):
            self._add(found, path, f"expected {_named(kinds)}, got {shown(value)}")
            return
        self._look_for_choices(schema, value, path, found)
        for wrong in _misfits(schema, value):
            self._add(found, path, wrong)
        if is_object(value):
            self._look_at_members(schema, value, path, found)
        elif is_array(value):
            self._look_at_items(schema, value, path, found)
        for inner in _several(schema.get("allOf")):
            self.at(inner, value, path, found)
        for keyword in ("anyOf", "oneOf"):
            self._look_at_alternatives(_several(schema.get(keyword)), value, path, found)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MAX_STEPS:
            raise _EnoughError

    def _add(self, found: list[Found], path: tuple[str | int, ...], reason: str) -> None:
        found.append((path, reason))
        if found is not self.found:
            raise _UnfitError
        if len(self.found) >= MAX_PROBLEMS:
            raise _EnoughError

    def _target(self, reference: object) -> object:
        """Return what is referred to by a pointer from the root; `None` for other references."""
        if reference == "#":
            return self._root
        if not isinstance(reference, str) or not reference.startswith("#/") or "%" in reference:
            return None
        target: Any = self._root
        for step in reference[2:].split("/"):
            self._step()
            if not is_object(target):
                return None
            target = target.get(step.replace("~1", "/").replace("~0", "~"))
        return target

    def _look_for_choices(
        self, schema: dict[str, Any], value: object, path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        if is_array(value) or is_object(value):
            return  # which takes time to compare
        choices = schema.get("enum")
        if choices is not None:
            self._step(len(choices))
            if not any(_is_same(value, choice) for choice in choices):
                self._add(found, path, f"is none of the values that are allowed, got {shown(value)}")
        if "const" in schema and not _is_same(value, schema["const"]):
            self._add(found, path, f"expected {shown(schema['const'])}, got {shown(value)}")

    def _look_at_members(
        self, schema: dict[str, Any], value: dict[str, Any], path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        for name in _several(schema.get("required")):
            self._step()
            if name not in value:
                self._add(found, path, f"{shown(name)} is missing")
        properties: dict[str, Any] = schema.get("properties") or {}
        for name, inner in properties.items():
            self._step()
            if name in value:
                self.at(inner, value[name], (*path, name), found)
        others = schema.get("additionalProperties", True)
        if others is not True and "patternProperties" not in schema:
            for name, part in value.items():
                self._step()
                if name not in properties:
                    self.at(others, part, (*path, name), found)

    def _look_at_items(
        self, schema: dict[str, Any], value: list[Any], path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        others = schema.get("items", True)
        first = list(_several(others if self._is_draft_07 else schema.get("prefixItems")))
        if is_array(others):
            others = schema.get("additionalItems", True)
        for index, (inner, part) in enumerate(zip(first, value, strict=False)):
            self.at(inner, part, (*path, index), found)
        if others is not True:
            for index in range(len(first), len(value)):
                self.at(others, value[index], (*path, index), found)

    def _look_at_alternatives(
        self, alternatives: Iterable[object], value: object, path: tuple[str | int, ...], found: list[Found]
    ) -> None:
        reasons: list[str] = []
        for alternative in alternatives:
            wrong: list[Found] = []
            try:
                self.at(alternative, value, path, wrong)
            except _UnfitError:
                reasons.append(wrong[0][1])
            else:
                return  # it fits, or it is not known why not
        if reasons:
            more = ", ..." if len(reasons) > MAX_TOLD else ""
            self._add(found, path, f"fits none of the alternatives: {', or '.join(reasons[:MAX_TOLD])}{more}")


def _several(value: object) -> Iterable[Any]:
    return value if is_array(value) else ()


def _is_of(kinds: object, value: object) -> bool:
    """Whether a value is of one of the types that are named."""
    for kind in kinds if is_array(kinds) else (kinds,):
        known = _KINDS.get(kind) if isinstance(kind, str) else None
        if known is None:
            return True
        if isinstance(value, known[1]) and (kind == "boolean" or not isinstance(value, bool)):
            return True
        if kind == "integer" and isinstance(value, float) and value.is_integer():
            return True
    return False


def _named(kinds: Any) -> str:
    return " or ".join(_KINDS[kind][0] for kind in (kinds if is_array(kinds) else (kinds,)))


def _is_same(value: object, other: object) -> bool:
    """Whether two JSON values are equal, of which the first is neither array nor object."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _misfits(schema: dict[str, Any], value: object) -> Iterable[str]:
    """Yield which bounds a value breaks."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (int, float)):
        least, most = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if least is not None and value < least:
            yield f"must be at least {shown(least)}, got {shown(value)}"
        if most is not None and value > most:
            yield f"must be at most {shown(most)}, got {shown(value)}"
        if above is not None and value <= above:
            yield f"must be greater than {shown(above)}, got {shown(value)}"
        if below is not None and value >= below:
            yield f"must be less than {shown(below)}, got {shown(value)}"
        return
    if isinstance(value, str):
        unit, size = "Length", len(value)
    elif is_array(value):
        unit, size = "Items", len(value)
    elif is_object(value):
        unit, size = "Properties", len(value)
    else:
        return
    least, most = schema.get(f"min{unit}"), schema.get(f"max{unit}")
    if least is not None and size < least:
        yield f"must have at least {shown(least)} {_UNITS[unit]}, has {size}"
    if most is not None and size > most:
        yield f"must have at most {shown(most)} {_UNITS[unit]}, has {size}"


_UNITS: Final = {"Length": "characters", "Items": "items", "Properties": "members"}
