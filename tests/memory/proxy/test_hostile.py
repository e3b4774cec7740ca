"""Clients and servers that do what they should not: a proxy bounds what it keeps for them, and goes on with others."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from raw_ends import LEGACY, MODERN, RawServer, answer, open_raw_client

from trio_mcp import Context, Era, Limits, Progress, Proxy, RequestError, Server, open_client

BOTH = pytest.mark.parametrize("revision", [LEGACY, MODERN])


@BOTH
async def test_a_result_that_is_none_fails_its_request_alone(subtests: pytest.Subtests, revision: str) -> None:
    """The client waits for nothing, and the next request is served."""

    async def check(result: object) -> None:
        def script(_: RawServer, message: dict[str, Any]) -> object:
            if "id" not in message:
                return None
            return answer(message, result if message["method"] == "tools/call" else {"tools": []})

        raw = RawServer(revision, script)
        async with open_raw_client(Proxy(raw), revision) as ours:
            error = (await ours.call("tools/call", {"name": "x"}))["error"]
            assert error["code"] == -32603
            assert (await ours.call("tools/list"))["result"]["tools"] == []

    results: list[object] = [None, [], 5, "x"]
    for result in results:
        with subtests.test(result=result):
            await check(result)


@BOTH
async def test_an_answer_twice_and_one_for_nobody_are_dropped(revision: str) -> None:
    """Neither reaches the client, whose own ids they may have."""

    raw = RawServer(revision)
    async with open_raw_client(Proxy(raw), revision) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        asked = await raw.wait_for("tools/call")
        for one, result in (({"id": 99}, {}), ({"id": "call 1"}, {"x": 1}), (asked, {"ok": asked["id"]})):
            await raw.say(answer(one, result))
        await raw.say(answer(asked, {"ok": "again"}))
        assert (await ours.answer_to(call))["result"]["ok"] == asked["id"]
        await trio.testing.wait_all_tasks_blocked()
        assert ours.received == []


async def test_large_messages_pass_and_larger_ones_are_refused_on_either_side() -> None:
    """`Limits.max_message_bytes`, named in the error."""
    server = Server("large")

    @server.tool
    async def repeat(text: str, times: int) -> str:
        return text * times

    proxy = Proxy(server, limits=Limits(max_message_bytes=1_000_000))
    eras: list[Era] = ["legacy", "modern"]
    for era in eras:
        async with open_client(proxy, era=era) as client:
            result = await client.call_tool("repeat", {"text": "x" * 100_000, "times": 4})
            assert len(result.text) == 400_000
            for text, times in (("x" * 1_100_000, 1), ("x" * 100_000, 20)):
                with pytest.raises(RequestError, match="max_message_bytes"):
                    await client.call_tool("repeat", {"text": text, "times": times})
            assert (await client.call_tool("repeat", {"text": "x", "times": 2})).text == "xx"


async def test_two_hundred_calls_at_once_find_their_answers() -> None:
    """Of several clients, in both eras, with answers in any order."""
    server = Server("many")

    @server.tool
    async def wait(number: int, ctx: Context) -> int:
        await ctx.report_progress(number + 1)
        await trio.sleep((number * 7 % 11) / 1000)
        return number

    proxy = Proxy(server)
    found: list[tuple[int, str]] = []

    async def call(client: Any, number: int) -> None:
        heard: list[float] = []

        def hear(progress: Progress) -> None:
            heard.append(progress.progress)

        result = await client.call_tool("wait", {"number": number}, on_progress=hear)
        assert heard == [number + 1]
        found.append((number, result.content[0].text))

    async with (
        open_client(proxy, era="legacy") as one,
        open_client(proxy, era="modern") as other,
        trio.open_nursery() as nursery,
    ):
        for number in range(200):
            nursery.start_soon(call, one if number % 2 else other, number)
    assert sorted(found) == [(number, str(number)) for number in range(200)]


async def test_a_client_that_reads_nothing_holds_up_itself_alone(autojump_clock: trio.testing.MockClock) -> None:
    """The server says more than may wait; what is kept is bounded, and another client is served."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {"tools": []}) if m.get("method") == "tools/list" else None)
    limits = Limits(max_outbox_bytes=10_000, max_notifications=20, drain_timeout=1)
    proxy = Proxy(raw, limits=limits)
    async with open_raw_client(proxy, LEGACY) as silent, open_raw_client(proxy, LEGACY) as other:
        said = 0
        message = {"jsonrpc": "2.0", "method": "com.example/x", "params": {"text": "x" * 1_000}}
        with trio.move_on_after(30):
            while said < 3_000:
                await raw.say(message, channel=raw.channels[0])
                said += 1
        assert (await other.call("tools/list"))["result"] == {"tools": []}
        assert other.received == []
        assert silent.received == []


async def test_a_server_that_asks_much_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Before a legacy client: `Limits.max_inbound_requests` of one result are asked at once, the others behind."""
    asked = {
        "resultType": "input_required",
        "inputRequests": {str(n): {"method": "roots/list"} for n in range(7)},
    }

    def script(_: RawServer, message: dict[str, Any]) -> object:
        is_done = "inputResponses" in message["params"]
        return answer(message, {"resultType": "complete", "content": []} if is_done else asked)

    raw = RawServer(MODERN, script)
    async with open_raw_client(Proxy(raw, limits=Limits(max_inbound_requests=5)), LEGACY) as ours:
        id = await ours.ask("tools/call", {"name": "x"})
        questions = [await ours.message("roots/list") for _ in range(5)]
        with trio.move_on_after(1) as nothing_more:
            await ours.channel.receive()
        assert nothing_more.cancelled_caught
        for question in questions:
            await ours.say(answer(question, {"roots": []}))
        for _ in range(2):
            await ours.say(answer(await ours.message("roots/list"), {"roots": []}))
        assert (await ours.answer_to(id))["result"]["content"] == []
    assert len(raw.all("tools/call")[-1]["params"]["inputResponses"]) == 7


async def test_a_server_that_asks_what_is_no_question() -> None:
    """The call fails; nothing of it reaches the client."""
    for question in (5, {}, {"method": "tools/call"}, {"method": 3, "params": 4}):
        asked = {"resultType": "input_required", "inputRequests": {"q": question}}
        raw = RawServer(MODERN, lambda _, m, asked=asked: answer(m, asked))  # type: ignore[misc]
        async with open_raw_client(Proxy(raw), LEGACY) as ours:
            error = (await ours.call("tools/call", {"name": "x"}))["error"]
            assert "inputRequests.q" in error["message"]
            assert ours.received == []


async def test_a_question_that_no_modern_client_can_read_is_refused() -> None:
    """The server gets the error, and can go on."""
    raw = RawServer(LEGACY)
    async with open_raw_client(Proxy(raw), MODERN) as ours:
        call = await ours.ask("tools/call", {"name": "x"})
        asked = await raw.wait_for("tools/call")
        for id, method, code in ((1, "elicitation/create", -32602), (2, "com.example/ask", -32601)):
            await raw.say({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": 5}})
            while not any(m.get("id") == id and "error" in m for m in raw.received):
                await trio.lowlevel.checkpoint()
            assert raw.received[-1]["error"]["code"] == code
        await raw.say(answer(asked, {"content": []}))
        assert (await ours.answer_to(call))["result"]["content"] == []


async def test_malformed_parameters_pass_to_who_can_judge_them() -> None:
    """A `_meta` that is none, parameters of the wrong shape."""
    raw = RawServer(LEGACY, lambda _, m: answer(m, {"ok": 1}) if "id" in m else None)
    async with open_raw_client(Proxy(raw), LEGACY) as ours:
        odd: list[Any] = [{"_meta": 5}, {"_meta": []}, {"name": {}}, {"_meta": {"progressToken": {}}}]
        for params in odd:
            assert (await ours.call("tools/call", params))["result"] == {"ok": 1}
        assert "error" in await ours.call("logging/setLevel", {"level": "loudest"})
        assert "error" in await ours.call("initialize", {})


async def test_subscriptions_of_a_session_are_bounded() -> None:
    """`Limits.max_subscriptions` and half of `Limits.max_message_bytes`, before servers of both eras."""
    limits = Limits(max_subscriptions=3, max_message_bytes=4_000)

    def script(_: RawServer, message: dict[str, Any]) -> object:
        if message.get("method") == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            params = {"_meta": meta, "notifications": message["params"]["notifications"]}
            return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
        return answer(message, {}) if "id" in message and "method" in message else None

    for revision in (LEGACY, MODERN):
        async with open_raw_client(Proxy(RawServer(revision, script), limits=limits), LEGACY) as ours:
            for number in range(3):
                assert "result" in await ours.call("resources/subscribe", {"uri": f"a://{number}"})
            refused = await ours.call("resources/subscribe", {"uri": "a://3"})
            assert "max_subscriptions" in refused["error"]["message"]
            assert "result" in await ours.call("resources/unsubscribe", {"uri": "a://0"})
            await trio.testing.wait_all_tasks_blocked()
            refused = await ours.call("resources/subscribe", {"uri": f"a://{'x' * 2_000}"})
            assert "half of max_message_bytes" in refused["error"]["message"]
            assert "result" in await ours.call("resources/subscribe", {"uri": "a://4"})
