"""Hypothesis strategies for instances of the official schemas' definitions. No test lives here.

They know as much of JSON Schema as those schemas use.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from official import definitions, is_list, is_object
from wire_strategies import json_value, text

from trio_mcp import Revision


@functools.cache
def instances(revision: Revision, definition: str) -> SearchStrategy[Any]:
    """Draw an instance of a definition, sometimes with a member nobody knows."""
    return st.deferred(lambda: _instances(revision, definitions(revision)[definition]))


def _instances(revision: Revision, part: Mapping[str, Any]) -> SearchStrategy[Any]:
    match part:
        case {"$ref": reference}:
            return instances(revision, reference.rpartition("/")[2])
        case {"const": value}:
            return st.just(value)
        case {"enum": values}:
            return st.sampled_from(values)
        case {"anyOf": options}:
            return st.one_of([_instances(revision, option) for option in options])
        case {"allOf": parts}:
            return st.tuples(*[_instances(revision, each) for each in parts]).map(_merged)
        case {"type": kinds} if is_list(kinds):
            return st.one_of([_instances(revision, {**part, "type": kind}) for kind in kinds])
        case {"type": "object"}:
            return _objects(revision, part)
        case {"type": "array"}:
            return st.lists(_instances(revision, part["items"]), max_size=3)
        case {"type": "string"}:
            return st.just("file:///x") if "format" in part else text
        case {"type": "integer"}:
            # A whole number may be written as a fraction.
            return st.integers(part.get("minimum", -3), 1000) | st.just(4.0)
        case {"type": "number"}:
            return st.sampled_from((0, 1, 0.5))
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "null"}:
            return st.none()
        case _:
            return json_value


def _merged(parts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _objects(revision: Revision, part: Mapping[str, Any]) -> SearchStrategy[Any]:
    drawn = {key: _instances(revision, value) for key, value in part.get("properties", {}).items()}
    required = {key: value for key, value in drawn.items() if key in part.get("required", ())}
    optional = {key: value for key, value in drawn.items() if key not in required}
    others = part.get("additionalProperties", {})
    more = _instances(revision, others) if is_object(others) else json_value
    return st.fixed_dictionaries(required, optional={**optional, "com.example/more": more})
