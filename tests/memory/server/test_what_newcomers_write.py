"""What is written in the first hour, and meant otherwise: the error says what to write instead."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio

import trio_mcp.testing
from trio_mcp import (
    Client,
    RequestError,
    ResourceUpdated,
    Server,
    ToolError,
    open_client,
)

LISTS: dict[str, Callable[[Client], Awaitable[list[Any]]]] = {
    "tools": Client.list_tools,
    "prompts": Client.list_prompts,
    "resources": Client.list_resources,
    "resource templates": Client.list_resource_templates,
}
OPTIONS = "see WorkOptions: meta, input_responses, request_state, on_progress"


async def inner() -> int:
    return 3


async def forgets() -> Any:
    return inner()


async def forgets_an_int() -> int:
    return inner()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def three() -> int:
    return "three"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def three_in_a_thread() -> int:
    return "three"  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
async def test_what_a_server_does_not_have_is_an_empty_list(revision: str) -> None:
    """Nobody has to ask first what it has; one thing that is not there is still an error."""
    async with open_client(Server("first"), revision=revision) as client:
        for noun, list_all in LISTS.items():
            assert await list_all(client) == [], noun
        with pytest.raises(RequestError, match=r"^this server has no method tools/call \[-32601\]$"):
            await client.call_tool("add")


async def test_a_misspelt_name_gets_a_suggestion() -> None:
    """Of what is shown: a tool that is disabled is none."""
    server = Server("first")
    server.tool(name="add_note")(three)
    server.tool(name="add_tag")(three)
    server.prompt(name="review")(forgets)
    server.disable_tool("add_tag")
    rows: dict[str, Callable[[Client], Awaitable[object]]] = {
        "Unknown tool: ad_note; did you mean 'add_note'? [-32602]": lambda client: client.call_tool("ad_note"),
        "Unknown tool: add_tags [-32602]": lambda client: client.call_tool("add_tags"),
        "Unknown tool: sum [-32602]": lambda client: client.call_tool("sum"),
        "Unknown prompt: rewiev; did you mean 'review'? [-32602]": lambda client: client.get_prompt("rewiev"),
    }
    async with open_client(server) as client:
        for said, ask in rows.items():
            with pytest.raises(RequestError) as caught:
                await ask(client)
            assert str(caught.value) == said


@pytest.mark.parametrize("tool", [forgets, forgets_an_int])
async def test_a_coroutine_is_no_result(tool: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """The log says what was forgotten; and no warning of Python follows."""
    server = Server("first")
    server.tool(tool)
    async with open_client(server) as client:
        result = await client.call_tool(tool.__name__)
    assert result.text == f"{tool.__name__} failed. The server's log says why."
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == f"{tool.__name__} returned a coroutine: did you forget await?"


@pytest.mark.parametrize("tool", [three, three_in_a_thread])
async def test_a_result_that_does_not_fit_is_logged_as_that(
    tool: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With the name of the tool."""
    server = Server("first")
    server.tool(tool)
    async with open_client(server) as client:
        await client.call_tool(tool.__name__)
    (record,) = [each for each in caplog.records if each.exc_info]
    assert record.levelno == logging.ERROR
    assert record.getMessage() == f"tool {tool.__name__} failed: its result does not fit its annotation"


async def test_an_error_of_tools_elsewhere_is_masked_and_the_log_says_what_to_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In a prompt and in a resource; alone in the group of a nursery, too."""
    server = Server("first")

    @server.prompt
    async def review(title: str) -> str:
        async with trio.open_nursery():
            raise ToolError(f"there is no book {title}")

    @server.resource("books://dune")
    async def dune() -> str:
        raise ToolError("it is lent")

    async with open_client(server) as client:
        with pytest.raises(RequestError) as refused:
            await client.get_prompt("review", {"title": "Emma"})
        assert str(refused.value) == "prompt review failed. The server's log says why. [-32603]"
        with pytest.raises(RequestError) as refused:
            await client.read_resource("books://dune")
        assert refused.value.message == "Reading the resource failed. The server's log says why."
    records = [each for each in caplog.records if each.exc_info]
    assert [each.getMessage() for each in records] == [
        "prompt review failed",
        "reading the resource books://dune failed",
    ]
    for record, text in zip(records, ("there is no book Emma", "it is lent"), strict=True):
        shown = [line.strip() for line in logging.Formatter().format(record).splitlines()]
        assert shown[-2:] == [
            f"trio_mcp.ToolError: {text}",
            "ToolError is for tools: a prompt raises RequestError(-32602, text), a resource ResourceNotFound(text)",
        ]


async def test_an_error_of_a_prompt_comes_out_in_a_test() -> None:
    """As that of a tool or a resource does."""
    server = Server("first")

    @server.prompt
    async def review() -> str:
        raise KeyError("Emma")

    async with trio_mcp.testing.open_client(server) as client:
        with pytest.raises(KeyError, match="Emma"):
            await client.get_prompt("review")


async def test_an_error_without_a_text_says_at_least_that() -> None:
    """A model would read nothing at all."""
    server = Server("first")

    @server.tool
    async def lend() -> str:
        raise ToolError

    async with open_client(server) as client:
        assert (await client.call_tool("lend")).text == "the tool failed without a message"


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (any, "<built-in function any> has no form in JSON; write typing.Any"),
        ([int], "[<class 'int'>] has no form in JSON; write list[int]"),
    ],
)
def test_a_value_is_no_hint(hint: object, message: str) -> None:
    """The type that was meant is named."""

    def tool(a: Any) -> None: ...

    tool.__annotations__ = {"a": hint}
    with pytest.raises(TypeError) as refused:
        Server("first").tool(tool)
    assert str(refused.value) == f"tool(): parameter 'a': {message}"


CALLS: dict[str, tuple[Callable[[Client], Any], str]] = {
    "arguments of a tool": (
        lambda client: cast("Any", client).call_tool("add", b=2, a=1),
        f"there is no option a, b; {OPTIONS}; arguments go into a mapping: call_tool(name, {{'a': ..., 'b': ...}})",
    ),
    "arguments of a prompt": (
        lambda client: cast("Any", client).get_prompt("review", title="Dune"),
        f"there is no option title; {OPTIONS}; arguments go into a mapping: get_prompt(name, {{'title': ...}})",
    ),
    "a plain loop": (
        lambda client: list(cast("Any", client.list_tools())),
        "tools/list asks the server: write 'async for', or await the whole list",
    ),
    "no block": (
        lambda client: open_client(Server("other")),
        "what open_client() returns is not awaited: write 'async with open_client(...) as it'",
    ),
}


@pytest.mark.parametrize(("call", "message"), CALLS.values(), ids=CALLS)
async def test_a_call_of_a_client_says_what_to_write(call: Callable[[Client], Any], message: str) -> None:
    """Nothing was sent."""
    async with open_client(Server("first")) as client:
        with pytest.raises(TypeError) as refused:
            outcome = call(client)
            if inspect.isawaitable(outcome) or hasattr(outcome, "__await__"):
                await cast("Awaitable[object]", outcome)
    assert str(refused.value) == message


async def test_what_the_pages_say_of_plain_functions() -> None:
    """The schema without hints, and changes that are announced from a thread."""
    server = Server("first")

    def add(a: Any, b: Any = 1) -> None:
        trio.from_thread.run(server.resource_updated, "score://today")
        server.list_changed("tools")

    add.__annotations__.clear()
    server.tool(add)

    @server.resource("score://today")
    async def score() -> str:
        return "1:0"

    async with open_client(server) as client:
        (tool,) = await client.list_tools()
        assert tool.input_schema["properties"] == {"a": {}, "b": {"default": 1}}
        assert tool.input_schema["required"] == ["a"]
        async with client.listen(resources=["score://today"]) as changes:
            await client.call_tool("add", {"a": 1})
            with trio.fail_after(10):
                assert await anext(changes) == ResourceUpdated(uri="score://today")
        with pytest.raises(RequestError, match=r"^this server has no method prompts/get \[-32601\]$"):
            await client.get_prompt("none")
