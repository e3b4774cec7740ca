"""The page server/utilities/caching of 2026-07-28, between our client and our server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from meeting import MODERN, Meeting, meet
from scripted_server import ScriptedServer

from trio_mcp import (
    CacheHint,
    LocalProtocolError,
    RequestError,
    ResponseCache,
    Server,
    ToolsListChanged,
    open_client,
)
from trio_mcp.types import CacheScope, ReadResourceResult, TextResourceContents

CACHING = "server/utilities/caching"
MODERN_ONLY = pytest.mark.parametrize("revision", [MODERN])
CALLS: dict[str, dict[str, Any]] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "note://today"},
}


@pytest.mark.spec(CACHING, "Cacheable Results")
@pytest.mark.spec(CACHING, "Cacheable Model")
@pytest.mark.spec(CACHING, "Time-to-Live (TTL) Field")
@pytest.mark.spec(CACHING, "Cache Scope Field")
@meet
async def test_every_cacheable_result_has_both_hints(meeting: Meeting, subtests: pytest.Subtests) -> None:
    """And no older revision has any."""
    for method in CALLS:
        with subtests.test(method=method):
            await look_for_hints(meeting, method)


async def look_for_hints(meeting: Meeting, method: str) -> None:
    """Make a request, and see how long its result may be kept, and by whom."""
    if method == "server/discover" and not meeting.is_modern:
        with pytest.raises(LocalProtocolError):
            await meeting.client.request(method)
        return
    result = await meeting.client.request(method, CALLS[method])
    if meeting.is_modern:
        templates = method == "resources/templates/list"
        assert result["ttlMs"] == (60_000 if templates else 0)
        assert result["cacheScope"] == ("public" if templates else "private")
    else:
        assert not {"ttlMs", "cacheScope"} & result.keys()


@pytest.mark.spec(CACHING, "Cacheable Results")
@MODERN_ONLY
@meet
async def test_other_results_have_none(meeting: Meeting) -> None:
    await meeting.client.call_tool("echo", {"text": "x"})
    await meeting.client.get_prompt("gallery")
    await meeting.client.read_resource("asking://name")
    for message in meeting.received:
        if message["result"]["resultType"] == "complete" and "contents" in message["result"]:
            continue
        assert not {"ttlMs", "cacheScope"} & message["result"].keys()


@pytest.mark.spec(CACHING, "Freshness Calculation")
@pytest.mark.spec(CACHING, "Cache Key")
@meet
async def test_what_is_fresh_is_not_asked_for_again(meeting: Meeting) -> None:
    """By URI; and a caller that wants it anew gets it anew. Older revisions are asked each time."""
    read = meeting.client.read_resource
    uri = "shelf://attic/1"
    first = await read(uri, fresh=True)
    assert await read(uri) == first
    assert len(meeting.requests("resources/read")) == (1 if meeting.is_modern else 2)
    await read("shelf://cellar/1", fresh=True)
    await read(uri, fresh=True)
    assert meeting.params("resources/read") == {"uri": uri}


@pytest.mark.spec(CACHING, "Cache Key")
@MODERN_ONLY
@meet
async def test_what_depends_on_answers_is_never_kept(meeting: Meeting) -> None:
    for _ in range(2):
        await meeting.client.read_resource("asking://name")
    assert len(meeting.requests("resources/read")) == 4


@pytest.mark.spec(CACHING, "Interaction with Notifications")
@MODERN_ONLY
@meet
async def test_a_notification_outdates_what_was_fresh(meeting: Meeting) -> None:
    client = meeting.client
    uri = "shelf://cabin/3"
    async with client.listen(resources=[uri]) as events:
        await client.read_resource(uri, fresh=True)
        await client.read_resource(uri)
        assert len(meeting.requests("resources/read")) == 1
        await client.call_tool("update", {"uri": uri})
        await anext(events)
        await client.read_resource(uri)
        assert len(meeting.requests("resources/read")) == 2


# What a clock is needed for, or a server that says odd things.


def counting(**hints: Any) -> tuple[ScriptedServer, list[int]]:
    """Return a server whose list of tools is another one each time, and how often it was asked."""
    asked: list[int] = []
    server = ScriptedServer(MODERN, {})

    def tools(_: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(len(asked))
        tool = {"name": f"tool{len(asked)}", "inputSchema": {"type": "object"}}
        return {"resultType": "complete", "tools": [tool], **hints}

    server.script["tools/list"] = tools
    return server, asked


@pytest.mark.spec(CACHING, "Freshness Calculation")
@pytest.mark.spec(CACHING, "Time-to-Live (TTL) Field")
@MODERN_ONLY
async def test_freshness_ends_to_the_millisecond_and_nothing_is_fetched_by_itself(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    server, asked = counting(ttlMs=5_000, cacheScope="private")
    async with open_client(server, revision=revision) as client:
        times: list[int] = []
        for seconds in (0, 4.999, 0.002, 100):
            await trio.sleep(seconds)
            before = len(asked)
            async for _ in client.list_tools():
                pass
            times.append(len(asked) - before)
    assert times == [1, 0, 1, 1]


@pytest.mark.spec(CACHING, "Time-to-Live (TTL) Field")
@pytest.mark.parametrize("hints", [{"ttlMs": 0}, {"ttlMs": -5}, {}], ids=str)
@MODERN_ONLY
async def test_without_a_time_to_live_nothing_is_fresh(revision: str, hints: dict[str, Any]) -> None:
    server, asked = counting(cacheScope="private", **hints)
    async with open_client(server, revision=revision) as client:
        for _ in range(3):
            assert [one async for one in client.list_tools()]
    assert len(asked) == 3


@pytest.mark.spec(CACHING, "Cache Scope Field")
@pytest.mark.spec(CACHING, "Choosing a Cache Scope")
@pytest.mark.spec(CACHING, "Security Considerations")
@pytest.mark.parametrize(("scope", "who"), [("public", "everybody"), ("private", "its own")])
@MODERN_ONLY
async def test_what_is_private_is_not_shared(revision: str, scope: CacheScope, who: str) -> None:
    """Two clients of one server, two principals, one cache."""
    server = Server("shared", cache=CacheHint(ttl=60, scope=scope))
    server.tool(name="only")(lambda: "x")
    cache = ResponseCache()
    frames: dict[str, list[bytes]] = {"alice": [], "bob": []}
    for name, said in frames.items():
        async with open_client(
            server,
            revision=revision,
            cache=cache,
            cache_partition=name,
            on_frame=lambda _, data, said=said: said.append(data),  # type: ignore[misc]
        ) as client:
            assert [one.name async for one in client.list_tools()] == ["only"]
    asked = {name: sum(b"tools/list" in frame for frame in said) for name, said in frames.items()}
    assert asked == {"alice": 1, "bob": 0 if who == "everybody" else 1}


@pytest.mark.spec(CACHING, "Interaction with Pagination")
@pytest.mark.spec(CACHING, "Cache Scope Field")
@MODERN_ONLY
async def test_each_page_is_kept_by_itself_and_all_have_one_scope(revision: str) -> None:
    server = Server("pages", page_size=2, cache=CacheHint(ttl=60, scope="public"))
    for number in range(5):
        server.tool(name=f"tool{number}")(lambda: "x")
    frames: list[bytes] = []
    async with open_client(server, revision=revision, on_frame=lambda _, data: frames.append(data)) as client:
        pages = [page async for page in client.list_tools().pages()]
        assert [(page.ttl_ms, page.cache_scope) for page in pages] == [(60_000, "public")] * 3
        asked = sum(b"tools/list" in frame for frame in frames)
        assert asked == 3
        assert [one.name async for one in client.list_tools(cursor=pages[0].next_cursor)] == [
            "tool2",
            "tool3",
            "tool4",
        ]
        assert sum(b"tools/list" in frame for frame in frames) == 3


@pytest.mark.spec(CACHING, "Interaction with Pagination")
@MODERN_ONLY
async def test_a_cursor_that_is_refused_outdates_all_pages(revision: str) -> None:
    server = ScriptedServer(MODERN, {})
    fresh = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}

    def tools(message: dict[str, Any]) -> Any:
        if "cursor" in message["params"]:
            error = {"code": -32602, "message": "invalid cursor"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return {**fresh, "tools": [], "nextCursor": "2"}

    server.script["tools/list"] = tools
    async with open_client(server, revision=revision) as client:
        for count in (2, 4):
            with pytest.raises(RequestError):
                [one async for one in client.list_tools()]
            assert len(server.requests("tools/list")) == count, "the first page is asked for again, too"


@pytest.mark.spec(CACHING, "Interaction with Notifications")
@MODERN_ONLY
async def test_a_listener_and_a_time_to_live_complete_each_other(revision: str) -> None:
    server = Server("both", cache=CacheHint(ttl=300))
    server.tool(name="one")(lambda: "x")
    async with open_client(server, revision=revision) as client, client.listen(tools_list_changed=True) as events:
        for expected in (["one"], ["one"]):
            assert [tool.name async for tool in client.list_tools()] == expected
        server.tool(name="two")(lambda: "x")
        assert await anext(events) == ToolsListChanged()
        assert [tool.name async for tool in client.list_tools()] == ["one", "two"]


@pytest.mark.spec(CACHING, "Cacheable Results")
@pytest.mark.spec(CACHING, "Choosing a Cache Scope")
@MODERN_ONLY
async def test_a_resource_says_for_itself_how_long_it_may_be_kept(revision: str) -> None:
    server = Server("notes")
    numbers = itertools.count()

    @server.resource("note://{name}", ttl=60, scope="public")
    async def note(name: str) -> str:
        return f"{name} {next(numbers)}"

    async with open_client(server, revision=revision) as client:
        read: ReadResourceResult = await client.read_resource("note://a")
        assert (read.ttl_ms, read.cache_scope) == (60_000, "public")
        again = await client.read_resource("note://a")
        assert again.contents == read.contents
        (other,) = (await client.read_resource("note://b")).contents
        assert isinstance(other, TextResourceContents)
        assert other.text == "b 1"
