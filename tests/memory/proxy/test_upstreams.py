"""Connections behind a proxy: whose they are, how many there are, when they end, and what happens when one is lost."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
import trio
import trio.testing
from inside_proxy import Upstream
from raw_ends import LEGACY, MODERN, RawServer, answer, open_raw_client
from scripted_target import LostServer, use

from trio_mcp import (
    Channel,
    Context,
    Field,
    HttpServerParameters,
    Limits,
    McpASGI,
    Proxy,
    RequestError,
    RestartPolicy,
    Server,
    open_asgi_client,
    open_client,
)
from trio_mcp.types import Implementation

ERAS = [LEGACY, MODERN]
BOTH = pytest.mark.parametrize("revision", ERAS)


def lists(_: RawServer, message: dict[str, Any]) -> object:
    return answer(message, {"tools": []}) if message.get("method") == "tools/list" else None


async def test_each_session_has_a_connection_of_its_own() -> None:
    """With its own capabilities and log level, whatever other clients do."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {}) if m.get("method") == "logging/setLevel" else None)
    proxy = Proxy(raw)
    async with open_raw_client(proxy, LEGACY) as one, open_raw_client(proxy, LEGACY) as other:
        await one.call("logging/setLevel", {"level": "error"})
        assert len(raw.channels) == 2
        await raw.say({"jsonrpc": "2.0", "method": "com.example/a"}, channel=raw.channels[1])
        await other.message("com.example/a")
        assert one.received == []
    assert raw.ended == 2


async def test_modern_clients_share_by_what_they_declare() -> None:
    """Over HTTP: the same client again finds its connection; one with other capabilities gets another."""
    raw = RawServer(LEGACY, lists)
    async with open_asgi_client(McpASGI(Proxy(raw))) as http:
        target = HttpServerParameters("http://localhost/mcp", app=http)
        for _ in range(2):
            async with open_client(target, era="modern") as client:
                assert await client.list_tools() == []
        assert len(raw.channels) == 1
        async with open_client(target, era="modern", roots=[]) as client:
            assert await client.list_tools() == []
        assert len(raw.channels) == 2
        async with open_client(target, era="legacy") as client:
            assert await client.list_tools() == []
        assert len(raw.channels) == 3
    assert raw.ended == 3


async def test_a_shared_connection_ends_when_it_is_idle(autojump_clock: trio.testing.MockClock) -> None:
    """`IDLE_TIMEOUT` after its last use, and the next request opens another."""
    raw = RawServer(LEGACY, lists)
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        for _ in range(3):
            await ours.call("tools/list")
            await trio.sleep(240)
        assert (len(raw.channels), raw.ended) == (1, 0)
        listening = await ours.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await trio.sleep(3_000)
        assert raw.ended == 0
        await ours.say(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": listening}}
        )
        await trio.sleep(601)
        assert raw.ended == 1
        assert (await ours.call("tools/list"))["result"]["tools"] == []
        assert len(raw.channels) == 2


async def test_there_are_only_so_many() -> None:
    """`Limits.max_upstreams`: what is idle gives way, what is in use does not."""
    raw = RawServer(LEGACY, lists)
    limits = Limits(max_upstreams=4)
    async with open_asgi_client(McpASGI(Proxy(raw, limits=limits))) as http:
        target = HttpServerParameters("http://localhost/mcp", app=http)
        async with open_client(target, era="modern") as idle, open_client(target, era="legacy") as session:
            await idle.list_tools()
            await session.list_tools()
            async with open_client(target, era="legacy") as another:
                await another.list_tools()
                assert raw.ended == 1
                with pytest.raises(RequestError, match="max_upstreams"):
                    await idle.list_tools(fresh=True)
                with pytest.raises(RequestError, match="max_upstreams"):
                    async with open_client(target, era="legacy"):
                        pass
            assert len(raw.channels) == 3
            await trio.testing.wait_all_tasks_blocked()
            await idle.list_tools(fresh=True)
            assert len(raw.channels) == 4


async def test_what_finds_no_place_is_not_kept() -> None:
    """Not even until the garbage collector comes: what its client has declared may be large."""
    raw = RawServer(LEGACY, lists)
    async with open_asgi_client(McpASGI(Proxy(raw, limits=Limits(max_upstreams=2)))) as http:
        target = HttpServerParameters("http://localhost/mcp", app=http)
        async with open_client(target, era="modern") as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "never")
            await raw.wait_for("tools/call")
            gc.collect()
            gc.disable()
            try:
                for _ in range(5):
                    with pytest.raises(RequestError, match="max_upstreams"):
                        async with open_client(target, era="modern", roots=[]):
                            raise AssertionError
                kept = sum(type(each) is Upstream for each in gc.get_objects())
            finally:
                gc.enable()
            nursery.cancel_scope.cancel()
    assert kept == 1


async def test_a_connection_does_not_give_way_while_one_of_its_requests_is_open() -> None:
    """Whichever of them has ended."""
    raw = RawServer(LEGACY, lists)
    proxy = Proxy(raw, limits=Limits(max_upstreams=2))
    async with open_asgi_client(McpASGI(proxy)) as http:
        target = HttpServerParameters("http://localhost/mcp", app=http)
        async with open_client(target, era="modern") as ours, trio.open_nursery() as nursery:
            nursery.start_soon(ours.call_tool, "never")
            await raw.wait_for("tools/call")
            await ours.list_tools()
            with pytest.raises(RequestError, match="max_upstreams"):
                async with open_client(target, era="modern", roots=[]):
                    raise AssertionError
            assert (len(raw.channels), raw.ended) == (1, 0)
            nursery.cancel_scope.cancel()


class SlowToLeave(LostServer):
    """A server whose channels take their time to end."""

    def __init__(self, raw: RawServer) -> None:
        super().__init__("never", raw)
        self.may_end = trio.Event()
        self.ended = 0

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        async with super().open(limits) as channel:
            try:
                yield channel
            finally:
                with trio.move_on_after(10, shield=True):
                    await self.may_end.wait()
                self.ended += 1


async def test_a_connection_that_ends_slowly_does_not_take_the_next_one_with_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that gave way ends when its client has got another already."""
    target = SlowToLeave(RawServer(LEGACY, lists))
    limits = Limits(max_upstreams=4)
    async with use(target, limits=limits) as proxy, open_asgi_client(McpASGI(proxy)) as http:
        url = HttpServerParameters("http://localhost/mcp", app=http)
        async with (
            open_client(url, era="modern") as first,
            open_client(url, era="modern", roots=[]) as second,
        ):
            await first.list_tools(fresh=True)
            await second.list_tools(fresh=True)
            async with open_client(url, era="modern", info=Implementation(name="third", version="1")) as third:
                await third.list_tools(fresh=True)  # the first gives way
                await first.list_tools(fresh=True)  # the second gives way
                assert (target.opened, target.ended) == (4, 0)
                target.may_end.set()
                await trio.testing.wait_all_tasks_blocked()
                assert target.ended == 2
                await first.list_tools(fresh=True)
                assert target.opened == 4


async def test_resources_that_a_session_has_unsubscribed_from_take_no_room() -> None:
    """Half of `Limits.max_message_bytes`: for those that it subscribes to later there is as much as ever."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {}) if "id" in m else None)
    async with open_raw_client(Proxy(raw, limits=Limits(max_message_bytes=10_000)), LEGACY) as ours:
        for number in range(10):
            params = {"uri": f"x://{number}/" + "u" * 1_000}
            assert "result" in await ours.call("resources/subscribe", params)
            assert "result" in await ours.call("resources/unsubscribe", params)


@BOTH
async def test_a_server_that_cannot_be_reached_is_an_error(revision: str) -> None:
    """Of the handshake, or of each request; with the reason."""
    target = LostServer("it is not there")
    async with use(target) as proxy:
        if revision == MODERN:
            async with open_raw_client(proxy, revision) as ours:
                for _ in range(2):
                    error = (await ours.call("tools/list"))["error"]
                    assert error["code"] == -32603
                    assert "it is not there" in error["message"]
        else:
            with pytest.raises(RequestError, match="it is not there"):
                async with open_client(proxy, era="legacy"):
                    pass


@BOTH
async def test_a_lost_connection_fails_what_is_under_way_and_is_made_again(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """By the target's own policy; the session's log level and subscriptions are restored, and it learns of that."""
    raw = RawServer(
        revision, lambda _, m: answer(m, {}) if m.get("method") != "tools/call" and "id" in m else None
    )
    target = LostServer("it fell over", raw, RestartPolicy(max_restarts=3, first_delay=2))
    async with use(target) as proxy, open_raw_client(proxy, revision) as ours:
        if revision == LEGACY:
            await ours.call("logging/setLevel", {"level": "error"})
            await ours.call("resources/subscribe", {"uri": "a://b"})
            await ours.call("resources/subscribe", {"uri": "c://d"})
            await ours.call("resources/unsubscribe", {"uri": "c://d"})
        call = await ours.ask("tools/call", {"name": "x"})
        await raw.wait_for("tools/call")
        raw.received.clear()
        target.lose()
        error = (await ours.answer_to(call))["error"]
        assert error["code"] == -32603
        assert "it fell over" in error["message"]
        began = trio.current_time()
        assert (await ours.call("prompts/list"))["result"] == {}
        assert trio.current_time() == began + 2
        if revision == LEGACY:
            await ours.message("notifications/tools/list_changed")
            assert (await ours.message("notifications/resources/updated"))["params"] == {"uri": "a://b"}
            assert [m["params"]["level"] for m in raw.all("logging/setLevel")] == ["error"]
            assert [m["params"]["uri"] for m in raw.all("resources/subscribe")] == ["a://b"]


def answers_lists(_: RawServer, message: dict[str, Any]) -> object:
    return answer(message, {"tools": []}) if message.get("method") == "tools/list" else None


async def test_a_session_ends_when_its_server_is_lost_for_good() -> None:
    """As a connection to the server itself would: what is under way fails with the reason, then the channel ends."""
    raw = RawServer(LEGACY, answers_lists)
    target = LostServer("it is gone", raw)
    async with use(target) as proxy, open_raw_client(proxy, LEGACY) as ours:
        await ours.call("tools/list")
        call = await ours.ask("tools/call", {"name": "x"})
        await raw.wait_for("tools/call")
        target.lose()
        assert "it is gone" in (await ours.answer_to(call))["error"]["message"]
        with pytest.raises(trio.EndOfChannel):
            await ours.message("anything")


async def test_a_client_over_http_begins_anew_when_its_server_was_lost_for_good() -> None:
    """The session is unknown from then on, which is how clients learn that they need another one."""
    raw = RawServer(LEGACY, answers_lists)
    target = LostServer("it is gone", raw)
    async with use(target) as proxy, open_asgi_client(McpASGI(proxy)) as http:
        async with open_client(HttpServerParameters("http://localhost/mcp", app=http), era="legacy") as client:
            assert await client.list_tools() == []
            target.lose()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert await client.list_tools(fresh=True) == []
        assert target.opened == 2


async def test_a_client_without_a_session_gets_another_connection() -> None:
    """With its next request."""
    raw = RawServer(MODERN, answers_lists)
    target = LostServer("it is gone", raw)
    async with use(target) as proxy, open_raw_client(proxy, MODERN) as ours:
        for number in (1, 2):
            assert (await ours.call("tools/list"))["result"]["tools"] == []
            assert target.opened == number
            target.lose()
            await trio.testing.wait_all_tasks_blocked()


async def test_arguments_in_header_fields_survive_an_idle_connection(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The server refuses a call over a new one, and the client lists the tools again, as without a proxy."""
    server = Server("marked", page_size=1)

    @server.tool
    async def first() -> None: ...

    @server.tool
    async def where(region: Annotated[str, Field(header="Region")]) -> str:
        return region

    async with open_asgi_client(McpASGI(server)) as inner:
        proxy = Proxy(HttpServerParameters("http://localhost/mcp", app=inner))
        async with open_asgi_client(McpASGI(proxy)) as outer:
            target = HttpServerParameters("http://localhost/mcp", app=outer)
            async with open_client(target, era="modern") as client:
                assert len(await client.list_tools()) == 2
                for region in ("north", "south"):
                    assert (await client.call_tool("where", {"region": region})).text == region
                    await trio.sleep(700)


async def test_a_modern_client_that_does_not_say_who_it_is() -> None:
    """A legacy server must be told something; a modern one is told nothing."""
    for server in (LEGACY, MODERN):
        raw = RawServer(server, answers_lists)
        async with open_raw_client(Proxy(raw), MODERN) as ours:
            key = "io.modelcontextprotocol/"
            meta: dict[str, Any] = {f"{key}protocolVersion": MODERN, f"{key}clientCapabilities": {}}
            await ours.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
            assert "result" in await ours.answer_to(1)
        if server == LEGACY:
            assert raw.all("initialize")[0]["params"]["clientInfo"] == {"name": "unknown", "version": "unknown"}
        else:
            assert raw.all("tools/list")[0]["params"] == {"_meta": meta}


async def test_a_resource_is_followed_on_after_an_interruption(autojump_clock: trio.testing.MockClock) -> None:
    """A modern client before a legacy server: what it listens to is reported as changed."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {}) if "id" in m and "method" in m else None)
    target = LostServer("it fell over", raw, RestartPolicy(max_restarts=3, first_delay=2))
    async with use(target) as proxy, open_raw_client(proxy, MODERN) as ours:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["a://b"]}
        await ours.ask("subscriptions/listen", {"notifications": wanted}, id="mine")
        granted = await ours.message("notifications/subscriptions/acknowledged")
        assert granted["params"]["notifications"] == wanted
        target.lose()
        changed = await ours.message("notifications/resources/updated")
        assert changed["params"]["uri"] == "a://b"
        await ours.message("notifications/tools/list_changed")
        assert len(raw.all("resources/subscribe")) == 2


async def test_a_server_whose_description_is_too_large() -> None:
    """It is not kept; the client learns why."""
    raw = RawServer(LEGACY)
    raw.instructions = "x" * 4_200_000 + "\N{GRINNING FACE}"
    with pytest.raises(RequestError, match="takes more than 16777216 bytes in memory"):
        async with open_client(Proxy(raw), era="legacy"):
            pass


async def test_the_lifespan_of_a_server_in_this_process_is_that_of_its_client() -> None:
    """One run for each connection behind the proxy, and none is left."""
    runs: list[str] = []

    @asynccontextmanager
    async def note(_: Server[None]) -> AsyncGenerator[None]:
        runs.append("begun")
        yield
        runs.append("ended")

    server = Server("one", lifespan=note)

    @server.tool
    async def where(ctx: Context) -> int:
        return len(runs)

    proxy = Proxy(server)
    async with open_client(proxy, era="legacy") as one:
        await one.call_tool("where")
        async with open_client(proxy, era="modern") as other:
            await other.call_tool("where")
            assert runs == ["begun", "begun"]
    assert runs == ["begun", "begun", "ended", "ended"]


def test_what_no_client_can_be_opened_on_is_refused_at_once() -> None:
    """Where the proxy is made, not when somebody calls."""
    wrong: Any = 5
    with pytest.raises(TypeError):
        Proxy(wrong)
    with pytest.raises(ValueError, match="http"):
        Proxy("ftp://x")
