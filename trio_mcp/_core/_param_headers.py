"""Which parameters of a tool HTTP headers also carry, and the rules for marking them.

Plain functions over schemas: a server checks its tools by them, a client the tools it is told of.

Spec: 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ._subschemas import direct_subschemas

__all__ = ["HEADER_KEYWORD", "param_headers"]

HEADER_KEYWORD: Final = "x-mcp-header"
"""How a schema says under which name a header carries a parameter."""

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""The name of a field (RFC 9110, section 5.1)."""

_TYPES: Final = ("integer", "string", "boolean")


def param_headers(schema: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the headers that carry parameters.

    Args:
        schema: The input schema of a tool.

    Returns:
        For each name after ``Mcp-Param-``, as it is written, the way to the parameter in the arguments.

    Raises:
        ValueError: A mark breaks the rules, and so the tool must not be used over HTTP. The message names it.
    """
    found: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    # A schema, the way to its value, and whether only `properties` lead there.
    waiting: list[tuple[Mapping[str, Any], tuple[str, ...], bool]] = [(schema, (), True)]
    while waiting:
        inner, path, is_reachable = waiting.pop()
        if HEADER_KEYWORD in inner:
            place = ".".join(path) or "the schema itself"
            name = _checked(inner, place, is_reachable=is_reachable and bool(path))
            if name.lower() in taken:
                raise ValueError(f"{place}: another parameter has the header {name!r} already")
            taken.add(name.lower())
            found[name] = path
        waiting += [
            (further, path if step is None else (*path, step), is_reachable and keyword == "properties")
            for keyword, step, further in direct_subschemas(inner)
        ]
    return found


def _checked(schema: Mapping[str, Any], place: str, *, is_reachable: bool) -> str:
    name = schema[HEADER_KEYWORD]
    if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
        raise ValueError(f"{place}: {HEADER_KEYWORD} must be the name of an HTTP header, not {name!r:.100}")
    if not is_reachable:
        raise ValueError(
            f"{place}: {HEADER_KEYWORD} {name!r} may only mark parameters that `properties` alone lead to"
        )
    if schema.get("type") not in _TYPES:
        raise ValueError(
            f"{place}: {HEADER_KEYWORD} {name!r} may only mark an integer, a string or a boolean, "
            f"not the type {schema.get('type')!r:.100}"
        )
    return name
