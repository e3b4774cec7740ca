"""Arguments as forms of some clients and some models write them: JSON inside of a string, and more than was asked."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs
import pydantic
import pytest

from trio_mcp import Limits, Server, open_client


class Line(pydantic.BaseModel):
    title: str
    copies: int = 1


class Floor(enum.IntEnum):
    GROUND = 0
    FIRST = 1


@attrs.frozen
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list["Node"])


def shelf(*, strict: bool = False, limits: Limits | None = None) -> Server:
    server = Server("shelf", strict_input=strict, limits=limits)

    @server.tool
    async def put(
        copies: int = 0,
        price: float | None = None,
        sold: bool = False,
        titles: list[str] | None = None,
        line: Line | None = None,
        floor: Floor = Floor.GROUND,
        node: Node | None = None,
        name: str = "",
        id: int | str = 0,
        anything: Any = None,
    ) -> str:
        return repr((copies, price, sold, titles, line, floor, node, name, id, anything))

    @server.tool
    async def count(**counts: int) -> str:
        return repr(counts)

    return server


DEFAULTS: dict[str, Any] = {
    "copies": 0, "price": None, "sold": False, "titles": None, "line": None, "floor": Floor.GROUND,
    "node": None, "name": "", "id": 0, "anything": None,
}  # fmt: skip


async def said(server: Server, tool: str, arguments: Mapping[str, Any]) -> str:
    async with open_client(server) as client:
        return (await client.call_tool(tool, arguments)).text


async def test_json_in_a_string_is_read_where_no_string_is_taken(subtests: pytest.Subtests) -> None:
    """What else could be meant? Where a string is taken, that is meant."""
    rows: list[tuple[str, str, object]] = [
        ("copies", "3", 3),
        ("copies", "3.0", 3),
        ("price", "12.5", 12.5),
        ("price", "null", None),
        ("sold", "true", True),
        ("titles", '["Dune", "Emma"]', ["Dune", "Emma"]),
        ("line", '{"title": "Dune"}', Line(title="Dune")),
        ("floor", "1", Floor.FIRST),
        ("node", '{"value": 1, "children": [{"value": 2}]}', Node(1, [Node(2)])),
        # A string is what these take.
        ("name", "3", "3"),
        ("id", "3", "3"),
        ("anything", "[1, 2]", "[1, 2]"),
    ]
    for name, text, value in rows:
        with subtests.test(name=name, text=text, value=value):
            assert await said(shelf(), "put", {name: text}) == repr(tuple({**DEFAULTS, name: value}.values()))


async def test_what_the_string_holds_must_fit_like_any_argument(subtests: pytest.Subtests) -> None:
    """What a string holds is not read again."""
    rows: list[tuple[dict[str, Any], str]] = [
        ({"copies": "many"}, 'copies: expected an integer, got "many"'),
        ({"copies": "3.5"}, "copies: expected an integer, got 3.5"),
        ({"copies": '"3"'}, 'copies: expected an integer, got "3"'),
        ({"sold": "True"}, 'sold: expected a boolean, got "True"'),
        ({"sold": "1"}, "sold: expected a boolean, got 1"),
        ({"titles": "Dune"}, 'titles: expected an array or null, got "Dune"'),
        ({"titles": '["Dune", 3]'}, "titles[1]: expected a string, got 3"),
        ({"titles": "[" * 100_000}, f'titles: expected an array or null, got "{"[" * 60}'),
        ({"node": '{"value": "1"}'}, 'node.value: expected an integer, got "1"'),
        ({"copies": "3", "titel": "Dune"}, "titel: is not known; known are copies, "),
    ]
    for arguments, problem in rows:
        with subtests.test(arguments=arguments, problem=problem):
            assert (await said(shelf(), "put", arguments)).startswith(f"Invalid arguments for put: {problem}")


async def test_members_and_items_are_read_alike(subtests: pytest.Subtests) -> None:
    """At any depth where the schema takes no string, in whatever class; of several that may be meant, none is."""
    server = Server("shelf")

    @server.tool
    async def put(
        node: Node | None = None,
        line: Line | None = None,
        sizes: dict[str, list[float]] | None = None,
        pairs: list[tuple[int, str, bool]] | None = None,
        either: Node | Line | None = None,
    ) -> str:
        return repr((node, line, sizes, pairs, either))

    rows: list[tuple[dict[str, Any], tuple[object, ...]]] = [
        ({"node": {"value": "1", "children": [{"value": "2"}]}}, (Node(1, [Node(2)]), None, None, None, None)),
        ({"node": {"value": 1, "children": '[{"value": 2}]'}}, (Node(1, [Node(2)]), None, None, None, None)),
        ({"line": {"title": "3", "copies": "4"}}, (None, Line(title="3", copies=4), None, None, None)),
        ({"sizes": {"a": ["1.5", 2], "b": "[3]"}}, (None, None, {"a": [1.5, 2.0], "b": [3.0]}, None, None)),
        ({"pairs": [["1", "2", "true"]]}, (None, None, None, [(1, "2", True)], None)),
    ]
    for arguments, values in rows:
        with subtests.test(arguments=arguments):
            assert await said(server, "put", arguments) == repr(values)
    texts: list[tuple[dict[str, Any], str]] = [
        ({"node": {"value": "one"}}, 'node.value: expected an integer, got "one"'),
        ({"node": {"value": 1, "children": '[{"value": "2"}]'}}, "node.children[0].value: expected an integer"),
        ({"either": {"value": "1"}}, 'either: value: expected an integer, got "1"'),
        ({"sizes": {"a": ["1"] * 4_001}}, 'sizes.a[4000]: expected a number, got "1"'),
    ]  # fmt: skip
    for arguments, problem in texts:
        with subtests.test(problem=problem):
            text = await said(server, "put", arguments)
            assert text.startswith(f"Invalid arguments for put: {problem}"), text
    text = await said(shelf(strict=True), "put", {"node": {"value": "1"}})
    assert text == 'Invalid arguments for put: node.value: expected an integer, got "1"'


async def test_a_tool_that_takes_unknown_arguments_takes_them_as_its_hint_says() -> None:
    """`**kwargs` is how a tool takes them."""
    assert await said(shelf(), "count", {"dune": 1, "emma": "2"}) == "{'dune': 1, 'emma': 2}"
    problem = await said(shelf(), "count", {"dune": "one"})
    assert problem == 'Invalid arguments for count: dune: expected an integer, got "one"'


async def test_what_no_schema_knows_is_left_out_with_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Models and gateways add arguments of their own; the tool is called as if they had not."""
    server = Server("shelf")

    @server.tool
    async def put(
        copies: int, node: Node | None = None, line: Line | None = None, either: Node | Line | None = None
    ) -> str:
        return repr((copies, node, line, either))

    given: dict[str, Any] = {
        "copies": "3", "sessionId": "1", "node": {"value": 1, "why": "", "children": [{"value": 2, "x.y": [None]}]},
        "line": {"title": "Dune", "sure": True},  # pydantic ignores it
    }  # fmt: skip
    assert await said(server, "put", given) == repr((3, Node(1, [Node(2)]), Line(title="Dune"), None))
    assert [record.getMessage() for record in caplog.records] == [
        "tool put ignored arguments it does not know: sessionId, why, x.y"
    ]
    caplog.clear()
    many = {f"{number}": 0 for number in range(10_000)}
    assert await said(server, "put", {"copies": 1, **many}) == repr((1, None, None, None))
    (record,) = caplog.records
    assert record.getMessage() == "tool put ignored arguments it does not know: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..."


class Exact(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    value: int = 0


class Search(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", populate_by_name=True)

    query: str = pydantic.Field(default="", validation_alias=pydantic.AliasChoices("q", "wanted"))
    more: Exact | Any = None


async def test_nothing_is_left_out_of_what_fits(subtests: pytest.Subtests) -> None:
    """Whatever else is wrong: by a schema of pydantic's not every name is known, and a branch may take anything."""
    server = Server("shelf")

    @server.tool
    async def find(copies: int = 1, search: Search | None = None) -> str:
        return repr((copies, search))

    rows: list[tuple[dict[str, Any], Search]] = [
        ({"query": "Dune"}, Search(query="Dune")),
        ({"wanted": "Dune"}, Search(query="Dune")),
        ({"more": {"value": "1", "why": ""}}, Search(more={"value": "1", "why": ""})),
    ]
    for given, search in rows:
        with subtests.test(given=given):
            assert await said(server, "find", {"copies": "3", "search": given}) == repr((3, search))
    given = {"query": "Dune", "more": {"value": 1, "why": ""}}
    assert await said(server, "find", {"because": "", "search": given}) == repr((1, Search.model_validate(given)))
    refused = await said(server, "find", {"because": "", "search": {"why": ""}})
    assert refused == "Invalid arguments for find: search.why: Extra inputs are not permitted", (
        "its author says so"
    )


async def test_the_log_names_once_what_was_left_out_and_no_name_in_full_that_is_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It holds what anybody sends."""
    server = Server("shelf")

    @server.tool
    async def put(nodes: list[Node]) -> str:
        return str(len(nodes))

    given = [{"value": 1, "why": ""}, {"value": 2, "why": ""}, {"value": 3, "x" * 100_000: 0}]
    assert await said(server, "put", {"nodes": given}) == "3"
    (record,) = caplog.records
    assert record.getMessage() == f"tool put ignored arguments it does not know: why, {'x' * 64}"


async def test_a_name_is_refused_that_is_much_like_one_which_is_missing(subtests: pytest.Subtests) -> None:
    """The value would be lost, and the model can write the name again; so is what no single class is meant by."""
    server = Server("shelf")

    @server.tool
    async def put(
        copies: int = 1, title: str = "", line: Line | None = None, either: Node | Line | None = None
    ) -> str:
        return repr((copies, title, line))

    rows: list[tuple[dict[str, Any], str]] = [
        ({"titel": "Dune"}, "titel: is not known; known are copies, title, line, either"),
        ({"Copies": 3}, "Copies: is not known; known are copies, title, line, either"),
        ({"copies": "three", "because": ""}, 'copies: expected an integer, got "three"'),
        ({"either": {"value": 1, "why": ""}}, "either: why: is not known; "),
    ]
    for arguments, problem in rows:
        with subtests.test(arguments=arguments):
            text = await said(server, "put", arguments)
            assert text.startswith(f"Invalid arguments for put: {problem}"), text
    assert await said(server, "put", {"titel": "", "title": "Dune"}) == repr((1, "Dune", None))


async def test_a_server_can_be_strict() -> None:
    """One option, for all its tools, or for one; a schema that its author has written is kept to the letter."""
    server = Server("shelf", strict_input=True)

    async def put(copies: int = 0) -> str:
        return repr(copies)

    server.tool(put)
    server.tool(name="lenient", strict_input=False)(put)
    server.tool(name="strict", strict_input=True)(put)
    for name in ("put", "strict"):
        assert await said(server, name, {"copies": "3"}) == (
            f'Invalid arguments for {name}: copies: expected an integer, got "3"'
        )
        assert await said(server, name, {"copies": 3}) == "3"
        assert await said(server, name, {"why": ""}) == (
            f"Invalid arguments for {name}: why: is not known; known are copies"
        )
    assert await said(server, "lenient", {"copies": "3", "why": ""}) == "3"
    by_hand = {"type": "object", "properties": {"copies": {"type": "integer"}}, "additionalProperties": False}

    @server.tool(input_schema=by_hand, strict_input=False)
    async def take(arguments: dict[str, Any]) -> str:
        return repr(arguments)

    assert await said(server, "take", {"copies": "3"}) == "{'copies': 3}"
    assert (await said(server, "take", {"copies": 3, "why": ""})).startswith("Invalid arguments for take: ")


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "copies": {"type": "integer"},
        "titles": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "lines": {"$ref": "#/$defs/lines"},
        "floor": {"enum": [0, 1]},
        "one": {"const": 1},
        "place": {"oneOf": [{"type": "integer"}, {"type": ["string", "null"]}]},
        "self": {"$ref": "#"},
        "elsewhere": {"$ref": "#/properties/copies"},
        "free": True,
    },
    "$defs": {"lines": {"type": ["object", "array"]}},
    "additionalProperties": {"type": "boolean"},
}


async def test_the_same_holds_for_a_schema_of_the_authors_own(subtests: pytest.Subtests) -> None:
    """It is the schema that says whether a string is taken."""

    async def check(name: str, text: str, value: object) -> None:
        server = Server("shelf")

        @server.tool(input_schema=SCHEMA)
        async def put(arguments: Mapping[str, Any]) -> str:
            return repr(arguments)

        assert await said(server, "put", {name: text}) == repr({name: value})
        # What is said by a reference to anything but a definition is not looked at.
        assert (await said(server, "put", {"elsewhere": "1"})).startswith(
            "Invalid arguments for put: elsewhere: "
        )

    rows: list[tuple[str, str, object]] = [
        ("copies", "3", 3),
        ("titles", '["Dune"]', ["Dune"]),
        ("titles", "null", None),
        ("lines", "{}", {}),
        ("self", '{"copies": 1}', {"copies": 1}),
        ("floor", "1", 1),
        ("one", "1", 1),
        ("place", "1", "1"),
        ("free", "1", "1"),
        ("other", "true", True),
    ]
    for name, text, value in rows:
        with subtests.test(name=name, text=text, value=value):
            await check(name, text, value)


async def test_what_is_read_takes_no_more_memory_than_a_message_may() -> None:
    """A string of brackets is a hundred times as large as lists."""
    brackets = f"[{','.join(['[]'] * 600)}]"
    server = shelf(limits=Limits(max_message_bytes=2_500))
    problem = await said(server, "put", {"titles": brackets})
    assert problem.startswith('Invalid arguments for put: titles: expected an array or null, got "[[],')
    assert "titles[0]: expected a string, got an array" in await said(shelf(), "put", {"titles": brackets})


async def test_what_is_read_takes_little_more_memory_than_what_was_counted() -> None:
    """A server counts a request as it came; handlers of many could hold a hundred times as much."""
    server = Server("shelf")

    @server.tool
    async def put(items: list[Any]) -> str:
        return str(len(items))

    assert await said(server, "put", {"items": f"[{','.join(['[]'] * 1_000)}]"}) == "1000"
    assert await said(server, "put", {"items": f'["{"x" * 1_000_000}"]'}) == "1"
    problem = await said(server, "put", {"items": f"[{','.join(['[]'] * 100_000)}]"})
    assert problem.startswith("Invalid arguments for put: items: expected an array, got ")
