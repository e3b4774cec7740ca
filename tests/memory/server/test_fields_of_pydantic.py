"""Parameters described by pydantic's `Field`, as their default or inside `Annotated`: the usual idiom elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest

from trio_mcp import Server, open_client


def shelf() -> Server:
    server = Server("shelf")

    @server.tool
    def put(
        title: str = pydantic.Field(title="Title", min_length=2, max_length=9, pattern="^[A-Z]"),
        copies: int = pydantic.Field(3, ge=1, lt=10, multiple_of=3, description="How many.", examples=[6]),
        tags: list[str] = pydantic.Field(default_factory=list, max_length=1),  # noqa: B008 - what is tested
        price: Annotated[float, pydantic.Field(gt=0, le=9.5)] = 1,
        floor: Annotated[int, pydantic.Field(default=7, ge=1)] = pydantic.Field(le=8),
        note: str | None = pydantic.Field(None),
        count: int = pydantic.Field(2, alias="number", json_schema_extra={"x-unit": "books"}),
    ) -> str:
        """Put books.

        Args:
            tags: What they are about.
            copies: Is described by the field.
        """
        tags.append("new")
        return repr((title, copies, tags, price, floor, note, count))

    return server


async def said(server: Server, tool: str, arguments: dict[str, Any]) -> str:
    async with open_client(server) as client:
        return (await client.call_tool(tool, arguments)).text


def test_the_schema_says_what_the_field_says() -> None:
    """Like our own `Field` inside `Annotated`."""
    assert shelf().find_tool("put").input_schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 2, "maxLength": 9, "pattern": "^[A-Z]", "title": "Title"},
            "copies": {
                "type": "integer", "minimum": 1, "exclusiveMaximum": 10, "multipleOf": 3,
                "description": "How many.", "examples": [6], "default": 3,
            },
            "tags": {
                "type": "array", "items": {"type": "string"}, "maxItems": 1, "default": [],
                "description": "What they are about.",
            },
            "price": {"type": "number", "exclusiveMinimum": 0, "maximum": 9.5, "default": 1.0},
            "floor": {"type": "integer", "minimum": 1, "maximum": 8, "default": 7},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "number": {"type": "integer", "x-unit": "books", "default": 2},
        },
        "required": ["title"],
        "additionalProperties": False,
    }  # fmt: skip


async def test_defaults_are_filled_in_and_bounds_are_kept(subtests: pytest.Subtests) -> None:
    """What the function gets is the default itself, made anew for each call."""
    server = shelf()
    rows: list[tuple[dict[str, Any], str]] = [
        ({"title": "Dune"}, repr(("Dune", 3, ["new"], 1, 7, None, 2))),
        ({"title": "Dune"}, repr(("Dune", 3, ["new"], 1, 7, None, 2))),
        ({"title": "Dune", "number": 5, "floor": 2}, repr(("Dune", 3, ["new"], 1, 2, None, 5))),
        ({}, "Invalid arguments for put: title: is missing"),
        ({"title": "dune"}, 'Invalid arguments for put: title: must match ^[A-Z], got "dune"'),
        ({"title": "Dune", "copies": 0}, "Invalid arguments for put: copies: must be at least 1, got 0"),
        ({"title": "Dune", "floor": 9}, "Invalid arguments for put: floor: must be at most 8, got 9"),
    ]  # fmt: skip
    for arguments, text in rows:
        with subtests.test(arguments=arguments):
            assert await said(server, "put", arguments) == text


async def test_a_default_inside_annotated_is_one() -> None:
    """Python has none for it, also where arguments have no names; one that follows the type wins."""
    server = Server("shelf")

    @server.tool
    def put(copies: Annotated[int, pydantic.Field(default=3)], /, floor: float = pydantic.Field(4)) -> str:
        return repr((copies, floor))

    @server.tool
    def take(copies: Annotated[int, pydantic.Field(default=3)] = 4) -> str:
        return repr(copies)

    assert await said(server, "put", {}) == "(3, 4)"
    assert await said(server, "put", {"copies": 1}) == "(1, 4)"
    assert await said(server, "take", {}) == "4"
    assert server.find_tool("take").input_schema["properties"] == {"copies": {"type": "integer", "default": 4}}


async def test_arguments_of_prompts_and_variables_of_uris_are_described_alike() -> None:
    """They are read by the same."""
    server = Server("shelf")

    @server.prompt
    def ask(copies: int = pydantic.Field(3, description="How many.")) -> str:
        return repr(copies)

    @server.resource("book://{title}{?copies}")
    def read(title: str, copies: int = pydantic.Field(3)) -> str:
        return repr((title, copies))

    async with open_client(server) as client:
        (prompt,) = await client.list_prompts()
        assert prompt.arguments is not None
        assert [(one.description, one.required) for one in prompt.arguments] == [("How many.", False)]
        (message,) = (await client.get_prompt("ask")).messages
        assert getattr(message.content, "text", None) == "3"
        assert (await client.read_resource("book://dune")).text == "('dune', 3)"
