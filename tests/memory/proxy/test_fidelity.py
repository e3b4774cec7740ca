"""What passes a proxy passes as it is: nothing is read that need not be, and nothing unknown is lost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from raw_ends import CAPABILITIES, INFO, KEY, LEGACY, MODERN, RawServer, Script, answer, open_raw_client, refusal

from trio_mcp import Proxy

ERAS = [LEGACY, MODERN]
BOTH = pytest.mark.parametrize("revision", ERAS)
ALL = [(client, server) for client in ERAS for server in ERAS]

ODD: dict[str, Any] = {
    "content": [{"type": "from the future", "is": {"nested": [None, True, 1.5, "é\u2028\U0001f600"]}}],
    "structuredContent": [1, 2**70, "x"],
    "isError": False,
    "unheard": "of",
}


def echo(result: dict[str, Any]) -> Script:
    return lambda _, message: answer(message, result) if "id" in message else None


@BOTH
async def test_results_are_not_looked_at(revision: str) -> None:
    """A type of content that nobody knows, a number that no float holds, members of tomorrow."""
    odd = ODD if revision == LEGACY else {**ODD, "resultType": "com.example/odd", "_meta": {"a/b": 1}}
    server = RawServer(revision, echo(odd))
    async with open_raw_client(Proxy(server), revision) as client:
        response = await client.call("tools/call", {"name": 5, "arguments": "none", "unheard": {"of": []}})
    assert response["result"] == odd
    [received] = server.all("tools/call")
    received["params"].pop("_meta", None)
    assert received["params"] == {"name": 5, "arguments": "none", "unheard": {"of": []}}


@pytest.mark.parametrize(("client", "server"), ALL)
async def test_errors_are_those_of_the_server(client: str, server: str) -> None:
    """Code, message and data, in all four pairs of eras."""
    data = {"why": ["of", {"the": "server"}]}
    raw = RawServer(server, lambda _, m: refusal(m, -32055, "odd \x00 message", data) if "id" in m else None)
    async with open_raw_client(Proxy(raw), client) as ours:
        response = await ours.call("tools/call", {"name": "x"})
    assert response["error"] == {"code": -32055, "message": "odd \x00 message", "data": data}


@pytest.mark.parametrize(("client", "server"), ALL)
async def test_methods_that_nobody_knows_pass(client: str, server: str) -> None:
    """A request and a notification of an extension, from the client."""
    raw = RawServer(server, echo({"done": "so"}))
    async with open_raw_client(Proxy(raw), client) as ours:
        response = await ours.call("com.example/do", {"it": 1, "_meta": {"com.example/k": 2}})
        await ours.say({"jsonrpc": "2.0", "method": "com.example/did", "params": {"it": 3}})
        assert (await raw.wait_for("com.example/did"))["params"] == {"it": 3}
    assert response["result"]["done"] == "so"
    params = raw.all("com.example/do")[0]["params"]
    assert params["it"] == 1
    assert params["_meta"]["com.example/k"] == 2
    assert (f"{KEY}protocolVersion" in params["_meta"]) is (server == MODERN)


@pytest.mark.parametrize(("client", "server"), ALL)
async def test_the_server_is_shown_as_it_shows_itself(client: str, server: str) -> None:
    """Capabilities, name and instructions, with members that nobody knows."""
    async with open_raw_client(Proxy(RawServer(server)), client) as ours:
        if client == MODERN:
            result = (await ours.call("server/discover"))["result"]
            info = result["_meta"][f"{KEY}serverInfo"]
            assert MODERN in result["supportedVersions"]
            assert LEGACY in result["supportedVersions"]
        else:
            result = ours.handshake["result"]
            info = result["serverInfo"]
            assert result["protocolVersion"] == LEGACY
    assert (info, result["capabilities"], result["instructions"]) == (INFO, CAPABILITIES, "be kind")
    if client == server:
        assert result["notYet"] == 1


@pytest.mark.parametrize(("client", "server"), ALL)
async def test_the_client_is_shown_as_it_shows_itself(client: str, server: str) -> None:
    """Name and capabilities of the client, not of the proxy."""
    raw = RawServer(server, echo({}))
    async with open_raw_client(Proxy(raw), client) as ours:
        await ours.call("tools/list")
    if server == MODERN:
        meta = raw.all("tools/list")[0]["params"]["_meta"]
        declared = meta[f"{KEY}clientInfo"], meta[f"{KEY}clientCapabilities"]
    else:
        params = raw.all("initialize")[0]["params"]
        declared = params["clientInfo"], params["capabilities"]
    info = {"name": "raw client", "version": "3", "notYet": 2}
    assert declared == (info, {"elicitation": {}, "notYet": {"known": 1}})


async def test_a_revision_of_the_server_is_that_of_the_session() -> None:
    """A server that answers with an older revision: the client decides what to make of it, as without a proxy."""
    async with open_raw_client(Proxy(RawServer("2024-11-05")), LEGACY) as ours:
        assert ours.handshake["result"]["protocolVersion"] == "2024-11-05"


async def test_messages_of_the_server_pass_as_they_are() -> None:
    """In a session: questions of methods that nobody knows, log messages, changes, with unknown members."""
    raw = RawServer(LEGACY)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        asked = await raw.wait_for("tools/call")
        for method, params in (
            ("com.example/event", {"a": [1]}),
            ("notifications/message", {"level": "odd", "data": 1, "x": 2}),
            ("notifications/tools/list_changed", {"x": 1}),
            ("notifications/resources/updated", {"uri": "a://b", "x": 1}),
            ("notifications/elicitation/complete", {"elicitationId": "7"}),
        ):
            await raw.say({"jsonrpc": "2.0", "method": method, "params": params})
            assert (await ours.message(method))["params"] == params
        await raw.say({"jsonrpc": "2.0", "id": "q", "method": "com.example/ask", "params": {"b": None}})
        question = await ours.message("com.example/ask")
        assert question["params"] == {"b": None}
        await ours.say(answer(question, {"c": {"d": []}}))
        while not any(message.get("id") == "q" for message in raw.received):
            await trio.lowlevel.checkpoint()
        assert raw.received[-1]["result"] == {"c": {"d": []}}
        await raw.say({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        await ours.say(answer(await ours.message("ping"), {}))
        await raw.say(answer(asked, {"content": []}))
        assert (await ours.answer_to(call))["result"] == {"content": []}


async def test_errors_of_the_client_are_the_servers_to_read() -> None:
    """A question that the client refuses."""
    raw = RawServer(LEGACY)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        await raw.say({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"x": 1}})
        await ours.say(refusal(await ours.message("sampling/createMessage"), -1, "no", {"really": "not"}))
        while not any("error" in message for message in raw.received):
            await trio.lowlevel.checkpoint()
        assert raw.received[-1]["error"] == {"code": -1, "message": "no", "data": {"really": "not"}}


async def test_ids_of_clients_never_meet() -> None:
    """Two clients with the same ids, and ids of the two types that look alike."""
    raw = RawServer(LEGACY)
    proxy = Proxy(raw)
    async with open_raw_client(proxy, LEGACY) as one, open_raw_client(proxy, LEGACY) as other:
        for client, id in ((one, 1), (one, "1"), (other, 1), (other, "1")):
            await client.ask("tools/call", {"who": f"{client is one} {id!r}"}, id=id)
        for _ in range(200):
            await trio.lowlevel.checkpoint()
        calls = raw.all("tools/call")
        assert len(calls) == 4
        for index, call in enumerate(calls):
            channel = raw.channels[0] if call["params"]["who"].startswith("True") else raw.channels[1]
            await raw.say(answer(call, {"for": call["params"]["who"]}), channel=channel)
            assert index < 4
        for client, id in ((one, 1), (one, "1"), (other, 1), (other, "1")):
            response = await client.answer_to(id)
            assert type(response["id"]) is type(id)
            assert response["result"] == {"for": f"{client is one} {id!r}"}


async def test_a_modern_subscription_passes_with_the_ids_of_each_side() -> None:
    """Its acknowledgement, changes, members that nobody knows, and its end."""
    raw = RawServer(MODERN)
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        wanted = {"toolsListChanged": True, "com.example/things": ["a"]}
        await ours.ask("subscriptions/listen", {"notifications": wanted}, id="mine")
        theirs = await raw.wait_for("subscriptions/listen")
        assert theirs["params"]["notifications"] == wanted
        meta = {f"{KEY}subscriptionId": theirs["id"], "x/y": 1}
        for method, params in (
            ("notifications/subscriptions/acknowledged", {"notifications": wanted}),
            ("notifications/tools/list_changed", {"odd": 1}),
            ("com.example/things/changed", {"thing": "a"}),
        ):
            await raw.say({"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}})
            got = (await ours.message(method))["params"]
            assert got == {**params, "_meta": {f"{KEY}subscriptionId": "mine", "x/y": 1}}
        await raw.say(answer(theirs, {"resultType": "complete", "_meta": meta}))
        result = (await ours.answer_to("mine"))["result"]
        assert result == {"resultType": "complete", "_meta": {f"{KEY}subscriptionId": "mine", "x/y": 1}}


async def test_what_a_modern_server_asks_passes_unread() -> None:
    """Questions, state and answers are between the two ends."""
    required = {"resultType": "input_required", "inputRequests": {"a": {"odd": 1}}, "requestState": "sealed"}
    raw = RawServer(
        MODERN,
        lambda _, m: answer(
            m, {"resultType": "complete", "ok": 1} if "requestState" in m["params"] else required
        ),
    )
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        assert (await ours.call("tools/call", {"name": "x"}))["result"] == required
        params = {"name": "x", "requestState": "sealed", "inputResponses": {"a": {"odd": 2}}}
        assert (await ours.call("tools/call", params))["result"]["ok"] == 1
        sent = raw.all("tools/call")[-1]["params"]
        assert {name: sent[name] for name in params} == params


@pytest.mark.parametrize(("client", "server"), ALL)
async def test_an_answer_does_not_overtake_what_was_sent_before_it(client: str, server: str) -> None:
    """Log messages, however many, and those of a method that nobody knows; nothing of the request comes later."""

    async def flood(raw: RawServer, call: dict[str, Any], response: dict[str, Any]) -> None:
        for number in range(50):
            params = {"level": "error", "data": number}
            method = "com.example/event" if number % 2 else "notifications/message"
            await raw.say({"jsonrpc": "2.0", "method": method, "params": params})
        await raw.say(response)

    for ends in ("result", "error"):
        raw = RawServer(server, lambda _, m: answer(m, {}) if m.get("method") == "logging/setLevel" else None)
        async with open_raw_client(Proxy(raw), client) as ours:
            level = {"_meta": {f"{KEY}logLevel": "info"}} if client == MODERN else {}
            id = await ours.ask("tools/call", {"name": "x", **level})
            asked = await raw.wait_for("tools/call")
            response = answer(asked, {"content": []}) if ends == "result" else refusal(asked, -1, "no")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flood, raw, asked, response)
                assert ends in await ours.answer_to(id)
            assert [message["params"]["data"] for message in ours.received] == list(range(50))
