"""Which arguments of a tool are mirrored into header fields: the `x-mcp-header` marks in its input schema.

Spec: 2026-07-28, basic/transports/streamable-http, "Schema Extension"; server/tools, "x-mcp-header".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import attrs

from ._subschemas import direct_subschemas

__all__ = ["HEADER_KEYWORD", "HeaderMark", "InvalidMarks", "header_marks"]

HEADER_KEYWORD: Final = "x-mcp-header"
"""How a schema says under which name a header carries an argument."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PRIMITIVE: Final = frozenset({"string", "integer", "boolean"})


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
        if HEADER_KEYWORD not in part:
            continue
        mark = _read(part, path)
        if (other := names.setdefault(mark.header.lower(), mark)) is not mark:
            raise InvalidMarks(
                f"{_at(mark.path)} and {_at(other.path)} have the same {HEADER_KEYWORD} {mark.header!r}, "
                "but for case"
            )
        marks.append(mark)
    return tuple(marks)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...] | None]]:
    """Yield each schema in a schema, in document order, with its path where only `properties` lead to it.

    A loop, because the depth is the server's choice.
    """
    ahead: list[tuple[Mapping[str, Any], tuple[str, ...] | None]] = [(schema, ())]
    while ahead:
        part, path = ahead.pop()
        yield part, path
        inner: list[tuple[Mapping[str, Any], tuple[str, ...] | None]] = []
        for keyword, name, further in direct_subschemas(part):
            if keyword == "properties" and path is not None and name is not None:
                inner.append((further, (*path, name)))
            else:
                inner.append((further, None))
        ahead.extend(reversed(inner))


def _read(part: Mapping[str, Any], path: tuple[str, ...] | None) -> HeaderMark:
    header: Any = part[HEADER_KEYWORD]
    if not path:
        raise InvalidMarks(f"{HEADER_KEYWORD} {header!r} is not on a property that only `properties` lead to")
    if not isinstance(header, str) or not _TOKEN.fullmatch(header):
        raise InvalidMarks(f"{HEADER_KEYWORD} of {_at(path)} must be the name of a header field, not {header!r}")
    kind: Any = part.get("type")
    if not isinstance(kind, str) or kind not in _PRIMITIVE:
        raise InvalidMarks(
            f"{_at(path)} has {HEADER_KEYWORD} {header!r}, so its type must be string, integer or boolean, "
            f"not {kind!r}"
        )
    return HeaderMark(header, path)


def _at(path: tuple[str, ...]) -> str:
    return ".".join(path)
