"""Results that are asked for once while they are fresh. Spec: 2026-07-28, server/utilities/caching."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from eras import LEGACY_ENDS
from http_mcp import MODERN_DISCOVERY, HttpCall, McpScript, result
from inside_client import identity_of
from scripted import NO_ANSWER, ScriptedServer, note, open_scripted, settle
from wires import answer, refusal

from trio_mcp import (
    CacheHint,
    Client,
    HttpServerParameters,
    Limits,
    RemoteProtocolError,
    RequestError,
    ResponseCache,
    Server,
    StdioServerParameters,
    Target,
    memory_channel_pair,
    open_client,
)
from trio_mcp.types import ClientCapabilities, ReadResourceRequestParams, ReadResourceResult, RootsCapability

Parameters = dict[str, Any]


class Lists:
    """A script: a list of tools in pages, and resources, with hints about how long they are fresh."""

    def __init__(self, *, pages: int = 1, **hints: Any) -> None:
        self.pages = pages
        self.hints = hints
        self.bad_cursors = False

    def __call__(self, _: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] == "tools/list":
            page = int(message["params"].get("cursor", "1"))
            if self.bad_cursors and page > 1:
                return refusal(message, -32602, "what cursor?")
            result: Parameters = {"tools": [{"name": f"t{page}", "inputSchema": {"type": "object"}}]}
            if page < self.pages:
                result["nextCursor"] = str(page + 1)
            return answer(message, {"resultType": "complete", **result, **self.hints})
        if message["method"] == "resources/read":
            contents = [{"uri": message["params"]["uri"], "text": "t"}]
            return answer(message, {"resultType": "complete", "contents": contents, **self.hints})
        return None


async def names(client: Client, *, fresh: bool = False) -> list[str]:
    return [tool.name async for tool in client.list_tools(fresh=fresh)]


async def read(client: Client, uri: str, **more: Any) -> ReadResourceResult:
    params = ReadResourceRequestParams(uri=uri, **more)
    return await client._ask_cacheable("resources/read", params, ReadResourceResult, fresh=False)


@pytest.mark.spec("server/utilities/caching", "Freshness Calculation", revisions="2026-07-28")
async def test_a_fresh_result_is_not_asked_for_again(autojump_clock: trio.testing.MockClock) -> None:
    """ "Freshness Calculation": the clock starts when the result is received."""
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        for _ in range(3):
            assert await names(client) == ["t1"]
        await trio.sleep(4.999)
        assert await names(client) == ["t1"]
        assert len(server.requests("tools/list")) == 1
        await trio.sleep(0.001)
        assert await names(client) == ["t1"]
        assert len(server.requests("tools/list")) == 2


@pytest.mark.parametrize(
    "hints", [{}, {"ttlMs": 0, "cacheScope": "public"}, {"ttlMs": -5, "cacheScope": "private"}]
)
async def test_a_result_that_is_not_said_to_be_fresh_is_stale(
    hints: Parameters, autojump_clock: trio.testing.MockClock
) -> None:
    """ "Time-to-Live (TTL) Field": absent and negative count as 0."""
    server = ScriptedServer(script=Lists(**hints))
    async with open_scripted(server) as client:
        await names(client)
        await names(client)
        assert len(server.requests("tools/list")) == 2


async def test_odd_hints_about_keeping_cost_nothing_but_themselves(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """What was asked for is there, and is not kept."""
    ttls: list[object] = [1.5, -1.5, "5000", "", True, [], {}]
    scopes: list[object] = ["private", "", "shared", 5, None]
    for ttl in ttls:
        for scope in scopes:
            with subtests.test(ttl=ttl, scope=scope):
                server = ScriptedServer(script=Lists(ttlMs=ttl, cacheScope=scope))
                async with open_scripted(server) as client:
                    assert await names(client) == ["t1"]
                    assert await names(client) == ["t1"]
                    assert len(server.requests("tools/list")) == 2
                    assert (await read(client, "a:b")).text == "t"


@pytest.mark.parametrize("scope", ["", "shared", 5, None])
async def test_a_result_without_a_known_scope_is_private(
    scope: object, autojump_clock: trio.testing.MockClock
) -> None:
    """ "Cache Scope Field": it is fresh as the server says, and nobody else is served it."""
    cache = ResponseCache()
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope=scope))
    for _ in range(2):
        async with open_scripted(server, cache=cache) as client:
            await names(client)
            await names(client)
            assert len(server.requests("tools/list")) == 1


@pytest.mark.parametrize("revision", LEGACY_ENDS)
async def test_the_legacy_era_has_no_such_hints(revision: str, autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(revision, Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        await names(client)
        await names(client)
        assert len(server.requests("tools/list")) == 2


async def test_a_call_can_ask_for_what_is_fresh_all_the_same(autojump_clock: trio.testing.MockClock) -> None:
    """What it gets is kept."""
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        await names(client)
        await trio.sleep(3)
        await names(client, fresh=True)
        assert len(server.requests("tools/list")) == 2
        await trio.sleep(3)
        await names(client)
        assert len(server.requests("tools/list")) == 2


async def test_the_cache_can_be_switched_off(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server, cache=None) as client:
        await names(client)
        await names(client)
        assert len(server.requests("tools/list")) == 2


@pytest.mark.parametrize("ttl", [10**9, 10**400])
async def test_nothing_is_fresh_for_longer_than_a_day(ttl: int, autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=ttl, cacheScope="private"))
    async with open_scripted(server) as client:
        await names(client)
        await trio.sleep(86_399)
        await names(client)
        assert len(server.requests("tools/list")) == 1
        await trio.sleep(1)
        await names(client)
        assert len(server.requests("tools/list")) == 2


async def test_how_much_is_kept_is_limited(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server, cache=ResponseCache(max_entries=2)) as client:
        for uri in ("a:1", "a:2", "a:3", "a:3", "a:2", "a:1"):
            await read(client, uri)
        asked = [request["params"]["uri"] for request in server.requests("resources/read")]
        assert asked == ["a:1", "a:2", "a:3", "a:1"]
    with pytest.raises(ValueError, match="max_bytes must be at least 1"):
        ResponseCache(max_bytes=0)


async def test_how_large_what_is_kept_may_be_is_limited(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server, limits=Limits(max_cache_bytes=8_000)) as client:
        for uri in ("a:1", "a:1", "a:2", "a:1", "a:" + "x" * 2_000, "a:" + "x" * 2_000, "a:1"):
            await read(client, uri)
        asked = [len(request["params"]["uri"]) for request in server.requests("resources/read")]
        assert asked == [3, 3, 3, 2_002, 2_002]


async def test_a_result_from_the_cache_is_a_checkpoint(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        await read(client, "a:b")
        with trio.testing.assert_checkpoints():
            await read(client, "a:b")


async def test_each_page_is_kept_by_itself(autojump_clock: trio.testing.MockClock) -> None:
    """ "Interaction with Pagination"."""
    server = ScriptedServer(script=Lists(pages=3, ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        pages = client.list_tools()
        await anext(pages)
        await trio.sleep(3)
        assert await names(client) == ["t1", "t2", "t3"]
        await trio.sleep(3)
        assert await names(client) == ["t1", "t2", "t3"]
        asked = [request["params"].get("cursor") for request in server.requests("tools/list")]
        assert asked == [None, "2", "3", None]


async def test_a_cursor_that_is_refused_outdates_all_pages(autojump_clock: trio.testing.MockClock) -> None:
    """ "Interaction with Pagination": discard all cached pages and fetch again from the beginning."""
    lists = Lists(pages=2, ttlMs=5000, cacheScope="private")
    server = ScriptedServer(script=lists)
    async with open_scripted(server) as client:
        pages = client.list_tools()
        await anext(pages)
        lists.bad_cursors = True
        with pytest.raises(RequestError):
            await anext(pages)
        lists.bad_cursors = False
        assert await names(client) == ["t1", "t2"]
        asked = [request["params"].get("cursor") for request in server.requests("tools/list")]
        assert asked == [None, "2", None, "2"]


def no_such_resource(_: ScriptedServer, message: Parameters) -> object:
    return refusal(message, -32602, "no such resource")


async def test_another_refusal_outdates_nothing(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=5000, cacheScope="private"))
    async with open_scripted(server) as client:
        await read(client, "a:b")
        server.script = no_such_resource
        with pytest.raises(RequestError):
            await read(client, "a:c")
        await read(client, "a:b")
        assert len(server.requests("resources/read")) == 2


async def test_a_change_that_is_notified_outdates_the_list(autojump_clock: trio.testing.MockClock) -> None:
    """ "Interaction with Notifications": immediately, with or without listeners, and before any later message is looked at."""
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private"))
    async with open_scripted(server) as client, client.listen(tools_list_changed=True) as events:
        await names(client)
        await read(client, "a:b")
        server.say(note("tools/list_changed", server.requests("subscriptions/listen")[0]["id"]))
        await events.__anext__()
        await names(client)
        await read(client, "a:b")
        assert len(server.requests("tools/list")) == 2
        assert len(server.requests("resources/read")) == 1


async def test_a_result_that_was_overtaken_by_a_change_is_not_kept(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It may be as old as what the change has outdated."""
    server = ScriptedServer(script=lambda _, __: NO_ANSWER)
    lists = Lists(ttlMs=50_000, cacheScope="private")
    async with open_scripted(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(names, client)
        await settle()
        server.say(note("tools/list_changed", 99), lists(server, server.requests("tools/list")[0]))
        await settle()
        server.script = lists
        await names(client)
        assert len(server.requests("tools/list")) == 2


async def test_a_restored_connection_begins_with_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """What has changed in between, nobody has heard."""
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private"))
    async with open_scripted(server) as client:
        await names(client)
        server.lose()
        await trio.sleep(5)
        await names(client)
        assert len(server.requests("tools/list")) == 1


async def test_a_subscription_that_was_interrupted_outdates_what_it_listens_to(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """`Resynced` asks to fetch again, and that must not come from the cache."""
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private"))
    async with open_scripted(server) as client, client.listen(resources=["a:b"]) as events:
        for uri in ("a:b", "a:c"):
            await read(client, uri)
        server.say(refusal({"id": server.requests("subscriptions/listen")[0]["id"]}, -32603, "broken"))
        await events.__anext__()
        for uri in ("a:b", "a:c"):
            await read(client, uri)
        assert [r["params"]["uri"] for r in server.requests("resources/read")] == ["a:b", "a:c", "a:b"]


@pytest.mark.parametrize("kind", [{"resultType": "input_required"}, {"resultType": "x/extended"}])
async def test_only_complete_results_are_kept(kind: Parameters, autojump_clock: trio.testing.MockClock) -> None:
    """ "Cacheable Results"."""
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private", **kind))
    async with open_scripted(server) as client:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                await read(client, "a:b")
        assert len(server.requests("resources/read")) == 2


@pytest.mark.spec("server/utilities/caching", "Cache Key", revisions="2026-07-28")
async def test_answers_to_questions_are_never_kept(autojump_clock: trio.testing.MockClock) -> None:
    """ "Cache Key": inputResponses and requestState."""
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private"))
    async with open_scripted(server) as client:
        await read(client, "a:b", request_state="s")
        await read(client, "a:b", input_responses={})
        await read(client, "a:b")
        await read(client, "a:b")
        assert len(server.requests("resources/read")) == 3


async def test_what_cannot_be_read_is_not_kept(autojump_clock: trio.testing.MockClock) -> None:
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="private", contents=5))
    async with open_scripted(server) as client:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError):
                await read(client, "a:b")
        assert len(server.requests("resources/read")) == 2


@pytest.mark.spec("server/utilities/caching", "Cache Scope Field", revisions="2026-07-28")
@pytest.mark.spec("server/utilities/caching", "Security Considerations", revisions="2026-07-28")
@pytest.mark.parametrize(
    ("scope", "first", "second", "asked"),
    [
        ("public", {}, {}, 1),
        ("private", {}, {}, 2),
        ("private", {"cache_partition": "ann"}, {"cache_partition": "bob"}, 2),
        ("private", {"cache_partition": "ann"}, {"cache_partition": "ann"}, 1),
        ("public", {"cache_partition": "ann"}, {"cache_partition": "bob"}, 1),
        ("public", {}, {"capabilities": ClientCapabilities(roots=RootsCapability())}, 2),
    ],
)
async def test_a_cache_that_is_shared_shares_what_may_be_shared(
    scope: str, first: Any, second: Any, asked: int, autojump_clock: trio.testing.MockClock
) -> None:
    """ "Cache Scope Field": private results stay within one authorization context."""
    cache = ResponseCache()
    count = 0
    for options in (first, second):
        server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope=scope))
        async with open_scripted(server, cache=cache, **options) as client:
            await names(client)
        count += len(server.requests("tools/list"))
    assert count == asked
    statistics = cache.statistics()
    assert (statistics.hits, statistics.misses) == (2 - asked, asked)
    assert statistics.entries >= 1
    assert statistics.bytes > 50
    cache.clear()
    assert cache.statistics().entries == 0


async def test_servers_are_kept_apart(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ResponseCache()
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="public"))
    async with open_scripted(server, cache=cache) as client:
        await names(client)
    monkeypatch.setattr("scripted.SERVER_INFO", {"name": "scripted", "version": "2"})
    server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="public"))
    async with open_scripted(server, cache=cache) as client:
        await names(client)
    assert len(server.requests("tools/list")) == 1


def test_nothing_outlives_a_run_of_trio() -> None:
    """Each run has a clock of its own, so what it says to be fresh means nothing in the next."""
    cache = ResponseCache()
    asked: list[int] = []

    async def ask() -> None:
        server = ScriptedServer(script=Lists(ttlMs=50_000, cacheScope="public"))
        async with open_scripted(server, cache=cache) as client:
            await names(client)
        asked.append(len(server.requests("tools/list")))

    trio.run(ask)
    trio.run(ask)
    assert asked == [1, 1]


class _Lists:
    """An application at any URL; each host lists a tool of its own, and all call themselves the same."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.script = McpScript(self._serve)

    async def _serve(self, call: HttpCall) -> None:
        if call.rpc == "server/discover":
            await call.answer(result(call.id, **{**MODERN_DISCOVERY, "capabilities": {"tools": {}}}))
        else:
            host = call.headers.get("host") or ""
            self.asked.append(host)
            tool = {"name": host.partition(":")[0], "inputSchema": {"type": "object"}}
            hint = {"resultType": "complete", "ttlMs": 50_000, "cacheScope": "public"}
            await call.answer(result(call.id, tools=[tool], **hint))


async def test_servers_at_different_urls_are_kept_apart(autojump_clock: trio.testing.MockClock) -> None:
    """ "Cache Key": equal names and versions, as of one program that is deployed twice, are no one server."""
    cache, lists = ResponseCache(), _Lists()
    for host in ("one", "two", "one"):
        parameters = HttpServerParameters(f"http://{host}.example/mcp", app=lists.script)
        async with open_client(parameters, era="modern", cache=cache, cache_partition="p") as client:
            assert await names(client) == [f"{host}.example"]
    assert lists.asked == ["one.example", "two.example"]


@pytest.mark.parametrize("kind", ["server", "channel"])
async def test_servers_in_this_process_are_kept_apart(
    kind: str, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """What is at the other end of a channel nobody knows; the name it gives itself is no proof."""
    cache = ResponseCache()
    for name in ("first", "second"):
        server: Server[Any] = Server("same", cache=CacheHint(ttl=50, scope="public"))
        server.tool(name=name)(_nothing)
        target: Any = server
        if kind == "channel":
            target, far = memory_channel_pair()
            await nursery.start(server.serve_channel, far)
        async with open_client(target, era="modern", cache=cache) as client:
            assert await names(client) == [name]


def test_what_makes_two_targets_the_same_server() -> None:
    """A process is what it was started with; its environment may name the data it serves."""
    server: Server[Any] = Server("s")
    for target in ("http://x.example/mcp", StdioServerParameters("x", ["-y"], env={"A": "1"}), server):
        assert identity_of(target) == identity_of(target)
        assert hash(identity_of(target)) == hash(identity_of(target))
    assert identity_of("http://x.example/mcp") == identity_of(HttpServerParameters("http://x.example/mcp"))
    different: list[Target] = [
        "http://x.example/mcp",
        "http://x.example/other",
        "https://x.example/mcp",
        "http://x.example:81/mcp",
        HttpServerParameters("http://x.example/mcp", app=_Lists().script),
        StdioServerParameters("x", ["-y"]),
        StdioServerParameters("x", ["-y"], env={"A": "1"}),
        StdioServerParameters("x", ["-z"]),
        StdioServerParameters("x", ["-y"], cwd="/"),
        server,
        Server("s"),
        memory_channel_pair()[0],
    ]
    assert len({identity_of(target) for target in different}) == len(different)


async def _nothing() -> str:
    raise AssertionError
