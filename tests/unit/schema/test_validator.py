"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import builtins
import importlib
import json
import socket
from typing import Any

import pytest
from inside_schema import (
    DRAFT_07,
    DRAFT_2020_12,
    InvalidValue,
    SchemaValidator,
    UnusableSchema,
    depth_of,
    measure,
    size_of_pattern,
)
from shared.schema_validator import COSTLY, Make, doubling, growing, is_valid
from shared.schema_validator import make as make


def test_values_are_checked(make: Make, subtests: pytest.Subtests) -> None:
    """2025-11-25, basic, "JSON Schema Usage": 2020-12, unless `$schema` says otherwise."""
    cases: list[tuple[Any, object, object]] = [
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
    ]
    for schema, good, bad in cases:
        with subtests.test(schema=schema):
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


def test_nothing_is_fetched(make: Make, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "JSON Schema Usage": references are not followed out of the schema."""
    references: list[object] = [
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
    ]

    def forbidden(*_: object, **__: object) -> object:
        raise AssertionError("something was fetched")

    importlib.import_module("referencing.jsonschema")
    for keyword in ("$ref", "$dynamicRef"):
        for reference in references:
            with subtests.test(keyword=keyword, reference=reference), monkeypatch.context() as patched:
                patched.setattr(socket, "socket", forbidden)
                patched.setattr(builtins, "open", forbidden)
                with pytest.raises(UnusableSchema):
                    make({"properties": {"a": {keyword: reference}}, "prefixItems": [True]})


NO_SCHEMAS: list[Any] = [
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
]


def test_what_is_no_schema_is_refused(make: Make, subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "JSON Schema Usage": a dialect that is not known is said to be so."""
    for schema in NO_SCHEMAS:
        with subtests.test(schema=schema), pytest.raises(UnusableSchema):
            make(schema)


def test_growth_is_foreseen() -> None:
    """What is looked at once for each part of a value does not grow."""
    cases: list[tuple[Any, int]] = [
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
    ]
    for schema, growth in cases:
        assert measure(schema).growth == growth


def test_what_refers_to_the_same_again_and_again_is_counted_as_often() -> None:
    assert measure(doubling(3)).per_value == 1 + 29, "1, 1 + 2 * (1 + 1) = 5, 13, 29"
    plain = {"items": {"type": "string"}, "allOf": [{"minimum": 1}, {"maximum": 2}]}
    assert measure(plain).per_value == 4


def test_a_deep_value_is_checked_or_said_to_be_too_deep(make: Make) -> None:
    value: dict[str, Any] = {}
    for _ in range(900):
        value = {"a": value}
    validator = make({"properties": {"a": {"$ref": "#"}}})
    try:
        validator.check(value)
    except UnusableSchema as error:
        assert "cannot be checked" in str(error)


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


@pytest.mark.parametrize("name", [name for name in COSTLY if "multiples" in name])
def test_numbers_of_many_digits_are_not_divided_without_end(name: str) -> None:
    """Fractions are divided exactly; a list of such numbers held the event loop for up to seconds."""
    schema, value = COSTLY[name]()
    with pytest.raises(UnusableSchema, match="might take more than"):
        SchemaValidator(schema, max_bytes=1_000).check(value)


def test_the_size_of_a_regular_expression_is_foreseen() -> None:
    """Compiled, what is counted is written out."""
    cases: list[tuple[str, int, int]] = [
        ("", 10, 10),
        ("abc", 16, 16),
        ("a{1,100}", 200, 300),
        ("(a{1,100}){50}", 10_000, 12_000),
        ("(a|b{10}){20}", 400, 600),
        ("[a-z{9}]{5}", 20, 40),
        (r"\p{L}{3}", 300, 320),
        (r"a\{100}", 10, 30),
        ("{5}a", 10, 20),
        ("a{ 1000 }", 2_000, 2_100),
        ("a{99999999999999999999}", 10**20, 10**21),
        ("(" * 1_000, 10, 5_000),
        (")" * 1_000, 10, 5_000),
    ]
    for pattern, least, most in cases:
        assert least <= size_of_pattern(pattern) <= most


def test_where_it_is_not_found_what_is_wrong_that_is_said(make: Make) -> None:
    """A reader must not look for a reason in it."""
    with pytest.raises(InvalidValue, match="does not fit the schema; in a value of this size"):
        make({"items": {"not": {"const": 7}}}).check([1] * 20_000 + [7])
