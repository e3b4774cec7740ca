"""The door of the tests to Python signatures and JSON Schema: what they use of it and users do not.

Tests import private names from here alone, so that moving one changes one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from trio_mcp._core._output_schemas import direct_subschemas as direct_subschemas
from trio_mcp._schema import CallSpec as CallSpec
from trio_mcp._schema import InvalidValue as InvalidValue
from trio_mcp._schema import JsonType as JsonType
from trio_mcp._schema import inspect_callable as inspect_callable
from trio_mcp._schema import is_unstructured as is_unstructured
from trio_mcp._schema import result_to_json as result_to_json
from trio_mcp._schema import to_json as to_json
from trio_mcp._schema._docstrings import Docstring as Docstring
from trio_mcp._schema._docstrings import parse_docstring as parse_docstring
from trio_mcp._schema._schema_cost import MAX_BACKTRACKS as MAX_BACKTRACKS
from trio_mcp._schema._schema_cost import MAX_NODES as MAX_NODES
from trio_mcp._schema._schema_cost import SchemaCost as SchemaCost
from trio_mcp._schema._schema_cost import UnusableSchema as UnusableSchema
from trio_mcp._schema._schema_cost import measure as measure
from trio_mcp._schema._schema_cost import size_of_pattern as size_of_pattern
from trio_mcp._schema._shapes import expected as expected
from trio_mcp._schema._shapes import is_array as is_array
from trio_mcp._schema._shapes import is_object as is_object
from trio_mcp._schema._shapes import keyword_checks as keyword_checks
from trio_mcp._schema._shapes import refuse as refuse
from trio_mcp._schema._validator import DRAFT_07 as DRAFT_07
from trio_mcp._schema._validator import DRAFT_2020_12 as DRAFT_2020_12
from trio_mcp._schema._validator import SchemaValidator as SchemaValidator
from trio_mcp._schema._validator import explain as explain


def json_schema(hint: Any, *, direction: Literal["input", "output"] = "input") -> dict[str, Any]:
    """Return the schema of a type hint."""
    return JsonType(hint, direction=direction).schema


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def bind(
    spec: CallSpec, arguments: Mapping[str, object], injected: Mapping[str, object] = _NOTHING
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a call."""
    return spec.arrange(spec.decode(arguments), injected)
