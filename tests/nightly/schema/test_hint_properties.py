"""Hints, classes and values made at random: what is written can be read, and schema and converter agree."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import typing
import uuid
from typing import Annotated, Any, Literal, Union

import attrs
import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inside_schema import InvalidValue, JsonType, is_array, is_object, to_json
from schema_models import Cat, Circle, Dog, HasA, HasB, Square

from trio_mcp import Field

Colour = enum.Enum("Colour", {"RED": "red", "BLUE": "blue", "ONE": 1})


# How long it takes to invent a class depends on who else uses the machine.
RELAXED = settings(suppress_health_check=[HealthCheck.too_slow])


@attrs.frozen
class Kind:
    """A hint, and values of it that come out as they went in."""

    hint: Any
    values: st.SearchStrategy[Any]


# Formats are compared elsewhere: what they accept is a matter of the validator, too.
AWARE = st.datetimes(timezones=st.just(dt.UTC))
FORMATTED = [
    Kind(dt.datetime, AWARE),
    Kind(dt.date, st.dates()),
    Kind(dt.time, st.times()),
    Kind(dt.timedelta, st.timedeltas()),
    Kind(uuid.UUID, st.uuids()),
    Kind(bytes, st.binary()),
    Kind(Annotated[dt.date, Field(ge=dt.date(2000, 1, 1))], st.dates(min_value=dt.date(2000, 1, 1))),
]
PLAIN = [
    Kind(None, st.none()),
    Kind(bool, st.booleans()),
    Kind(int, st.integers()),
    Kind(float, st.floats(allow_nan=False, allow_infinity=False)),
    Kind(str, st.text(st.characters(codec="utf-8"))),
    Kind(
        decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)
    ),
    Kind(Colour, st.sampled_from(Colour)),
    Kind(Literal["a", 1, True] | None, st.sampled_from(["a", 1, True, None])),
    Kind(Annotated[int, Field(ge=-3, lt=4)], st.integers(-3, 3)),
    Kind(Annotated[int, Field(multiple_of=3)], st.integers(-3, 3).map(lambda number: 3 * number)),
    Kind(Annotated[float, Field(gt=0, le=1)], st.floats(0, 1, exclude_min=True)),
    Kind(Annotated[str, Field(min_length=1, max_length=2)], st.text("ab", min_size=1, max_size=2)),
    Kind(Annotated[str, Field(pattern="^a+$")], st.text("a", min_size=1)),
    Kind(Cat | Dog, st.builds(Cat, st.just("a")) | st.builds(Dog, st.just("a"))),
    Kind(Circle | Square, st.builds(Circle, st.just(1.5)) | st.builds(Square, st.just(1.5))),
    Kind(HasA | HasB, st.sampled_from([{"a": 1}, {"b": 1}])),
]
# Type checkers know these too well to let a hint be made at run time.
LIST: Any = list
TUPLE: Any = tuple
FROZENSET: Any = frozenset
DICT: Any = dict
KEYS = [str, int, Literal["a", "b"], Annotated[str, Field(max_length=1)]]
NAMES = ["a", "b", "c", "from", "x y", "kind", "name", "radius"]
PYTHON_NAMES = ["a", "b", "c", "d"]


def _key_values(hint: Any) -> st.SearchStrategy[Any]:
    if hint is int:
        return st.integers(-(10**18), 10**18)
    return st.sampled_from(["a", "b"])


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[Kind]) -> Kind:
    kind = draw(
        st.sampled_from(["list", "tuple", "set", "fixed", "dict", "optional", "attrs", "dataclass", "typed"])
    )
    match kind:
        case "list" | "tuple":
            item = draw(inner)
            lists = st.lists(item.values, max_size=3)
            return (
                Kind(LIST[item.hint], lists) if kind == "list" else Kind(TUPLE[item.hint, ...], lists.map(tuple))
            )
        case "set":
            item = draw(st.sampled_from(PLAIN[1:5]))
            return Kind(FROZENSET[item.hint], st.frozensets(item.values, max_size=3))
        case "fixed":
            items = draw(st.lists(inner, max_size=3))
            return Kind(TUPLE[tuple(item.hint for item in items)], st.tuples(*(item.values for item in items)))
        case "dict":
            item, key = draw(inner), draw(st.sampled_from(KEYS))
            return Kind(DICT[key, item.hint], st.dictionaries(_key_values(key), item.values, max_size=3))
        case "optional":
            item = draw(inner)
            return Kind(Union[item.hint, None], st.none() | item.values)  # noqa: UP007 - made at run time
        case "attrs":
            members = draw(st.dictionaries(st.sampled_from(PYTHON_NAMES), inner, max_size=3))
            cls = attrs.make_class(
                "Made", {name: attrs.field(type=item.hint) for name, item in members.items()}, frozen=True
            )
            return Kind(cls, st.builds(cls, **{name: item.values for name, item in members.items()}))
        case "dataclass":
            members = draw(st.dictionaries(st.sampled_from(PYTHON_NAMES), inner, max_size=3))
            made: Any = dataclasses.make_dataclass("Made", [(name, item.hint) for name, item in members.items()])
            return Kind(made, st.builds(made, **{name: item.values for name, item in members.items()}))
        case _:
            members = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=3))
            typed: Any = vars(typing)["TypedDict"]("Made", {n: i.hint for n, i in members.items()}, total=False)
            return Kind(
                typed, st.fixed_dictionaries({}, optional={name: item.values for name, item in members.items()})
            )


def kinds(leaves: list[Kind]) -> st.SearchStrategy[Kind]:
    return st.recursive(st.sampled_from(leaves), containers, max_leaves=6)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5, allow_nan=False)
    | st.sampled_from(["", "a", "b", "aa", "ab", "red", "cat", "1", "1.5", "-7", "x y"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "d", "1", "05"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def nearly(draw: st.DrawFn, value: Any) -> Any:
    """Draw a JSON value like the given one, with something wrong in it, perhaps."""
    if draw(st.integers(0, 5)) == 0:
        return draw(JSON)
    if is_array(value):
        return [draw(nearly(item)) for item in value] + draw(st.lists(JSON, max_size=1))[
            : draw(st.integers(0, 1))
        ]
    if is_object(value):
        found = {name: draw(nearly(item)) for name, item in value.items() if draw(st.integers(0, 5))}
        return found | (
            draw(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=1)) if draw(st.booleans()) else {}
        )
    return value


@settings(RELAXED)
@given(st.data())
def test_what_is_written_can_be_read(data: st.DataObject) -> None:
    """Round trip of nested classes of every kind, and the schema accepts what is written."""
    kind = data.draw(kinds(PLAIN + FORMATTED))
    value = data.draw(kind.values)
    for json_type in (JsonType(kind.hint), JsonType(kind.hint, direction="output")):
        written = json_type.encode(value)
        assert json_type.decode(written) == value
        assert jsonschema_rs.is_valid(json_type.schema, written)
        jsonschema_rs.meta.validate(json_type.schema)


@settings(RELAXED)
@given(st.data())
def test_what_is_written_without_a_hint_is_what_is_written_with_it(data: st.DataObject) -> None:
    """Classes, enumerations and dates know themselves what they are."""
    kind = data.draw(kinds(PLAIN + FORMATTED))
    value = data.draw(kind.values)
    assert to_json(value) == JsonType(kind.hint, direction="output").encode(value)


@settings(RELAXED, max_examples=300)
@given(st.data())
def test_schema_and_converter_agree(data: st.DataObject) -> None:
    """What the schema accepts can be read, and what it refuses cannot."""
    branches = data.draw(st.lists(kinds(PLAIN), min_size=1, max_size=3))
    json_type = JsonType(Union[tuple(branch.hint for branch in branches)])  # noqa: UP007 - made at run time
    chosen = data.draw(st.sampled_from(branches))
    value = data.draw(nearly(JsonType(chosen.hint).encode(data.draw(chosen.values))) | JSON)
    try:
        json_type.decode(value)
        readable = True
    except InvalidValue:
        readable = False
    assert jsonschema_rs.is_valid(json_type.schema, value) == readable


@settings(RELAXED)
@given(
    st.text(max_size=30),
    st.sampled_from([dt.datetime, dt.date, dt.time, dt.timedelta, uuid.UUID, decimal.Decimal, bytes]),
)
def test_odd_text_is_refused_and_never_worse(text: str, hint: Any) -> None:
    """Parsers of the standard library raise more kinds of errors than they document."""
    try:
        JsonType(hint).decode(text)
    except InvalidValue:
        return
    assert text == "" or text.isascii()
