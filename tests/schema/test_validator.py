"""Checking values against schemas of strangers: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import builtins
import importlib
import json
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from costs import costs_of

from trio_mcp._schema import InvalidValue
from trio_mcp._schema._schema_cost import MAX_STEPS, SchemaCost, UnusableSchema, depth_of, measure
from trio_mcp._schema._validator import DRAFT_07, DRAFT_2020_12, SchemaValidator

Make = Callable[[Any], SchemaValidator]


@pytest.fixture(scope="module")
def most_steps() -> float:
    """What it costs to take as many steps as are taken for any schema, in seconds; what is cheaper is over at once."""
    wide = {"$defs": {str(i): dict[str, Any]() for i in range(MAX_STEPS)}}

    def refuse() -> None:
        with pytest.raises(UnusableSchema, match="steps"):
            measure(wide)

    (cost,) = costs_of(refuse, times=2)
    return cost


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


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, {}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1.0}, {"a": "1"}),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, None, 1),
        ({"$ref": "#name", "$defs": {"x": {"$anchor": "name", "type": "null"}}}, None, 1),
        (
            {"$id": "https://x.test/a", "items": {"$ref": "https://x.test/a#/$defs/n"}, "$defs": {"n": False}},
            [],
            [1],
        ),
        ({"$schema": DRAFT_2020_12, "dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"$schema": f"{DRAFT_07}#", "items": [{"type": "string"}], "additionalItems": False}, ["a"], ["a", 1]),
        (
            {"$schema": DRAFT_07, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"a": 1, "b": 1},
            {"c": 1},
        ),
        ({"$schema": DRAFT_07, "definitions": {"n": {"$id": "#n", "type": "null"}}, "$ref": "#n"}, None, 1),
        ({"components": {"deep": [{"type": "null"}]}, "$ref": "#/components/deep/0"}, None, 1),
        ({"if": {"const": 1}, "then": False, "else": {"type": "integer"}, "not": {"const": 3}}, 2, 1),
        ({"maximum": 2**70}, 2**70, 2**70 + 2**60),
        (True, {"anything": []}, None),
        (False, None, {}),
    ],
)
def test_values_are_checked(schema: Any, good: object, bad: object, make: Make) -> None:
    """2025-11-25, basic, "JSON Schema Usage": 2020-12, unless `$schema` says otherwise."""
    validator = make(schema)
    if schema is not False:
        assert is_valid(validator, good)
    if schema is not True:
        assert not is_valid(validator, bad)


def test_it_is_said_where_a_value_is_wrong_and_why(make: Make) -> None:
    items = {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}}
    with pytest.raises(InvalidValue) as caught:
        make({"properties": {"orders": {"items": items}}}).check({"orders": [{"title": "a"}, {"title": 5}, {}]})
    (first, second) = sorted(caught.value.problems)
    assert first[0] == "orders[1].title"
    assert "string" in first[1]
    assert second[0] == "orders[2]"
    assert "title" in second[1]


def test_what_is_said_is_bounded(make: Make) -> None:
    with pytest.raises(InvalidValue) as caught:
        make({"items": {"type": "integer"}}).check(["x" * 10_000] * 1_000)
    assert len(caught.value.problems) == 10
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize(
    "reference",
    [
        "https://x.test/schema.json",
        "file:///etc/passwd",
        "other.json",
        "other.json#/a",
        "//x.test/a",
        "urn:x:y",
        "#/$defs/none",
        "#/prefixItems/7",
        "#none",
        5,
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched(keyword: str, reference: object, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """2026-07-28, basic, "JSON Schema Usage": references are not followed out of the schema."""

    def forbidden(*_: object, **__: object) -> object:
        raise AssertionError("something was fetched")

    importlib.import_module("referencing.jsonschema")
    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(builtins, "open", forbidden)
    with pytest.raises(UnusableSchema):
        make({"properties": {"a": {keyword: reference}}, "prefixItems": [True]})


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "x",
        5,
        {"type": "nothing"},
        {"properties": {"a": 5}},
        {"$schema": "https://x.test/dialect"},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"$schema": 5},
        {"$schema": {}},
        {"$schema": []},
        {"$id": {}, "$ref": "x#a"},
        {"$id": [], "items": {"$ref": "x"}},
        {"prefixItems": [True], "$ref": "#/prefixItems/" + "9" * 5_000},
        {"prefixItems": [True], "$ref": "#/prefixItems/\u0660"},
        {"prefixItems": [True], "$ref": "#/prefixItems/00"},
        {"$ref": []},
        {"$dynamicRef": {}},
        {"type": 5},
        {"type": []},
        {"properties": []},
        {"allOf": {}},
        {"required": [{}]},
        {"enum": 5},
        {"pattern": {}},
        {"pattern": "["},
        {"patternProperties": {"(": True}},
        {"multipleOf": 0},
        {"$defs": {"a": {"$id": "https://x.test/embedded"}}},
        {"const": object()},
        {"const": "x" * 100_000},
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, make: Make) -> None:
    """2026-07-28, basic, "JSON Schema Usage": a dialect that is not known is said to be so."""
    with pytest.raises(UnusableSchema):
        make(schema)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def doubling(steps: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(steps)}
    return {"$defs": {**definitions, f"d{steps}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def growing(width: int) -> dict[str, Any]:
    return {"properties": {"child": {"allOf": [{"$ref": "#"} for _ in range(width)]}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"$dynamicAnchor": "me", "not": {"$dynamicRef": "#me"}},
        nested(100),
        doubling(60),
        {"items": doubling(1)["$defs"]["d0"], **doubling(30)},
    ],
)
def test_absurd_schemas_are_refused_at_once(schema: Any, make: Make, most_steps: float) -> None:
    def refuse() -> None:
        with pytest.raises(UnusableSchema):
            make(schema)

    assert costs_of(refuse) < [most_steps]


def test_a_schema_that_takes_too_many_steps_is_refused() -> None:
    wide = {"$defs": {str(i): dict[str, Any]() for i in range(MAX_STEPS)}}
    with pytest.raises(UnusableSchema, match="steps"):
        measure(wide)
    names = {f"n{i}": {"$ref": "#"} for i in range(1_000)}
    with pytest.raises(UnusableSchema, match="steps"):
        measure({"properties": names, "$defs": {str(i): {"$ref": "#"} for i in range(500)}})


def test_a_schema_that_doubles_the_work_with_each_level_checks_shallow_values_only(
    make: Make, most_steps: float
) -> None:
    validator = make(growing(2))
    value: dict[str, Any] = {}
    for _ in range(5):
        value = {"child": value}
    assert is_valid(validator, value)
    for _ in range(60):
        value = {"child": value}

    def refuse() -> None:
        with pytest.raises(UnusableSchema, match="steps"):
            validator.check(value)

    assert costs_of(refuse) < [most_steps]


@pytest.mark.parametrize(
    ("schema", "growth"),
    [
        ({}, 1),
        (True, 1),
        ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, 1),
        ({"items": {"$ref": "#"}, "properties": {"a": {"type": "string"}}}, 1),
        ({"prefixItems": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
        ({"properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}}, 1),
        ({"type": "object", "propertyNames": {"pattern": "a"}}, 1),
        (growing(1), 1),
        (growing(2), 2),
        (growing(3), 3),
        ({"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}, 2),
        ({"properties": {"a": {"$ref": "#"}}, "patternProperties": {".": {"$ref": "#"}}}, 2),
        ({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}, 2),
        ({"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"b": {"$ref": "#"}}}]}, 1),
        ({"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}, 2),
    ],
)
def test_growth_is_foreseen(schema: Any, growth: int) -> None:
    """What is looked at once for each part of a value does not grow."""
    assert measure(schema).growth == growth


def test_what_refers_to_the_same_again_and_again_is_counted_as_often() -> None:
    assert measure(doubling(3)).per_value == 1 + 29, "1, 1 + 2 * (1 + 1) = 5, 13, 29"
    plain = {"items": {"type": "string"}, "allOf": [{"minimum": 1}, {"maximum": 2}]}
    assert measure(plain).per_value == 4


VALUES: dict[str, Any] = {"number": 5, "mixed": [1, 2, {"a": 3}], "deep": [[[[]]]]}


@pytest.mark.parametrize(
    ("cost", "name", "checks"),
    [
        (SchemaCost(1, 1, has_patterns=False), "number", 1),
        (SchemaCost(1, 1, has_patterns=False), "mixed", 5),
        (SchemaCost(10, 1, has_patterns=False), "mixed", 50),
        (SchemaCost(1, 2, has_patterns=False), "mixed", 1 + 3 * 2 + 1 * 4),
        (SchemaCost(1, 2, has_patterns=False), "deep", 1 + 2 + 4 + 8),
    ],
)
def test_the_work_that_a_value_makes_is_foreseen(cost: SchemaCost, name: str, checks: int) -> None:
    value = VALUES[name]
    assert cost.allows(value, checks)
    assert not cost.allows(value, checks - 1)


def test_a_large_value_under_a_costly_schema_is_not_checked(make: Make, most_steps: float) -> None:
    validator = make({"$defs": doubling(10)["$defs"], "items": {"$ref": "#/$defs/d0"}})
    value = list[Any]([{}]) * 1_000_000

    def refuse() -> None:
        with pytest.raises(UnusableSchema, match="steps"):
            validator.check(value)

    assert costs_of(refuse) < [most_steps]


def test_a_deep_value_is_checked_or_said_to_be_too_deep(make: Make) -> None:
    value: dict[str, Any] = {}
    for _ in range(900):
        value = {"a": value}
    validator = make({"properties": {"a": {"$ref": "#"}}})
    try:
        validator.check(value)
    except UnusableSchema as error:
        assert "cannot be checked" in str(error)


def test_a_pattern_of_a_stranger_costs_no_time(make: Make, request: pytest.FixtureRequest) -> None:
    """Without the library that bounds them, such patterns are not run at all."""
    schema = {"pattern": "^(a+)+$"}
    try:
        validator = make(schema)
    except UnusableSchema as error:
        assert "jsonschema-rs" in str(error)
        assert not is_valid(SchemaValidator(schema, max_bytes=1000, is_trusted=True), "b")
        return
    harmless = make({"pattern": "^a+$"})

    def refuse(with_it: SchemaValidator) -> None:
        for _ in range(100):
            assert not is_valid(with_it, "a" * 50 + "!")

    cost, usual = costs_of(partial(refuse, validator), partial(refuse, harmless))
    assert cost / usual < 10, (cost, usual)


def test_half_a_surrogate_pair_is_no_reason_to_fall_over(make: Make) -> None:
    try:
        make({"type": "string"}).check("\ud800")
    except UnusableSchema as error:
        assert "cannot be checked" in str(error)


DEPTHS: list[tuple[Any, int]] = [
    (1, 0),
    ([], 1),
    ({}, 1),
    ([[1], {"a": {}}], 3),
    (json.loads("[" * 50 + "]" * 50), 11),
]


@pytest.mark.parametrize(("value", "depth"), DEPTHS)
def test_depth_is_counted_as_far_as_it_matters(value: object, depth: int) -> None:
    assert depth_of(value, 10) == depth
