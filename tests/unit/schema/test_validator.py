"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import importlib
import socket
import sys
from typing import Any

import pytest
from inside_schema import (
    DRAFT_07,
    DRAFT_2020_12,
    InvalidValue,
    SchemaValidator,
    UnusableSchema,
    json_schema,
    measure,
    size_of_pattern,
)
from shared.schema_validator import COSTLY, Make, doubling, flattened_alike, growing, is_valid, unevaluated
from shared.schema_validator import make as make


def test_values_are_checked(make: Make, subtests: pytest.Subtests) -> None:
    """2025-11-25, basic, "JSON Schema Usage": 2020-12, unless `$schema` says otherwise."""
    cases: list[tuple[Any, object, object]] = [
        ({"type": "object", "required": ["a"]}, {"a": 1}, {}),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1.0}, {"a": "1"}),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, None, 1),
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
        ({"components": {"deep": [{"type": "null"}]}, "$ref": "#/components/deep/0"}, None, 1),
        ({"if": {"const": 1}, "then": False, "else": {"type": "integer"}, "not": {"const": 3}}, 2, 1),
        ({"properties": {"$id": {"type": "null"}, "a": {"$ref": "#/properties/$id"}}}, {"a": None}, {"a": 1}),
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
    {"items": {"$id": "https://x.test/embedded"}},
    {"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "https://x.test/embedded", "$defs": {"b": {}}}}},
    {"const": object()},
    {"const": "x" * 100_000},
]


def test_what_is_no_schema_is_refused(make: Make, subtests: pytest.Subtests) -> None:
    """2026-07-28, basic, "JSON Schema Usage": a dialect that is not known is said to be so."""
    for schema in NO_SCHEMAS:
        with subtests.test(schema=schema), pytest.raises(UnusableSchema):
            make(schema)


def test_a_deep_value_is_checked_or_said_to_be_too_deep(make: Make) -> None:
    value: dict[str, Any] = {}
    for _ in range(900):
        value = {"a": value}
    recursive = {"properties": {"a": {"$ref": "#"}}}
    for validator in make(True), SchemaValidator(recursive, max_bytes=1_000, is_trusted=True):
        try:
            validator.check(value)
        except UnusableSchema as error:
            assert "cannot be checked" in str(error)


def test_what_refers_to_the_same_again_and_again_is_counted_as_often() -> None:
    assert measure(doubling(3)).nodes == 30, (
        "1 for the root, and 1, 1 + 2 * 2, 1 + 2 * (1 + 5), 1 + 2 * (1 + 13) = 29"
    )
    plain = {"items": {"type": "string"}, "allOf": [{"minimum": 1}, {"maximum": 2}], "$defs": {"a": growing(9)}}
    assert measure(plain).nodes == 4


# What others write, and what is not checked of it.

HOSTILE: dict[str, tuple[str, Any]] = {
    "itself": ("$ref", {"$ref": "#"}),
    "itself in allOf": ("$ref", {"allOf": [{"$ref": "#"}]}),
    "a tree": ("$ref", {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
    "a list of itself": ("$ref", {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
    "each other": (
        "$ref",
        {
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"if": {"$ref": "#/$defs/a"}}},
            "items": {"$ref": "#/$defs/a"},
        },
    ),
    "twice with each level": ("$ref", growing(2)),
    "an anchor": ("$ref", {"$ref": "#name", "$defs": {"x": {"$anchor": "name"}}}),
    "an anchor of draft-07": (
        "$ref",
        {"$schema": DRAFT_07, "definitions": {"n": {"$id": "#n"}}, "items": {"$ref": "#n"}},
    ),
    "elsewhere": ("$ref", {"items": {"$ref": "https://x.test/a"}}),
    "a dynamic reference": ("$dynamicRef", {"$dynamicAnchor": "me", "not": {"$dynamicRef": "#me"}}),
    "a base of its own": ("$id", {"items": {"$id": "https://x.test/a"}}),
    "a billion laughs": ("allOf", doubling(30)),
    "a billion laughs, wide": (
        "anyOf",
        {
            "$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 50} for i in range(3)} | {"d3": {}},
            "$ref": "#/$defs/d0",
        },
    ),
    "long chains": (
        "$ref",
        {
            "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(500)} | {"d500": {}},
            "$ref": "#/$defs/d0",
        },
    ),
    "deep": ("not", functools.reduce(lambda inner, _: {"not": inner}, range(100), dict[str, Any]())),
    "wide": ("properties", {"properties": {str(i): True for i in range(10_000)}}),
    "many alternatives": ("oneOf", {"items": {"oneOf": [{"maxLength": i} for i in range(10_000)]}}),
    "many names": ("required", {"required": [str(i) for i in range(10_000)]}),
    "names that collide": ("required", {"required": flattened_alike(1_000)}),
    "types that collide": ("type", {"type": flattened_alike(1_000)}),
    "many options": ("enum", {"enum": [[i] for i in range(5_000)]}),
    "many options, often": (
        "enum",
        {"allOf": [{"$ref": "#/$defs/a"}] * 100, "$defs": {"a": {"enum": [str(i) for i in range(10_000)]}}},
    ),
    "many keywords, often": (
        "$ref",
        {"allOf": [{"$ref": "#/$defs/a"}] * 100, "$defs": {"a": {str(i): 1 for i in range(10_000)}}},
    ),
    "fractions": ("enum", {"enum": [number + 0.5 for number in range(400)]}),
    "long bounds": ("allOf", {"allOf": [{"maximum": 10**400 + number} for number in range(400)]}),
    "a long constant": ("const", {"items": {"const": list(range(10_000))}}),
    "unevaluated members": ("unevaluatedProperties", unevaluated(1, "allOf")),
    "unevaluated items": ("unevaluatedItems", {"anyOf": [{"prefixItems": [True]}], "unevaluatedItems": False}),
    "many patterns": ("pattern", {"anyOf": [{"pattern": f"^(a|b)*a(a|b){{50}}{i}$"} for i in range(200)]}),
    "many patterns of names": ("pattern", {"patternProperties": {f"[a-z]{{100}}{i}$": True for i in range(100)}}),
    "counted": ("pattern", {"pattern": "^((a{1,100}){1,100}){1,5}$"}),
    "compiled": ("pattern", {"anyOf": [{"pattern": f"a{{1,100000}}{i}"} for i in range(10)]}),
}


def test_of_the_schemas_of_others_a_plain_subset_is_used(make: Make) -> None:
    """All else is refused when it is read, whatever the value is; the error begins with the keyword that is the reason."""
    make(True)  # each library in turn
    found = dict[str, str]()
    for name, (_, schema) in HOSTILE.items():
        try:
            SchemaValidator(schema, max_bytes=256 * 1024)
        except UnusableSchema as error:
            found[name] = str(error).partition(":")[0]
    assert found == {name: keyword for name, (keyword, _) in HOSTILE.items()}


WITH_PATTERNS = {"counted at once", "ahead", "ahead of ahead", "behind"}
TOO_MUCH = WITH_PATTERNS | {
    "equal hashes",
    "equal doubles",
    "multiples of tenths",
    "multiples of next to nothing",
    "multiples far off",
    "long multiples",
    "long numbers",
}


@pytest.mark.parametrize("library", ["jsonschema_rs", "jsonschema"])
def test_values_that_would_take_long_are_not_checked(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of schemas in the subset: no library is asked. Without jsonschema-rs no regular expression is evaluated."""
    if library == "jsonschema":
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    late, early = set[str](), set[str]()
    for name, case in COSTLY.items():
        schema, value = case()
        with pytest.raises(UnusableSchema) as caught:
            SchemaValidator(schema, max_bytes=256 * 1024).check(value)
        is_late = str(caught.value).startswith("checking the value might take more than")
        (late if is_late else early).add(name)
    assert late == (TOO_MUCH if library == "jsonschema_rs" else TOO_MUCH - WITH_PATTERNS)
    assert early == set(COSTLY) - late


REAL: dict[str, tuple[Any, object, object]] = {
    "pydantic": (
        {
            "$defs": {
                "Item": {
                    "properties": {
                        "id": {"format": "uuid", "title": "Id", "type": "string"},
                        "price": {"anyOf": [{"type": "number"}, {"pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "type": "string"}]},
                        "state": {"$ref": "#/$defs/State"},
                        "tags": {"default": [], "items": {"type": "string"}, "type": "array", "uniqueItems": True},
                    },
                    "required": ["id", "price", "state"],
                    "title": "Item",
                    "type": "object",
                },
                "State": {"enum": ["new", "sold"], "title": "State", "type": "string"},
            },
            "properties": {
                "items": {"items": {"$ref": "#/$defs/Item"}, "title": "Items", "type": "array"},
                "next": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Next"},
            },
            "required": ["items"],
            "title": "Page",
            "type": "object",
        },
        {"items": [{"id": "a", "price": "1.50", "state": "new", "tags": ["a", "b"]}], "next": None},
        {"items": [{"id": "a", "price": 1.5, "state": "old"}]},
    ),
    "zod": (
        {
            "$schema": DRAFT_07,
            "type": "object",
            "properties": {
                "mail": {
                    "type": "string",
                    "format": "email",
                    "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
                },
                "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
                "again": {"$ref": "#/properties/kind"},
                "third": {"$ref": "#/properties/kind/anyOf/1"},
                "at": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            },
            "required": ["mail", "kind"],
            "additionalProperties": False,
        },
        {"mail": "a@b.example", "kind": "a", "again": "b", "third": "b", "at": 5},
        {"mail": "a@b.example", "kind": 1},
    ),
    "FastMCP": (
        {"properties": {"result": {"items": {"type": "integer"}, "type": "array"}}, "required": ["result"], "type": "object", "x-fastmcp-wrap-result": True},
        {"result": [1, 2]},
        {"result": [1, "2"]},
    ),
    "ours": (json_schema(dict[str, list[dt.datetime | None]], direction="output"), {"a": ["2026-07-28T12:30:00Z", None]}, {"a": [5]}),
}  # fmt: skip


def test_schemas_of_real_servers_are_used(subtests: pytest.Subtests) -> None:
    for name, (schema, good, bad) in REAL.items():
        with subtests.test(name):
            validator = SchemaValidator(schema, max_bytes=100_000)
            assert is_valid(validator, good)
            assert not is_valid(validator, bad)


def test_the_author_of_a_server_may_write_what_is_outside_of_the_subset(
    make: Make, subtests: pytest.Subtests
) -> None:
    """They are trusted with the time that it takes, too."""
    del make  # only the library of it is meant
    cases: list[tuple[Any, object, object]] = [
        ({"$ref": "#name", "$defs": {"x": {"$anchor": "name", "type": "null"}}}, None, 1),
        ({"$schema": DRAFT_07, "definitions": {"n": {"$id": "#n", "type": "null"}}, "$ref": "#n"}, None, 1),
        ({"type": "object", "additionalProperties": {"$ref": "#"}}, {"a": {"b": {}}}, {"a": {"b": 1}}),
        ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        (
            {"type": "object", "properties": {str(i): {"$ref": "#"} for i in range(50)}},
            {"1": {"2": {}}},
            {"1": {"2": 3}},
        ),
    ]
    for schema, good, bad in cases:
        with subtests.test(schema=schema):
            validator = SchemaValidator(schema, max_bytes=10_000, is_trusted=True)
            assert is_valid(validator, good)
            assert not is_valid(validator, bad)
            with pytest.raises(UnusableSchema):
                SchemaValidator(schema, max_bytes=10_000)


def test_half_a_surrogate_pair_is_no_reason_to_fall_over(make: Make) -> None:
    try:
        make({"type": "string"}).check("\ud800")
    except UnusableSchema as error:
        assert "cannot be checked" in str(error)


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
