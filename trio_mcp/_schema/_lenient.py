"""The arguments of a call as they were probably meant, where they do not fit as they came.

Clients and models write JSON into strings, and add arguments of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, cast, final

import attrs

from .._codec import _json
from ._generate import Schema
from ._shapes import Foreign, Shape, parts

MAX_TEXTS_BYTES: Final = 256 * 1024
"""What JSON in the strings of a call may take in memory once it is read, beyond twice what all strings do. What
a server keeps is counted before they are read."""

MAX_TEXTS: Final = 4_000
"""How many strings of a call are looked at: a list may have very many."""

MAX_COMPARED: Final = 10
"""How many unknown names of a call are compared with known ones, because that takes time."""

MAX_COMPARED_NAME: Final = 64
"""How long such a name may be."""

_ALIKE: Final = 0.7
"""How much alike two names are, of 1, if the one is meant by the other: "titles" by "titel"."""

_STRING_BYTES: Final = 49
"""What Python adds to the characters of a string."""


def read_leniently(
    arguments: Mapping[str, Any], schema: Schema, most: int, left_out: list[str] | None, strict: Collection[str]
) -> Mapping[str, Any]:
    """Return arguments as they were probably meant; the same object, if that is as they are.

    Strings are read as JSON where the schema takes no string. Members that the schema does not know are left out,
    unless their name is much like one that is missing: then the value has its place, and the name is wrong.

    Args:
        arguments: The arguments of a call.
        schema: The schema of all of them.
        most: How many bytes of memory what is read may take; nor does it take more than twice what the strings
            do that are read, and `MAX_TEXTS_BYTES`.
        left_out: Where names are added that are left out. `None` if none is.
        strict: The arguments within which nothing is left out.
    """
    given = dict(arguments)
    try:
        read: dict[str, Any] = _Lenient(schema, most, left_out, given, strict, left_out is None).read(
            given, schema
        )
    except RecursionError:  # what is so deep is refused for that
        return arguments
    return arguments if read is given else read


def has_foreign_class(shape: Shape) -> bool:
    """Whether a class of another library is in a shape. Such a class decides itself what it takes."""
    seen: set[Shape] = set()

    def visit(shape: Shape) -> bool:
        if isinstance(shape, Foreign):
            return True
        is_new = shape not in seen
        seen.add(shape)
        return is_new and any(map(visit, parts(shape)))

    return visit(shape)


@final
@attrs.define
class _Lenient:
    """Reads the arguments of one call, at any depth; never what is in a text that it has read."""

    _root: Schema
    _most: int
    _left_out: list[str] | None
    _arguments: dict[str, Any]
    _strict: Collection[str]
    _is_strict: bool
    _more: int = MAX_TEXTS_BYTES
    _left: int = MAX_TEXTS
    _compared: int = 0
    _known: dict[tuple[str, int], Any] = attrs.field(factory=dict[tuple[str, int], Any])

    def read(self, value: Any, schema: Any) -> Any:
        """Return a value as it was probably meant; itself, if that is so."""
        if not value:
            return value
        if isinstance(value, str):
            return value if self._left <= 0 or self._about("string", schema) else self._read_text(value)
        if _json.is_array(value):
            part = self._about("array", schema)
            fixed, rest = part.get("prefixItems", ()), part.get("items")
            read = [self.read(item, fixed[n] if n < len(fixed) else rest) for n, item in enumerate(value)]
            return read if any(map(operator.is_not, read, value)) else value
        if _json.is_object(value):
            part = self._about("object", schema)
            known, others = part.get("properties", {}), part.get("additionalProperties")
            is_whole = others is not False or self._is_strict or value.keys() <= known.keys()
            kept = value if is_whole else self._without_unknown(value, known)
            found: dict[str, Any] = {}
            for name, inner in kept.items():
                if value is self._arguments:
                    self._is_strict = self._left_out is None or name in self._strict
                found[name] = self.read(inner, known.get(name, others))
            is_same = len(found) == len(value) and not any(map(operator.is_not, found.values(), value.values()))
            return value if is_same else found
        return value

    def _about(self, kind: str, schema: Any) -> Any:
        """Return what `_branch_for` does, or `_takes_string`, found once: a list may have very many items."""
        place = kind, id(schema)  # which lives as long as the root
        if place not in self._known:
            find = _takes_string if kind == "string" else partial(_branch_for, kind)
            self._known[place] = find(schema, self._root)
        return self._known[place]

    def _without_unknown(self, value: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        assert self._left_out is not None, "its caller has looked"
        kept: dict[str, Any] = {}
        for name, inner in value.items():
            if name in known or self._is_misspelt(name, value, known):
                kept[name] = inner
            else:
                self._left_out.append(name)
        return kept

    def _is_misspelt(self, name: str, value: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
        self._compared += 1
        if self._compared > MAX_COMPARED or len(name) > MAX_COMPARED_NAME:
            return False
        missing = [other.casefold() for other in known if other not in value]
        return bool(get_close_matches(name.casefold(), missing, 1, _ALIKE))

    def _read_text(self, value: str) -> Any:
        self._left -= 1
        self._more += 2 * (len(value) + _STRING_BYTES)
        try:
            text = value.encode()
            if _json.is_costlier(text, min(self._most, self._more)):
                return value
            read = _json.decode(text)
        except (ValueError, RecursionError):
            return value  # it stays what it is, and is refused for that
        cost = _json.cost_of_json(text)
        self._most -= cost
        self._more -= cost
        return read


def _branch_for(kind: str, schema: Any, root: Schema) -> Mapping[str, Any]:
    """Return the only branch that may take arrays, or objects; one that says nothing if there are several."""
    return branches[0] if len(branches := _branches_for(kind, schema, root)) == 1 else {}


def _branches_for(kind: str, schema: Any, root: Schema) -> list[Mapping[str, Any]]:
    """Return the branches of a schema that may take arrays, or objects, as far as that is easily seen."""
    match schema:
        case {"$ref": str(reference)}:
            definition: Any = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
            return _branches_for(kind, root if reference == "#" else definition, root)
        case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
            return [found for branch in branches for found in _branches_for(kind, branch, root)]
        case {"type": str(found)} if found == kind:
            return [schema]
        case {"type": [*several]} if kind in several:
            return [schema]
        case {"type": _} | {"const": _} | {"enum": _}:
            return []
        case _:
            return [{}]  # it may take anything


def _takes_string(schema: Any, root: Schema) -> bool:
    """Whether a string may fit a schema, as far as that is easily seen. References lead in no circle."""
    if not isinstance(schema, Mapping):
        return True
    part = cast("Mapping[str, Any]", schema)
    match part:
        case {"type": str(kind)}:
            return kind == "string"
        case {"type": [*several]}:
            return "string" in several
        case {"$ref": str(reference)}:
            definition: Any = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"))
            return _takes_string(root if reference == "#" else definition, root)
        case {"anyOf": [*branches]} | {"oneOf": [*branches]}:
            return any(_takes_string(branch, root) for branch in branches)
        case {"const": value}:
            return isinstance(value, str)
        case {"enum": [*values]}:
            return any(isinstance(value, str) for value in values)
        case _:
            return True
