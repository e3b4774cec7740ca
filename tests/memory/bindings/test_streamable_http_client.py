"""The client's end of Streamable HTTP in the modern era: what goes out, what comes back, what is given up, what fails."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing
from http_mcp import MODERN_DISCOVERY, HttpCall, McpScript, error, result
from inside_base import TRANSPORT_FAILED
from inside_transports import StreamableHttpChannel, open_streamable_http
from inside_wire import encode_request

from trio_mcp import (
    Client,
    ConnectionLost,
    HttpServerParameters,
    HttpStatusError,
    Incoming,
    Limits,
    LocalProtocolError,
    Outgoing,
    Progress,
    RemoteProtocolError,
    RequestError,
    Revision,
    open_asgi_client,
    open_client,
)

URL: Final = "http://localhost:8000/mcp?key=secret"
PARAMETERS: Final = HttpServerParameters(URL, headers={"Authorization": "Bearer abc"})
META: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

Handler = Callable[[HttpCall], Awaitable[object]]


@asynccontextmanager
async def channel_to(
    server: McpScript, parameters: HttpServerParameters = PARAMETERS, limits: Limits | None = None
) -> AsyncGenerator[StreamableHttpChannel]:
    async with (
        open_asgi_client(server) as transport,
        open_streamable_http(parameters, limits or Limits(), transport=transport) as channel,
    ):
        yield channel


@asynccontextmanager
async def client_of(
    handler: Handler, parameters: HttpServerParameters = PARAMETERS, **options: Any
) -> AsyncGenerator[tuple[Client, McpScript]]:
    """A client of a modern server that discovers by itself; the handler does the rest."""

    async def serve(call: HttpCall) -> None:
        if call.rpc == "server/discover":
            await call.answer(result(call.id, **MODERN_DISCOVERY))
        else:
            await handler(call)

    server = McpScript(serve)
    limits = options.get("limits", Limits())
    async with channel_to(server, parameters, limits) as channel, open_client(channel, **options) as client:
        assert client.revision is Revision.V2026_07_28
        yield client, server


async def echo(call: HttpCall) -> None:
    await call.answer(result(call.id, echo=call.message.get("params")))


@pytest.mark.spec("basic/transports/streamable-http", "Sending Messages", revisions="2026-07-28")
@pytest.mark.spec("basic/transports/streamable-http", "Request Metadata", revisions="2026-07-28")
async def test_a_request_is_a_post_with_its_headers(autojump_clock: trio.testing.MockClock) -> None:
    """2026-07-28, basic/transports/streamable-http, "Sending Messages" and "Request Metadata"."""
    async with client_of(echo) as (client, server):
        await client.request("tools/call", {"name": "get weather ü", "arguments": {}})
        await client.request("resources/read", {"uri": "file:///a%20b?id=1"})
    call, read = server.calls[1:]
    assert server.calls[0].headers.get("mcp-method") == "server/discover"
    assert (call.method, call.path) == ("POST", "/mcp")
    assert call.headers.get("content-type") == "application/json"
    assert call.headers.get("accept") == "application/json, text/event-stream"
    assert call.headers.get("mcp-protocol-version") == "2026-07-28"
    assert call.headers.get("mcp-method") == "tools/call"
    assert call.headers.get("mcp-name") == "=?base64?Z2V0IHdlYXRoZXIgw7w=?="
    assert read.headers.get("mcp-name") == "file:///a%20b?id=1"
    for each in server.calls:
        assert each.headers.get("authorization") == "Bearer abc"
        assert "mcp-session-id" not in each.headers
    assert server.said.count("DELETE") == 0
    assert not server.gone


@pytest.mark.spec("basic/transports/streamable-http", "Receiving Messages", revisions="2026-07-28")
async def test_an_answer_may_come_as_a_stream(autojump_clock: trio.testing.MockClock) -> None:
    """ "Receiving Messages": notifications first, comments and priming events between, then the answer."""

    async def handler(call: HttpCall) -> None:
        token = call.message["params"]["_meta"]["progressToken"]
        await call.stream()
        await call.raw(b": hello\r\n\r\nid: 1\ndata:\n\nretry: 5\n\n")
        for n in (1, 2):
            params = {"progressToken": token, "progress": n}
            await call.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await call.event({"jsonrpc": "2.0"}, event="unknown")
        await call.event(result(call.id, done=True))
        await call.end()

    seen: list[float] = []
    async with client_of(handler) as (client, server):
        answer = await client.request("tools/call", {"name": "t"}, on_progress=lambda p: seen.append(p.progress))
        assert answer["done"] is True
        await trio.testing.wait_all_tasks_blocked()
    assert seen == [1, 2]
    assert not server.gone


async def test_requests_run_side_by_side(autojump_clock: trio.testing.MockClock) -> None:
    """Each has its own response, whatever the order of their ends."""

    async def handler(call: HttpCall) -> None:
        await trio.sleep(10 - call.message["params"]["n"])
        await echo(call)

    ended: list[int] = []
    async with client_of(handler) as (client, _):

        async def ask(n: int) -> None:
            answer = await client.request("x/y", {"n": n})
            assert answer["echo"]["n"] == n
            ended.append(n)

        start = trio.current_time()
        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(ask, n)
        assert trio.current_time() - start == pytest.approx(10)
    assert ended == list(range(9, -1, -1))


@pytest.mark.spec("basic/transports/streamable-http", "Cancellation", revisions="2026-07-28")
@pytest.mark.parametrize("mode", ["json", "stream", "begun"])
async def test_giving_up_closes_the_response_and_says_nothing(
    mode: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns/cancellation: the disconnect is the signal, in JSON and stream mode alike."""

    async def handler(call: HttpCall) -> None:
        if call.message["params"]["_meta"].get("quick"):
            await echo(call)
            return
        if mode != "json":
            await call.stream()
        if mode == "begun":
            await call.raw(b"data: {")
        await trio.sleep_forever()

    async with client_of(handler) as (client, server):
        start = trio.current_time()
        with trio.move_on_after(3) as scope:
            await client.request("tools/call", {"name": "slow"})
        assert scope.cancelled_caught
        assert trio.current_time() - start == pytest.approx(3)
        await trio.testing.wait_all_tasks_blocked()
        assert [message["params"]["name"] for message in server.gone] == ["slow"]
        assert server.running == 0
        await client.request("tools/call", {"name": "fast", "_meta": {"quick": True}})
    assert "POST notifications/cancelled" not in server.said


async def test_leaving_gives_up_everything_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 8: no stream and no task is left, and nobody waits for a stuck server."""

    async def handler(call: HttpCall) -> None:
        await trio.sleep_forever()

    async with client_of(handler) as (client, server):
        start = trio.current_time()

        async def ask() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await client.request("x/y")

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert server.running == 3
            await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() - start < 3
    assert server.running == 0


# What fails, fails alone.


FAILURES: Final[list[tuple[Handler, int | None, str]]] = [
    (lambda call: call.answer(b"<h1>busy</h1>", 503, "text/html", Retry_After="7"), TRANSPORT_FAILED, "503"),
    (lambda call: call.answer(b"", 202), None, "202 and no message"),
    (lambda call: call.answer(b"", 204, None), None, "204 and no message"),
    (lambda call: call.answer(b"{", 200), None, "not JSON"),
    (lambda call: call.answer(b"<html>", 200, "text/html"), None, "text/html instead of a message: '<html>'"),
    (lambda call: call.answer(result("other")), None, "without an answer"),
    (lambda call: call.answer(b"[]"), None, "without an answer"),
    (lambda call: call.answer(b"", 307, None, Location="http://evil.example/"), TRANSPORT_FAILED, "evil.example"),
    (lambda call: call.answer(error(None, -32600, "bad request"), 400), -32600, "bad request"),
    (lambda call: call.answer(error(call.id, -32601, "unknown"), 404), -32601, "unknown"),
    (lambda call: call.answer(error(call.id, -32602, "wrong"), 200), -32602, "wrong"),
    (lambda call: call.answer({"error": "invalid_token"}, 401), TRANSPORT_FAILED, "401"),
]


async def test_a_request_that_fails_fails_alone(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """One reset POST must not end a client; its siblings go on, and so does the next one."""

    async def check(failing: Handler, code: int | None, match: str) -> None:
        async def handler(call: HttpCall) -> None:
            if call.rpc == "x/fail":
                await failing(call)
            else:
                await trio.sleep(5)
                await echo(call)

        async with client_of(handler) as (client, _):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.request, "x/sibling")
                expected = RemoteProtocolError if code is None else RequestError
                with trio.fail_after(1), pytest.raises(expected, match=match) as caught:
                    await client.request("x/fail")
                assert getattr(caught.value, "code", None) == code
            await client.request("x/next")

    for failing, code, match in FAILURES:
        with subtests.test(failing=failing, code=code, match=match):
            await check(failing, code, match)


NAMED: Final[list[tuple[Handler, str]]] = [
    (lambda call: call.answer(b'{"a": '), "sent a message that is not JSON: "),
    (lambda call: call.answer(b"[" * 3_000), "sent a message that is not JSON: "),
    (lambda call: call.answer(b"", 202), "answered a request with HTTP status 202 and no message"),
    (
        lambda call: call.answer(b"<html>", 200, "text/html"),
        "answered with text/html instead of a message: '<html>'; ",
    ),
    (lambda call: call.answer({"id": None}), "answered with an invalid message: "),
    (
        lambda call: call.answer(result("other")),
        "ended the response without an answer: it answers 'other', which ",
    ),
    (lambda call: call.answer(b"[]"), "ended the response without an answer: what came is a list"),
]


async def test_what_cannot_be_used_names_the_server_without_its_secrets(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock
) -> None:
    """One client may have many servers."""

    async def check(failing: Handler, begin: str) -> None:
        async with client_of(failing) as (client, _):
            with pytest.raises(RemoteProtocolError) as caught:
                await client.request("x/fail")
            assert str(caught.value).startswith(f"the server at {URL.partition('?')[0]} {begin}")
            assert "secret" not in str(caught.value)

    for failing, begin in NAMED:
        with subtests.test(begin=begin):
            await check(failing, begin)


@pytest.mark.parametrize("ending", ["cut", "ended", "silent", "nonsense", "not json", "large"])
async def test_a_stream_that_ends_without_an_answer_fails_its_request(
    ending: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 7. Modern streams cannot be resumed ("Receiving Messages")."""

    async def handler(call: HttpCall) -> None:
        if ending == "silent":
            return
        await call.stream()
        await call.event(b"", id="1", retry=10)
        if ending == "ended":
            await call.end()
        elif ending == "nonsense":
            await call.raw(b"data: {nonsense}\n\n")
        elif ending == "large":
            await call.event(result(call.id, text="x" * 20_000))
        elif ending == "not json":
            await call.raw(b"data: \xff\n\n")

    async with client_of(handler, limits=Limits(max_message_bytes=10_000)) as (client, server):
        with (
            trio.fail_after(1),
            pytest.raises(ConnectionLost if ending in {"cut", "silent"} else RemoteProtocolError),
        ):
            await client.request("x/y")
    assert server.said == ["POST server/discover", "POST x/y"]


async def test_a_json_answer_that_is_too_large_names_the_limit(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 10; the connection goes on."""

    async def handler(call: HttpCall) -> None:
        await call.answer(result(call.id, text="x" * call.message["params"]["size"]))

    async with client_of(handler, limits=Limits(max_message_bytes=10_000)) as (client, _):
        with pytest.raises(RemoteProtocolError, match=r"more than 10000 bytes \(max_message_bytes\)"):
            await client.request("x/y", {"size": 20_000})
        assert len((await client.request("x/y", {"size": 5_000}))["text"]) == 5_000


async def test_a_failure_is_told_to_whoever_can_read_it(autojump_clock: trio.testing.MockClock) -> None:
    """`Incoming.failure` has the exception; its data is an error answer for those who do not look."""

    async def handler(call: HttpCall) -> None:
        await call.answer(b"please wait", 429, "text/plain", Retry_After="30")

    async with channel_to(McpScript(handler)) as channel:
        data = encode_request(7, "x/y", {"_meta": META})
        await channel.send([Outgoing(data, (7,))])
        (received,) = await channel.receive()
        assert isinstance(received, Incoming)
        answer = json.loads(received.data)
        assert answer["id"] == 7
        assert answer["error"]["code"] == TRANSPORT_FAILED
        assert answer["error"]["data"] == {"httpStatus": 429, "body": "please wait", "retryAfter": 30.0}
        failure = received.failure
        assert isinstance(failure, HttpStatusError)
        assert (failure.status, failure.body, failure.retry_after) == (429, "please wait", 30.0)
        assert "secret" not in str(failure)
        assert "secret" not in channel.description


async def test_a_header_that_cannot_be_fails_its_request_and_nothing_is_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with client_of(echo) as (client, server):
        with pytest.raises(LocalProtocolError, match="visible ASCII"):
            await client.request("x/é")
        assert len(server.calls) == 1


# Notifications.


async def test_notifications_go_in_order_and_cost_nobody_anything(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Refused, failed or never accepted, they hold up no request."""
    stuck = False

    async def handler(call: HttpCall) -> None:
        if call.rpc == "x/y":
            await echo(call)
        elif stuck:
            await trio.sleep_forever()
        else:
            await call.answer(b"no", 400 if call.message["params"]["n"] == 1 else 202)

    parameters = attrs.evolve(PARAMETERS, notification_timeout=20)
    with caplog.at_level(logging.CRITICAL, "trio_mcp.http"):
        async with client_of(handler, parameters, limits=Limits(max_notifications=3)) as (client, server):
            for n in range(3):
                await client.notify("x/told", {"n": n})
            await trio.testing.wait_all_tasks_blocked()
            told = [call for call in server.calls if call.rpc == "x/told"]
            assert [call.message["params"]["n"] for call in told] == [0, 1, 2]
            assert told[0].headers.get("mcp-protocol-version") == "2026-07-28"
            assert told[0].headers.get("mcp-method") == "x/told"
            stuck = True
            for n in range(10):  # the first is on its way, three wait, the rest pushes older ones out
                await client.notify("x/told", {"n": n})
                await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(1):
                await client.request("x/y")
            await trio.sleep(90)
            told = [call for call in server.calls if call.rpc == "x/told"][3:]
            assert [call.message["params"]["n"] for call in told] == [0, 7, 8, 9]
            left = trio.current_time()
        assert trio.current_time() == left, "nothing is waited for that will not be sent"


async def test_a_modern_server_that_asks_is_not_answered(autojump_clock: trio.testing.MockClock) -> None:
    """ "The client MUST NOT send JSON-RPC responses"."""

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await call.event(result(call.id))
        await call.end()

    async with client_of(handler) as (client, server):
        await client.request("x/y")
        await trio.testing.wait_all_tasks_blocked()
    assert len(server.calls) == 2


# Header fields from tools.


@pytest.mark.spec(
    "basic/transports/streamable-http", "Custom Headers from Tool Parameters", revisions="2026-07-28"
)
@pytest.mark.spec("basic/transports/streamable-http", "Client Behavior", revisions="2026-07-28")
async def test_marked_arguments_are_mirrored_and_invalid_tools_are_dropped(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """ "Custom Headers from Tool Parameters": also for what was listed page by page, or asked at the low level."""

    def tool(name: str, **mark: Any) -> dict[str, Any]:
        return {"name": name, "inputSchema": {"type": "object", "properties": {"region": mark}}}

    async def handler(call: HttpCall) -> None:
        if call.rpc != "tools/list":
            await echo(call)
            return
        tools = [
            tool("plain", type="string"),
            tool("marked", type="string", **{"x-mcp-header": "Region"}),
            tool("invalid", type="number", **{"x-mcp-header": "Region"}),
        ]
        await call.answer(result(call.id, tools=tools, resultType="complete", ttlMs=0, cacheScope="private"))

    with caplog.at_level(logging.WARNING, "trio_mcp.http"):
        async with client_of(handler) as (client, server):
            listed = await client.request("tools/list")
            assert [each["name"] for each in listed["tools"]] == ["plain", "marked"]
            for name in ("plain", "marked", "invalid"):
                await client.request("tools/call", {"name": name, "arguments": {"region": "Zürich"}})
    calls = [call for call in server.calls if call.rpc == "tools/call"]
    assert [call.headers.get("mcp-param-region") for call in calls] == [None, "=?base64?WsO8cmljaA==?=", None]
    assert "'invalid'" in caplog.text


async def test_progress_is_told_before_the_answer_however_the_stream_is_cut(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 9: in order, also when a hundred events come at once or byte by byte."""

    async def handler(call: HttpCall) -> None:
        token = call.message["params"]["_meta"]["progressToken"]
        events = [
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": n},
            }
            for n in range(1, 101)
        ]
        wire = b"".join(b"data: %b\r\n\r\n" % json.dumps(event).encode() for event in [*events, result(call.id)])
        await call.stream()
        size = call.message["params"]["size"]
        for start in range(0, len(wire), size):
            await call.raw(wire[start : start + size])
        await call.end()

    async with client_of(handler) as (client, _):
        for size in (10**6, 50, 1):
            seen: list[Progress] = []
            await client.request("x/y", {"size": size}, on_progress=seen.append)
            assert [each.progress for each in seen] == list(range(1, 101))


@pytest.mark.parametrize("form", ["json", "stream", "batch", "large", "unreadable"])
async def test_a_response_answers_no_other_request(
    form: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Each POST has an answer of its own: what another response says of it is dropped, and said once."""
    waiting: list[HttpCall] = []
    asked = trio.Event()

    async def handler(call: HttpCall) -> None:
        if call.rpc == "x/victim":
            waiting.append(call)
            asked.set()
            await trio.sleep(5)
            await call.answer(result(call.id, said="true"))
            return
        poison = result(waiting[0].id, said="poison")
        if form == "json":
            await call.answer(poison)
            return
        await call.stream()
        if form == "batch":
            await call.event([poison, {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}}])
        elif form == "large":
            await call.event(result(waiting[0].id, said="poison" * 5_000))
        elif form == "unreadable":
            await call.event(b'{"jsonrpc":"2.0","id":%d,"result":{]}' % waiting[0].id)
        else:
            await call.event(poison)
        await call.event(result(call.id, said="own"))
        await call.event({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}})
        await call.end()

    answers: list[object] = []

    async with client_of(handler, limits=Limits(max_message_bytes=10_000)) as (client, _):

        async def ask() -> None:
            answers.append((await client.request("x/victim"))["said"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await asked.wait()
            if form in {"json", "unreadable"}:
                with pytest.raises(RemoteProtocolError):
                    await client.request("x/attack")
            else:
                assert (await client.request("x/attack"))["said"] == "own"
        assert answers == ["true"]
    if form != "unreadable":
        assert [r for r in caplog.records if "where that was not asked" in r.getMessage()]
