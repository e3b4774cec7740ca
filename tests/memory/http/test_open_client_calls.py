"""Calls of a client over HTTP: what fails alone and how it says so, header fields, tools that want some, sockets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import HttpCall, error, result
from http_sessions import SSE, URL, HttpServer
from inside_wire import json_module as _json

from trio_mcp import (
    ConnectionLost,
    HeaderSource,
    HttpServerParameters,
    HttpStatusError,
    RemoteProtocolError,
    RequestError,
    open_client,
)

ENDS = pytest.mark.parametrize("speaks", [SSE, "2025-11-25", "2026-07-28"])


# What fails, fails alone.


@ENDS
async def test_who_looks_at_the_wire_sees_no_failure_of_it(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """`on_frame`: each message "as it is on the wire"; that HTTP has failed is told by no message."""
    server = HttpServer(speaks)
    server.handlers["x/busy"] = lambda call: call.answer(b"busy", 503, "text/plain")
    frames: list[tuple[str, bytes]] = []
    async with open_client(server.parameters(), on_frame=lambda way, data: frames.append((way, data))) as client:
        frames.clear()
        with pytest.raises(HttpStatusError):
            await client.request("x/busy")
    assert [way for way, _ in frames] == ["sent"]


@ENDS
async def test_an_http_error_comes_out_of_its_call_with_all_that_it_says(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Status, body, `Retry-After`; siblings go on, and so does whatever comes next."""
    server = HttpServer(speaks)

    async def busy(call: HttpCall) -> None:
        await call.answer(b"<h1>busy</h1>", 503, "text/html", Retry_After="7")

    async def slow(call: HttpCall) -> None:
        await trio.sleep(5)
        await server.reply(call, slow=True)

    server.handlers.update({"x/busy": busy, "x/slow": slow})
    async with open_client(server.parameters()) as client, trio.open_nursery() as nursery:

        async def sibling() -> None:
            assert (await client.request("x/slow"))["slow"] is True

        nursery.start_soon(sibling)
        with pytest.raises(HttpStatusError, match="busy") as caught:
            await client.request("x/busy")
        assert (caught.value.status, caught.value.body, caught.value.retry_after) == (503, "<h1>busy</h1>", 7.0)
        assert trio.current_time() == 0
        outcomes = await client.request_many([("x/busy", None), ("x/echo", None)])
        assert isinstance(outcomes[0], HttpStatusError)
        assert isinstance(outcomes[1], dict)


@ENDS
async def test_a_redirect_that_is_not_followed_is_reported_without_its_secrets(
    speaks: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """Keys and tokens are in queries, passwords before the host; errors end up in logs."""
    rows: list[tuple[str, str]] = [
        ("https://other.example/mcp?key=hunter2", "https://other.example/mcp?…"),
        ("https://me:hunter2@other.example/mcp", "https://…"),
        ("https://other.example/mcp#hunter2", "https://other.example/mcp"),
    ]
    for location, shown in rows:
        with subtests.test(location=location, shown=shown):
            await be_redirected(speaks, location, shown)


async def be_redirected(speaks: str, location: str, shown: str) -> None:
    """Follow no redirect to this location."""
    server = HttpServer(speaks)
    server.handlers["x/moved"] = lambda call: call.answer(b"", 307, None, Location=location)
    async with open_client(server.parameters()) as client:
        with pytest.raises(HttpStatusError, match="redirect to") as caught:
            await client.request("x/moved")
    assert f"a redirect to {shown!r} that is not followed" in str(caught.value)
    assert "hunter2" not in repr(caught.value)


@ENDS
async def test_an_error_of_the_protocol_says_what_http_said_of_it(
    speaks: str, autojump_clock: trio.testing.MockClock
) -> None:
    """It is the server's own answer, so `on_frame` reports it; when to retry is in the header."""
    server = HttpServer(speaks)
    frames: list[bytes] = []

    async def busy(call: HttpCall) -> None:
        error = {"code": -31002, "message": "too much", "data": [1]}
        answer = {"jsonrpc": "2.0", "id": call.message["id"], "error": error}
        await call.answer(_json.encode(answer), 503, "application/json", Retry_After="7")

    server.handlers["x/busy"] = busy
    async with open_client(server.parameters(), on_frame=lambda _, data: frames.append(data)) as client:
        with pytest.raises(RequestError, match=r"^too much \[-31002\] \[1\]$") as caught:
            await client.request("x/busy")
    assert not isinstance(caught.value, HttpStatusError)
    assert (caught.value.status, caught.value.retry_after) == (503, 7.0)
    assert b"too much" in frames[-1]


@ENDS
async def test_a_broken_post_costs_its_call(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    """The connection of one call is lost, and nothing else: `ConnectionLost`, and the client goes on."""
    server = HttpServer(speaks)

    async def reset(call: HttpCall) -> None:
        return

    async def cut(call: HttpCall) -> None:
        await call.stream()
        await call.raw(b"data: {")

    async def nonsense(call: HttpCall) -> None:
        await call.answer(b"<html>")

    server.handlers.update({"x/reset": reset, "x/cut": cut, "x/nonsense": nonsense})
    async with open_client(server.parameters()) as client:
        failures: Mapping[str, type[Exception]] = {"x/reset": ConnectionLost, "x/cut": ConnectionLost}
        if speaks != SSE:  # what its POST is answered with says nothing
            failures = {**failures, "x/nonsense": RemoteProtocolError}
        else:
            failures = {"x/reset": ConnectionLost}
        for method, kind in failures.items():
            with pytest.raises(kind):
                await client.request(method)
            assert (await client.request("x/echo", {"n": 1}))["echo"] == {"n": 1}


# Header fields of the user's own.


@ENDS
async def test_headers_are_asked_for_each_time(speaks: str, autojump_clock: trio.testing.MockClock) -> None:
    """A token that is renewed while the client lives; it is on every request, whatever that is for."""
    server = HttpServer(speaks)
    tokens: list[int] = []

    async def headers() -> dict[str, str]:
        await trio.sleep(0.1)
        tokens.append(len(tokens))
        return {"Authorization": f"Bearer {tokens[-1]}", "User-Agent": "mine/1"}

    async with open_client(server.parameters(headers=headers)) as client:
        await client.request("x/echo")
        await client.request("x/echo")
    said = [call.headers.get("authorization") for call in server.script.calls]
    assert sorted(said, key=lambda each: int(str(each).split()[1])) == [f"Bearer {n}" for n in tokens]
    assert {call.headers.get("user-agent") for call in server.script.calls} == {"mine/1"}


@ENDS
async def test_headers_that_cannot_be_had_cost_one_request(
    speaks: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """The caller sees the cause; nothing was sent, and the next request has its own headers."""
    for bad in ("raises", "no mapping", "newline"):
        with subtests.test(bad=bad):
            await fail_to_make_headers(speaks, bad)


async def fail_to_make_headers(speaks: str, bad: str) -> None:
    """Make no headers for one request, and good ones for the next."""
    server = HttpServer(speaks)
    is_bad = False

    def headers() -> Any:
        if is_bad and bad == "raises":
            raise LookupError("the token server is away")
        if is_bad:
            return ["x"] if bad == "no mapping" else {"X-Token": "a\r\nb"}
        return {"X-Token": "good"}

    source: HeaderSource = headers
    async with open_client(server.parameters(headers=source)) as client:
        is_bad = True
        with pytest.raises(ConnectionLost, match="headers of a request could not be made") as caught:
            await client.request("x/echo")
        kinds = {"raises": LookupError, "no mapping": TypeError, "newline": ValueError}
        assert isinstance(caught.value.__cause__, kinds[bad])
        assert not server.asked("x/echo")
        is_bad = False
        await client.request("x/echo")


def test_headers_are_looked_at_before_anything_is_sent() -> None:
    odd: list[tuple[Any, type[Exception], str]] = [
        ({"Mcp-Session-Id": "1"}, ValueError, "Mcp-Session-Id"),
        ({"mcp-param-x": "1"}, ValueError, "mcp-param-x"),
        ({"content-type": "text/plain"}, ValueError, "content-type"),
        ({"Bad Name": "1"}, ValueError, "Bad Name"),
        ({"X-Token": "secret\n"}, ValueError, "X-Token"),
        ({"X-Token": " secret"}, ValueError, "X-Token"),
        ({"X-Token": "ge\u2082eim"}, ValueError, "X-Token"),
        ({"X-Token": 5}, TypeError, "X-Token"),
        ("X-Token: 1", TypeError, "mapping"),
    ]
    for headers, kind, match in odd:
        with pytest.raises(kind, match=match) as caught:
            HttpServerParameters(URL, headers=headers)
        assert "secret" not in str(caught.value)
    assert "secret" not in repr(HttpServerParameters(URL, headers={"Authorization": "secret"}))


# Tools that want some of their arguments in header fields.


def marked_tool(header: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}
    return {"name": "query", "inputSchema": schema}


async def test_a_mismatch_of_headers_is_answered_by_one_listing_and_one_more_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2026-07-28, basic/transports/streamable-http, "Client Behavior": the client has never listed, or too long ago."""
    header = "Region"
    server = HttpServer("2026-07-28", capabilities={"tools": {}})

    async def list_tools(call: HttpCall) -> None:
        await server.reply(call, tools=[marked_tool(header)], ttlMs=3_600_000, cacheScope="public")

    async def query(call: HttpCall) -> None:
        if call.headers.get(f"mcp-param-{header}") != "eu":
            await call.answer(error(call.id, -32020, "header mismatch"), 400)
        else:
            await server.reply(call, content=[])

    server.handlers.update({"tools/list": list_tools, "tools/call": query})
    async with open_client(server.parameters()) as client:
        await client.call_tool("query", {"region": "eu"})
        assert server.script.said[1:] == ["POST tools/call", "POST tools/list", "POST tools/call"]
        await client.call_tool("query", {"region": "eu"})
        header = "Place"
        await client.call_tool("query", {"region": "eu"})
        assert server.script.said[4:] == ["POST tools/call"] * 2 + ["POST tools/list", "POST tools/call"]
        tools = [tool async for tool in client.list_tools()]
        assert b'"x-mcp-header":"Place"' in _json.encode(dict(tools[0].input_schema)), "the cache has heard of it"


async def test_a_mismatch_that_stays_is_reported(autojump_clock: trio.testing.MockClock) -> None:
    """Once is enough; and if the tools cannot be listed, that is why."""
    server = HttpServer("2026-07-28", capabilities={"tools": {}})

    async def refuse(call: HttpCall) -> None:
        await call.answer(error(call.id, -32020, "header mismatch"), 400)

    async def break_down(call: HttpCall) -> None:
        await call.answer(error(call.id, -32603, "out of order"), 400)

    async def list_tools(call: HttpCall) -> None:
        await server.reply(call, tools=[], ttlMs=0, cacheScope="public")

    server.handlers.update({"tools/call": refuse, "tools/list": list_tools})
    async with open_client(server.parameters()) as client:
        with pytest.raises(RequestError) as caught:
            await client.call_tool("query")
        assert caught.value.code == -32020
        assert server.script.said[1:] == ["POST tools/call", "POST tools/list", "POST tools/call"]
        server.handlers["tools/list"] = break_down
        with pytest.raises(RequestError) as caught:
            await client.call_tool("query")
        assert caught.value.code == -32020
        assert isinstance(caught.value.__cause__, RequestError)
        assert caught.value.__cause__.code == -32603


async def test_a_tool_with_broken_marks_is_not_listed(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """ "Schema Extension": excluded, with a warning that says which and why; the others stay."""
    server = HttpServer("2026-07-28", capabilities={"tools": {}})

    async def list_tools(call: HttpCall) -> None:
        tools = [marked_tool("No Token"), {"name": "fine", "inputSchema": {"type": "object"}}]
        await server.reply(call, tools=tools, ttlMs=0, cacheScope="public")

    server.handlers["tools/list"] = list_tools
    async with open_client(server.parameters()) as client:
        with caplog.at_level(logging.WARNING):
            assert [tool.name async for tool in client.list_tools()] == ["fine"]
    assert "'query'" in caplog.text
    assert "No Token" in caplog.text


# What ends an exchange on the wire ends the call.

UNUSABLE: dict[str, Callable[[int], object]] = {
    "an array": lambda n: [result(n, resultType="complete")],
    "an array of nothing": lambda n: [],
    "an array of another's": lambda n: [result(999)],
    "neither result nor error": lambda n: {"jsonrpc": "2.0", "id": n},
    "both": lambda n: {"jsonrpc": "2.0", "id": n, "result": {}, "error": {"code": 1, "message": "no"}},
    "method of null": lambda n: {"jsonrpc": "2.0", "id": n, "method": None, "result": {}},
    "no JSON-RPC": lambda n: {"id": n},
    "another id": lambda n: result(999),
    "an id as text": lambda n: result(str(n)),
    "an id of null": lambda n: result(None),
    "no object": lambda n: "hello",
    "only a notification": lambda n: {"jsonrpc": "2.0", "method": "notifications/message", "params": {}},
    "no JSON": lambda n: b"<html>",
    "a number nobody reads": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}' % (n, b"7" * 6000),
    "too deep": lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"n":%b}}' % (n, b"[" * 99_999 + b"]" * 99_999),
}


@pytest.mark.parametrize("way", ["json", "stream", "open stream"])
@pytest.mark.parametrize("speaks", ["2025-06-18", "2026-07-28"])
async def test_a_call_does_not_wait_for_more_than_the_response_that_it_got(
    speaks: str, way: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """Whatever ends an exchange on the wire ends the call; siblings go on."""
    for unusable in UNUSABLE:
        with subtests.test(unusable=unusable):
            await answer_oddly(speaks, way, unusable)


async def answer_oddly(speaks: str, way: str, unusable: str) -> None:
    """Answer one call by this, in this way."""
    server = HttpServer(speaks)
    hold = trio.Event()

    async def odd(call: HttpCall) -> None:
        message = UNUSABLE[unusable](call.id)
        if way == "json":
            await call.answer(message)
            return
        await call.stream()
        await call.event(message)
        if way == "open stream":
            await hold.wait()
        await call.end()

    names_it = unusable not in {
        "an array of nothing", "an array of another's", "another id", "an id as text", "no object",
        "only a notification",
    }  # fmt: skip
    server.handlers["x/odd"] = odd
    async with open_client(server.parameters()) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.request, "x/echo")
        if way == "open stream" and not names_it:
            nursery.start_soon(_set_after, 60.0, hold)  # the answer may still follow
        began = trio.current_time()
        with trio.fail_after(100), pytest.raises(RemoteProtocolError) as caught:
            await client.request("x/odd")
        assert trio.current_time() - began == (60 if way == "open stream" and not names_it else 0)
        hold.set()
        assert "999" in str(caught.value) or unusable not in {"another id", "an array of another's"}
        await client.request("x/echo")


async def _set_after(seconds: float, event: trio.Event) -> None:
    await trio.sleep(seconds)
    event.set()


@pytest.mark.parametrize("way", ["json", "stream"])
@pytest.mark.parametrize("speaks", ["2025-06-18", "2026-07-28"])
async def test_an_error_without_an_id_is_the_answer_of_its_exchange(
    speaks: str, way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """JSON-RPC, section 5: a server that cannot read the id answers with null. What it says is what the caller gets."""
    server = HttpServer(speaks)

    async def odd(call: HttpCall) -> None:
        message = error(None, -32700, "I cannot read this", line=1)
        if way == "json":
            await call.answer(message)
        else:
            await call.stream()
            await call.event(message)
            await call.end()

    server.handlers["x/odd"] = odd
    async with open_client(server.parameters()) as client:
        with trio.fail_after(10), pytest.raises(RequestError, match="I cannot read this") as caught:
            await client.request("x/odd")
        assert (caught.value.code, caught.value.data) == (-32700, {"line": 1})


async def test_a_stream_may_hold_a_broken_notification_before_the_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One bad message costs that message."""
    server = HttpServer("2026-07-28")

    async def odd(call: HttpCall) -> None:
        await call.stream()
        await call.event(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"')
        await call.event(result(call.id, resultType="complete", n=1))
        await call.end()

    server.handlers["x/odd"] = odd
    async with open_client(server.parameters()) as client:
        assert (await client.request("x/odd"))["n"] == 1
