"""What a function returns is what its annotation says; else that is a failure which names both."""

from __future__ import annotations

import collections.abc
import ipaddress
import itertools
import json
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final

import pytest
import trio
from inside_base import repetitions
from typing_extensions import TypedDict

import trio_mcp.testing
from trio_mcp import Field, Image, McpError, Server, assistant_message, open_client
from trio_mcp.types import (
    CallToolResult,
    ContentBlock,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

PNG: Final = Image(b"\x89PNG\r\n\x1a\n")
BLOCK: Final = TextContent(text="block")


class Text(str):
    """A subclass is what its base is."""

    __slots__ = ()


@dataclass
class Host:
    """One of its members has no schema."""

    ip: ipaddress.IPv4Address | ipaddress.IPv6Address


class Boolean:
    """As numpy's, which is none of Python's."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __bool__(self) -> bool:
        return self.value == 1


Boolean.__module__, Boolean.__name__ = "numpy", "bool"


class Colour(Enum):
    RED = "red"


class Point(TypedDict):
    x: int


class Whatever(typing.Protocol):
    x: int


T = typing.TypeVar("T")


def returning(value: object, annotation: object, *, is_async: bool = True) -> Callable[[], Any]:
    """Return a function with a return annotation that says something else than it returns."""

    async def in_loop() -> Any:
        await trio.lowlevel.checkpoint()
        return value

    def in_thread() -> Any:
        return value

    function: Callable[[], Any] = in_loop if is_async else in_thread
    function.__annotations__["return"] = annotation
    return function


MISFITS: Final = (
    (str, None, "None", "str"),
    (str, 5, "5", "str"),
    (str, ["a"], "['a']", "str"),
    (str, b"a", "b'a'", "str"),
    (str, BLOCK, repr(BLOCK)[:60], "str"),
    (None, 5, "5", "None"),
    (None, "text", "'text'", "None"),
    (str | None, 5, "5", "str | None"),
    (typing.Optional[str], 5, "5", "Optional[str]"),  # noqa: UP045 - as people write it
    (bytes, "text", "'text'", "bytes"),
    (bytes, None, "None", "bytes"),
    (TextContent, "text", "'text'", "trio_mcp.types.TextContent"),
    (list[TextContent], BLOCK, repr(BLOCK)[:60], "list[trio_mcp.types.TextContent]"),
)  # fmt: skip
"""Annotation, value, and both as the error shows them: of results without a schema."""

FITTING: Final = (
    (str, "text"),
    (str, Text("text")),
    (str | None, None),
    (str | None, "text"),
    (None, None),
    (bytes, b"data"),
    (bytes, bytearray(b"data")),
    (str | Image, PNG),
    (ContentBlock, BLOCK),
    (list[Image | str], [PNG, "text"]),
    (list[Image | str], (PNG,)),
    (collections.abc.Sequence[Image], [PNG]),
    (object, None),
    (Any, 5),
    (typing.Union[str, Any], 5),  # noqa: UP007 - as people write it
)


async def test_a_tool_returns_what_it_says(subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture) -> None:
    """A forgotten ``return`` is no empty success."""
    for is_async in (True, False):
        for annotation, value, is_shown_as, says in MISFITS:
            with subtests.test(is_async=is_async, annotation=annotation, value=value, is_shown_as=is_shown_as):
                caplog.clear()
                repetitions.forget()
                server: Server[None] = Server("results")
                server.tool(name="given")(returning(value, annotation, is_async=is_async))
                function = "in_loop" if is_async else "in_thread"
                text = f"{function}() returned {is_shown_as}, and is annotated with -> {says}"
                async with open_client(server) as client:
                    result = await client.call_tool("given")
                assert result.is_error
                assert result.text == (
                    "given has run, but its result cannot be sent. Do not repeat the call; the log says why."
                )
                assert "tool given failed: its result does not fit its annotation" in caplog.text
                assert text in caplog.text
                with pytest.raises(TypeError) as caught:
                    async with trio_mcp.testing.open_client(server) as client:
                        await client.call_tool("given")
                assert str(caught.value) == f"the result of tool given does not fit its annotation: {text}"


async def test_what_fits_is_sent(subtests: pytest.Subtests) -> None:
    """Also where a class does not tell."""
    for annotation, value in FITTING:
        with subtests.test(annotation=annotation, value=value):
            server: Server[None] = Server("results")
            server.tool(name="given")(returning(value, annotation))
            async with open_client(server) as client:
                assert not (await client.call_tool("given")).is_error


async def test_a_whole_result_is_sent_whatever_the_annotation() -> None:
    """It says all that there is to say."""
    server: Server[None] = Server("results")
    server.tool(name="given")(returning(CallToolResult(content=(BLOCK,)), str))
    server.resource("a:b", name="given")(returning(ReadResourceResult(contents=()), str))
    server.prompt(name="given")(returning(GetPromptResult(messages=()), str))
    async with open_client(server) as client:
        assert (await client.call_tool("given")).text == "block"
        assert (await client.read_resource("a:b")).contents == ()
        assert (await client.get_prompt("given")).messages == ()


async def test_a_list_of_anything_is_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """Although it is listed without a schema."""
    server: Server[None] = Server("results")
    server.tool(name="given")(returning("text", list))
    async with open_client(server) as client:
        assert (await client.call_tool("given")).is_error
    assert 'expected an array, got "text"' in caplog.text


async def test_a_resource_returns_what_it_says(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """The text ``null`` is no contents of a text."""
    rows: list[tuple[object, object, str, str]] = [
        *(misfit for misfit in MISFITS if misfit[0] is not TextContent),
        (int, "text", "'text'", "int"),
        (list[int], {"a": 1}, "{'a': 1}", "list[int]"),
        (dict[str, int], [1], "[1]", "dict[str, int]"),
        (float, "1.5", "'1.5'", "float"),
        (Colour, "red", "'red'", f"{__name__}.Colour"),
        (TextResourceContents, "text", "'text'", "trio_mcp.types.TextResourceContents"),
    ]
    for annotation, value, is_shown_as, says in rows:
        with subtests.test(annotation=annotation, value=value, is_shown_as=is_shown_as, says=says):
            caplog.clear()
            repetitions.forget()
            server: Server[None] = Server("results")
            server.resource("a:one")(returning(value, annotation))
            async with open_client(server) as client:
                with pytest.raises(McpError, match=r"Reading the resource failed\. The server's log says why\."):
                    await client.read_resource("a:one")
            assert "reading the resource a:one failed" in caplog.text
            assert f"in_loop() returned {is_shown_as}, and is annotated with -> {says}" in caplog.text


async def test_contents_that_fit_are_read(subtests: pytest.Subtests) -> None:
    """Or where the annotation is of a kind that no class tells."""
    rows: list[tuple[object, object]] = [
        (str, "text"),
        (int, 5),
        (int, True),
        (float, 5),
        (bytes, b"data"),
        (dict[str, int], {"a": 1}),
        (tuple[int, int], [1, 2]),
        (list[TextResourceContents | str], ["text"]),
        (Decimal, Decimal(1)),
        (Point, {"x": 1}),
        (Whatever, {"x": 1}),
        (typing.Literal["a"], "a"),
        (typing.Annotated[str, "a remark"], "text"),
        (T, "text"),
        (typing.NewType("Name", str), "text"),
        (collections.abc.Iterable[int], [1]),
        (collections.abc.Sequence, [1]),
        (typing.Never, "text"),
        (None | typing.Any, "text"),
    ]
    for annotation, value in rows:
        with subtests.test(annotation=annotation, value=value):
            server: Server[None] = Server("results")
            server.resource("a:one")(returning(value, annotation))
            async with open_client(server) as client:
                assert (await client.read_resource("a:one")).contents


async def test_a_prompt_returns_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    """The same."""
    server: Server[None] = Server("results")
    server.prompt(name="none")(returning(None, str))
    server.prompt(name="list")(returning([assistant_message("a")], str))
    server.prompt(name="one")(returning(assistant_message("a"), list[PromptMessage]))

    @server.prompt
    def yields() -> collections.abc.Iterator[str]:
        yield "a"

    async with open_client(server) as client:
        for name in ("none", "list", "one"):
            caplog.clear()
            with pytest.raises(McpError):
                await client.get_prompt(name)
            assert "in_loop() returned " in caplog.text
            assert ", and is annotated with -> " in caplog.text
        assert (await client.get_prompt("yields")).messages[0].text == "a"


NAIVE: Final = datetime(2026, 7, 28, 12, 30)  # noqa: DTZ001 - what is tested


async def test_what_has_a_form_is_sent_when_the_work_is_done(subtests: pytest.Subtests) -> None:
    """A database gives times without an offset, and NaN for what is missing. A failure would be called again."""
    rows: list[tuple[object, object, str]] = [
        (datetime, NAIVE, "2026-07-28T12:30:00"),
        (list[datetime], [NAIVE], '["2026-07-28T12:30:00"]'),
        (typing.Any, {"a": math.nan}, '{"a":"NaN"}'),
        (dict[str, Any], {"a": -math.inf, "b": NAIVE}, '{"a":"-Infinity","b":"2026-07-28T12:30:00"}'),
        (dict, {(1, "a"): 1, None: 2}, '{"[1,\\"a\\"]":1,"null":2}'),
        (Any, ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
        (dict, {"ip": ipaddress.ip_network("10.0.0.0/8")}, '{"ip":"10.0.0.0/8"}'),
        (dict, {"ip": Host(ipaddress.ip_address("::1"))}, """{"ip":"Host(ip=IPv6Address('::1'))"}"""),
        (dict, {"error": ValueError("x"), "empty": KeyError()}, '{"error":"x","empty":"KeyError()"}'),
        (Any, SimpleNamespace(a=[SimpleNamespace(b=1)]), '{"a":[{"b":1}]}'),
        (Any, timezone.utc, "UTC"),  # noqa: UP017 - its text is what is tested
        (dict, {"a": Boolean(0), "b": Boolean(1)}, '{"a":false,"b":true}'),
        (str, "a\udcff", "a\\udcff"),
        (list[str], ["a\udcff"], '["a\\\\udcff"]'),
    ]
    for annotation, value, text in rows:
        for is_async in (True, False):
            with subtests.test(annotation=annotation, value=value, is_async=is_async):
                server: Server[None] = Server("results")
                server.tool(name="given")(returning(value, annotation, is_async=is_async))
                server.resource("a:one", mime_type="text/x")(returning(value, annotation, is_async=is_async))
                async with open_client(server) as client:
                    result = await client.call_tool("given")
                    (contents,) = (await client.read_resource("a:one")).contents
                assert not result.is_error
                assert result.text == text
                if text[0] == "{" or annotation is str:
                    assert isinstance(contents, TextResourceContents)
                    assert contents.text == text


async def test_a_boolean_of_numpy_is_a_boolean() -> None:
    """It is what comparisons of arrays return, and no `bool`."""
    server: Server[None] = Server("results")
    server.tool(name="given")(returning(Boolean(1), bool))
    async with open_client(server) as client:
        result = await client.call_tool("given")
    assert (result.text, result.is_error) == ("true", False)


async def test_the_items_of_iterators_are_sent_when_the_work_is_done(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """They are lists, up to a bound: some have no end."""
    rows: list[tuple[Callable[[], object], str]] = [
        (lambda: map(float, [1]), "[1.0]"),
        (lambda: {"a": zip([1], ["b"], strict=True)}, '{"a":[[1,"b"]]}'),
        (lambda: ({"a": n} for n in range(2)), '[{"a":0},{"a":1}]'),
    ]
    for make, text in rows:
        with subtests.test(text=text):
            server: Server[None] = Server("results")
            server.tool(name="given")(returning(make(), Any))
            async with open_client(server) as client:
                assert (await client.call_tool("given")).text == text
    endless: Server[None] = Server("results")
    endless.tool(name="given")(returning({"a": itertools.count()}, Any))
    async with open_client(endless) as client:
        assert (await client.call_tool("given")).is_error
    assert "a: an iterator of more than 1000000 items" in caplog.text


async def test_what_only_says_where_it_is_in_memory_is_not_sent(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can do anything with that, and the author has to know."""
    values: list[object] = [object(), "".join, open_client]
    for value in values:
        with subtests.test(value=value):
            caplog.clear()
            repetitions.forget()
            server: Server[None] = Server("results")
            server.tool(name="given")(returning({"a": value}, Any))
            async with open_client(server) as client:
                assert (await client.call_tool("given")).is_error
            assert "has no form in JSON" in caplog.text


class Row(TypedDict):
    price: float
    count: typing.Annotated[int, Field(ge=0)]


async def test_what_its_schema_forbids_is_shown_with_the_reason(
    subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    """The schema says number, and NaN is none: the model reads that the work is done, and its result."""
    rows: list[tuple[object, object, str, str]] = [
        (float, math.nan, "nan is not a number in JSON", "NaN"),
        (list[int], [1, math.nan], "[1]: expected an integer, got nan", '[1,"NaN"]'),
        (
            list[Row],
            [{"price": math.inf, "count": -1, "secret": 1}],
            "[0].price: inf is not a number in JSON; [0].count: must be at least 0, got -1",
            '[{"price":"Infinity","count":-1}]',
        ),
        (Decimal, Decimal("NaN"), "NaN is not a number in JSON", "NaN"),
    ]
    for annotation, value, reason, shown in rows:
        for is_async in (True, False):
            with subtests.test(annotation=annotation, value=value, is_async=is_async):
                caplog.clear()
                repetitions.forget()
                server: Server[None] = Server("results")
                server.tool(name="given")(returning(value, annotation, is_async=is_async))
                async with open_client(server) as client:
                    result = await client.call_tool("given")
                assert result.is_error
                assert result.text == (
                    f"given has run, but its result does not fit its output schema: {reason}. "
                    f"This is the result:\n{shown}"
                )
                assert "tool given failed: its result does not fit its annotation" in caplog.text


async def test_a_result_that_is_made_by_hand_is_sent_too() -> None:
    """Without a schema nothing is promised; with one, what is no number is none."""
    server: Server[None] = Server("results")
    made = CallToolResult(content=(TextContent(text="\ud800"),), structured_content={"a": math.nan})
    server.tool(name="free")(returning(made, Any))
    server.tool(name="bound", output_schema={"type": "object"})(returning(made, Any))
    async with open_client(server) as client:
        result = await client.call_tool("free")
        assert result.text == "\\ud800"
        assert result.structured_content == {"a": "NaN"}
        assert (await client.call_tool("bound")).is_error


async def test_what_is_sent_of_ones_own_is_never_changed(subtests: pytest.Subtests) -> None:
    """Arguments are not sent as something else: the caller can still mend them, and reads where."""
    server: Server[None] = Server("results")

    @server.tool
    async def take(rows: list[dict[str, Any]]) -> str:
        raise AssertionError(rows)

    cases = [
        (math.nan, "nan is not a number in JSON"),
        ("\udcff", "has half a surrogate pair, which is no text in UTF-8"),
    ]
    async with open_client(server) as client:
        for value, reason in cases:
            with subtests.test(value=value):
                with pytest.raises(ValueError, match=r"^arguments\.rows\[1\]\.price: ") as caught:
                    await client.call_tool("take", {"rows": [{}, {"price": value, "other": None}]})
                assert str(caught.value) == f"arguments.rows[1].price: {reason}"


async def test_blocks_in_a_list_of_anything_are_sent_as_blocks(subtests: pytest.Subtests) -> None:
    """Not as JSON with the names of attributes, whatever else may be returned."""
    annotations: list[Any] = [
        list,
        list[Any],
        Any,
        object,
        None,
        tuple,
        list[object],
        list[Any] | None,
        list[Any] | str,
    ]
    for annotation in annotations:
        with subtests.test(annotation=annotation):
            server: Server[None] = Server("results")
            function = returning(["text", PNG, BLOCK], annotation)
            if annotation is None:
                function.__annotations__.clear()
            server.tool(name="given")(function)
            async with open_client(server) as client:
                result = await client.call_tool("given")
            assert [block.type for block in result.content] == ["text", "image", "text"]
            assert result.text == "text\nblock"
            assert not result.has_structured_content


async def test_blocks_in_a_deque_or_from_an_iterator_are_sent_as_blocks(subtests: pytest.Subtests) -> None:
    """They are lists, too."""
    parts = ["text", PNG, BLOCK]
    for annotation, value in (
        (Any, collections.deque(parts)),
        (list, collections.deque(parts)),
        (Any, iter(parts)),
    ):
        with subtests.test(annotation=annotation, value=value):
            server: Server[None] = Server("results")
            server.tool(name="given")(returning(value, annotation))
            async with open_client(server) as client:
                result = await client.call_tool("given")
            assert [block.type for block in result.content] == ["text", "image", "text"]


async def test_blocks_within_json_have_the_names_of_the_protocol(subtests: pytest.Subtests) -> None:
    """As everywhere on the wire: `mimeType`, and nothing that is not given."""
    image = ImageContent(data="AA==", mime_type="image/png")
    written = '{"type":"image","data":"AA==","mimeType":"image/png"}'
    rows: list[tuple[Any, object, str]] = [
        (dict, {"a": image}, f'{{"a":{written}}}'),
        (Any, {"a": [image]}, f'{{"a":[{written}]}}'),
        (list, [[BLOCK], 1], '[[{"type":"text","text":"block"}],1]'),
    ]
    for annotation, value, text in rows:
        with subtests.test(annotation=annotation, value=value):
            server: Server[None] = Server("results")
            server.tool(name="given")(returning(value, annotation))
            async with open_client(server) as client:
                result = await client.call_tool("given")
            assert json.loads(result.text) == json.loads(text)
