"""Lists: item by item, page by page, from a cursor, and from servers that would never end."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio.testing
from eras import ENDS
from scripted_server import MODERN, ScriptedServer
from wires import refusal

from trio_mcp import Client, Pages, RemoteProtocolError, RequestError, Revision, open_client
from trio_mcp.types import ListToolsResult, Tool

ITEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "tools/list": ("tools", {"inputSchema": {"type": "object"}}),
    "resources/list": ("resources", {"uri": "x:y"}),
    "resources/templates/list": ("resourceTemplates", {"uriTemplate": "x:{y}"}),
    "prompts/list": ("prompts", {}),
}


def lists_of(client: Client, **options: Any) -> dict[str, Pages[Any, Any]]:
    return {
        "tools/list": client.list_tools(**options),
        "resources/list": client.list_resources(**options),
        "resources/templates/list": client.list_resource_templates(**options),
        "prompts/list": client.list_prompts(**options),
    }


def paged_server(revision: Revision, *pages: list[str], cursors: list[str] | None = None) -> ScriptedServer:
    """Return a server whose lists have these pages of names; the cursor of page n is ``str(n)`` unless given."""
    names = ["", *(cursors or [str(n) for n in range(1, len(pages))])]
    server = ScriptedServer(revision)

    def page(message: dict[str, Any]) -> dict[str, Any]:
        member, extra = ITEMS[message["method"]]
        cursor = message.get("params", {}).get("cursor")
        index = 0 if cursor is None else names.index(cursor, 1)
        following = {"nextCursor": names[index + 1]} if index + 1 < len(names) else {}
        caching = {"ttlMs": 0, "cacheScope": "private"} if revision.is_modern else {}
        return server.complete(
            **{member: [{"name": name, **extra} for name in pages[index]]}, **following, **caching
        )

    server.script = dict.fromkeys(ITEMS, page)
    return server


@pytest.mark.parametrize("revision", ENDS)
async def test_a_list_is_read_as_one(subtests: pytest.Subtests, revision: Revision) -> None:
    """Every revision, server/utilities/pagination: all four lists are paginated, pages may be empty."""
    for method in ITEMS:
        with subtests.test(method=method):
            server = paged_server(revision, ["a", "b"], [], ["c"])
            async with open_client(server, revision=revision) as client:
                assert [item.name async for item in lists_of(client)[method]] == ["a", "b", "c"]
            assert [m.get("params", {}).get("cursor") for m in server.requests(method)] == [None, "1", "2"]


@pytest.mark.spec("server/utilities/pagination", "Implementation Guidelines", revisions="2026-07-28")
async def test_an_empty_cursor_is_a_cursor() -> None:
    """2026-07-28, server/utilities/pagination, "Implementation Guidelines": it must not be taken for the end."""
    server = paged_server(MODERN, ["a"], ["b"], cursors=[""])
    async with open_client(server) as client:
        assert [tool.name async for tool in client.list_tools()] == ["a", "b"]
        assert [tool.name async for tool in client.list_tools(cursor="")] == ["b"]


async def test_a_list_comes_in_pages_on_request() -> None:
    server = paged_server(MODERN, ["a", "b"], ["c"])
    async with open_client(server) as client:
        tools = client.list_tools()
        pages = tools.pages()
        first = await anext(pages)
        assert isinstance(first, ListToolsResult)
        assert [tool.name for tool in first.tools] == ["a", "b"]
        assert first.next_cursor == "1"
        second = await anext(pages)
        assert [tool.name for tool in second.tools] == ["c"]
        with pytest.raises(StopAsyncIteration):
            await anext(pages)
        with pytest.raises(StopAsyncIteration):
            await anext(pages)
        assert [tool.name async for tool in tools] == ["a", "b", "c"]  # what was read page by page is not gone


async def test_a_list_begins_at_a_cursor_handed_in() -> None:
    server = paged_server(MODERN, ["a"], ["b"], ["c"])
    async with open_client(server) as client:
        assert [tool.name async for tool in client.list_tools(cursor="1")] == ["b", "c"]


@pytest.mark.parametrize("cursor", [None, "1"])
async def test_a_repeated_cursor_is_an_error(cursor: str | None) -> None:
    """Or the list would never end; a cursor that was handed in counts as seen."""
    server = paged_server(MODERN, ["a"], ["b"], ["c"], cursors=["1", "1"])
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError, match="tools/list: the server repeats the cursor '1'"):
            async for _ in client.list_tools(cursor=cursor):
                pass


async def test_every_step_of_a_list_is_a_checkpoint() -> None:
    server = paged_server(MODERN, ["a", "b"])
    async with open_client(server) as client:
        tools = client.list_tools()
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                await anext(tools)
        with trio.testing.assert_checkpoints(), pytest.raises(StopAsyncIteration):
            await anext(tools)


@pytest.mark.parametrize("revision", ENDS)
async def test_one_bad_item_does_not_hide_the_others(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out, and the log says once which and why."""
    server = ScriptedServer(revision)
    good = {"name": "good", "inputSchema": {"type": "object"}}
    tools = [good, {"name": "bad"}, 5, good]
    server.script["tools/list"] = server.complete(tools=tools, ttlMs=0, cacheScope="private")
    with caplog.at_level(logging.WARNING, "trio_mcp.client"):
        async with open_client(server, revision=revision) as client:
            assert [tool.name async for tool in client.list_tools()] == ["good", "good"]
    (record,) = caplog.records
    assert "tools/list: left out 2 of 4 items" in record.message
    assert "tools[1]" in record.message
    assert "tools[2]" in record.message


@pytest.mark.parametrize(
    "result",
    [{}, {"tools": "none"}, {"tools": [{"name": "bad"}], "nextCursor": 5}],
    ids=["no list", "not a list", "more is wrong than items"],
)
async def test_an_invalid_list_is_an_error(result: dict[str, Any]) -> None:
    server = ScriptedServer(MODERN)
    server.script["tools/list"] = server.complete(**result)
    async with open_client(server) as client:
        with pytest.raises(RemoteProtocolError, match="tools/list: "):
            await anext(client.list_tools())


async def test_a_list_that_has_begun_does_not_end_where_there_is_none() -> None:
    """Half a list is no list: the server was started again without its tools, for instance."""
    server = ScriptedServer(MODERN)
    server.script["tools/list"] = lambda m: (
        refusal(m, -32601, "no such method")
        if "cursor" in m["params"]
        else server.complete(tools=[], nextCursor="1", ttlMs=0, cacheScope="private")
    )
    async with open_client(server) as client:
        with pytest.raises(RequestError, match="no such method"):
            await client.list_tools()
        with pytest.raises(RequestError, match="no such method"):
            await client.list_tools(cursor="1")


async def test_meta_goes_with_each_page() -> None:
    server = paged_server(MODERN, ["a"], ["b"])
    async with open_client(server) as client:
        assert len([tool async for tool in client.list_tools(meta={"x/y": 1}, fresh=True)]) == 2
    assert [m["params"]["_meta"]["x/y"] for m in server.requests("tools/list")] == [1, 1]


async def test_pages_can_be_made_by_hand() -> None:
    async def fetch(cursor: str | None) -> ListToolsResult:
        await trio.lowlevel.checkpoint()
        name = cursor or "first"
        return ListToolsResult(
            tools=[Tool(name=name, input_schema={})], next_cursor="last" if cursor is None else None
        )

    pages = Pages(fetch, lambda page: page.tools, what="tools")
    assert [tool.name async for tool in pages] == ["first", "last"]
