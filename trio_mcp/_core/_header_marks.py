"""Which arguments of a tool are mirrored into header fields: the `x-mcp-header` marks in its input schema.

Spec: 2026-07-28, basic/transports/streamable-http, "Schema Extension"; server/tools, "x-mcp-header".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import attrs

from .._codec._json import is_array, is_object

__all__ = ["HeaderMark", "InvalidMarks", "header_marks"]

KEYWORD: Final = "x-mcp-header"

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PRIMITIVE: Final = frozenset({"string", "integer", "boolean"})

# Where a schema has schemas in it (JSON Schema 2020-12, and what draft-07 called differently). What lies anywhere
# else, such as in `default` or `const`, is data.
_SCHEMA: Final = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_SCHEMAS_BY_NAME: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties")
_SCHEMA_LIST: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")


@final
@attrs.frozen
class HeaderMark:
    """One argument that is mirrored.

    Attributes:
        header: The name of the field, after ``Mcp-Param-``.
        path: The names of the properties that lead to the argument.
    """

    header: str
    path: tuple[str, ...]


@final
class InvalidMarks(ValueError):
    """A mark breaks a rule, so the tool cannot be used over HTTP."""


def header_marks(schema: Mapping[str, Any]) -> tuple[HeaderMark, ...]:
    """Return the marks in the input schema of a tool.

    Raises:
        InvalidMarks: One of them breaks a rule; it says which.
    """
    marks: list[HeaderMark] = []
    names: dict[str, HeaderMark] = {}
    for part, path in _subschemas(schema):
        if KEYWORD not in part:
            continue
        mark = _read(part, path)
        if (other := names.setdefault(mark.header.lower(), mark)) is not mark:
            raise InvalidMarks(
                f"{_at(mark.path)} and {_at(other.path)} have the same {KEYWORD} {mark.header!r}, but for case"
            )
        marks.append(mark)
    return tuple(marks)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """Yield each schema in a schema, in document order, with its path where only `properties` lead to it.

    A loop, because the depth is the server's choice.
    """
    ahead: list[tuple[Any, tuple[str, ...] | None]] = [(schema, ())]
    while ahead:
        part, path = ahead.pop()
        if not is_object(part):
            continue
        yield part, path
        inner: list[tuple[Any, tuple[str, ...] | None]] = []
        properties = part.get("properties")
        if is_object(properties):
            inner += [(value, None if path is None else (*path, name)) for name, value in properties.items()]
        inner += [(part[keyword], None) for keyword in _SCHEMA if keyword in part]
        for keyword in _SCHEMAS_BY_NAME:
            by_name = part.get(keyword)
            if is_object(by_name):
                inner += [(value, None) for value in by_name.values()]
        for keyword in _SCHEMA_LIST:
            several = part.get(keyword)
            if is_array(several):
                inner += [(value, None) for value in several]
        ahead.extend(reversed(inner))


def _read(part: Mapping[str, Any], path: tuple[str, ...] | None) -> HeaderMark:
    header: Any = part[KEYWORD]
    if not path:
        raise InvalidMarks(f"{KEYWORD} {header!r} is not on a property that only `properties` lead to")
    if not isinstance(header, str) or not _TOKEN.fullmatch(header):
        raise InvalidMarks(f"{KEYWORD} of {_at(path)} must be the name of a header field, not {header!r}")
    kind: Any = part.get("type")
    # An argument that may be null is left out when it is ("Server Behavior for Custom Headers").
    kinds: list[Any] = [each for each in kind if each != "null"] if is_array(kind) else [kind]
    if len(kinds) != 1 or not isinstance(kinds[0], str) or kinds[0] not in _PRIMITIVE:
        raise InvalidMarks(
            f"{_at(path)} has {KEYWORD} {header!r}, so its type must be string, integer or boolean, not {kind!r}"
        )
    return HeaderMark(header, path)


def _at(path: tuple[str, ...]) -> str:
    return ".".join(path)
