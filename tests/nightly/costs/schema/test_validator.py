"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from costs import costs_of
from inside_schema import (
    MAX_STEPS,
    InvalidValue,
    SchemaValidator,
    UnusableSchema,
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


def test_a_large_value_under_a_costly_schema_is_not_checked(make: Make, most_steps: float) -> None:
    validator = make({"$defs": doubling(10)["$defs"], "items": {"$ref": "#/$defs/d0"}})
    value = list[Any]([{}]) * 1_000_000

    def refuse() -> None:
        with pytest.raises(UnusableSchema, match="steps"):
            validator.check(value)

    assert costs_of(refuse) < [most_steps]


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


@pytest.mark.parametrize("name", COSTLY)
def test_what_costs_too_much_is_refused_and_all_else_is_cheap(name: str, most_steps: float) -> None:
    """Nothing that a peer writes holds the event loop: each of these took from seconds to years, or gigabytes."""
    schema, value = COSTLY[name]()

    def check() -> None:
        with suppress(UnusableSchema, InvalidValue):
            SchemaValidator(schema, max_bytes=256 * 1024).check(value)

    assert costs_of(check, times=2) < [most_steps * 10]


def test_looking_at_a_regular_expression_takes_time_by_its_length() -> None:
    for unit in ("[", "(", "{1", "\\", "{1,2}", "a", "a{999999999}", "{999999999}", "(a{999999999})"):
        small, large = costs_of(*(partial(size_of_pattern, unit * count) for count in (4_000, 32_000)))
        assert large / small < 16, unit


def test_to_say_what_is_wrong_costs_little_more_than_to_find_it_out(make: Make) -> None:
    """All errors of a library at once are tens of microseconds and a kilobyte each, for each item of the value."""
    validator = make({"items": {"type": "integer"}})

    def refuse(value: list[object]) -> None:
        with suppress(InvalidValue, UnusableSchema):
            validator.check(value)

    good, bad = costs_of(partial(refuse, [1] * 30_000), partial(refuse, ["x"] * 30_000))
    assert bad / good < 5
