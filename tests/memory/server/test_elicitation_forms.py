"""From a Python type to a form, and from what was filled in back to the type, without a wire.

Spec: 2026-07-28, client/elicitation, "Requested Schema"; SEP-1034 (defaults), SEP-1330 (choices).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from inside_server import form_for
from inside_wire import to_wire

from trio_mcp import Field, Revision
from trio_mcp.types import NumberSchema, RequestedSchema


class Size(enum.Enum):
    SMALL = "s"
    EXTRA_LARGE = "xl"


class Colour(enum.StrEnum):
    RED = "red"
    LIGHT_BLUE = "light-blue"


class Speed(enum.IntEnum):
    SLOW = 1
    FAST = 2


class Fruit(enum.Enum):
    APPLE = "a"
    PEAR = "p"

    @property
    def label(self) -> str:
        return {"a": "An apple", "p": "A pear"}[self.value]


def shown(wanted: Any, revision: Revision = Revision.V2026_07_28) -> dict[str, Any]:
    """Return the form for a type as it is on the wire."""
    return to_wire(form_for(wanted).schema, revision)


def field(hint: Any, revision: Revision = Revision.V2026_07_28) -> dict[str, Any]:
    """Return the one field of the form for a bare type."""
    one: dict[str, Any] = shown(hint, revision)["properties"]["value"]
    return one


def read(wanted: Any, content: dict[str, Any]) -> Any:
    value, problems = form_for(wanted).read(content)
    assert not problems
    return value


# One class, written in six ways.


@attrs.frozen
class AttrsOrder:
    """An order.

    Attributes:
        name: Who orders.
    """

    name: str
    copies: int = 1
    note: str | None = None


@dataclasses.dataclass
class DataOrder:
    """An order.

    Attributes:
        name: Who orders.
    """

    name: str
    copies: int = 1
    note: str | None = None


class TupleOrder(NamedTuple):
    """An order.

    Attributes:
        name: Who orders.
    """

    name: str
    copies: int = 1
    note: str | None = None


class PydanticOrder(pydantic.BaseModel):
    name: str = pydantic.Field(description="Who orders.")
    copies: int = 1
    note: str | None = None


class MsgspecOrder(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(description="Who orders.")]
    copies: int = 1
    note: str | None = None


class DictOrder(TypedDict):
    """An order.

    Attributes:
        name: Who orders.
    """

    name: str
    copies: NotRequired[int]
    note: NotRequired[str | None]


@pytest.mark.parametrize("cls", [AttrsOrder, DataOrder, TupleOrder, PydanticOrder, MsgspecOrder])
def test_a_class_becomes_a_form_and_the_answer_its_object(cls: Any) -> None:
    """Members are fields, defaults are shown, what may be left out is not required, docstrings describe."""
    assert shown(cls) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who orders."},
            "copies": {"type": "integer", "default": 1},
            "note": {"type": "string"},
        },
        "required": ["name"],
    }
    assert read(cls, {"name": "Joe"}) == cls(name="Joe")
    assert read(cls, {"name": "Joe", "copies": 2, "note": "Hurry"}) == cls(name="Joe", copies=2, note="Hurry")


def test_a_typed_dict_becomes_a_form_and_the_answer_a_dictionary() -> None:
    """Without defaults: what the user left out is not there."""
    assert shown(DictOrder)["properties"].keys() == {"name", "copies", "note"}
    assert shown(DictOrder)["required"] == ["name"]
    assert read(DictOrder, {"name": "Joe", "copies": 2}) == {"name": "Joe", "copies": 2}


def test_what_may_be_null_can_be_left_out_and_is_null_then() -> None:
    """A form cannot give null, so nobody must be made to."""

    @attrs.frozen
    class Answer:
        nick: str | None
        size: Size | None
        when: dt.date | None
        tops: list[Literal["a"]] | None
        titled: Annotated[str | None, Field(title="T")]
        inner: Annotated[str, Field(title="I")] | None

    form = shown(Answer)
    assert "required" not in form
    assert [one["type"] for one in form["properties"].values()] == ["string"] * 3 + ["array"] + ["string"] * 2
    assert form["properties"]["titled"] == {"type": "string", "title": "T"}
    assert form["properties"]["inner"] == {"type": "string", "title": "I"}
    assert read(Answer, {}) == Answer(None, None, None, None, None, None)
    assert read(Answer, {"nick": None, "size": "s", "tops": ["a"]}) == Answer(
        None, Size.SMALL, None, ["a"], None, None
    )


def test_pydantic_and_msgspec_keep_their_choices_and_nulls() -> None:
    """Their schemas have references and alternatives where ours have none."""

    class Model(pydantic.BaseModel):
        size: Size
        speed: Speed | None
        when: dt.date | None = None
        tops: list[Colour] = [Colour.RED]

    class Struct(msgspec.Struct):
        size: Size
        speed: Speed | None
        when: dt.date | None = None
        tops: list[Colour] = msgspec.field(default_factory=list[Colour])

    for cls in (Model, Struct):
        form = shown(cls)
        assert form["required"] == ["size"]
        assert sorted(form["properties"]["size"]["enum"]) == ["s", "xl"]
        assert sorted(form["properties"]["speed"]["enum"]) == ["1", "2"]
        assert form["properties"]["when"]["format"] == "date"
        assert sorted(form["properties"]["tops"]["items"]["enum"]) == ["light-blue", "red"]
        answer = read(cls, {"size": "s", "speed": "2", "when": "2026-07-28"})
        assert (answer.size, answer.speed, answer.when) == (Size.SMALL, Speed.FAST, dt.date(2026, 7, 28))
        assert read(cls, {"size": "xl"}).speed is None


def test_a_form_without_fields_asks_only_for_consent() -> None:
    """The message says what for."""

    @attrs.frozen
    class Nothing:
        pass

    assert shown(Nothing) == {"type": "object", "properties": {}}
    assert read(Nothing, {"unknown": 1}) == Nothing()


# Each kind of field.


def test_each_kind_of_field_is_shown_as_the_specification_has_it(subtests: pytest.Subtests) -> None:
    """Text with formats and lengths, numbers with bounds, yes or no, the four shapes of choices of SEP-1330."""
    rows: list[tuple[Any, dict[str, Any]]] = [
        (bool, {"type": "boolean"}),
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (
            Annotated[str, Field("Text.", title="T", min_length=2, max_length=9)],
            {"type": "string", "title": "T", "description": "Text.", "minLength": 2, "maxLength": 9},
        ),
        (Annotated[str, {"format": "email"}], {"type": "string", "format": "email"}),
        (Annotated[str, Field(keywords={"format": "uri"})], {"type": "string", "format": "uri"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[int, Field(ge=1, le=5)], {"type": "integer", "minimum": 1, "maximum": 5}),
        (Annotated[int, Field(gt=1, lt=5)], {"type": "integer", "minimum": 2, "maximum": 4}),
        (Annotated[int, Field(gt=0.5, lt=4.5)], {"type": "integer", "minimum": 1, "maximum": 4}),
        (Annotated[int, Field(ge=1, gt=1, le=9, lt=5)], {"type": "integer", "minimum": 2, "maximum": 4}),
        (Annotated[float, Field(ge=0.5, le=1.5)], {"type": "number", "minimum": 0.5, "maximum": 1.5}),
        (Annotated[int, Field(examples=[3])], {"type": "integer"}),
        (int | float, {"type": "number"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
        (Literal[1, 2], {"type": "string", "enum": ["1", "2"]}),
        (Literal[True, False], {"type": "string", "enum": ["true", "false"]}),
        (Colour, {"type": "string", "enum": ["red", "light-blue"]}),
        (
            Size,
            {
                "type": "string",
                "oneOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}],
            },
        ),
        (Speed, {"type": "string", "oneOf": [{"const": "1", "title": "Slow"}, {"const": "2", "title": "Fast"}]}),
        (
            Fruit,
            {"type": "string", "oneOf": [{"const": "a", "title": "An apple"}, {"const": "p", "title": "A pear"}]},
        ),
        (Literal[Size.SMALL], {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]}),
        (
            Annotated[Literal["s", "l"], {"enumNames": ["Small", "Large"]}],
            {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        ),
        (
            Annotated[Literal["s", "l"], {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]}],
            {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "l"}]},
        ),
        (list[Literal["a", "b"]], {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}),
        (set[Colour], {"type": "array", "items": {"type": "string", "enum": ["red", "light-blue"]}}),
        (
            Annotated[Sequence[Size], Field(title="Sizes", min_length=1, max_length=2)],
            {
                "type": "array",
                "title": "Sizes",
                "minItems": 1,
                "maxItems": 2,
                "items": {"anyOf": [{"const": "s", "title": "Small"}, {"const": "xl", "title": "Extra large"}]},
            },
        ),
    ]
    for hint, schema in rows:
        with subtests.test(hint=hint, schema=schema):
            assert field(hint) == schema
            assert field(hint, Revision.V2025_11_25) == schema


def test_each_kind_of_answer_comes_back_as_its_type(subtests: pytest.Subtests) -> None:
    """Not as what JSON has in its place."""
    rows: list[tuple[Any, Any, Any]] = [
        (bool, False, False),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (dt.date, "2026-07-28", dt.date(2026, 7, 28)),
        (dt.datetime, "2026-07-28T12:30:00Z", dt.datetime(2026, 7, 28, 12, 30, tzinfo=dt.UTC)),
        (Literal[1, "2"], "1", 1),
        (Literal[1, "2"], "2", "2"),
        (Literal[True, False], "false", False),
        (Size, "xl", Size.EXTRA_LARGE),
        (Speed, "2", Speed.FAST),
        (Literal[Size.SMALL], "s", Size.SMALL),
        (list[Speed], ["2", "1"], [Speed.FAST, Speed.SLOW]),
        (set[Size], ["s"], {Size.SMALL}),
        (frozenset[Literal["a"]], ["a"], frozenset({"a"})),
        (tuple[Colour, ...], ["red"], (Colour.RED,)),
    ]
    for hint, answered, value in rows:
        with subtests.test(hint=hint, answered=answered, value=value):
            found = read(hint, {"value": answered})
            assert found == value
            assert type(found) is type(value)


def test_a_bare_optional_type_may_be_left_out() -> None:
    """Then it is None."""
    assert "required" not in shown(int | None)
    assert read(int | None, {}) is None
    assert read(Size | None, {"value": "s"}) is Size.SMALL


@attrs.frozen
class Defaults:
    text: str = "x"
    number: int = 2
    yes: bool = True
    size: Size = Size.EXTRA_LARGE
    speed: Speed = Speed.FAST
    letter: Literal["a", "b"] = "b"
    sizes: tuple[Size, ...] = (Size.SMALL,)
    day: dt.date = dt.date(2026, 7, 28)


def test_defaults_are_shown_from_2025_11_25_on() -> None:
    """SEP-1034. Before, only yes or no had one, and the others hold all the same when a field is left out."""

    class Older(NamedTuple):
        text: str = "x"
        number: int = 2
        yes: bool = True
        size: Size = Size.EXTRA_LARGE

    new = {name: one["default"] for name, one in shown(Defaults)["properties"].items()}
    assert new == {
        "text": "x", "number": 2, "yes": True, "size": "xl", "speed": "2", "letter": "b",
        "sizes": ["s"], "day": "2026-07-28",
    }  # fmt: skip
    old = shown(Older, Revision.V2025_06_18)["properties"]
    assert {name: one["default"] for name, one in old.items() if "default" in one} == {"yes": True}
    assert read(Defaults, {}) == Defaults()
    assert read(Older, {}) == Older()


def test_2025_06_18_is_shown_named_choices_in_its_own_way() -> None:
    """Names in a list beside the values (2025-06-18, client/elicitation); nothing newer."""
    assert field(Size, Revision.V2025_06_18) == {
        "type": "string",
        "enum": ["s", "xl"],
        "enumNames": ["Small", "Extra large"],
    }
    assert field(Colour, Revision.V2025_06_18) == {"type": "string", "enum": ["red", "light-blue"]}


# What a form cannot ask for.


@attrs.frozen
class Inner:
    x: int


class Node(TypedDict):
    next: NotRequired[Node]


def test_what_a_form_cannot_say_is_refused_at_once_by_name(subtests: pytest.Subtests) -> None:
    """Anything nested, and every condition that would be lost: the user would answer what is then refused."""
    rows: list[tuple[Any, str]] = [
        (Inner, "flat"),
        (Inner | None, "flat"),
        (dict[str, int], "flat"),
        (list[str], "a list must be of choices"),
        (list[Inner], "a list must be of choices"),
        (list[Any], "a list must be of choices"),
        (tuple[int, str], "a list must be of choices"),
        (str | int, "text, a number"),
        (str | int | None, "text, a number"),
        (Any, "text, a number"),
        (None, "text, a number"),
        (str | dt.date, "text, a number"),
        (Annotated[str, Field(pattern="^a")], "cannot have pattern"),
        (Annotated[float, Field(gt=0)], "cannot have exclusiveMinimum"),
        (Annotated[int, Field(multiple_of=5)], "cannot have multipleOf"),
        (uuid.UUID, "format 'uuid'"),
        (dt.timedelta, "format 'duration'"),
        (dt.time, "cannot have pattern"),
        (Decimal, "cannot have pattern"),
        (bytes, "cannot have contentEncoding"),
        (pydantic.SecretStr, "SecretStr"),
        (Annotated[str, {"format": "password"}], "must not ask for secrets"),
        (Annotated[Literal["a"], {"enumNames": ["A", "B"]}], "as many names"),
        (Literal[1, "1"], "the same as text"),
        (Annotated[bool, {"minimum": 1}], "cannot have minimum"),
        (list[Annotated[Literal["a", "b"], Field(pattern="a")]], "pattern"),
        (object(), "no form in JSON"),
    ]
    for hint, words in rows:
        with subtests.test(hint=hint, words=words):
            cls = attrs.make_class("Order", {"fine": attrs.field(type=int), "amiss": attrs.field(type=hint)})
            with pytest.raises(TypeError, match=rf"amiss.*{words}"):
                form_for(cls)


def test_secrets_of_pydantic_are_refused() -> None:
    """2026-07-28, client/elicitation: servers must not use forms to request sensitive information."""

    class Login(pydantic.BaseModel):
        password: pydantic.SecretStr

    with pytest.raises(TypeError, match=r"password.*secrets.*elicit_url"):
        form_for(Login)


@pytest.mark.parametrize(
    ("wanted", "words"), [(dict[str, int], "any name"), (list[int], "value: .*choices"), (Node, "next.*flat")]
)
def test_types_that_are_no_form_at_all_are_refused(wanted: Any, words: str) -> None:
    """A dictionary has no fields, a list of numbers no choices, and a class in itself no end."""
    with pytest.raises(TypeError, match=words):
        form_for(wanted)


# Answers that do not fit.


def test_answers_that_do_not_fit_are_named_field_by_field(subtests: pytest.Subtests) -> None:
    """They come from outside, whatever the form said."""
    rows: list[tuple[Any, dict[str, Any], list[tuple[str, str]]]] = [
        (AttrsOrder, {}, [("name", "is missing")]),
        (AttrsOrder, {"name": None}, [("name", "is missing")]),
        (
            AttrsOrder,
            {"name": 1, "copies": "2"},
            [("name", "expected a string, got 1"), ("copies", 'expected an integer, got "2"')],
        ),
        (int, {}, [("value", "is missing")]),
        (int, {"value": "5"}, [("value", 'expected an integer, got "5"')]),
        (Speed, {"value": 2}, [("value", 'expected one of "1", "2", got 2')]),
        (dt.date, {"value": "2026-02-30"}, [("value", 'expected a date such as 2026-07-28, got "2026-02-30"')]),
        (set[Colour], {"value": ["red", "red"]}, [("value", "must not contain the same item twice")]),
    ]
    for wanted, content, problems in rows:
        with subtests.test(wanted=wanted, content=content, problems=problems):
            assert list(form_for(wanted).read(content)[1]) == problems


def test_what_the_class_itself_refuses_is_a_problem_too() -> None:
    """A validator may know more than the form can say."""

    def check_even(_: object, __: object, value: int) -> None:
        if value % 2:
            raise ValueError("number must be even")

    @attrs.frozen
    class Even:
        number: int = attrs.field(validator=check_even)

    assert read(Even, {"number": 2}) == Even(2)
    assert form_for(Even).read({"number": 3})[1] == (("", "number must be even"),)


def test_a_schema_of_ones_own_is_shown_as_it_is() -> None:
    """The answer is a dictionary of its fields."""
    schema = RequestedSchema(properties={"n": NumberSchema(type="number", maximum=2)}, required=["n"])
    form = form_for(schema)
    assert form.schema is schema
    assert form.read({"n": 1.5, "other": 2}) == ({"n": 1.5}, ())
    assert form.read({"n": 3})[1] == (("n", "must be at most 2, got 3"),)
