"""What tools give to programs: held to what they promised, and read as Python types.

Spec: 2025-06-18, 2025-11-25 and 2026-07-28, server/tools, "Structured Content" and "Output Schema".
"""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any, TypedDict

import attrs
import pydantic
import pytest
import trio
import trio.testing
from eras import ENDS
from inside_client import OutputChecks
from scripted import MODERN, ScriptedServer, note, open_scripted, settle
from wires import answer, refusal

from trio_mcp import Client, RemoteProtocolError, Revision, Server, ToolError, open_client
from trio_mcp.types import CallToolResult, Tool

WITH_SCHEMAS = pytest.mark.parametrize("revision", [r for r in Revision if r >= Revision.V2025_06_18])
WITHOUT = pytest.mark.parametrize("revision", [r for r in Revision if r < Revision.V2025_06_18])

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


class Tools:
    """A script: one tool, whose output schema and result the test decides."""

    def __init__(self, schema: object = None, **result: Any) -> None:
        self.schema = schema
        self.result = result

    def __call__(self, _: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] == "tools/list":
            tool: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
            if self.schema is not None:
                tool["outputSchema"] = self.schema
            return answer(
                message, {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            )
        if message["method"] == "tools/call":
            return answer(message, {"content": [], "resultType": "complete", **self.result})
        return None


async def list_tools(client: Client) -> None:
    async for _ in client.list_tools():
        pass


# What was promised.


@WITH_SCHEMAS
async def test_a_result_is_held_to_the_schema_of_its_tool(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Clients should validate structured results against the output schema."""
    tools = Tools(POINT, structuredContent={"x": 1})
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        await list_tools(client)
        assert (await client.call_tool("t")).structured_content == {"x": 1}
        tools.result = {"structuredContent": {"x": "one"}}
        with pytest.raises(RemoteProtocolError, match=r"tool t: .*breaks its output schema: x: "):
            await client.call_tool("t")
        tools.result = {"structuredContent": {}}
        with pytest.raises(RemoteProtocolError, match="breaks its output schema"):
            await client.call_tool("t", returns=dict[str, int])


@WITH_SCHEMAS
async def test_a_result_without_what_was_promised_is_refused(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Servers must provide structured results that conform to the schema; a tool error is none."""
    tools = Tools(POINT)
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        await list_tools(client)
        with pytest.raises(RemoteProtocolError, match="no structuredContent"):
            await client.call_tool("t")
        tools.result = {"isError": True, "structuredContent": 5}
        assert (await client.call_tool("t")).is_error


@WITH_SCHEMAS
async def test_structured_content_is_read_without_content(
    revision: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Some servers leave out what is required beside it; the log says what is missing. Alone it is still missed."""
    tools = Tools(POINT, structuredContent={"x": 1}, content=None)
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        await list_tools(client)
        result = await client.call_tool("t")
        assert result.structured_content == {"x": 1}
        assert result.content == ()
        assert "tools/call: the result lacks content, which is required beside structuredContent" in caplog.text
        tools.schema, tools.result = None, {"content": None}
        with pytest.raises(RemoteProtocolError, match="content"):
            await client.call_tool("t")


@WITH_SCHEMAS
async def test_a_tool_that_was_never_listed_is_not_asked_about(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision, Tools(POINT, structuredContent=[]))
    async with open_scripted(server) as client:
        assert (await client.call_tool("t")).structured_content == []
        await list_tools(client)
        assert isinstance(await client.call_tool("other"), CallToolResult)
        assert len(server.requests("tools/list")) == 1


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


ODD_SCHEMAS: list[dict[str, Any]] = [
    {"$schema": {}},
    {"$schema": ["x"]},
    {"$schema": "https://x.test/dialect"},
    {"$id": {}, "$ref": "x#a"},
    {"$id": "file:///etc/passwd", "$ref": "other"},
    {"$ref": []},
    {"$ref": "#/$defs/" + "9" * 5_000, "$defs": []},
    {"$ref": "http://[", "$dynamicRef": 5},
    {"type": 5, "properties": [], "required": {}, "enum": {}, "items": 5, "pattern": "["},
    {"$defs": {"a": {"$anchor": []}}, "allOf": [[]], "patternProperties": {"(": 1}},
    {"properties": {"": {"x-mcp-header": {}}, "a": {"x-mcp-header": "\n", "type": []}}},
    nested(900),
]


@WITH_SCHEMAS
async def test_a_schema_that_makes_no_sense_costs_neither_the_list_nor_the_call(
    subtests: pytest.Subtests, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """What cannot be used checks nothing: a server must not be able to raise a `TypeError` in its client."""

    async def check(schema: dict[str, Any]) -> None:
        wire = json.dumps(schema)

        def script(_: ScriptedServer, message: dict[str, Any]) -> object:
            if message["method"] == "tools/list":
                fresh = json.loads(wire)  # as from a wire: never the same object twice
                tool = {"name": "t", "inputSchema": {"type": "object", **fresh}, "outputSchema": fresh}
                return answer(
                    message, {"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                )
            content: dict[str, object] = {"content": [], "resultType": "complete", "structuredContent": {"x": 1}}
            return answer(message, content) if message["method"] == "tools/call" else None

        async with open_scripted(ScriptedServer(revision, script)) as client:
            for _ in range(2):
                await list_tools(client)
            assert (await client.call_tool("t")).structured_content == {"x": 1}

    for schema in ODD_SCHEMAS:
        with subtests.test(schema=schema):
            await check(schema)


def test_a_schema_that_python_cannot_compare_is_a_new_one() -> None:
    """How deep is too deep depends on how deep the program is: the list must not fail."""
    checks = OutputChecks(max_tools=10, max_schema_bytes=1_000, max_bytes=1_000_000)
    for _ in range(2):
        tool = Tool(name="t", input_schema={"type": "object"}, output_schema=nested(5_000))
        checks.learn([tool], Revision.V2025_11_25, checks.stamp)
    checks.check("t", CallToolResult(content=(), structured_content=5))


@WITHOUT
async def test_older_revisions_have_no_output_schemas(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_scripted(ScriptedServer(revision, Tools(POINT))) as client:
        await list_tools(client)
        await client.call_tool("t")


@WITH_SCHEMAS
async def test_the_newest_listing_counts(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    tools = Tools(POINT, structuredContent={"x": "one"})
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        await list_tools(client)
        await list_tools(client)
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("t")
        tools.schema = {"type": "object"}
        await list_tools(client)
        await client.call_tool("t")
        tools.schema = None
        tools.result = {}
        await list_tools(client)
        await client.call_tool("t")


@WITH_SCHEMAS
@pytest.mark.parametrize("way", ["notification", "restart"])
async def test_what_may_have_changed_is_not_held_against_a_result(
    way: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = ScriptedServer(revision, Tools(POINT, structuredContent={}))
    async with open_scripted(server) as client:
        await list_tools(client)
        if way == "restart":
            server.lose()
            await trio.sleep(5)
        else:
            server.say(note("tools/list_changed"))
            await settle()
        await client.call_tool("t")
        await list_tools(client)
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("t")


async def test_a_listing_that_was_overtaken_by_a_change_teaches_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tools = Tools(POINT, structuredContent={})

    def change_first(server: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] == "tools/list":
            server.say(note("tools/list_changed"))
        return tools(server, message)

    async with open_scripted(ScriptedServer(script=change_first)) as client:
        await list_tools(client)
        await client.call_tool("t")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://x.test/schema.json"}, "$ref: "),
        ({"$ref": "file:///etc/passwd"}, "$ref: "),
        ({"$ref": "#"}, "$ref: it leads back to itself"),
        ({"type": "object", "additionalProperties": {"$ref": "#"}}, "$ref: it leads back to itself"),
        ({"allOf": [True], "unevaluatedProperties": False}, "unevaluatedProperties: it is not evaluated"),
        ({"type": "nothing"}, '"nothing" is not valid'),
        ({"$schema": "https://x.test/dialect"}, "$schema is "),
        ({"const": "x" * 300_000}, "300013 bytes; 262144 are allowed"),
    ],
)
async def test_an_absurd_schema_checks_nothing_and_is_logged_once(
    schema: object, reason: str, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic, "JSON Schema Usage": what cannot be processed safely is not."""
    server = ScriptedServer(script=Tools(schema, structuredContent=5))
    async with open_scripted(server) as client:
        for _ in range(3):
            await list_tools(client)
            assert (await client.call_tool("t")).structured_content == 5
    (record,) = [r for r in caplog.records if "are not checked" in r.getMessage()]
    assert record.levelno == logging.WARNING
    told = f"results of tool t are not checked against its output schema: {reason}"
    assert record.getMessage().startswith(told)


async def test_a_value_too_large_for_its_schema_passes_and_others_are_still_checked(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    schema = {"type": "object", "properties": {"c": {"type": "array", "uniqueItems": True}}}
    large = {"c": [[10**30 + number] for number in range(20_000)]}
    tools = Tools(schema, structuredContent=large)
    async with open_scripted(ScriptedServer(script=tools)) as client:
        await list_tools(client)
        await client.call_tool("t")
        await client.call_tool("t")
        tools.result = {"structuredContent": {"c": 5}}
        with pytest.raises(RemoteProtocolError):
            await client.call_tool("t")
    assert len([r for r in caplog.records if "are not checked" in r.getMessage()]) == 1


def test_how_many_tools_are_remembered_is_a_limit() -> None:
    checks = OutputChecks(max_tools=2)
    tools = [Tool(name=f"t{i}", input_schema={"type": "object"}, output_schema=POINT) for i in range(5)]
    checks.learn(tools, Revision.V2025_11_25, checks.stamp)
    checks.check("t2", CallToolResult(content=()))
    with pytest.raises(RemoteProtocolError):
        checks.check("t3", CallToolResult(content=()))


# Reading it as a type.


@attrs.frozen
class AttrsPoint:
    x: int


@dataclasses.dataclass(frozen=True)
class DataPoint:
    x: int


class PydanticPoint(pydantic.BaseModel):
    x: int


class TypedPoint(TypedDict):
    x: int


@WITH_SCHEMAS
async def test_structured_content_is_read_as_a_type(
    subtests: pytest.Subtests, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    rows: list[tuple[Any, object]] = [
        (AttrsPoint, AttrsPoint(3)),
        (DataPoint, DataPoint(3)),
        (PydanticPoint, PydanticPoint(x=3)),
        (TypedPoint, {"x": 3}),
        (dict[str, int], {"x": 3}),
        (AttrsPoint | None, AttrsPoint(3)),
    ]
    for kind, expected in rows:
        with subtests.test(kind=kind, expected=expected):
            tools = Tools(structuredContent={"x": 3})
            async with open_scripted(ScriptedServer(revision, tools)) as client:
                assert await client.call_tool("t", returns=kind) == expected
                if kind is AttrsPoint:
                    tools.result = {"structuredContent": {"x": 3, "y": 4}}
                    assert await client.call_tool("t", returns=kind) == expected


async def test_what_is_no_object_may_have_been_wrapped_in_one(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """Before 2026-07-28 structured content is an object; servers wrap other values as `result`."""
    rows: list[tuple[object, Any, object]] = [
        ({"result": 5}, int, 5),
        ({"result": [1, 2]}, list[int], [1, 2]),
        ({"result": None}, str | None, None),
        ({"result": 5}, dict[str, int], {"result": 5}),
        ([1, 2], list[int], [1, 2]),
        (None, str | None, None),
        (5, int, 5),
    ]
    for structured, kind, expected in rows:
        with subtests.test(structured=structured, kind=kind, expected=expected):
            async with open_scripted(ScriptedServer(script=Tools(structuredContent=structured))) as client:
                assert await client.call_tool("t", returns=kind) == expected


@pytest.mark.parametrize("revision", ENDS)
async def test_where_nothing_is_structured_the_text_is_read(
    subtests: pytest.Subtests, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-06-18, "Structured Content": it should also be there as serialized JSON; before, only so."""
    rows: list[tuple[str, Any, object]] = [
        ('{"x": 3}', AttrsPoint, AttrsPoint(3)),
        ("[1, 2]", list[int], [1, 2]),
        ("5", str, "5"),
        ("plain", str, "plain"),
        ("plain", str | None, "plain"),
    ]
    for text, kind, expected in rows:
        with subtests.test(text=text, kind=kind, expected=expected):
            tools = Tools(content=[{"type": "text", "text": text}])
            async with open_scripted(ScriptedServer(revision, tools)) as client:
                assert await client.call_tool("t", returns=kind) == expected


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize(
    "content", [[], [{"type": "text", "text": "no JSON"}], [{"type": "text", "text": '{"x": "3"}'}]]
)
async def test_what_is_not_of_the_type_is_refused(
    content: object, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_scripted(ScriptedServer(revision, Tools(content=content))) as client:
        with pytest.raises(RemoteProtocolError, match="not of the type `returns`"):
            await client.call_tool("t", returns=AttrsPoint)


@pytest.mark.parametrize("revision", ENDS)
async def test_a_tool_that_returns_nothing_is_read_as_that(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Ours sends no content, others an empty text; what fails is raised, and what has a text is not nothing."""
    server = Server("gates")

    @server.tool
    async def shut(gate: str) -> None:
        if gate != "north":
            raise ToolError(f"there is no gate {gate}")

    async with open_client(server, revision=revision) as client:
        await client.call_tool("shut", {"gate": "north"}, returns=type(None))
        assert await client.call_tool("shut", {"gate": "north"}, returns=int | None) is None
        with pytest.raises(ToolError, match="there is no gate south"):
            await client.call_tool("shut", {"gate": "south"}, returns=type(None))
    tools = Tools(content=[{"type": "text", "text": ""}])
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        await client.call_tool("t", returns=type(None))
        assert await client.call_tool("t", returns=str | None) == ""
        with pytest.raises(RemoteProtocolError) as refused:
            await client.call_tool("t", returns=int)
        assert (
            str(refused.value) == 'tool t: the result is not of the type `returns`: expected an integer, got ""'
        )
        tools.result = {"content": [{"type": "text", "text": "shut"}]}
        with pytest.raises(RemoteProtocolError) as refused:
            await client.call_tool("t", returns=type(None))
        assert str(refused.value) == 'tool t: the result is not of the type `returns`: expected null, got "shut"'


@pytest.mark.parametrize("revision", ENDS)
@pytest.mark.parametrize(
    ("texts", "says"), [(["no ink"], "^no ink$"), (["a", "b"], "^a\n    b$"), ([], "failed without a message")]
)
async def test_a_tool_error_is_raised(
    texts: list[str], says: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """As text its lines after the first are indented, so that none passes for a line of somebody's log."""
    tools = Tools(isError=True, content=[{"type": "text", "text": text} for text in texts])
    async with open_scripted(ScriptedServer(revision, tools)) as client:
        with pytest.raises(ToolError, match=says):
            await client.call_tool("t", returns=int)


async def test_a_tool_error_can_be_read_as_the_tool_wrote_it(autojump_clock: trio.testing.MockClock) -> None:
    """A model that reads it needs the words, and has no terminal."""
    tools = Tools(isError=True, content=[{"type": "text", "text": "a\n\tb"}])
    async with open_scripted(ScriptedServer(script=tools)) as client:
        with pytest.raises(ToolError) as caught:
            await client.call_tool("t", returns=int)
    assert caught.value.args[0] == "a\n\tb"


async def test_an_impossible_type_is_refused_before_anything_is_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = ScriptedServer(script=lambda _, message: refusal(message, -32603, "no"))
    async with open_scripted(server) as client:
        with pytest.raises(TypeError):
            await client.call_tool("t", returns=trio.Event)
        assert server.requests("tools/call") == []


@pytest.mark.parametrize("revision", ENDS)
async def test_our_server_keeps_its_promises(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    """One handler, one call, the same value in all five revisions."""
    server = Server("points")

    @server.tool
    async def point(x: int) -> AttrsPoint:
        return AttrsPoint(x)

    @server.tool
    async def numbers() -> list[int]:
        return [1, 2]

    @server.tool
    async def fail() -> int:
        raise ToolError("no numbers today")

    async with open_client(server, revision=revision) as client:
        await list_tools(client)
        assert await client.call_tool("point", {"x": 3}, returns=AttrsPoint) == AttrsPoint(3)
        assert await client.call_tool("numbers", returns=list[int]) == [1, 2]
        with pytest.raises(ToolError, match="no numbers today"):
            await client.call_tool("fail", returns=int)
    assert MODERN == Revision.V2026_07_28
