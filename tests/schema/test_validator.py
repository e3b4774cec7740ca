"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import builtins
import importlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from costs import costs_of
from inside_schema import (
    DRAFT_07,
    DRAFT_2020_12,
    MAX_BACKTRACKS,
    MAX_STEPS,
    InvalidValue,
    SchemaCost,
    SchemaValidator,
    UnusableSchema,
    depth_of,
    measure,
    size_of_pattern,
)

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


@pytest.mark.parametrize("schema", NO_SCHEMAS)
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


@pytest.mark.measured
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


@pytest.mark.measured
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


VALUES: dict[str, Any] = {
    "number": 5,
    "mixed": [1, 2, {"a": 3}],
    "deep": [[[[]]]],
    "text": ["abc"],
    "far": [1e308, -5e-324, 2**1000],
}


@pytest.mark.parametrize(
    ("cost", "name", "checks"),
    [
        (SchemaCost(1, 1), "number", 1),
        (SchemaCost(1, 1), "mixed", 5),
        (SchemaCost(10, 1), "mixed", 50),
        (SchemaCost(1, 2), "mixed", 1 + 3 * 2 + 1 * 4),
        (SchemaCost(1, 2), "deep", 1 + 2 + 4 + 8),
        (SchemaCost(1, 1, per_character=10), "mixed", 5 + 10),
        (SchemaCost(1, 1, per_character=10), "text", 2 + 10 * 3),
        (SchemaCost(1, 2, per_character=10), "text", 1 + 2 + 2 * 10 * 3),
        (SchemaCost(1, 1, divisions=2), "mixed", 5),
        (SchemaCost(1, 1, divisions=2), "far", 4 + 2 * (3_000 + 3_000 + 3_000 + 1_001**2 // 4_000)),
        (SchemaCost(1, 1, per_character=10, backtracks=True), "text", 2 + 30 * (3 + MAX_BACKTRACKS) // 2),
    ],
)
def test_the_work_that_a_value_makes_is_foreseen(cost: SchemaCost, name: str, checks: int) -> None:
    value = VALUES[name]
    assert cost.steps(value, 1_000_000) == checks
    assert cost.steps(value, checks - 1) > checks - 1


@pytest.mark.measured
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


@pytest.mark.measured
def test_an_untrusted_pattern_costs_no_time(make: Make, request: pytest.FixtureRequest) -> None:
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
    "long multiples": lambda: ({"items": {"multipleOf": 0.1}}, [10**4_000] * 2_000),
}


@pytest.mark.measured
@pytest.mark.parametrize("name", COSTLY)
def test_what_costs_too_much_is_refused_and_all_else_is_cheap(name: str, most_steps: float) -> None:
    """Nothing that a peer writes holds the event loop: each of these took from seconds to years, or gigabytes."""
    schema, value = COSTLY[name]()

    def check() -> None:
        with suppress(UnusableSchema, InvalidValue):
            SchemaValidator(schema, max_bytes=256 * 1024).check(value)

    assert costs_of(check, times=2) < [most_steps * 10]


@pytest.mark.parametrize("name", [name for name in COSTLY if "multiples" in name])
def test_numbers_of_many_digits_are_not_divided_without_end(name: str) -> None:
    """Fractions are divided exactly; a list of such numbers held the event loop for up to seconds."""
    schema, value = COSTLY[name]()
    with pytest.raises(UnusableSchema, match="might take more than"):
        SchemaValidator(schema, max_bytes=1_000).check(value)


HONEST: dict[str, Callable[[], tuple[dict[str, Any], object]]] = {
    "orders": lambda: (
        {"items": {"required": ["id"], "properties": {f"p{i}": {"type": "string"} for i in range(30)}}},
        [{"id": "x", **{f"p{i}": "abc" for i in range(30)}}] * 2_000,
    ),
    "addresses": lambda: (
        {
            "items": {
                "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
            }
        },
        [f"somebody.{i}@example.com" for i in range(50)],
    ),
    "words": lambda: ({"uniqueItems": True, "items": {"type": "string"}}, [str(i) for i in range(100_000)]),
    "points": lambda: ({"uniqueItems": True}, [{"x": i, "y": i} for i in range(1_000)]),
    "numbers": lambda: ({"uniqueItems": True, "items": {"maximum": 2**52}}, list(range(100_000))),
    "countries": lambda: ({"items": {"enum": [f"c{i}" for i in range(250)]}}, ["c7"] * 100_000),
    "moments": lambda: (
        {"items": {"pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})$"}},
        ["2026-07-28T12:30:00Z"] * 5_000,
    ),
    "prices": lambda: ({"items": {"multipleOf": 0.01}}, [19.99] * 100_000),
    "stamps": lambda: ({"items": {"multipleOf": 1_000}}, [1_795_000_000_000_000_000] * 100_000),
    "text": lambda: ({"pattern": r"^\S"}, "word " * 100_000),
    "closed": lambda: (
        {"allOf": [{"properties": {"a": {"type": "integer"}}}], "unevaluatedProperties": False},
        {"a": 1},
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_is_usual_is_checked_however_much_it_is(name: str) -> None:
    """An estimate that refuses honest results protects nobody."""
    schema, value = HONEST[name]()
    SchemaValidator(schema, max_bytes=256 * 1024).check(value)


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
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
    ],
)
def test_the_size_of_a_regular_expression_is_foreseen(pattern: str, least: int, most: int) -> None:
    """Compiled, what is counted is written out."""
    assert least <= size_of_pattern(pattern) <= most


@pytest.mark.measured
def test_looking_at_a_regular_expression_takes_time_by_its_length() -> None:
    for unit in ("[", "(", "{1", "\\", "{1,2}", "a", "a{999999999}", "{999999999}", "(a{999999999})"):
        small, large = costs_of(*(partial(size_of_pattern, unit * count) for count in (4_000, 32_000)))
        assert large / small < 16, unit


@pytest.mark.measured
def test_to_say_what_is_wrong_costs_little_more_than_to_find_it_out(make: Make) -> None:
    """All errors of a library at once are tens of microseconds and a kilobyte each, for each item of the value."""
    validator = make({"items": {"type": "integer"}})

    def refuse(value: list[object]) -> None:
        with suppress(InvalidValue, UnusableSchema):
            validator.check(value)

    good, bad = costs_of(partial(refuse, [1] * 30_000), partial(refuse, ["x"] * 30_000))
    assert bad / good < 5


MEAGRE = """
import resource, sys
from trio_mcp._schema import InvalidValue
from trio_mcp._schema._validator import SchemaValidator
alternatives = {"anyOf": [{"maxLength": i} for i in range(1_000)]}
SchemaValidator({"type": "array", **alternatives}, max_bytes=100_000).check([])
text, numbers = "x" * 8_000_000, [1] * 1_000_000
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 128 * 2**20,) * 2)
for schema, value in (alternatives, text), ({"items": {"type": "string"}}, numbers), (alternatives, [text]):
    try:
        SchemaValidator(schema, max_bytes=100_000).check(value)
    except InvalidValue as error:
        print(len(str(error)) < 4_000)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc, and needs a limit of address space"
)
def test_to_say_what_is_wrong_takes_no_memory_out_of_proportion() -> None:
    """17 KB of a server's schema and 8 MB of its text ended the process of a client: each error held the text."""
    done = subprocess.run(
        [sys.executable, "-c", MEAGRE], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n", "")


def test_where_it_is_not_found_what_is_wrong_that_is_said(make: Make) -> None:
    """A reader must not look for a reason in it."""
    with pytest.raises(InvalidValue, match="does not fit the schema; in a value of this size"):
        make({"items": {"not": {"const": 7}}}).check([1] * 20_000 + [7])
