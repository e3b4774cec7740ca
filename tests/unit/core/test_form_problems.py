"""What fits a form, field by field. Spec: 2026-07-28, client/elicitation, "Requested Schema"."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from inside_core import form_problems, options_in

from trio_mcp.types import (
    BooleanSchema,
    EnumItems,
    EnumOption,
    LegacyTitledEnumSchema,
    NumberSchema,
    PrimitiveSchemaDefinition,
    RequestedSchema,
    StringSchema,
    TitledEnumItems,
    TitledMultiSelectEnumSchema,
    TitledSingleSelectEnumSchema,
    UntitledMultiSelectEnumSchema,
    UntitledSingleSelectEnumSchema,
)

RED_OR_BLUE = (EnumOption(const="#f00", title="Red"), EnumOption(const="#00f", title="Blue"))
EMAIL, URI = StringSchema(format="email"), StringSchema(format="uri")
DATE, MOMENT = StringSchema(format="date"), StringSchema(format="date-time")
SHORT = StringSchema(min_length=2, max_length=3)
FEW = NumberSchema(type="integer", minimum=1, maximum=5)
PRICE = NumberSchema(type="number", minimum=0.5, maximum=9.5)
SIZE = UntitledSingleSelectEnumSchema(enum=["s", "m"])
OLD_COLOUR = LegacyTitledEnumSchema(enum=["#f00", "#00f"], enum_names=["Red", "Blue"])
COLOUR = TitledSingleSelectEnumSchema(one_of=RED_OR_BLUE)
SIZES = UntitledMultiSelectEnumSchema(items=EnumItems(enum=["s", "m", "l"]), min_items=1, max_items=2)
COLOURS = TitledMultiSelectEnumSchema(items=TitledEnumItems(any_of=RED_OR_BLUE), max_items=1)


def test_what_fits_is_accepted(subtests: pytest.Subtests) -> None:
    """Every kind of field, up to its bounds."""
    cases: list[tuple[PrimitiveSchemaDefinition, list[Any]]] = [
        (StringSchema(), ["", "x" * 1000, "\N{SNOWMAN}"]),
        (SHORT, ["ab", "abc", "\N{SNOWMAN}\N{SNOWMAN}"]),
        (EMAIL, ["a@b", "octo.cat+x@github.com", "\N{LATIN SMALL LETTER U WITH DIAERESIS}@b.de"]),
        (URI, ["https://example.com/a?b#c", "mailto:a@b", "file:///x", "urn:isbn:1"]),
        (DATE, ["2026-07-28", "2024-02-29"]),
        (MOMENT, ["2026-07-28T12:30:00Z", "2026-07-28t12:30:00.5+02:00"]),
        (FEW, [1, 5, 3.0]),
        (NumberSchema(type="integer"), [-(10**30), 0]),
        (PRICE, [0.5, 9.5, 1]),
        (BooleanSchema(), [True, False]),
        (SIZE, ["s", "m"]),
        (OLD_COLOUR, ["#f00"]),
        (COLOUR, ["#f00", "#00f"]),
        (SIZES, [["s"], ["l", "s"]]),
        (COLOURS, [[], ["#00f"]]),
    ]
    for field, values in cases:
        with subtests.test(field=field):
            form = RequestedSchema(properties={"it": field}, required=["it"])
            for value in values:
                assert form_problems(form, {"it": value}) == ()


def test_what_does_not_fit_is_named(subtests: pytest.Subtests) -> None:
    """The field, what it takes and what came."""
    cases: list[tuple[PrimitiveSchemaDefinition, Any, str]] = [
        (StringSchema(), 5, "expected a string, got 5"),
        (StringSchema(), None, "expected a string, got null"),
        (SHORT, "a", "must have at least 2 characters, has 1"),
        (SHORT, "abcd", "must have at most 3 characters, has 4"),
        (EMAIL, "nobody", 'expected an email address, got "nobody"'),
        (EMAIL, "a b@c", 'expected an email address, got "a b@c"'),
        (EMAIL, "a@b..c", 'expected an email address, got "a@b..c"'),
        (EMAIL, "a@" + "b" * 400, "expected an email address"),
        (URI, "example.com", 'expected a URI, got "example.com"'),
        (URI, "https://a b", 'expected a URI, got "https://a b"'),
        (URI, "http:", 'expected a URI, got "http:"'),
        (URI, "http://[x", 'expected a URI, got "http://[x"'),
        (DATE, "28.07.2026", "expected a date such as"),
        (DATE, "2026-02-30", "expected a date such as"),
        (DATE, "20260728", "expected a date such as"),
        (MOMENT, "2026-07-28T12:30:00", "expected a date and time such as"),
        (MOMENT, "2026-07-28T25:30:00Z", "expected a date and time such as"),
        (FEW, "3", 'expected an integer, got "3"'),
        (FEW, 3.5, "expected an integer, got 3.5"),
        (FEW, True, "expected an integer, got true"),
        (FEW, 0, "must be at least 1, got 0"),
        (FEW, 6, "must be at most 5, got 6"),
        (PRICE, True, "expected a number, got true"),
        (PRICE, float("inf"), "expected a number"),
        (PRICE, 0.4, "must be at least 0.5, got 0.4"),
        (BooleanSchema(), 1, "expected a boolean, got 1"),
        (BooleanSchema(), "no", 'expected a boolean, got "no"'),
        (SIZE, "xl", 'expected one of "s", "m", got "xl"'),
        (SIZE, ["s"], 'expected one of "s", "m", got a list'),
        (OLD_COLOUR, "Red", 'expected one of "#f00", "#00f", got "Red"'),
        (COLOUR, "Red", 'expected one of "#f00", "#00f", got "Red"'),
        (SIZES, "s", 'expected an array, got "s"'),
        (SIZES, [], "must have at least 1 of the options, has 0"),
        (SIZES, ["s", "m", "l"], "must have at most 2 of the options, has 3"),
        (SIZES, ["s", "xl"], 'expected one of "s", "m", "l", got "xl"'),
        (SIZES, [1], 'expected one of "s", "m", "l", got 1'),
        (COLOURS, ["Red"], 'expected one of "#f00", "#00f", got "Red"'),
    ]
    for field, value, problem in cases:
        with subtests.test(field=field, value=value):
            form = RequestedSchema(properties={"other": StringSchema(), "it": field})
            ((name, said),) = form_problems(form, {"it": value})
            assert name == "it"
            assert said.startswith(problem)


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_whole_number_too_great_for_a_float_is_a_number(kind: Literal["integer", "number"]) -> None:
    """A form with such a default, or such an answer, ended the call with `OverflowError`."""
    field = NumberSchema(type=kind, maximum=10**401)
    form = RequestedSchema(properties={"it": field})
    assert form_problems(form, {"it": 10**400}) == ()
    assert form_problems(form, {"it": -(10**400)}) == ()
    (problem,) = form_problems(form, {"it": 10**402})
    assert "must be at most" in str(problem)


def test_what_must_be_filled_in_and_is_not_is_named() -> None:
    """The rest may be left out, and what is no field is not looked at."""
    form = RequestedSchema(
        properties={"name": StringSchema(), "age": FEW, "mail": EMAIL}, required=["name", "mail"]
    )
    assert form_problems(form, {"mail": "a@b", "name": "x", "else": object()}) == ()
    assert form_problems(form, {"age": 0}) == (
        ("name", "is missing"),
        ("age", "must be at least 1, got 0"),
        ("mail", "is missing"),
    )


def test_a_long_list_of_options_is_told_in_part() -> None:
    """A country is one of two hundred."""
    field = UntitledSingleSelectEnumSchema(enum=[str(number) for number in range(200)])
    ((_, said),) = form_problems(RequestedSchema(properties={"it": field}), {"it": "x"})
    assert said.endswith('"19", ..., got "x"')


def test_what_can_be_chosen_is_read_from_every_kind_of_choice() -> None:
    """Five shapes of choices; the rest are none."""
    assert options_in(SIZE) == ("s", "m")
    assert options_in(OLD_COLOUR) == options_in(COLOUR) == options_in(COLOURS) == ("#f00", "#00f")
    assert options_in(SIZES) == ("s", "m", "l")
    assert options_in(FEW) is options_in(EMAIL) is options_in(BooleanSchema()) is None
