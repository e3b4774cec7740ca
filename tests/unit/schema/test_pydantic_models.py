"""pydantic models, which bring their own schema and conversion. Skipped where pydantic is not installed."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Annotated, Any

import jsonschema_rs
import pytest
from inside_schema import InvalidValue, JsonType, bind, inspect_callable, json_schema, to_json

pydantic: Any = pytest.importorskip("pydantic")

Author: Any = pydantic.create_model("Author", __doc__="Who wrote it.", full_name=str)
Book: Any = pydantic.create_model(
    "Book",
    __doc__="A book.",
    title=(str, pydantic.Field(title="Main Title", min_length=1)),
    author=(Author, ...),
    printed=(dt.date | None, None),
    shop_price=(float, pydantic.Field(0.0, alias="shopPrice")),
)
Node: Any = pydantic.create_model("Node", value=int, children=("list[Node]", []))
Node.model_rebuild(_types_namespace={"Node": Node})

LIST: Any = list
PLAIN = {"title": "Dune", "author": {"full_name": "F. H."}, "printed": "1965-08-01", "shopPrice": 9.5}
BOOK = Book(title="Dune", author=Author(full_name="F. H."), printed=dt.date(1965, 8, 1), shopPrice=9.5)


def problems(hint: Any, value: object) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidValue) as caught:
        JsonType(hint).decode(value)
    return caught.value.problems


def test_model_has_the_schema_that_pydantic_writes() -> None:
    """Without the titles that only repeat names; those that somebody chose stay."""
    schema = json_schema(Book)
    jsonschema_rs.meta.validate(schema)
    assert schema == {
        "description": "A book.",
        "properties": {
            "title": {"minLength": 1, "title": "Main Title", "type": "string"},
            "author": {"$ref": "#/$defs/Author"},
            "printed": {"anyOf": [{"format": "date", "type": "string"}, {"type": "null"}], "default": None},
            "shopPrice": {"default": 0.0, "type": "number"},
        },
        "required": ["title", "author"],
        "type": "object",
        "$defs": {
            "Author": {
                "description": "Who wrote it.",
                "properties": {"full_name": {"type": "string"}},
                "required": ["full_name"],
                "type": "object",
            }
        },
    }


def test_model_that_contains_itself_keeps_its_type_in_sight() -> None:
    """Before 2026-07-28 an output schema must say ``"type": "object"`` at its root."""
    schema = json_schema(Node)
    assert schema["type"] == "object"
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert json_schema(list[Node])["items"] == {"$ref": "#/$defs/Node"}
    jsonschema_rs.meta.validate(schema)


def test_output_schema_is_the_one_for_what_is_written() -> None:
    """pydantic reads decimals from numbers, too, but only writes text."""
    price = pydantic.create_model("Price", amount=decimal.Decimal)
    assert "anyOf" in json_schema(price)["properties"]["amount"]
    assert json_schema(price, direction="output")["properties"]["amount"]["type"] == "string"


def test_model_converts_both_ways() -> None:
    """By pydantic's own rules for JSON."""
    assert JsonType(Book).decode(PLAIN) == BOOK
    assert JsonType(Book, direction="output").encode(BOOK) == PLAIN
    assert to_json([BOOK]) == [PLAIN]
    assert jsonschema_rs.is_valid(json_schema(Book), PLAIN)


def test_generic_model_gets_a_name_that_references_can_hold() -> None:
    """pydantic puts brackets into the names of classes."""
    box: Any = pydantic.create_model("Box[int]", content=int)
    schema = json_schema(LIST[box] | box)
    jsonschema_rs.meta.validate(schema)
    assert list(schema["$defs"]) == ["Box_int"]
    assert jsonschema_rs.is_valid(schema, [{"content": 1}])


def test_problems_of_a_model_have_their_path() -> None:
    """pydantic's messages, our paths; strictly, so that "5" is not 5."""
    assert problems(dict[str, Node], {"a": {"value": 1, "children": [{"value": "5"}]}}) == (
        ("a.children[0].value", "Input should be a valid integer"),
    )
    assert problems(Book, {"title": "", "author": {}}) == (
        ("title", "String should have at least 1 character"),
        ("author.full_name", "Field required"),
    )
    with pytest.raises(InvalidValue, match=r"^expected Book, got 5$"):
        JsonType(Book).encode(5)


def test_numbers_that_json_lacks_are_refused_in_models_too() -> None:
    """pydantic would read them, and write `null`."""
    assert problems(Book, {**PLAIN, "shopPrice": float("nan")}) == (("", "contains a number that JSON lacks"),)
    with pytest.raises(InvalidValue, match=r"^shopPrice: nan is not a number in JSON$"):
        to_json(Book(title="a", author=Author(full_name="b"), shopPrice=float("nan")))


def test_fields_of_pydantic_are_understood_in_signatures() -> None:
    """Tools written for another library bring them along."""

    def function(copies: Any) -> None: ...

    function.__annotations__["copies"] = Annotated[
        int, pydantic.Field(description="How many.", ge=1, lt=10, json_schema_extra={"x-unit": "books"})
    ]
    spec = inspect_callable(function)
    assert spec.input_schema["properties"]["copies"] == {
        "type": "integer",
        "x-unit": "books",
        "description": "How many.",
        "minimum": 1,
        "exclusiveMaximum": 10,
    }
    with pytest.raises(InvalidValue, match=r"^copies: must be less than 10, got 10$"):
        bind(spec, {"copies": 10})
