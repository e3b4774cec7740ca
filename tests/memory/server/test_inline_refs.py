"""Schemas of tools without references, for hosts that follow none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
import pydantic
import pytest

from trio_mcp import Field, Server, open_client


@attrs.frozen
class Point:
    """A place."""

    x: int
    y: int = 0


@attrs.frozen
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list["Node"])


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Home(pydantic.BaseModel):
    pet: Cat | Dog = pydantic.Field(discriminator="kind")
    other: Cat


class Tree(pydantic.BaseModel):
    children: list[Tree] = []


POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


async def test_what_is_used_twice_is_written_twice() -> None:
    """In the schemas of arguments and of results; what is said at one place stays there."""
    server = Server("shelf", inline_refs=True)

    @server.tool
    def move(
        start: Point,
        end: Annotated[Point, Field("Where to.", title="End")],
        few: Annotated[Point, {"required": ["y"]}],
        home: Home | None = None,
    ) -> list[tuple[Point, Point, str]]:
        return [(start, end, "")]

    async with open_client(server) as client:
        (tool,) = await client.list_tools()
        result = await client.call_tool("move", {"start": {"x": 1}, "end": {"x": 2}, "few": {"x": 3, "y": 4}})
    assert "$" not in json.dumps([tool.input_schema, tool.output_schema])
    assert result.structured_content == [[{"x": 1, "y": 0}, {"x": 2, "y": 0}, ""]]
    properties: Any = tool.input_schema["properties"]
    assert properties["start"] == {**POINT, "description": "A place."}
    assert properties["end"] == {**POINT, "description": "Where to.", "title": "End"}
    assert properties["few"] == {"required": ["y"], "allOf": [{**POINT, "description": "A place."}]}
    cat = {"type": "object", "properties": {"kind": {"const": "cat", "type": "string"}}, "required": ["kind"]}
    assert properties["home"]["anyOf"][0]["properties"]["other"] == cat
    assert properties["home"]["anyOf"][0]["properties"]["pet"]["oneOf"][0] == cat


def test_by_default_it_is_a_definition_and_schemas_of_the_authors_own_are_sent_to_the_letter() -> None:
    """Shorter for models, and a choice of the author."""
    server = Server("shelf")

    @server.tool
    def move(start: Point, end: Point) -> None: ...

    properties: Any = server.find_tool("move").input_schema["properties"]
    assert properties["end"] == {"$ref": "#/$defs/Point"}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    server = Server("shelf", inline_refs=True)

    @server.tool(input_schema=schema)
    def put(arguments: Mapping[str, Any]) -> None: ...

    assert server.find_tool("put").input_schema == schema


def test_what_contains_itself_is_refused() -> None:
    """It has no other form."""

    def grow(node: Node) -> None: ...

    def plant(tree: Tree) -> None: ...

    def cut() -> Node: ...  # type: ignore[empty-body]

    for function, name in ((grow, "Node"), (plant, "Tree"), (cut, "Node")):
        with pytest.raises(TypeError) as caught:
            Server("shelf", inline_refs=True).tool(function)
        assert str(caught.value) == (
            f"{function.__name__}(): {name} contains itself, which needs a reference: leave out inline_refs=True"
        )
