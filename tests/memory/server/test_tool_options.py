"""What a tool can be told at its registration, as clients of every revision see it."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs
import pytest
import trio
import trio.testing
from eras import ENDS

from trio_mcp import Context, Depends, Field, RequestError, Revision, Server, ToolError, open_client, types

EVERY = pytest.mark.parametrize("revision", list(Revision))
NEWEST = Revision.V2026_07_28
STRUCTURED = Revision.V2025_06_18
"""The first revision with structured output."""


@attrs.frozen
class Tree:
    name: str
    children: list[Tree] = attrs.field(factory=list["Tree"])


async def call(server: Server, tool: str, revision: Revision = NEWEST, /, **arguments: Any) -> dict[str, Any]:
    async with open_client(server, revision=revision) as client:
        return await client.request("tools/call", {"name": tool, "arguments": arguments})


async def listed(server: Server, revision: Revision = NEWEST) -> list[dict[str, Any]]:
    async with open_client(server, revision=revision) as client:
        tools: list[dict[str, Any]] = (await client.request("tools/list"))["tools"]
        return tools


def said(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


# Time.


@pytest.mark.spec("server/tools", "Security Considerations")
@pytest.mark.spec("server/tools", "Error Handling")
@pytest.mark.parametrize("revision", ENDS)
async def test_a_tool_that_takes_too_long_is_cancelled_and_says_so(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, server/tools, "Error Handling": a failure of the tool's own is a result that the model reads."""
    server = Server("s")
    cleaned: list[float] = []

    @server.tool(timeout=2.5)
    async def slow() -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            cleaned.append(trio.current_time())
        raise AssertionError

    result = await call(server, "slow", revision)
    assert result["isError"] is True
    assert said(result) == "slow took longer than 2.5 s and was cancelled"
    assert cleaned == [3.5]


async def test_a_tool_in_time_and_its_own_timeouts_are_left_alone(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s")

    @server.tool(timeout=5)
    async def quick(how_long: float) -> str:
        with trio.fail_after(2):
            await trio.sleep(how_long)
        return "done"

    assert said(await call(server, "quick", how_long=1)) == "done"
    with caplog.at_level(logging.ERROR):
        assert said(await call(server, "quick", how_long=3)) == "quick failed. The server's log says why."


async def dawdle() -> str:
    await trio.sleep(10)
    return "at last"


async def test_time_for_dependencies_counts(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s")

    @server.tool(timeout=5)
    async def slow(x: Annotated[str, Depends(dawdle)]) -> str:
        return x

    assert "took longer than 5 s" in said(await call(server, "slow"))


# How many at once.


@pytest.mark.spec("server/tools", "Security Considerations")
@pytest.mark.parametrize("revision", ENDS)
async def test_calls_beyond_the_limit_wait_their_turn(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server = Server("s")
    running = most = 0

    @server.tool(limit=2, timeout=1.5)
    async def work() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return "done"

    results: list[dict[str, Any]] = []
    async with open_client(server, revision=revision) as client:

        async def ask() -> None:
            results.append(await client.request("tools/call", {"name": "work", "arguments": {}}))

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(ask)
    assert most == 2
    assert [said(result) for result in results] == ["done"] * 6
    assert trio.current_time() == 3


@pytest.mark.parametrize("revision", ENDS)
async def test_a_call_that_waits_can_be_cancelled(
    revision: Revision, autojump_clock: trio.testing.MockClock
) -> None:
    server = Server("s")
    calls: list[int] = []

    @server.tool(limit=1)
    async def work(number: int) -> str:
        calls.append(number)
        await trio.sleep(10)
        return "done"

    async with open_client(server, revision=revision) as client, trio.open_nursery() as nursery:
        request = {"name": "work", "arguments": {"number": 1}}
        nursery.start_soon(client.request, "tools/call", request)
        await trio.sleep(1)
        with trio.move_on_after(1) as scope:
            await client.request("tools/call", {"name": "work", "arguments": {"number": 2}})
        assert scope.cancelled_caught
        assert said(await client.request("tools/call", {"name": "work", "arguments": {"number": 3}})) == "done"
        assert trio.current_time() == 20
    assert calls == [1, 3]


# Schemas of one's own.

RAW: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"city": {"type": "string", "x-unknown": [1]}, "days": {"$ref": "#/$defs/Days"}},
    "required": ["city"],
    "$defs": {"Days": {"type": "integer", "minimum": 1}},
}


async def greeting() -> str:
    return "hello"


@pytest.mark.parametrize("revision", ENDS)
async def test_a_raw_input_schema_is_sent_to_the_letter_and_enforced(revision: Revision) -> None:
    """2026-07-28, server/tools, "Tool": inputSchema; input validation errors are tool errors (SEP-1303)."""
    server = Server("s")

    @server.tool(input_schema=RAW)
    async def forecast(
        arguments: Mapping[str, Any], greeting: Annotated[str, Depends(greeting)], *, ctx: Context, extra: int = 1
    ) -> str:
        """Tell the weather."""
        return f"{greeting} {dict(arguments)} {ctx.method} {extra}"

    (tool,) = await listed(server, revision)
    assert tool == {"name": "forecast", "description": "Tell the weather.", "inputSchema": RAW}
    result = await call(server, "forecast", revision, city="Ulm", days=2, other=[None])
    assert said(result) == "hello {'city': 'Ulm', 'days': 2, 'other': [None]} tools/call 1"
    result = await call(server, "forecast", revision, days=0)
    assert result["isError"]
    assert said(result).startswith("Invalid arguments for forecast: ")
    assert '"city" is a required property' in said(result)
    assert "days: 0 is less than the minimum of 1" in said(result)


async def test_arguments_that_are_too_much_for_a_raw_input_schema_are_refused() -> None:
    """To compare many items, each with all others, would hold the server for minutes; the model is told the limit."""
    server = Server("s")
    items = {"type": "array", "uniqueItems": True}

    @server.tool(input_schema={"type": "object", "properties": {"items": items}})
    def take(arguments: dict[str, Any]) -> str:
        return str(len(arguments["items"]))

    assert said(await call(server, "take", items=[[1], [2]])) == "2"
    many = await call(server, "take", items=[[10**30 + number] for number in range(20_000)])
    assert many["isError"]
    assert said(many) == "Invalid arguments for take: checking the value might take more than 20000000 steps"


async def test_a_raw_input_schema_goes_with_a_typed_result_and_any_first_parameter() -> None:
    server = Server("s")

    @server.tool(input_schema={"type": "object"})
    def echo(given: Any, /) -> dict[str, int]:
        return {"members": len(given)}

    (tool,) = await listed(server)
    assert tool["outputSchema"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert (await call(server, "echo", a=1, b=2))["structuredContent"] == {"members": 2}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({}, 'must have the type "object", not None'),
        ({"type": "array"}, "must have the type \"object\", not 'array'"),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, 'input_schema: "strin" is not valid'),
        ({"type": "object", "$ref": "#/$defs/a"}, "input_schema: "),
        ({"type": "object", "$ref": "https://example.com/schema"}, "is not fetched"),
        ({"type": "object", "$ref": "file:///etc/hosts"}, "is not fetched"),
    ],
)
def test_a_raw_input_schema_must_be_sound(schema: dict[str, Any], told: str) -> None:
    """2026-07-28, basic, "$ref resolution": nothing is fetched over the network."""

    async def take(arguments: Mapping[str, Any]) -> str:
        return ""

    with pytest.raises(ValueError, match=r".*") as caught:
        Server("s").tool(input_schema=schema)(take)
    assert told in str(caught.value)


def test_with_a_raw_input_schema_the_function_takes_the_arguments() -> None:
    async def none(ctx: Context) -> str:
        return ""

    async def two(arguments: Mapping[str, Any], city: str) -> str:
        return ""

    server = Server("s")
    with pytest.raises(TypeError, match=r"none\(\) needs a parameter for the arguments"):
        server.tool(input_schema=RAW)(none)
    with pytest.raises(TypeError, match="the parameter 'city' needs a default; the first one gets the arguments"):
        server.tool(input_schema=RAW)(two)


@EVERY
async def test_a_raw_output_schema_is_sent_to_the_letter_and_enforced(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """2025-06-18 on, server/tools, "Output Schema": servers must give results that conform to it."""
    server = Server("s")
    schema = {"type": "object", "properties": {"t": {"type": "number"}}, "required": ["t"], "x-mine": 1}

    @server.tool(output_schema=schema)
    async def measure(how: str) -> Any:
        match how:
            case "well":
                return {"t": 1.5}
            case "badly":
                return {"t": "warm"}
            case "by hand":
                return types.CallToolResult(content=[types.TextContent(text="x")], structured_content={"t": 1})
            case "badly by hand":
                return types.CallToolResult(content=[], structured_content={"t": "warm"})
            case "without":
                return types.CallToolResult(content=[])
            case _:
                return types.CallToolResult(content=[types.TextContent(text="broken")], is_error=True)

    (tool,) = await listed(server, revision)
    assert tool.get("outputSchema") == (schema if revision >= STRUCTURED else None)
    result = await call(server, "measure", revision, how="well")
    assert said(result) == '{"t":1.5}'
    assert result.get("structuredContent") == ({"t": 1.5} if revision >= STRUCTURED else None)
    assert said(await call(server, "measure", revision, how="by hand")) == "x"
    assert said(await call(server, "measure", revision, how="broken")) == "broken"
    with caplog.at_level(logging.ERROR):
        for how in ("badly", "badly by hand", "without"):
            result = await call(server, "measure", revision, how=how)
            assert result["isError"]
            assert said(result).startswith("measure has run, but its result cannot be sent.")
    assert 't: "warm" is not of type "number"' in caplog.text
    assert "needs structured_content" in caplog.text


def test_a_raw_output_schema_must_be_sound() -> None:
    async def take() -> str:
        return ""

    with pytest.raises(ValueError, match="output_schema: 5 is not valid"):
        Server("s").tool(output_schema={"type": 5})(take)


async def test_a_result_by_hand_is_held_to_the_annotation(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.tool
    async def count(well: bool) -> list[int]:
        content: Any = [1, 2] if well else [1, "two"]
        by_hand: Any = types.CallToolResult(content=[], structured_content=content)
        return by_hand  # type: ignore[no-any-return]

    assert (await call(server, "count", well=True))["structuredContent"] == [1, 2]
    with caplog.at_level(logging.ERROR):
        assert (await call(server, "count", well=False))["isError"]
    assert '[1]: "two" is not of type "integer"' in caplog.text


# Output that is no object.


@pytest.mark.spec("server/tools", "Structured Content")
@pytest.mark.spec("server/tools", "Output Schema")
@EVERY
async def test_output_that_is_no_object_is_wrapped_where_it_must_be_one(revision: Revision) -> None:
    """2025-06-18 and 2025-11-25, `Tool.outputSchema` has the type "object"; 2026-07-28, any JSON value."""
    server = Server("s")

    @server.tool
    async def count() -> list[int]:
        return [1, 2]

    @server.tool
    async def either(one: bool) -> dict[str, int] | None:
        return {"a": 1} if one else None

    first, second = await listed(server, revision)
    result = await call(server, "count", revision)
    both = [await call(server, "either", revision, one=one) for one in (True, False)]
    assert said(result) == "[1,2]"
    assert [said(each) for each in both] == ['{"a":1}', "null"]
    if revision < STRUCTURED:
        assert "outputSchema" not in first
        assert "structuredContent" not in result
    elif revision < NEWEST:
        items = {"type": "array", "items": {"type": "integer"}}
        assert first["outputSchema"] == {
            "type": "object",
            "properties": {"result": items},
            "required": ["result"],
        }
        assert result["structuredContent"] == {"result": [1, 2]}
        assert second["outputSchema"]["type"] == "object"
        # Every value is wrapped, those that happen to be objects too, because the schema says so.
        assert [each["structuredContent"] for each in both] == [{"result": {"a": 1}}, {"result": None}]
    else:
        assert first["outputSchema"] == {"type": "array", "items": {"type": "integer"}}
        assert result["structuredContent"] == [1, 2]
        assert [each["structuredContent"] for each in both] == [{"a": 1}, None]


@pytest.mark.parametrize("revision", [Revision.V2025_06_18, Revision.V2025_11_25])
async def test_references_in_a_wrapped_schema_still_lead_somewhere(revision: Revision) -> None:
    server = Server("s")

    @server.tool
    async def forest() -> list[Tree]:
        return [Tree("oak", [Tree("twig")])]

    raw = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [
            {"type": "string"},
            {"anyOf": [{"type": "null"}, {"$ref": "#"}, True]},
            {"enum": [{"$ref": "#"}]},
        ],
        "additionalItems": {"$ref": "#/definitions/n"},
        "definitions": {"n": {"type": "integer"}, "m": {"not": {"$ref": "#"}}, "b": False},
    }

    @server.tool(output_schema=raw)
    async def chain() -> list[Any]:
        return ["a", ["b"], {"$ref": "#"}, 5]

    first, second = await listed(server, revision)
    result = await call(server, "forest", revision)
    assert result["structuredContent"] == {
        "result": [{"name": "oak", "children": [{"name": "twig", "children": []}]}]
    }
    import jsonschema_rs

    validator = jsonschema_rs.validator_for(first["outputSchema"])
    assert validator.is_valid(result["structuredContent"])
    assert not validator.is_valid({"result": [{"name": "oak", "children": [{"name": 5, "children": []}]}]})
    assert second["outputSchema"]["$schema"] == raw["$schema"]
    validator = jsonschema_rs.validator_for(second["outputSchema"])
    assert validator.is_valid((await call(server, "chain", revision))["structuredContent"])
    assert not validator.is_valid({"result": ["a", ["b"], {"$ref": "#"}, "five"]})
    assert not validator.is_valid({"result": ["a", ["b"], {"$ref": "#/properties/result"}]})


@EVERY
async def test_errors_are_not_wrapped(revision: Revision) -> None:
    server = Server("s")

    @server.tool
    async def count(how: str) -> list[int]:
        if how == "error":
            raise ToolError("cannot count")
        by_hand: Any = types.CallToolResult(content=[], structured_content={"why": 1}, is_error=True)
        return by_hand  # type: ignore[no-any-return]

    assert "structuredContent" not in await call(server, "count", revision, how="error")
    result = await call(server, "count", revision, how="by hand")
    assert result.get("structuredContent") == ({"why": 1} if revision >= STRUCTURED else None)


# What is sent along.


@EVERY
async def test_annotations_icons_and_meta_are_sent_where_they_are_known(revision: Revision) -> None:
    """Every revision, server/tools, "Tool"."""
    server = Server("s")

    @server.tool(
        title="Nothing",
        annotations=types.ToolAnnotations(read_only_hint=True),
        icons=[types.Icon(src="https://example.com/i.png", sizes=["any"])],
        meta={"example.com/x": {"y": 1}},
    )
    async def nothing() -> None:
        """Do nothing."""

    (tool,) = await listed(server, revision)
    assert tool.pop("name") == "nothing"
    assert tool.pop("description") == "Do nothing."
    assert tool.pop("inputSchema")["type"] == "object"
    expected: dict[str, Any] = {}
    if revision >= Revision.V2025_03_26:
        expected["annotations"] = {"readOnlyHint": True}
    if revision >= Revision.V2025_06_18:
        expected |= {"title": "Nothing", "_meta": {"example.com/x": {"y": 1}}}
    if revision >= Revision.V2025_11_25:
        expected["icons"] = [{"src": "https://example.com/i.png", "sizes": ["any"]}]
    assert tool == expected


class Region(enum.Enum):
    EU = "eu"
    US = "us"


@attrs.frozen
class Place:
    region: Annotated[Region, Field(header="Nested-Region")]


@pytest.mark.spec("server/tools", "x-mcp-header")
@pytest.mark.parametrize("revision", ENDS)
async def test_parameters_can_be_marked_for_headers(revision: Revision) -> None:
    """2026-07-28, server/tools, "x-mcp-header"."""
    server = Server("s")

    @server.tool
    async def execute(
        region: Annotated[Region, Field("Where.", header="Region")],
        shard: Annotated[int, Field(header="x-shard!")],
        place: Place,
        dry: Annotated[bool, Field(header="Dry")] = False,
    ) -> str:
        return region.value

    (tool,) = await listed(server, revision)
    properties = tool["inputSchema"]["properties"]
    assert properties["region"]["x-mcp-header"] == "Region"
    assert properties["dry"]["x-mcp-header"] == "Dry"
    assert properties["place"]["properties"]["region"]["x-mcp-header"] == "Nested-Region"
    assert {mark.header: mark.path for mark in server._application.tools.get("execute").marks} == {
        "Region": ("region",),
        "x-shard!": ("shard",),
        "Nested-Region": ("place", "region"),
        "Dry": ("dry",),
    }
    assert said(await call(server, "execute", revision, region="eu", shard=1, place={"region": "us"})) == "eu"


def empty(a: Annotated[str, Field(header="")]) -> None: ...
def spaced(a: Annotated[str, Field(header="My Region")]) -> None: ...
def injecting(a: Annotated[str, Field(header="A\r\nB")]) -> None: ...
def foreign(a: Annotated[str, Field(header="Größe")]) -> None: ...
def twice(a: Annotated[str, Field(header="Region")], b: Annotated[int, Field(header="REGION")]) -> None: ...
def fraction(a: Annotated[float, Field(header="A")]) -> None: ...
def several(a: Annotated[list[str], Field(header="A")]) -> None: ...
def maybe(a: Annotated[str | None, Field(header="A")]) -> None: ...
def mixed(a: Annotated[Literal["a", 1], Field(header="A")]) -> None: ...
def in_items(a: list[Annotated[str, Field(header="A")]]) -> None: ...
def in_definition(a: Place, b: Place) -> None: ...


@pytest.mark.spec("server/tools", "x-mcp-header", revisions="2026-07-28")
def test_a_mark_that_breaks_the_rules_is_refused(subtests: pytest.Subtests) -> None:
    """2026-07-28, server/tools, "x-mcp-header": a client would have to leave the tool out."""
    functions: list[Any] = [
        empty,
        spaced,
        injecting,
        foreign,
        twice,
        fraction,
        several,
        maybe,
        mixed,
        in_items,
        in_definition,
    ]
    for function in functions:
        with (
            subtests.test(function=function),
            pytest.raises(ValueError, match=f"tool '{function.__name__}': parameter "),
        ):
            Server("s").tool(function)


@pytest.mark.spec("server/tools", "x-mcp-header", revisions="2026-07-28")
def test_marks_in_raw_schemas_obey_the_same_rules(subtests: pytest.Subtests) -> None:
    """2026-07-28, basic/transports/streamable-http, "Schema Extension"."""

    def check(schema: dict[str, Any], is_sound: bool) -> None:
        async def take(arguments: Mapping[str, Any]) -> str:
            return ""

        register = Server("s").tool(input_schema={"type": "object", **schema})
        if is_sound:
            register(take)
        else:
            with pytest.raises(ValueError, match="x-mcp-header"):
                register(take)

    rows: list[tuple[dict[str, Any], bool]] = [
        ({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}, True),
        ({"properties": {"x-mcp-header": {"type": "string"}}}, True),
        ({"properties": {"a": {"type": "object", "default": {"x-mcp-header": 1}}}}, True),
        (
            {
                "properties": {
                    "a": {"type": "object", "properties": {"b": {"type": "integer", "x-mcp-header": "B"}}}
                }
            },
            True,
        ),
        ({"x-mcp-header": "A"}, False),
        ({"properties": {"a": {"type": "string", "x-mcp-header": 5}}}, False),
        ({"properties": {"a": {"type": "string", "x-mcp-header": None}}}, False),
        ({"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}}, False),
        ({"properties": {"a": {"enum": ["x"], "x-mcp-header": "A"}}}, False),
        ({"properties": {"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}}}, False),
        ({"allOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}, False),
        ({"if": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}, False),
        ({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}, False),
        ({"additionalProperties": {"type": "string", "x-mcp-header": "A"}}, False),
        ({"properties": {"a": {"items": {"properties": {"b": {"type": "string", "x-mcp-header": "B"}}}}}}, False),
    ]
    for schema, is_sound in rows:
        with subtests.test(schema=schema, is_sound=is_sound):
            check(schema, is_sound)


# Coming and going.


@pytest.mark.parametrize("revision", ENDS)
async def test_tools_can_be_hidden_shown_and_removed(revision: Revision) -> None:
    """2026-07-28, server/tools, "Capabilities": the list may be empty and may change; its order stays."""
    server = Server("s")
    changes: list[int] = []
    server._application.tools.entries.on_change = lambda: changes.append(1)
    for name in ("a", "b", "c"):
        server.tool(name=name)(greeting)
    assert len(changes) == 3

    async with open_client(server, revision=revision) as client:

        async def names() -> list[str]:
            return [tool["name"] for tool in (await client.request("tools/list"))["tools"]]

        assert await names() == ["a", "b", "c"]
        server.disable_tool("b")
        server.disable_tool("b")
        assert await names() == ["a", "c"]
        with pytest.raises(RequestError, match="Unknown tool: b") as caught:
            await client.request("tools/call", {"name": "b"})
        assert caught.value.code == -32602
        assert len(changes) == 4
        server.remove_tool("b")
        assert len(changes) == 4, "nobody saw it any more"
        server.tool(name="b")(greeting)
        server.disable_tool("a")
        server.enable_tool("a")
        assert await names() == ["a", "c", "b"]
        assert len(changes) == 7
        for name in ("a", "b", "c"):
            server.remove_tool(name)
        assert await names() == []
    for change in (server.remove_tool, server.enable_tool, server.disable_tool):
        with pytest.raises(LookupError, match="no tool called 'a'"):
            change("a")


async def test_a_call_goes_on_when_its_tool_is_removed(autojump_clock: trio.testing.MockClock) -> None:
    server = Server("s")

    @server.tool
    async def leave() -> str:
        server.remove_tool("leave")
        await trio.sleep(1)
        return "left"

    assert said(await call(server, "leave")) == "left"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": -1.0}, "timeout must be more than 0"),
        ({"timeout": float("nan")}, "timeout must be more than 0"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"name": "with space"}, "SEP-986"),
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Server("s").tool(**options)(greeting)
