"""What ends, and when, after a token was revoked; and what a valid token of one's own opens of what is another's."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from authorization_pages import shows
from http_raw import Answer, Events, Raw, call_tool, modern
from inside_protection import guard_module
from raw import initialize
from shared.http_server_revoked_tokens import ISSUER, OTHER, Tokens, bearer, protected

from trio_mcp import (
    HttpRefused,
)


async def begin(raw: Raw, token: str) -> dict[str, str]:
    """Begin a session; return the header fields of its requests."""
    began = await raw.send(initialize("2025-11-25"), bearer(token))
    assert began.status == 200, began
    return {"Mcp-Session-Id": began.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


KINDS = ["listen", "GET", "SSE"]


async def opened(raw: Raw, kind: str, token: str) -> Any:
    """Return what opens a stream."""
    if kind == "listen":
        return raw.open(modern("subscriptions/listen", notifications={"toolsListChanged": True}), bearer(token))
    headers = {**bearer(token), "Accept": "text/event-stream"}
    if kind == "SSE":
        return raw.open(None, headers, method="GET", path="/sse")
    return raw.open(None, {**headers, **await begin(raw, token)}, method="GET")


async def time_to_end(opening: Any, most: float, on_open: Any) -> float:
    """Return after how many seconds a stream ends; infinity if it has not, after so many."""
    began = trio.current_time()
    with trio.move_on_after(most) as patience:
        async with opening as response:
            on_open()
            events = Events(response)
            try:
                while not events.has_ended:
                    await events.next()
            except Exception:  # it was cut
                pass
    return float("inf") if patience.cancelled_caught else trio.current_time() - began


@shows("Token Theft")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("why", ["revoked", "fewer scopes", "failing", "refusing", "hanging", "another"])
async def test_a_stream_ends_with_its_token(
    kind: str, why: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Within twice `keep_for`: 120 seconds by default. So does one whose token nobody can vouch for any more."""
    tokens = Tokens()

    def turn() -> None:
        if why == "revoked":
            tokens.revoked.add("ann")
        elif why == "fewer scopes":
            tokens.scopes["ann"] = "orders:write"
        elif why == "failing":
            tokens.failure = LookupError("no table for ann")
        elif why == "refusing":
            tokens.failure = HttpRefused(503, "ask later")
        elif why == "hanging":
            tokens.hangs = True

    async with protected(tokens) as raw:
        took = await time_to_end(await opened(raw, kind, "ann"), 1_000, turn)
        assert took == float("inf") if why == "another" else 0 < took <= 130.0
        assert (why == "failing") is any(
            "verifier has failed" in record.getMessage() for record in caplog.records
        )


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_may_go_on_goes_on(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    """And many with one token cost one question in a while."""
    tokens = Tokens()
    async with protected(tokens) as raw, trio.open_nursery() as nursery:
        ended: list[float] = []
        assert (await raw.send(call_tool("whoami"), bearer("ann"))).status == 200
        opening = [await opened(raw, kind, "ann") for _ in range(20)]

        async def follow(each: Any) -> None:
            ended.append(await time_to_end(each, 900, lambda: None))

        for each in opening:
            nursery.start_soon(follow, each)
        await trio.sleep(899)
        assert ended == []
        assert tokens.asked <= 1 + 900 // 60
    assert ended == [float("inf")] * 20


async def test_nothing_is_asked_while_nothing_stands(autojump_clock: trio.testing.MockClock) -> None:
    tokens = Tokens()
    async with protected(tokens, keep_for=0) as raw:
        assert (await raw.send(call_tool("whoami"), bearer("ann"))).status == 200
        await trio.sleep(1_000)
        assert tokens.asked == 1
        took = await time_to_end(await opened(raw, "listen", "ann"), 100, lambda: tokens.revoked.add("ann"))
        assert took <= 2 * guard_module.RECHECK_SECONDS
        asked = tokens.asked
        await trio.sleep(1_000)
        assert tokens.asked == asked


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_is_under_way_is_finished(era: str, autojump_clock: trio.testing.MockClock) -> None:
    """A call that was let in is answered, for as long as it may take; the next request is refused."""
    tokens = Tokens()
    async with protected(tokens) as raw, trio.open_nursery() as nursery:
        session = await begin(raw, "ann") if era == "legacy" else {}
        answers: list[Answer] = []

        async def call() -> None:
            message: dict[str, Any] = call_tool("wait", seconds=200)
            if era == "legacy":
                message = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {}}
                message["params"] = {"name": "wait", "arguments": {"seconds": 200}}
            answers.append(await raw.send(message, {**bearer("ann"), **session}))

        nursery.start_soon(call)
        await trio.sleep(1)
        tokens.revoked.add("ann")
        await trio.sleep(60)
        assert (await raw.send(call_tool("whoami"), bearer("ann"))).status == 401
        if era == "legacy":
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            assert (await raw.send(ping, {**bearer("ann"), **session})).status == 401
            assert (await raw.send(None, {**bearer("ann"), **session}, method="DELETE")).status == 401
    assert [answer.message["result"]["content"][0]["text"] for answer in answers] == ["done"]


async def test_a_parked_handler_waits_for_its_own_client_in_vain(autojump_clock: trio.testing.MockClock) -> None:
    """It ends after `parked_timeout`; whoever brings its state with another token gets nothing of it."""
    tokens = Tokens()
    capable: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    async with protected(tokens) as raw:
        asked = await raw.send(call_tool("ask", _meta=capable), bearer("ann"))
        result = asked.message["result"]
        assert result["resultType"] == "input_required"
        answers = {key: {"action": "accept", "content": {"value": True}} for key in result["inputRequests"]}
        again = modern(
            "tools/call",
            2,
            capable,
            name="ask",
            arguments={},
            requestState=result["requestState"],
            inputResponses=answers,
        )
        for thief in ("bob", f"ann@{OTHER}"):
            stolen = await raw.send(again, bearer(thief))
            assert "error" in stolen.message, stolen
        tokens.revoked.add("ann")
        await trio.sleep(61)
        assert (await raw.send(again, bearer("ann"))).status == 401
        tokens.revoked.clear()
        await trio.sleep(guard_module._REFUSED_SECONDS)
        assert (await raw.send(again, bearer("ann"))).message["result"]["content"][0]["text"] == "yes"


@shows("Token Audience Binding and Validation")
@pytest.mark.parametrize("thief", ["bob", f"ann@{OTHER}"])
async def test_a_session_is_nobody_elses(thief: str, autojump_clock: trio.testing.MockClock) -> None:
    """Also for the same name of another issuer; to others it does not exist, whichever way they ask."""
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with protected(Tokens()) as raw:
        session = await begin(raw, "ann")
        stream = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
        for message, method, more in ((ping, "POST", {}), (None, "GET", stream), (None, "DELETE", {})):
            answer = await raw.send(message, {**bearer(thief), **session, **more}, method=method)
            assert answer.status == 404, method
            assert session["Mcp-Session-Id"] not in answer.body.decode()
        assert (await raw.send(ping, {**bearer("ann"), **session})).status == 200
        opening = raw.open(None, {**bearer("ann"), "Accept": "text/event-stream"}, method="GET", path="/sse")
        async with opening as response:
            first = await Events(response).next()
            assert first is not None
            path = first.data.decode()
            for status, who in ((404, thief), (202, "ann")):
                assert (await raw.send(initialize("2024-11-05"), bearer(who), path=path)).status == status


async def test_a_session_gives_its_rights_to_no_request(autojump_clock: trio.testing.MockClock) -> None:
    """What is listed and may be called is what the token of the request permits, not that of the handshake."""
    tokens = Tokens()
    tokens.scopes["ann@" + ISSUER] = "mcp"
    few, more = "ann@" + ISSUER, "ann"
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with protected(tokens) as raw:
        for begun_by in (few, more):
            session = await begin(raw, begun_by)
            for token, sees in ((few, False), (more, True), (few, False)):
                answer = await raw.send(listing, {**bearer(token), **session})
                assert ("order" in [tool["name"] for tool in answer.message["result"]["tools"]]) is sees
                answer = await raw.send(modern("tools/list"), bearer(token))
                assert ("order" in [tool["name"] for tool in answer.message["result"]["tools"]]) is sees
                assert answer.message["result"]["cacheScope"] == "private"
