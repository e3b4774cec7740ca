"""Checking values against untrusted schemas: both libraries, nothing fetched, nothing endless."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from inside_schema import (
    MAX_NODES,
    InvalidValue,
    SchemaValidator,
    UnusableSchema,
    measure,
    size_of_pattern,
)
from processor_time import costs_of
from shared.schema_validator import COSTLY, Make, doubling, growing, is_valid
from shared.schema_validator import make as make


@pytest.fixture(scope="module")
def most_steps() -> float:
    """What it costs to look at as many nodes as of any schema, in seconds; what is cheaper is over at once."""
    wide = {"allOf": [{"$ref": "#/$defs/a"} for _ in range(MAX_NODES)], "$defs": {"a": {"type": "object"}}}

    def refuse() -> None:
        with pytest.raises(UnusableSchema, match="nodes"):
            measure(wide)

    (cost,) = costs_of(refuse, times=2)
    return cost


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def test_absurd_schemas_are_refused_at_once(make: Make, most_steps: float, subtests: pytest.Subtests) -> None:
    schemas: list[Any] = [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"$dynamicAnchor": "me", "not": {"$dynamicRef": "#me"}},
        nested(100),
        doubling(60),
        {"items": doubling(1)["$defs"]["d0"], **doubling(30)},
        growing(2),
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    ]

    def refuse(schema: Any) -> None:
        with pytest.raises(UnusableSchema):
            make(schema)

    for schema in schemas:
        with subtests.test(schema=schema):
            assert costs_of(partial(refuse, schema)) < [most_steps * 3]


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


def test_what_costs_too_much_is_refused_and_all_else_is_cheap(
    most_steps: float, subtests: pytest.Subtests
) -> None:
    """Nothing that a peer writes holds the event loop: each of these took from seconds to years, or gigabytes."""

    def check(schema: Any, value: object) -> None:
        with suppress(UnusableSchema, InvalidValue):
            SchemaValidator(schema, max_bytes=256 * 1024).check(value)

    for name, case in COSTLY.items():
        with subtests.test(name):
            assert costs_of(partial(check, *case()), times=2) < [most_steps * 10]


def test_a_part_that_is_looked_at_again_and_again_costs_little(
    most_steps: float, subtests: pytest.Subtests
) -> None:
    """Two thousand times: what is long in it must not be read as often."""
    parts: dict[str, Any] = {
        "pattern": {"pattern": f"[{'a' * 200_000}]"},
        "pattern of names": {"patternProperties": {f"[{'a' * 200_000}]": {}}},
        "texts": {"enum": [""] * 50_000},
        "names": {"required": [""] * 50_000},
        "keywords": {str(number): 1 for number in range(15_000)},
        "reference": {"$ref": f"#/{'%41' * 50_000}"},
    }

    def look(part: Any) -> None:
        again = doubling(10)
        again["$defs"]["d10"] = part
        with suppress(UnusableSchema):
            measure({**again, "A" * 50_000: {}})

    for name, part in parts.items():
        with subtests.test(name):
            assert costs_of(partial(look, part), times=2) < [most_steps * 10]


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
