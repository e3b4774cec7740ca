"""Hints without a form in JSON are refused when they are read, with a message that names them."""

from __future__ import annotations

import datetime as dt
import re
import socket
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, ForwardRef, Generic, TypeVar, Union

import attrs
import pytest
from inside_schema import InvalidValue, JsonType, json_schema, to_json
from schema_models import Access, AlikeA, Circle, Endless, Shapeless, T, Unknown, WithInitVar
from typing_extensions import TypeAliasType

from trio_mcp import Field


class Unreadable:
    pass


@attrs.frozen
class Connection:
    sockets: list[socket.socket]


@attrs.frozen
class Outer:
    inner: Connection | None


@attrs.frozen
class Missing:
    value: Any


Missing.__annotations__["value"] = "Nowhere"


@attrs.frozen
class Nonsense:
    value: Any


Nonsense.__annotations__["value"] = "int["


@attrs.frozen
class SameNames:
    one: Annotated[int, Field(name="x")]
    two: Annotated[int, Field(name="x")]


@attrs.frozen
class Growing(Generic[T]):
    inner: Growing[list[T]] | None


@attrs.frozen
class Box(Generic[T]):
    content: T


Bound = TypeVar("Bound", bound=Unreadable)
Lists = TypeAliasType("Lists", "list[Lists] | tuple[Lists, ...] | None")
Objects = TypeAliasType("Objects", "dict[str, Objects] | Circle | None")

HERE = f"{__name__}."
REFUSED: dict[str, tuple[Any, str]] = {
    "plain class": (Unreadable, f"{HERE}Unreadable has no form in JSON"),
    "inside": (list[dict[str, Unreadable]], f"{HERE}Unreadable has no form in JSON"),
    "builtin": (complex, "complex has no form in JSON"),
    "callable": (Callable[[int], str], "collections.abc.Callable[[int], str] has no form in JSON"),
    "iterator": (AsyncIterator[str], "collections.abc.AsyncIterator[str] has no form in JSON"),
    "text": ("int", "'int' has no form in JSON"),
    "reference": (ForwardRef("Somewhere"), "ForwardRef('Somewhere') has no form in JSON"),
    "number": (5, "5 has no form in JSON"),
    "bare union": (Union, "Union has no form in JSON"),
    "type": (type[int], "type[int] has no form in JSON"),
    "bound": (Bound, f"{HERE}Unreadable has no form in JSON"),
    "too many arguments": (list[int, str], "list[int, str] has no form in JSON"),  # type: ignore[misc]  # pyright: ignore[reportInvalidTypeArguments]
    "too few arguments": (dict[str], "dict[str] has no form in JSON"),  # type: ignore[misc]  # pyright: ignore[reportInvalidTypeArguments]
    "unpacked tuple": (tuple[int, *tuple[str, ...]], "tuple[int, *tuple[str, ...]] has no form in JSON"),
    "attribute": (
        Outer,
        "Outer.inner: Connection.sockets: socket.socket has no form in JSON",
    ),
    "unknown name": (
        Missing,
        (
            "Missing: a hint names 'Nowhere', which is not defined at run time; is it imported under TYPE_CHECKING "
            "only, or defined inside a function?"
        ),
    ),
    "bad text": (Nonsense, "Nonsense: a hint cannot be evaluated: "),
    "unknown name in an alias": (
        Unknown,
        (
            "Unknown: a hint names 'Nowhere', which is not defined at run time; is it imported under TYPE_CHECKING "
            "only, or defined inside a function?"
        ),
    ),
    "InitVar": (WithInitVar, "WithInitVar.seed is an InitVar, which objects do not keep"),
    "flags": (Access, "schema_models.Access is a set of flags, which has no form in JSON"),
    "enumeration of tuples": (
        Shapeless,
        "schema_models.Shapeless has the value (0, 0), which is neither text nor a number",
    ),
    "number as a name": (dict[float, int], "float cannot be the name of a member of a JSON object"),
    "list as a name": (dict[tuple[int, int], int], "tuple[int, int] cannot be the name of a member"),
    "Field as a default": (
        attrs.make_class("Wrong", {"x": attrs.field(type=int, default=Field(ge=1))}),
        "Wrong.x: Field(...) is no default; write it inside Annotated: x: Annotated[int, Field(...)]",
    ),
    "same names": (SameNames, "SameNames.two: there is another member named 'x'"),
    "alias of itself": (Endless, "Endless means itself"),
    "remarks that cannot be hashed": (
        Box[Annotated[complex, {"x": 1}]],
        "Box.content: complex has no form in JSON",
    ),
    "ever larger type": (Growing[int], "a generic type contains itself with ever larger arguments"),
    "bound on another type": (Annotated[str, Field(ge=1)], "ge=1 does not apply to a string"),
    "length of a number": (Annotated[int, Field(max_length=1)], "max_length=1 does not apply to an integer"),
    "length of a date": (
        Annotated[dt.date, Field(max_length=1)],
        "max_length=1 does not apply to a date such as",
    ),
    "pattern of a class": (Annotated[Circle, Field(pattern="x")], "pattern='x' does not apply to an object"),
    "bound of another type": (Annotated[dt.date, Field(ge=1)], "ge=1 is no bound for a date such as 2026-07-28"),
    "bound without a timezone": (
        Annotated[dt.datetime, Field(ge=dt.datetime(2026, 7, 28))],  # noqa: DTZ001 - what is tested
        "is no bound for a date and time such as",
    ),
    "text as a bound": (Annotated[int, Field(ge="1")], '"1" is not a number'),
    "bound without an end": (Annotated[float, Field(le=float("inf"))], "inf is not a number"),
    "negative length": (Annotated[str, Field(min_length=-1)], "-1 is not a length"),
    "multiple of zero": (Annotated[int, Field(multiple_of=0)], "0 is not a number above 0"),
    "bad pattern": (Annotated[str, Field(pattern="(")], '"(" is not a regular expression'),
    "bad raw pattern": (Annotated[str, {"pattern": 5}], "5 is not a regular expression"),
    "keyword that is not JSON": (Annotated[int, {"x": Unreadable()}], "a keyword or example is wrong: x: "),
    "example of another type": (Annotated[int, Field(examples=["a"])], "a keyword or example is wrong: "),
    "alike classes in a circle": (
        AlikeA,
        (
            "a union that contains itself needs branches that differ at a glance, and AlikeA and AlikeB do not: give "
            "them a member with a different Literal each"
        ),
    ),
    "alike arrays in a circle": (Lists, "an array and an array do not"),
    "alike objects in a circle": (list[Objects], "an object and Circle do not"),
}


def test_impossible_hints_are_refused(subtests: pytest.Subtests) -> None:
    """A server must fail when it starts, not when it is called."""
    for name, (hint, message) in REFUSED.items():
        with subtests.test(name), pytest.raises(TypeError, match=re.escape(message)):
            JsonType(hint)


def test_schema_alone_refuses_them_too() -> None:
    """Both faces read hints in the same way."""
    with pytest.raises(TypeError, match="complex has no form in JSON"):
        json_schema(complex)


def test_class_without_a_hint_is_refused_with_the_reason() -> None:
    """`to_json` reads classes, too, as it meets them."""
    with pytest.raises(InvalidValue, match=r"^a generic type contains itself with ever larger arguments$"):
        to_json(Growing[int](None))


def test_class_that_moved_after_its_hints_were_resolved_is_read() -> None:
    """Public packages show their classes under their own name, where private names are not defined."""

    @attrs.frozen
    class Moved:
        where: Annotated[list[Circle], "Where."]

    attrs.resolve_types(Moved)
    Moved.__module__ = "builtins"
    assert json_schema(Moved)["properties"]["where"]["items"]["required"] == ["radius"]
