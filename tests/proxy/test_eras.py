"""Clients of each era before servers of each era: one server, one client, and everything works in all four pairs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from raw_ends import LEGACY, MODERN, RawServer, answer, open_raw_client, refusal, text_of

from trio_mcp import (
    Client,
    ClientOptions,
    Context,
    Era,
    HttpServerParameters,
    McpASGI,
    Proxy,
    RequestError,
    ResourcesListChanged,
    ResourceUpdated,
    Revision,
    Server,
    ToolsListChanged,
    open_asgi_client,
    open_client,
)
from trio_mcp.types import CreateMessageRequestParams, ElicitRequestParams, ElicitRequestURLParams

ERAS: list[Era] = ["legacy", "modern"]
PAIRS = [(client, server) for client in ERAS for server in ERAS]
ALL = pytest.mark.parametrize(("client", "server"), PAIRS)


def shop(era: str) -> Server[None]:
    """Return a server of one era that uses everything there is."""
    revisions = [revision for revision in Revision if revision.is_modern is (era == "modern")]
    server = Server("shop", version="4", instructions="be kind", revisions=revisions, page_size=2)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def fail() -> str:
        raise ValueError

    @server.tool
    async def work(ctx: Context) -> str:
        async with ctx.progress(total=2) as progress:
            await progress.advance(message="half")
            await ctx.log("warning", {"how": "far"}, logger="shop")
            await progress.advance()
        return "worked"

    @server.tool
    async def order(ctx: Context) -> str:
        name = await ctx.elicit("Who?", str)
        said = await ctx.sample("What?", max_tokens=5)
        roots = await ctx.list_roots()
        return f"{name.value}, {said.text}, {roots[0].uri}"

    @server.tool
    async def pay(ctx: Context) -> str:
        return (await ctx.elicit_url("Pay here", "https://example.com/pay")).action

    @server.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @server.completion("greet", "name")
    async def names(text: str) -> list[str]:
        return [text + "a", text + "b"]

    @server.resource("shop://{thing}")
    async def thing(thing: str) -> str:
        return f"a {thing}"

    @server.tool
    async def change(ctx: Context) -> None:
        server.tool(lambda: None, name="new")
        server.add_resource("shop://new", "new")
        await server.resource_updated("shop://tea")

    return server


@asynccontextmanager
async def open_through_proxy(era: str, server: str, **options: Any) -> AsyncGenerator[Client]:
    async with open_client(Proxy(shop(server)), era=era, **options) as client:  # type: ignore[arg-type]
        assert client.revision.is_modern is (era == "modern")
        yield client


@ALL
async def test_lists_calls_and_reading(client: str, server: str) -> None:
    """Pages with the server's cursors, results, errors of tools and of the protocol."""
    async with open_through_proxy(client, server) as ours:
        assert ours.server_info is not None
        assert ours.server_info.name == "shop"
        assert ours.instructions == "be kind"
        assert [tool.name async for tool in ours.list_tools()] == [
            "add",
            "fail",
            "work",
            "order",
            "pay",
            "change",
        ]
        assert text_of(await ours.call_tool("add", {"a": 1, "b": 2})) == "3"
        assert (await ours.call_tool("fail")).is_error
        assert (await ours.get_prompt("greet", {"name": "Ann"})).messages[0].content.text == "Hello Ann"
        [template] = [template async for template in ours.list_resource_templates()]
        assert template.uri_template == "shop://{thing}"
        assert (await ours.read_resource("shop://tea")).contents[0].text == "a tea"
        with pytest.raises(RequestError) as caught:
            await ours.read_resource("nowhere://x")
        assert caught.value.code == (-32602 if client == "modern" else -32002)
        with pytest.raises(RequestError) as caught:
            await ours.request("com.example/nothing")
        assert caught.value.code == -32601
        if client == "legacy":
            await ours.ping()


@ALL
async def test_progress_and_logging(client: str, server: str) -> None:
    """All of them in order, before the result."""
    heard: list[object] = []
    async with open_through_proxy(client, server, on_log=lambda m: heard.append((m.level, m.data))) as ours:
        await ours.set_log_level("warning")
        await ours.call_tool("work", on_progress=lambda p: heard.append((p.progress, p.total, p.message)))
        assert [one for one in heard if one != ("warning", {"how": "far"})] == [(1, 2, "half"), (2, 2, None)]
        assert ("warning", {"how": "far"}) in heard
        await ours.set_log_level("error")
        heard.clear()
        await ours.call_tool("work")
        assert heard == []


@ALL
async def test_questions(client: str, server: str) -> None:
    """Three of them in one call, and a URL; each is asked once."""
    asked: list[str] = []

    def elicit(params: ElicitRequestParams) -> Any:
        asked.append("elicit")
        return "accept" if isinstance(params, ElicitRequestURLParams) else {"value": "Ann"}

    def sample(params: CreateMessageRequestParams) -> str:
        asked.append("sample")
        return "tea"

    options: ClientOptions = {
        "on_elicit": elicit,
        "elicit_modes": ("form", "url"),
        "on_sample": sample,
        "roots": ["file:///home"],
    }
    async with open_through_proxy(client, server, **options) as ours:
        assert text_of(await ours.call_tool("order")) == "Ann, tea, file:///home"
        assert asked == ["elicit", "sample"]
        assert text_of(await ours.call_tool("pay")) == "accept"


@ALL
async def test_a_client_that_cannot_be_asked(client: str, server: str) -> None:
    """The server sees the capabilities of the client, not of the proxy."""
    async with open_through_proxy(client, server) as ours:
        with pytest.raises(RequestError, match="has not declared elicitation"):
            await ours.call_tool("order")


@ALL
async def test_changes(client: str, server: str) -> None:
    """Of a list, and of a resource that was subscribed to."""
    async with open_through_proxy(client, server) as ours:
        async with ours.listen(
            tools_list_changed=True, resources_list_changed=True, resources=["shop://tea"]
        ) as events:
            await ours.call_tool("change")
            heard = {await anext(events) for _ in range(3)}
        assert heard == {ToolsListChanged(), ResourcesListChanged(), ResourceUpdated("shop://tea")}
        if client == "legacy":
            with pytest.raises(RequestError) as caught:
                await ours.request("resources/subscribe", {"uri": "nowhere://x"})
            assert caught.value.code == -32002


@ALL
async def test_completion(client: str, server: str) -> None:
    """Completions of a prompt's argument."""
    async with open_through_proxy(client, server) as ours:
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "x"}}
        result = await ours.request("completion/complete", params)
        assert result["completion"]["values"] == ["xa", "xb"]


@ALL
async def test_over_http(client: str, server: str) -> None:
    """Before an HTTP endpoint, and as one: questions and log messages find the stream of their request."""
    heard: list[object] = []
    async with open_asgi_client(McpASGI(shop(server))) as http:
        outer = McpASGI(Proxy(HttpServerParameters("http://localhost/mcp", app=http)))
        async with open_asgi_client(outer) as front:
            options: ClientOptions = {
                "on_elicit": lambda _: {"value": "Ann"},
                "on_sample": lambda _: "tea",
                "roots": ["file:///home"],
                "on_log": lambda m: heard.append(m.data),
            }
            target = HttpServerParameters("http://localhost/mcp", app=front)
            async with open_client(target, era=client, **options) as ours:  # type: ignore[arg-type]
                assert text_of(await ours.call_tool("add", {"a": 1, "b": 2})) == "3"
                assert text_of(await ours.call_tool("order")) == "Ann, tea, file:///home"
                await ours.set_log_level("info")
                await ours.call_tool("work", on_progress=heard.append)
                assert len(heard) == 3


async def test_a_round_without_a_question_is_sent_again() -> None:
    """A modern server that is not done, before a legacy client, which never sees that."""
    rounds = 0

    def script(_: RawServer, message: dict[str, Any]) -> object:
        nonlocal rounds
        rounds += 1
        if rounds < 3:
            return answer(message, {"resultType": "input_required", "requestState": f"s{rounds}"})
        assert message["params"]["requestState"] == "s2"
        return answer(message, {"resultType": "complete", "content": [], "_meta": {"a/b": 1}})

    raw = RawServer(MODERN, script)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        result = (await ours.call("tools/call", {"name": "x"}))["result"]
    assert result == {"content": [], "_meta": {"a/b": 1}}


async def test_a_modern_server_that_asks_for_ever_is_stopped() -> None:
    """`Limits.max_input_rounds`, with its name in the error."""
    asking = {"inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "?"}}}}
    raw = RawServer(MODERN, lambda _, m: answer(m, {"resultType": "input_required", **asking}))
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        for _ in range(11):
            await ours.say(answer(await ours.message("elicitation/create"), {"action": "decline"}))
        assert "max_input_rounds" in (await ours.answer_to(call))["error"]["message"]


async def test_a_refused_question_of_a_modern_server_fails_the_call() -> None:
    """There is no other way: a modern server's question has no answer that is an error."""
    asking = {"inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "?"}}}}
    raw = RawServer(MODERN, lambda _, m: answer(m, {"resultType": "input_required", **asking}))
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        await ours.say(refusal(await ours.message("elicitation/create"), -1, "no"))
        error = (await ours.answer_to(call))["error"]
    assert error["code"] == -32603
    assert "elicitation/create: no" in error["message"]


async def test_methods_of_the_other_era_are_refused() -> None:
    """What cannot be translated is answered as a method that is not there, and not sent."""
    for client, server, method in ((LEGACY, MODERN, "tasks/list"), (MODERN, LEGACY, "logging/setLevel")):
        raw = RawServer(server)
        async with open_raw_client(Proxy(raw), client) as ours:
            response = await ours.call(method, {"level": "info"})
        assert response["error"]["code"] == -32601
        assert raw.all(method) == []


async def test_a_modern_request_without_an_open_call_cannot_be_asked() -> None:
    """A legacy server asks outside of any request of a client without a session."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {"tools": []}) if m.get("method") == "tools/list" else None)
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        await ours.call("tools/list")
        await raw.say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}})
        await raw.say({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        while sum("id" in message and "method" not in message for message in raw.received) < 2:
            await trio.lowlevel.checkpoint()
        refused, pong = raw.received[-2:]
        assert refused["error"]["code"] == -32600
        assert pong["result"] == {}
