"""Clients of each era before servers of each era: one server, one client, and everything works in all four pairs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from raw_ends import LEGACY, MODERN, RawServer, answer, open_raw_client, refusal

from trio_mcp import (
    Client,
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
from trio_mcp.types import (
    CreateMessageRequestParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    LoggingMessageNotificationParams,
    TextResourceContents,
)

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
        server.add_resource("shop://newer", "newer")
        server.disable_tool("fail")
        server.add_resource("shop://new", "new")
        await server.resource_updated("shop://tea")

    return server


@asynccontextmanager
async def open_through_proxy(era: Era, server: Era, **options: Any) -> AsyncGenerator[Client]:
    async with open_client(Proxy(shop(server)), era=era, **options) as client:
        assert client.revision.is_modern is (era == "modern")
        yield client


@ALL
async def test_lists_calls_and_reading(client: Era, server: Era) -> None:
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
        assert (await ours.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await ours.call_tool("fail")).is_error
        greeting = {"name": "greet", "arguments": {"name": "Ann"}}
        assert (await ours.request("prompts/get", greeting))["messages"][0]["content"]["text"] == "Hello Ann"
        [template] = [template async for template in ours.list_resource_templates()]
        assert template.uri_template == "shop://{thing}"
        assert (await ours.read_resource("shop://tea")).contents[0] == TextResourceContents(
            uri="shop://tea", mime_type="text/plain", text="a tea"
        )
        with pytest.raises(RequestError) as caught:
            await ours.read_resource("nowhere://x")
        assert caught.value.code == (-32602 if client == "modern" else -32002)
        with pytest.raises(RequestError) as caught:
            await ours.request("com.example/nothing")
        assert caught.value.code == -32601
        if client == "legacy":
            await ours.ping()


@ALL
async def test_progress_and_logging(client: Era, server: Era) -> None:
    """All of them in order, before the result."""
    heard: list[object] = []

    def log(message: LoggingMessageNotificationParams) -> None:
        heard.append((message.level, message.data))

    async with open_through_proxy(client, server, on_log=log) as ours:
        await ours.set_log_level("warning")
        await ours.call_tool("work", on_progress=lambda p: heard.append((p.progress, p.total, p.message)))
        assert [one for one in heard if one != ("warning", {"how": "far"})] == [(1, 2, "half"), (2, 2, None)]
        assert ("warning", {"how": "far"}) in heard
        await ours.set_log_level("error")
        heard.clear()
        await ours.call_tool("work")
        assert heard == []


@ALL
async def test_questions(client: Era, server: Era) -> None:
    """Three of them in one call, and a URL; each is asked once."""
    asked: list[str] = []

    def elicit(params: ElicitRequestParams) -> Any:
        asked.append("elicit")
        return "accept" if isinstance(params, ElicitRequestURLParams) else {"value": "Ann"}

    def sample(params: CreateMessageRequestParams) -> str:
        asked.append("sample")
        return "tea"

    options: dict[str, Any] = {
        "on_elicit": elicit,
        "elicit_modes": ("form", "url"),
        "on_sample": sample,
        "roots": ["file:///home"],
    }
    async with open_through_proxy(client, server, **options) as ours:
        assert (await ours.call_tool("order")).text == "Ann, tea, file:///home"
        assert asked == ["elicit", "sample"]
        assert (await ours.call_tool("pay")).text == "accept"


@ALL
async def test_a_client_that_cannot_be_asked(client: Era, server: Era) -> None:
    """The server sees the capabilities of the client, not of the proxy."""
    async with open_through_proxy(client, server) as ours:
        with pytest.raises(RequestError, match="has not declared elicitation"):
            await ours.call_tool("order")


@ALL
async def test_changes(client: Era, server: Era) -> None:
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
async def test_completion(client: Era, server: Era) -> None:
    """Completions of a prompt's argument."""
    async with open_through_proxy(client, server) as ours:
        params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "x"}}
        result = await ours.request("completion/complete", params)
        assert result["completion"]["values"] == ["xa", "xb"]


@ALL
async def test_over_http(client: Era, server: Era) -> None:
    """Before an HTTP endpoint, and as one: questions and log messages find the stream of their request."""
    heard: list[object] = []

    def elicit(_: ElicitRequestParams) -> dict[str, str]:
        return {"value": "Ann"}

    def sample(_: CreateMessageRequestParams) -> str:
        return "tea"

    def log(message: LoggingMessageNotificationParams) -> None:
        heard.append(message.data)

    async with open_asgi_client(McpASGI(shop(server))) as http:
        outer = McpASGI(Proxy(HttpServerParameters("http://localhost/mcp", app=http)))
        async with open_asgi_client(outer) as front:
            options: dict[str, Any] = {
                "on_elicit": elicit,
                "on_sample": sample,
                "roots": ["file:///home"],
                "on_log": log,
            }
            target = HttpServerParameters("http://localhost/mcp", app=front)
            async with open_client(target, era=client, **options) as ours:
                assert (await ours.call_tool("add", {"a": 1, "b": 2})).text == "3"
                assert (await ours.call_tool("order")).text == "Ann, tea, file:///home"
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


async def test_output_that_is_no_object_is_wrapped_for_a_legacy_client() -> None:
    """With its schema, as a server does that knows both eras; without one where no schema fits."""
    schema = {"$schema": "x", "type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}}
    tools = [
        {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": schema, "unheard": "of"},
        {"name": "b", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
        {"name": "c", "inputSchema": {"type": "object"}, "outputSchema": {"type": ["object", "null"]}},
        "no tool",
    ]

    def script(_: RawServer, message: dict[str, Any]) -> object:
        if message.get("method") == "tools/list":
            return answer(message, {"resultType": "complete", "ttlMs": 9, "cacheScope": "public", "tools": tools})
        content = [
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "a://b", "name": "b"},
            {"type": "tomorrow", "x": 1},
        ]
        result = {"resultType": "complete", "content": content, "structuredContent": ["x"]}
        return answer(message, result) if message.get("method") == "tools/call" else None

    raw = RawServer(MODERN, script)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        listed = (await ours.call("tools/list"))["result"]
        assert listed.keys() == {"tools"}
        wrapped, same, without, odd = listed["tools"]
        assert wrapped["outputSchema"]["properties"]["result"]["items"] == {"$ref": "#/properties/result/$defs/a"}
        assert (wrapped["unheard"], same, odd) == ("of", tools[1], "no tool")
        assert without == {"name": "c", "inputSchema": {"type": "object"}}
        called = (await ours.call("tools/call", {"name": "a"}))["result"]
        assert called["structuredContent"] == {"result": ["x"]}
        assert [block["type"] for block in called["content"]] == ["audio", "resource_link", "tomorrow"]
    async with open_raw_client(Proxy(raw), "2024-11-05") as ours:
        called = (await ours.call("tools/call", {"name": "a"}))["result"]
        assert [block["type"] for block in called["content"]] == ["text", "text", "tomorrow"]


async def test_what_only_the_other_era_has_does_not_reach_a_client() -> None:
    """The acknowledgement of the proxy's own subscription, a conversation that an older revision lacks."""
    question = {
        "method": "sampling/createMessage",
        "params": {
            "maxTokens": 5,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
            ],
        },
    }
    asked = {"resultType": "input_required", "inputRequests": {"q": question}}

    def script(server: RawServer, message: dict[str, Any]) -> object:
        if message.get("method") == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            params = {"_meta": meta, "notifications": message["params"]["notifications"]}
            return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        done: dict[str, Any] = {"resultType": "complete", "content": []}
        return answer(message, done if "inputResponses" in message["params"] else asked)

    raw = RawServer(MODERN, script)
    async with open_raw_client(Proxy(raw), "2025-06-18") as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        sample = await ours.message("sampling/createMessage")
        assert [message["content"]["text"] for message in sample["params"]["messages"]] == ["a", "b"]
        await ours.say(
            answer(sample, {"role": "assistant", "content": {"type": "text", "text": "c"}, "model": "m"})
        )
        assert (await ours.answer_to(call))["result"] == {"content": []}
        assert ours.received == []


async def test_a_log_level_is_that_of_each_modern_request() -> None:
    """Before a legacy server, which has one for all: it is asked for the most, once, and each gets its part."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {}) if m.get("method") == "logging/setLevel" else None)
    key = "io.modelcontextprotocol/logLevel"
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        quiet = await ours.ask("tools/list", {"_meta": {key: "error"}})
        first = await raw.wait_for("tools/list")
        loud = await ours.ask("prompts/list", {"_meta": {key: "info"}})
        second = await raw.wait_for("prompts/list")
        again = await ours.ask("resources/list", {"_meta": {key: "warning"}})
        third = await raw.wait_for("resources/list")
        assert [m["params"]["level"] for m in raw.all("logging/setLevel")] == ["error", "info"]
        for level in ("info", "warning", "error"):
            params = {"level": level, "data": level}
            await raw.say({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        await raw.say(answer(third, {}))
        await ours.answer_to(again)
        heard = [m["params"]["data"] for m in ours.received if m.get("method") == "notifications/message"]
        assert heard == ["warning", "error"]  # those of the latest request, which gets what names none
        for id, request in ((loud, second), (quiet, first)):
            await raw.say(answer(request, {}))
            await ours.answer_to(id)


async def test_a_question_outlives_the_request_that_was_to_carry_it() -> None:
    """Over a pipe nothing says for which call a server asks. If the call that was taken ends, another one asks."""
    raw = RawServer(LEGACY)
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        one = await ours.ask("tools/call", {"name": "one"})
        first = await raw.wait_for("tools/call")
        other = await ours.ask("tools/call", {"name": "other"})
        while len(raw.all("tools/call")) < 2:
            await trio.lowlevel.checkpoint()
        second = raw.all("tools/call")[1]
        params: dict[str, Any] = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        await raw.say({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        await raw.say(answer(second, {"content": [], "who": "other"}))
        required = (await ours.answer_to(other))["result"]
        if required["resultType"] == "complete":  # it was taken by the call that has ended
            assert required["who"] == "other"
            required = (await ours.answer_to(one))["result"]
            name = "one"
        else:
            name = "other"
        [key] = required["inputRequests"]
        answers = {key: {"action": "decline"}}
        state = required["requestState"]
        again = await ours.ask("tools/call", {"name": name, "inputResponses": answers, "requestState": state})
        while not any(message.get("id") == "q" for message in raw.received):
            await trio.lowlevel.checkpoint()
        assert raw.received[-1]["result"] == {"action": "decline"}
        await raw.say(answer(first, {"content": [], "who": "one"}))
        assert (await ours.answer_to(again))["result"]["who"] == name


async def test_a_question_is_asked_in_the_session_if_its_request_was_cancelled() -> None:
    """A legacy client: the question that cannot be sent for a request goes to the client all the same."""
    raw = RawServer(LEGACY)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        await raw.wait_for("tools/call")
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.say, cancelled)
            nursery.start_soon(raw.say, {"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await ours.say(answer(await ours.message("roots/list"), {"roots": []}))
        while not any(message.get("id") == "q" for message in raw.received):
            await trio.lowlevel.checkpoint()
        assert raw.received[-1]["result"] == {"roots": []}
