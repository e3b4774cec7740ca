"""Classes of pydantic and msgspec, which bring their own schema and conversion."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Generic, TypeVar

import attrs
import jsonschema_rs
import msgspec
import pytest
from inside_schema import InvalidValue, JsonType, json_schema, to_json

T = TypeVar("T")


class Book(msgspec.Struct):
    """A book."""

    title: str
    printed: dt.date | None = None
    parts: list[Book] = []
    price: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class Box(msgspec.Struct, Generic[T]):
    content: T


@attrs.frozen
class Shelf:
    first: Book
    others: list[Book] = attrs.field(factory=list[Book])


BOOK: dict[str, Any] = {
    "description": "A book.",
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "printed": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Book"}, "default": []},
        "price": {"type": "number", "minimum": 0, "default": 0.0},
    },
    "required": ["title"],
}


def refuse(hint: Any, value: object) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidValue) as caught:
        JsonType(hint).decode(value)
    return caught.value.problems


def test_struct_has_the_schema_that_msgspec_writes() -> None:
    """With the type in sight at the root, and without titles that repeat names."""
    schema = json_schema(Book)
    assert schema == {**BOOK, "$defs": {"Book": BOOK}}
    jsonschema_rs.meta.validate(schema)
    assert json_schema(Box[int]) == {
        "type": "object",
        "properties": {"content": {"type": "integer"}},
        "required": ["content"],
    }


def test_struct_converts_both_ways() -> None:
    """By msgspec's own rules."""
    json_type = JsonType(Book)
    book = Book("Dune", dt.date(1965, 8, 1), [Book("I")], 9.5)
    plain: dict[str, Any] = {
        "title": "Dune",
        "printed": "1965-08-01",
        "parts": [{"title": "I", "printed": None, "parts": [], "price": 0.0}],
        "price": 9.5,
    }
    assert json_type.encode(book) == plain == to_json(book)
    assert json_type.decode(plain) == book
    assert JsonType(Box[int]).decode({"content": 1}) == Box(1)


def test_problem_of_a_struct_has_its_path() -> None:
    """msgspec tells of one problem, with a path of its own."""
    assert refuse(list[Book], [{"title": "a", "parts": [{"title": 5}]}]) == (
        ("[0].parts[0].title", "Expected `str`, got `int`"),
    )
    assert refuse(Book, {}) == (("", "Object missing required field `title`"),)
    assert refuse(Box[int], {"content": "5"}) == (("content", "Expected `int`, got `str`"),)
    with pytest.raises(InvalidValue, match=r"^expected Book, got 5$"):
        JsonType(Book).encode(5)


def test_structs_mix_with_our_classes() -> None:
    """A definition that is used twice is written once."""
    schema = json_schema(Shelf)
    jsonschema_rs.meta.validate(schema)
    assert schema["properties"]["first"] == {"$ref": "#/$defs/Book"}
    book: dict[str, Any] = {"title": "a", "printed": None, "parts": [], "price": 0.0}
    plain = {"first": book, "others": [book, book]}
    shelf = Shelf(Book("a"), [Book("a"), Book("a")])
    assert JsonType(Shelf).decode(plain) == shelf
    assert JsonType(Shelf).encode(shelf) == plain
    assert jsonschema_rs.is_valid(schema, plain)
    assert not jsonschema_rs.is_valid(schema, {"first": {**book, "parts": [{}]}})
    assert JsonType(Book | int).decode(5) == 5
    assert JsonType(Book | int).encode(Book("a")) == book


def test_definitions_of_two_origins_do_not_collide() -> None:
    """Each library may have a `Book`."""
    ours = attrs.make_class("Book", {"pages": attrs.field(type=int)})
    json_type = JsonType(tuple[ours, ours, Book])  # type: ignore[valid-type]  # made at run time
    schema = json_type.schema
    jsonschema_rs.meta.validate(schema)
    assert [item["$ref"] for item in schema["prefixItems"]] == [
        "#/$defs/Book",
        "#/$defs/Book",
        "#/$defs/Book.Book",
    ]
    plain = [{"pages": 1}, {"pages": 2}, {"title": "a", "parts": [{"title": "b"}]}]
    assert jsonschema_rs.is_valid(schema, plain)
    assert json_type.decode(plain) == (ours(1), ours(2), Book("a", parts=[Book("b")]))
    assert not jsonschema_rs.is_valid(schema, [*plain[:2], {"title": "a", "parts": [{"pages": 1}]}])


def test_bounds_of_msgspec_are_understood_on_our_classes() -> None:
    """`msgspec.Meta` is common in code that moves from one to the other."""
    hint = Annotated[
        int, msgspec.Meta(ge=1, description="How many.", examples=[2], extra_json_schema={"x-unit": "books"})
    ]
    assert json_schema(hint) == {
        "type": "integer",
        "x-unit": "books",
        "description": "How many.",
        "minimum": 1,
        "examples": [2],
    }
    assert refuse(hint, 0) == (("", "must be at least 1, got 0"),)
