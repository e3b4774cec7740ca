"""Handlers of whole methods that were written for another library: what is refused, and what to write instead."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from inside_base import repetitions

from trio_mcp import Context, RequestError, Server, ToolError, open_client, types

NAME = {"name": "add"}


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "com.example/own"])
def test_a_handler_is_called_with_parameters_and_context(method: str) -> None:
    """It is refused where it is registered if it cannot be."""

    async def listed() -> list[types.Tool]:
        return []

    with pytest.raises(TypeError) as refused:
        Server("low").request_handler(method)(listed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == (
        f"listed() serves {method}, and is called with its parameters as plain JSON and the Context: "
        "write async def listed(params, ctx: Context)"
    )


def test_what_can_be_called_so_is_taken() -> None:
    """Also with further parameters, and what says nothing of its own."""
    server = Server("low")

    @server.request_handler("a/b")
    async def own(*arguments: Any, more: int = 1) -> Mapping[str, Any]:
        return {"arguments": len(arguments), "more": more}

    @server.request_handler("tools/call")
    async def called(params: Any, ctx: Any, more: int = 1) -> Mapping[str, Any]:
        return {}

    assert own.__name__ == "own"
    assert called.__name__ == "called", "a decorator leaves the function as it is"


@pytest.mark.parametrize("is_grouped", [False, True])
async def test_a_tool_error_of_the_handler_of_calls_is_for_the_model(is_grouped: bool) -> None:
    """As of any tool; a `RequestError` stays the answer as it is."""
    server = Server("low")

    @server.request_handler("tools/call")
    async def call_tool(params: Mapping[str, Any], ctx: Context) -> types.CallToolResult:
        if params["name"] == "refused":
            raise RequestError(-32602, "there is no such tool")
        if is_grouped:
            async with trio.open_nursery():
                raise ToolError("sold out")
        raise ToolError("sold out")

    async with open_client(server) as client:
        result = await client.call_tool("add")
        assert (result.is_error, result.text) == (True, "sold out")
        with pytest.raises(RequestError, match=r"^there is no such tool \[-32602\]$"):
            await client.call_tool("refused")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_what_is_no_result_is_named(
    subtests: pytest.Subtests, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the class of the result that is wanted, in the server's log."""

    async def check(method: str, params: dict[str, Any], returned: Any, message: str) -> None:
        caplog.clear()
        repetitions.forget()
        server = Server("low")

        @server.request_handler(method)
        async def serve(params: Mapping[str, Any], ctx: Context) -> Any:
            return returned

        async with open_client(server, revision=revision) as client:
            with caplog.at_level(logging.ERROR), pytest.raises(RequestError, match="-32603"):
                await client.request(method, params)
        (record,) = [each for each in caplog.records if each.exc_info]
        assert record.exc_info is not None
        assert str(record.exc_info[1]) == f"the handler of {method} returned {message}"

    rows: list[tuple[str, dict[str, Any], Any, str]] = [
        ("tools/list", {}, [], "a list; return ListToolsResult(tools=...) or plain JSON"),
        ("tools/call", NAME, "text", "a str; return CallToolResult(content=...) or plain JSON"),
        ("tools/call", NAME, None, "nothing; return CallToolResult(content=...) or plain JSON"),
        ("resources/list", {}, (), "a tuple; return ListResourcesResult(resources=...) or plain JSON"),
        ("com.example/own", {}, 3, "an int; return an object of trio_mcp.types or plain JSON"),
    ]
    for method, params, returned, message in rows:
        with subtests.test(method=method, params=params, returned=returned, message=message):
            await check(method, params, returned, message)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_list_that_is_kept_is_made_once_until_it_changes(revision: str) -> None:
    """For each revision; other pages, and what the handler refuses, are not kept."""
    server, asked, names = Server("low"), list[Any](), ["a"]

    @server.request_handler("tools/list", keep=True)
    async def list_tools(params: Mapping[str, Any], ctx: Context) -> types.ListToolsResult:
        asked.append((ctx.revision, params.get("cursor")))
        if not names:
            raise RequestError(-32000, "nothing yet")
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in names]
        return types.ListToolsResult(tools=tools, next_cursor=None if params.get("cursor") else "more")

    async def listed(client: Any) -> list[str]:
        return [tool["name"] for tool in (await client.request("tools/list"))["tools"]]

    async with open_client(server, revision=revision) as client:
        for _ in range(3):
            assert await listed(client) == ["a"]
        assert asked == [(revision, None)]
        for _ in range(2):
            await client.request("tools/list", {"cursor": "more"})
        assert asked[1:] == [(revision, "more")] * 2
        del asked[:]
        names[:] = []
        server.list_changed("prompts")
        assert await listed(client) == ["a"], "that was another list"
        server.list_changed("tools")
        for _ in range(2):
            with pytest.raises(RequestError, match="nothing yet"):
                await listed(client)
        names[:] = ["b", "c"]
        for _ in range(3):
            assert await listed(client) == ["b", "c"]
        assert asked == [(revision, None)] * 3


async def test_a_list_that_changes_while_it_is_made_is_made_again() -> None:
    server, names = Server("low"), ["a"]

    @server.request_handler("resources/templates/list", keep=True)
    async def list_templates(params: Mapping[str, Any], ctx: Context) -> Mapping[str, Any]:
        made = [{"name": name, "uriTemplate": "x://{y}"} for name in names]
        if names == ["a"]:
            names[:] = ["b"]
            server.list_changed("resources")
        await trio.lowlevel.checkpoint()
        return {"resourceTemplates": made}

    async with open_client(server) as client:
        for expected in ("a", "b", "b"):
            result = await client.request("resources/templates/list")
            assert [each["name"] for each in result["resourceTemplates"]] == [expected]


def test_only_lists_are_kept() -> None:
    with pytest.raises(ValueError, match="tools/call is no list") as refused:
        Server("low").request_handler("tools/call", keep=True)
    assert str(refused.value) == (
        "tools/call is no list: keep=True is for tools/list, prompts/list, resources/list, resources/templates/list"
    )
