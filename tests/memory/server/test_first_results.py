"""What a tool returns, and what its caller gets for it (2025-06-18, server/tools, "Tool Result")."""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from eras import ENDS
from inside_base import repetitions

from trio_mcp import Image, RequestError, Server, ToolError, open_client
from trio_mcp.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

REVISIONS = pytest.mark.parametrize(
    "revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
)
STRUCTURED = {"2025-06-18", "2025-11-25", "2026-07-28"}

PNG = b"\x89PNG\r\n\x1a\n"
IMAGE = ImageContent(data="aGk=", mime_type="image/png")
LINK = ResourceLink(name="there", uri="file:///there")
EMBEDDED = EmbeddedResource(resource=TextResourceContents(uri="file:///here", text="here"))


@attrs.frozen
class Point:
    x: int
    y: int = 0


async def result_of(
    tool: Callable[..., Any], revision: str = "2026-07-28", **arguments: object
) -> CallToolResult:
    server: Server[None] = Server("results")
    server.tool(tool)
    async with open_client(server, revision=revision) as client:
        (listed,) = [tool async for tool in client.list_tools()]
        return await client.call_tool(listed.name, arguments)


async def output_schema_of(tool: Callable[..., Any], revision: str = "2026-07-28") -> Any:
    server: Server[None] = Server("results")
    server.tool(tool)
    async with open_client(server, revision=revision) as client:
        return (await anext(client.list_tools())).output_schema


def shown(result: CallToolResult) -> list[str]:
    return [block.text if isinstance(block, TextContent) else type(block).__name__ for block in result.content]


@REVISIONS
async def test_a_value_is_structured_and_text(revision: str) -> None:
    """2025-06-18, server/tools, "Structured Content": SHOULD also return the serialized JSON in a TextContent block."""

    async def place() -> Point:
        await trio.lowlevel.checkpoint()
        return Point(1, 2)

    result = await result_of(place, revision)
    assert shown(result) == ['{"x":1,"y":2}']
    assert (result.structured_content == {"x": 1, "y": 2}) == (revision in STRUCTURED)
    assert not result.is_error


@REVISIONS
async def test_without_annotation_what_can_be_shown_is_shown(subtests: pytest.Subtests, revision: str) -> None:
    """And any other value as JSON: a tool is of use before anybody has annotated it."""

    async def check(value: object, texts: list[str]) -> None:
        def untyped():  # type: ignore[no-untyped-def] # noqa: ANN202 - that is what is tested
            return value

        result = await result_of(untyped, revision)
        assert shown(result) == texts
        if revision in STRUCTURED and isinstance(value, dict):
            assert result.structured_content == value

    rows: list[tuple[object, list[str]]] = [
        ("plain", ["plain"]),
        ("", [""]),
        (None, []),
        ([], []),
        (["a", "b"], ["a", "b"]),
        (("a", IMAGE), ["a", "ImageContent"]),
        (IMAGE, ["ImageContent"]),
        (TextContent(text="block"), ["block"]),
        (EMBEDDED, ["EmbeddedResource"]),
        (CallToolResult(content=(TextContent(text="whole"),)), ["whole"]),
        ({"a": 1}, ['{"a":1}']),
        ([1, "b"], ['[1,"b"]']),
        (7, ["7"]),
        (True, ["true"]),
        (dt.date(2026, 7, 28), ["2026-07-28"]),
    ]
    for value, texts in rows:
        with subtests.test(value=value, texts=texts):
            await check(value, texts)


async def test_what_is_shown_has_no_schema(subtests: pytest.Subtests) -> None:
    """An output schema would promise structured content that never comes."""

    async def check(hint: Any) -> None:
        def tool() -> None:
            """Return nothing; it is only listed."""

        tool.__annotations__["return"] = hint
        assert not await output_schema_of(tool)

    hints: list[Any] = [
        str,
        None,
        TextContent,
        ImageContent,
        CallToolResult,
        ImageContent | TextContent,
        TextContent | None,
        list[TextContent],
        list[str | ImageContent],
        tuple[ImageContent, ...],
        Sequence[ResourceLink | EmbeddedResource],
    ]
    for hint in hints:
        with subtests.test(hint=hint):
            await check(hint)


async def test_a_value_has_a_schema(subtests: pytest.Subtests) -> None:
    """Also a list of text, which is a value and no block; before 2026-07-28 inside an object (server/tools)."""

    async def check(hint: Any, kind: object) -> None:
        def tool() -> None:
            """Return nothing; it is only listed."""

        tool.__annotations__["return"] = hint
        schema = await output_schema_of(tool)
        assert schema.get("type", schema.get("anyOf")) == kind
        legacy = await output_schema_of(tool, "2025-11-25")
        assert legacy["type"] == "object"

    rows: list[tuple[Any, object]] = [
        (int, "integer"),
        (Point, "object"),
        (list[str], "array"),
        (list[int], "array"),
        (dict[str, int], "object"),
        (int | None, [{"type": "integer"}, {"type": "null"}]),
        (str | int, [{"type": "string"}, {"type": "integer"}]),
    ]
    for hint, kind in rows:
        with subtests.test(hint=hint, kind=kind):
            await check(hint, kind)


@REVISIONS
async def test_a_list_of_anything_is_shown_if_a_block_is_in_it(subtests: pytest.Subtests, revision: str) -> None:
    """Such an annotation promises nothing; so there is no schema, and each list is what is in it."""

    async def check(hint: Any) -> None:
        values: list[Any] = []

        async def tool() -> Any:
            await trio.lowlevel.checkpoint()
            return tuple(values) if hint is tuple else list(values)

        tool.__annotations__["return"] = hint
        assert not await output_schema_of(tool, revision)
        values += ["a", TextContent(text="b"), Image(PNG), IMAGE, {"c": 1}, 2]
        result = await result_of(tool, revision)
        assert shown(result) == ["a", "b", "ImageContent", "ImageContent", '{"c":1}', "2"]
        assert not result.has_structured_content
        for value in ([1, "b"], ["a", "b"], []):
            values[:] = value
            result = await result_of(tool, revision)
            assert shown(result) == [json.dumps(value, separators=(",", ":"))]
            wanted: object = value if revision == "2026-07-28" else {"result": value}
            assert result.structured_content == (wanted if revision in STRUCTURED else None)

    hints: list[Any] = [list, list[Any], tuple, Sequence[object]]
    for hint in hints:
        with subtests.test(hint=hint):
            await check(hint)


async def test_what_is_beside_a_block_without_an_annotation_is_shown_too() -> None:
    """As JSON, as it would be by itself."""

    def untyped():  # type: ignore[no-untyped-def] # noqa: ANN202 - that is what is tested
        return [Image(PNG), Point(1, 2)]

    assert shown(await result_of(untyped)) == ["ImageContent", '{"x":1,"y":2}']


async def test_links_and_images_arrive_as_they_are() -> None:
    """Blocks are the tool's own; nothing is added to them."""

    async def blocks() -> list[ImageContent | ResourceLink | EmbeddedResource]:
        await trio.lowlevel.checkpoint()
        return [IMAGE, LINK, EMBEDDED]

    result = await result_of(blocks)
    assert list(result.content) == [IMAGE, LINK, EMBEDDED]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_does_not_fit_the_annotation_is_masked(
    subtests: pytest.Subtests, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server broke its own promise; the log says how, and the model that it failed."""

    async def check(value: Any) -> None:
        caplog.clear()
        repetitions.forget()

        async def count() -> list[int]:
            await trio.lowlevel.checkpoint()
            return [value]

        result = await result_of(count, revision)
        assert result.is_error
        assert shown(result) == [
            "count has run, but its result cannot be sent. Do not repeat the call; the log says why."
        ]
        assert [record.levelno for record in caplog.records if record.name == "trio_mcp.server"] == [
            logging.ERROR
        ]

    values: list[Any] = [{1, 2}, object(), "seven", [Path("x")]]
    for value in values:
        with subtests.test(value=value):
            await check(value)


@pytest.mark.parametrize("revision", ENDS)
async def test_what_a_tool_raises(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """`ToolError` is shown, `RequestError` is the answer, all else is logged in full and masked."""
    server: Server[None] = Server("failing")
    raised: list[Exception] = [
        ToolError("no such shelf"),
        RequestError(-31999, "not today", {"until": 5}),
        ZeroDivisionError("secret"),
    ]

    @server.tool
    async def fail(index: int) -> int:
        await trio.lowlevel.checkpoint()
        raise raised[index]

    @server.tool
    def fail_in_thread(index: int) -> int:
        raise raised[index]

    async with open_client(server, revision=revision) as client:
        for name in ("fail", "fail_in_thread"):
            caplog.clear()
            told = await client.call_tool(name, {"index": 0})
            assert told.is_error
            assert shown(told) == ["no such shelf"]
            assert not caplog.records
            with pytest.raises(RequestError) as caught:
                await client.call_tool(name, {"index": 1})
            assert (caught.value.code, caught.value.message, caught.value.data) == (
                -31999,
                "not today",
                {"until": 5},
            )
            masked = await client.call_tool(name, {"index": 2})
            assert masked.is_error
            assert shown(masked) == [f"{name} failed. The server's log says why."]
            assert "secret" in caplog.text


@pytest.mark.parametrize("revision", ENDS)
async def test_arguments_that_do_not_fit_are_the_models_to_mend(subtests: pytest.Subtests, revision: str) -> None:
    """2025-11-25, server/tools, "Error Handling": input validation errors are tool execution errors (SEP-1303)."""

    async def check(arguments: dict[str, Any]) -> None:
        async def need(x: int) -> str:
            raise AssertionError("called with what does not fit")

        result = await result_of(need, revision, **arguments)
        assert result.is_error
        (text,) = shown(result)
        assert text.startswith("Invalid arguments for need: ")

    rows: list[dict[str, Any]] = [{}, {"x": "one"}, {"X": 1}, {"x": None}, {"x": True}]
    for arguments in rows:
        with subtests.test(arguments=arguments):
            await check(arguments)


@pytest.mark.parametrize("revision", ENDS)
async def test_an_unknown_tool_is_a_protocol_error(revision: str) -> None:
    """2025-11-25, server/tools, "Error Handling": unknown tools are -32602, and a long name is not repeated whole."""
    server: Server[None] = Server("known")
    server.tool(name="known")(lambda: None)
    async with open_client(server, revision=revision) as client:
        with pytest.raises(RequestError, match="Unknown tool: ") as caught:
            await client.call_tool("x" * 1000)
        assert caught.value.code == -32602
        assert len(caught.value.message) < 200
