"""What the tests of validator share in several layers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from inside_schema import (
    InvalidValue,
    SchemaValidator,
)

Make = Callable[[Any], SchemaValidator]


@pytest.fixture(params=["jsonschema_rs", "jsonschema"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes validators with either library."""
    if request.param == "jsonschema":
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    return lambda schema: SchemaValidator(schema, max_bytes=100_000)


def is_valid(validator: SchemaValidator, value: object) -> bool:
    try:
        validator.check(value)
    except InvalidValue:
        return False
    return True


def doubling(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(steps)}
    return {"$defs": {**definitions, f"d{steps}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def growing(width: int) -> dict[str, Any]:
    return {"properties": {"child": {"allOf": [{"$ref": "#"} for _ in range(width)]}}}


# What means harm.
def unevaluated(levels: int, *applicators: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for level in range(levels):
        applicator = applicators[level % len(applicators)]
        inner: Any = {"a": schema} if applicator == "dependentSchemas" else schema
        inner = [schema] if applicator.endswith("Of") else inner
        schema = {applicator: inner, "unevaluatedProperties": {"type": "integer"}}
    return schema


def named(count: int) -> dict[str, int]:
    return {f"k{i}": i for i in range(count)}


def flattened_alike(count: int) -> list[Any]:
    """Arrays that differ only in what stands in a further array; jsonschema-rs has the same hash for all of them."""
    return [[[bit] if number >> bit & 1 else bit for bit in range(20)] for number in range(count)]


COSTLY: dict[str, Callable[[], tuple[dict[str, Any], object]]] = {
    "unevaluated in allOf": lambda: (unevaluated(30, "allOf"), {"a": 1}),
    "unevaluated in all": lambda: (
        unevaluated(30, "anyOf", "if", "oneOf", "dependentSchemas", "allOf"),
        {"a": 1},
    ),
    "unevaluated items": lambda: ({"anyOf": [unevaluated(20, "anyOf")] * 3, "unevaluatedItems": False}, []),
    "unevaluated of many": lambda: (
        {"anyOf": [{"additionalProperties": {"type": "integer"}}] * 1_000, "unevaluatedProperties": False},
        named(100_000),
    ),
    "equal hashes": lambda: ({"uniqueItems": True}, flattened_alike(100_000)),
    "equal doubles": lambda: ({"uniqueItems": True}, [10**30 + i for i in range(100_000)]),
    "options": lambda: ({"items": {"enum": [[i] for i in range(10_000)]}}, [[-1]] * 100_000),
    "fractions": lambda: ({"items": {"enum": [i + 0.5 for i in range(10_000)]}}, [0.25] * 100_000),
    "constant": lambda: ({"items": {"const": list(range(10_000))}}, [list(range(10_000))] * 10_000),
    "required": lambda: ({"items": {"required": [str(i) for i in range(10_000)]}}, [dict[str, Any]()] * 100_000),
    "names": lambda: ({"items": {"properties": {str(i): True for i in range(10_000)}}}, [{"a": 1}] * 100_000),
    "patterns of names": lambda: (
        {"patternProperties": {f"[a-z]*{i}$": True for i in range(1_000)}},
        named(100_000),
    ),
    "counted": lambda: ({"pattern": "^((a{1,100}){1,100}){1,5}$"}, "a" * 100_000),
    "counted at once": lambda: ({"pattern": "[^x]{0,1000}y"}, "a" * 1_000_000),
    "ahead": lambda: ({"pattern": "(?=a)a*b"}, "a" * 1_000_000),
    "ahead of ahead": lambda: ({"pattern": "(?=.*(?=.*(?=.*[bB]x))).*y"}, "b" * 100_000),
    "behind": lambda: ({"pattern": r"^(a+)+\1$"}, "a" * 1_000_000),
    "many patterns": lambda: (
        {"anyOf": [{"pattern": f"^(a|b)*a(a|b){{500}}{i}$"} for i in range(1_000)]},
        "ab" * 100_000,
    ),
    "alternatives": lambda: ({"anyOf": [{"maxLength": i} for i in range(10_000)]}, ["a"] * 1_000_000),
    "compiled": lambda: ({"anyOf": [{"pattern": f"a{{1,100000}}{i}"} for i in range(1_000)]}, "a"),
    "multiples of tenths": lambda: ({"items": {"multipleOf": 0.1}}, [2.2250738585072014e-308] * 150_000),
    "multiples of next to nothing": lambda: ({"items": {"multipleOf": 1e-308}}, [1e308] * 150_000),
    "multiples far off": lambda: (
        {"additionalProperties": {"allOf": [{"multipleOf": 3}] * 10}},
        dict.fromkeys(named(50_000), 1e308),
    ),
    "long numbers": lambda: ({"items": {"allOf": [{"maximum": 10**400}] * 10}}, [10**300] * 10_000),
    "long multiples": lambda: ({"items": {"multipleOf": 0.1}}, [10**4_000] * 2_000),
}
