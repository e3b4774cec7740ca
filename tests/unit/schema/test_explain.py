"""What is said about a value that does not fit a schema: it is true, it is bounded, and it is found where it is common."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from inside_schema import DRAFT_07, DRAFT_2020_12, explain

RELAXED = settings(
    max_examples=settings().max_examples * 3 // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -2.0]),
    st.sampled_from(["", "a", "ab", "é"]),
)
NAMES = st.sampled_from(["a", "b", "", "$ref"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
NUMBERS = st.sampled_from([0, 1, 2, 1.0])


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=2, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "minLength": NUMBERS,
            "maxLength": NUMBERS,
            "minItems": NUMBERS,
            "maxProperties": NUMBERS,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "properties": by_name,
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^$"]), inner, max_size=1),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": several,
            "additionalItems": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y~1z"]),
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({"type": KINDS}), _objects, max_leaves=8)


@RELAXED
@given(schema=SCHEMAS, one=SCHEMAS, other=SCHEMAS, value=VALUES, is_draft_07=st.booleans(), tuples=st.booleans())
def test_nothing_is_said_about_a_value_that_fits(
    schema: Any, one: Any, other: Any, value: Any, is_draft_07: bool, tuples: bool
) -> None:
    """A reason that is none sends its reader into the desert; jsonschema-rs knows which values fit."""
    whole: dict[str, Any] = {
        **(schema if isinstance(schema, dict) else {"not": not schema}),
        "$schema": DRAFT_07 if is_draft_07 else DRAFT_2020_12,
        "$defs": {"x": one, "y/z": other},
    }
    if is_draft_07 and tuples:
        whole["items"] = [one, other]
    try:
        validator = jsonschema_rs.validator_for(whole, validate_formats=False)
    except ValueError:
        assume(False)
        raise
    found = explain(whole, value, is_draft_07=is_draft_07)
    assert not found or not validator.is_valid(value), found


def test_what_is_common_is_found() -> None:
    cases: list[tuple[Any, object, tuple[str | int, ...], str]] = [
        (False, 1, (), "is not allowed here"),
        ({"type": "string"}, 1, (), "expected a string, got 1"),
        ({"type": ["string", "null"]}, True, (), "expected a string or null, got true"),
        ({"type": "integer"}, 1.5, (), "expected an integer, got 1.5"),
        ({"enum": [1, "a"]}, True, (), "is none of the values that are allowed, got true"),
        ({"const": "a"}, "b", (), 'expected "a", got "b"'),
        ({"minimum": 5}, 4, (), "must be at least 5, got 4"),
        ({"exclusiveMaximum": 5}, 5, (), "must be less than 5, got 5"),
        ({"maxLength": 2}, "abc", (), "must have at most 2 characters, has 3"),
        ({"minItems": 2}, [1], (), "must have at least 2 items, has 1"),
        ({"required": ["a"]}, {}, (), '"a" is missing'),
        ({"properties": {"a": {"items": {"type": "null"}}}}, {"a": [None, 1]}, ("a", 1), "expected null, got 1"),
        (
            {"properties": {"a": True}, "additionalProperties": False},
            {"a": 1, "b": 2},
            ("b",),
            "is not allowed here",
        ),
        ({"prefixItems": [True], "items": False}, [1, 2], (1,), "is not allowed here"),
        (
            {"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": {"type": "null"}}},
            [1],
            (0,),
            "expected null, got 1",
        ),
        ({"items": {"$ref": "#"}, "type": "array"}, [[[1]]], (0, 0, 0), "expected an array, got 1"),
        ({"allOf": [True, {"type": "null"}]}, 1, (), "expected null, got 1"),
        (
            {"anyOf": [{"type": "null"}, {"properties": {"a": False}}]},
            {"a": 1},
            (),
            "fits none of the alternatives: expected null, got an object, or is not allowed here",
        ),
    ]
    for schema, value, path, said in cases:
        assert explain(schema, value, is_draft_07=False) == [(path, said)]


def test_draft_07_says_some_things_in_another_way() -> None:
    """Items by their place stand in `items`, and what stands beside a reference does not count."""
    schema = {"items": [{"type": "null"}], "additionalItems": {"type": "string"}}
    assert explain(schema, [1, 2], is_draft_07=True) == [
        ((0,), "expected null, got 1"),
        ((1,), "expected a string, got 2"),
    ]
    beside = {"definitions": {"a": True}, "$ref": "#/definitions/a", "type": "null"}
    assert explain(beside, 1, is_draft_07=True) == []


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "string"}}, [1] * 1_000_000),
        ({"items": {"type": "integer"}}, [1] * 1_000_000),
        ({"items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, "type": "array"}, nested(900)),
        ({"allOf": [{"$ref": "#"}]}, 1),
        ({"items": {"enum": [str(i) for i in range(10_000)]}}, ["x"] * 10_000),
        ({"required": [str(i) for i in range(100_000)]}, {}),
    ],
)
def test_it_ends(schema: object, value: object) -> None:
    """At the tenth problem, or when it has taken enough steps."""
    assert len(explain(schema, value, is_draft_07=False)) <= 10
