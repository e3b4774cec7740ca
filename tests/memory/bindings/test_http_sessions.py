"""The client's end of the legacy era over HTTP: sessions, the server's own stream, resumption, and HTTP+SSE."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing
from http_mcp import HttpCall, McpScript, error, result
from inside_transports import StreamableHttpChannel, open_streamable_http
from inside_wire import encode_request

from trio_mcp import (
    Client,
    ConnectionLost,
    HttpServerParameters,
    Incoming,
    Limits,
    Outgoing,
    RemoteProtocolError,
    RequestError,
    Resynced,
    Revision,
    SessionLost,
    open_asgi_client,
    open_client,
)
from trio_mcp.testing import Faulty

PARAMETERS: Final = HttpServerParameters("http://localhost:8000/mcp")
SESSION: Final = "00000000-abc"
LEGACY: Final = [revision for revision in Revision if not revision.is_modern]

Handler = Callable[[HttpCall], Awaitable[object]]


async def nothing(call: HttpCall) -> None:
    """Refuse a GET as servers without a stream of their own do."""
    await call.answer(b"", 405, None, Allow="POST")


@asynccontextmanager
async def channel_to(
    server: McpScript, parameters: HttpServerParameters = PARAMETERS, limits: Limits | None = None
) -> AsyncGenerator[StreamableHttpChannel]:
    async with (
        open_asgi_client(server) as transport,
        open_streamable_http(parameters, limits or Limits(), transport=transport) as channel,
    ):
        yield channel


def session_server(
    handler: Handler, *, revision: Revision, session: str | None = SESSION, get: Handler = nothing
) -> McpScript:
    """A server of the legacy era that follows the rules; the handler serves what is not the handshake."""

    async def serve(call: HttpCall) -> None:
        if call.rpc == "server/discover":
            await call.answer(error(None, -32600, "Bad Request: no session"), 400)
        elif call.rpc == "initialize":
            info = {"name": "s", "version": "1"}
            body = result(call.id, protocolVersion=revision, capabilities={}, serverInfo=info)
            headers: dict[str, Any] = {} if session is None else {"Mcp_Session_Id": session}
            await call.answer(body, **headers)
        elif call.headers.get("mcp-session-id") != session:
            await call.answer(error(None, -32600, "Session not found"), 404)
        elif call.method == "GET":
            await get(call)
        elif call.method == "DELETE":
            await call.answer(b"", 200, None)
        elif call.rpc is None or call.id_or_none is None:
            await call.answer(b"", 202, None)
        else:
            await handler(call)

    return McpScript(serve)


@asynccontextmanager
async def client_of(
    handler: Handler,
    *,
    revision: Revision = Revision.V2025_11_25,
    session: str | None = SESSION,
    get: Handler = nothing,
    parameters: HttpServerParameters = PARAMETERS,
    **options: Any,
) -> AsyncGenerator[tuple[Client, McpScript]]:
    server = session_server(handler, revision=revision, session=session, get=get)
    limits = options.get("limits", Limits())
    async with channel_to(server, parameters, limits) as channel, open_client(channel, **options) as client:
        assert client.revision is revision
        yield client, server


async def echo(call: HttpCall) -> None:
    await call.answer(result(call.id, echo=call.message.get("params")))


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("session", [SESSION, None])
async def test_a_session_is_begun_used_and_ended(
    revision: Revision, session: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/transports, "Session Management" and "Protocol Version Header"; ids are optional."""
    async with client_of(echo, revision=revision, session=session) as (client, server):
        await client.request("x/y")
    assert server.said == [
        "POST server/discover",
        "POST initialize",
        "POST notifications/initialized",
        "GET",
        "POST x/y",
        *(["DELETE"] if session else []),
    ]
    discover, initialize, *rest = server.calls
    assert discover.headers.get("mcp-protocol-version") == "2026-07-28"
    assert "mcp-protocol-version" not in initialize.headers
    for call in rest:
        assert call.headers.get("mcp-session-id") == session
        assert call.headers.get("mcp-protocol-version") == revision
        assert "mcp-method" not in call.headers
    assert rest[1].headers.get("accept") == "text/event-stream"


async def test_a_session_id_that_could_not_be_sent_back_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """ "The session ID MUST only contain visible ASCII characters"."""
    server = session_server(echo, revision=Revision.V2025_11_25, session="a b")
    async with channel_to(server) as channel:
        with pytest.raises(RemoteProtocolError, match="visible ASCII"):
            async with open_client(channel):
                pytest.fail("there is no session")


# The server's own stream.


async def test_the_servers_stream_is_open_before_the_first_call(autojump_clock: trio.testing.MockClock) -> None:
    """What a server asks on it during the first call would be lost otherwise."""
    stream: list[HttpCall] = []
    answered = trio.Event()

    async def get(call: HttpCall) -> None:
        await trio.sleep(1)  # slow to open
        await call.stream()
        stream.append(call)
        await trio.sleep_forever()

    async def handler(call: HttpCall) -> None:
        await stream[0].event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        await answered.wait()
        await echo(call)

    async def roots(_params: object) -> dict[str, Any]:
        return {"roots": []}

    async with client_of(handler, get=get, request_handlers={"roots/list": roots}) as (client, server):

        async def notice() -> None:
            while server.calls[-1].rpc is not None or server.calls[-1].method != "POST":
                await trio.sleep(0.1)
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.request, "x/y")
            await trio.sleep(2)
            nursery.start_soon(notice)
        (answer,) = (call for call in server.calls if call.method == "POST" and call.rpc is None)
        assert answer.message["id"] == "q1"
        assert answer.headers.get("mcp-session-id") == SESSION


async def test_a_stream_that_does_not_open_holds_up_nobody_for_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Servers that send no head before they have something to say."""

    async def get(call: HttpCall) -> None:
        await trio.sleep_forever()

    async with client_of(echo, get=get) as (client, _):
        start = trio.current_time()
        await client.request("x/y")
        assert trio.current_time() - start <= PARAMETERS.stream_timeout


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_server_without_a_stream_is_not_asked_again(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    """405 is the regular refusal, and 404 a usual one. Whatever else it says may pass."""

    async def get(call: HttpCall) -> None:
        body = error(None, -32600, "no stream") if status == 405 else b""
        await call.answer(body, status, "application/json" if body else None)

    async with client_of(echo, get=get, session=None) as (client, server):
        await client.request("x/y")
        await trio.sleep(1000)
        gets = server.said.count("GET")
        assert gets == 1 if status in {404, 405} else gets > 10


STATUSES: Final = [200, 204, 302, 400, 401, 403, 404, 405, 406, 409, 410, 422, 429, 500, 502, 503, 504]


async def _refused_once(status: int, session: str | None, warnings: Callable[[], list[str]]) -> None:
    times: list[float] = []
    heard: list[float] = []

    async def get(call: HttpCall) -> None:
        times.append(trio.current_time())
        if len(times) == 2:
            await call.answer(b"", status, None)
            return
        await call.stream()
        await trio.sleep(60)
        if len(times) == 3:
            await call.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await trio.sleep_forever()

    def changed() -> None:
        heard.append(trio.current_time())

    async with client_of(echo, get=get, session=session, on_tools_list_changed=changed) as (client, _):
        await client.request("x/y")
        async with client.listen(resources=["r:1"]) as events:
            await trio.sleep(200)
            assert isinstance(await anext(events), Resynced)
    assert len(times) == 3
    assert times[2] - times[1] < 3
    assert heard == [times[2], times[2] + 60]
    (warning,) = warnings()
    assert "is not open, and is tried again" in warning


@pytest.mark.parametrize("session", [SESSION, None])
async def test_no_refusal_ends_listening(
    session: str | None,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    subtests: pytest.Subtests,
) -> None:
    """A balancer, a restart or a token that is late refuses once. What was missed meanwhile is fetched again."""

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    for status in STATUSES:
        if (status, session) == (404, SESSION):
            continue  # the session is lost
        with subtests.test(status=status):
            caplog.clear()
            await _refused_once(status, session, warnings)


async def test_the_servers_stream_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    """With the id of its last event, after what the server asks for, and ever more slowly while it fails."""
    times: list[float] = []

    async def get(call: HttpCall) -> None:
        times.append(trio.current_time())
        n = len(times)
        if n == 1:
            await call.stream()
            await call.event(b"", id="e1", retry=2000)
            await call.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id="e2")
            await call.end()
        elif n < 12:
            await call.answer(b"", 503, None)
        else:
            await call.stream()
            await call.event({"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}, id="e3")
            await trio.sleep_forever()

    seen: list[str] = []

    def notice(method: str, _params: object) -> None:
        seen.append(method)

    async with client_of(echo, get=get, on_notification=notice) as (
        _,
        server,
    ):
        await trio.sleep(1000)
    gets = [call for call in server.calls if call.method == "GET"]
    assert [call.headers.get("last-event-id") for call in gets] == [None] + ["e2"] * 11
    assert seen == ["notifications/tools/list_changed", "notifications/prompts/list_changed"]
    pauses = [after - before for before, after in pairwise(times)]
    assert 2 <= pauses[0] <= 2.4
    assert 4 <= pauses[1] <= 4.8
    assert all(30 <= pause <= 36 for pause in pauses[5:])
    assert len(set(pauses[5:])) > 1  # not all clients at once


async def test_a_stream_that_was_quiet_for_long_is_opened_again_as_soon_as_any(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A server or a proxy that ends idle streams now and then has not failed."""
    opened: list[float] = []

    async def get(call: HttpCall) -> None:
        opened.append(trio.current_time())
        await call.stream()
        await trio.sleep(60)
        await call.end()

    async with client_of(echo, get=get):
        await trio.sleep(1_000)
    pauses = [after - before - 60 for before, after in pairwise(opened)]
    assert len(pauses) > 10
    assert max(pauses) <= 1.2


@pytest.mark.parametrize("odd", ["2 ", "2\t", "a\x1b[2Jb", "\x7f"])
async def test_an_id_that_cannot_be_sent_back_ends_no_listening(
    odd: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Our own writer refused the request, and the server's stream was never opened again."""
    seen: list[str] = []

    async def get(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, id=odd)
        await call.end()

    def notice(method: str, _params: object) -> None:
        seen.append(method)

    async with client_of(echo, get=get, on_notification=notice) as (_, server):
        await trio.sleep(100)
    gets = [call for call in server.calls if call.method == "GET"]
    assert len(gets) > 3
    assert len(seen) == len(gets)
    assert not any("last-event-id" in call.headers for call in gets)


# Requests whose stream breaks.


@pytest.mark.spec("basic/transports", "Resumability and Redelivery", revisions="2025-11-25")
@pytest.mark.parametrize("how", ["ended", "cut"])
async def test_a_broken_stream_is_taken_up_again(how: str, autojump_clock: trio.testing.MockClock) -> None:
    """2025-11-25, "Resumability and Redelivery": a GET with the id of the last event, after `retry`."""
    cut: list[float] = []

    async def get(call: HttpCall) -> None:
        last = call.headers.get("last-event-id")
        if last is None:
            await nothing(call)
            return
        await call.stream()
        if last == "1":
            cut.append(trio.current_time())
            await call.event({"jsonrpc": "2.0", "method": "notifications/x"}, id="2")
            await call.end()
        else:
            cut.append(trio.current_time())
            await call.event(result(post[0].id, done=True), id="3")
            await call.end()

    post: list[HttpCall] = []

    async def handler(call: HttpCall) -> None:
        post.append(call)
        await call.stream()
        await call.event(b"", id="1", retry=500)
        await trio.sleep(0.05)
        cut.append(trio.current_time())
        if how == "ended":
            await call.end()

    async with client_of(handler, get=get) as (client, server):
        assert (await client.request("tools/call", {"name": "t"}))["done"] is True
    gets = [call for call in server.calls if call.method == "GET"][1:]
    assert [call.headers.get("last-event-id") for call in gets] == ["1", "2"]
    assert all(call.headers.get("mcp-session-id") == SESSION for call in gets)
    assert 0.5 <= cut[1] - cut[0] <= 0.65  # what the official conformance suite allows is 0.45 to 0.7
    assert server.said.count("POST tools/call") == 1


async def test_a_stream_that_cannot_be_taken_up_fails_its_request(autojump_clock: trio.testing.MockClock) -> None:
    """It is tried a few times, unless the session is lost; and never sent again as a POST."""
    refusals = [(405, "405", 5), (503, "503", 5), (404, "ended before", 1)]
    for status, match, attempts in refusals:

        async def get(call: HttpCall, status: int = status) -> None:
            await (nothing(call) if call.headers.get("last-event-id") is None else call.answer(b"", status, None))

        async def handler(call: HttpCall) -> None:
            await call.stream()
            await call.event(b"", id="1")

        async with client_of(handler, get=get) as (client, server):
            with pytest.raises(ConnectionLost, match=match):
                await client.request("tools/call", {"name": "t"})
            resumed = [call for call in server.calls if "last-event-id" in call.headers]
            assert len(resumed) == attempts
            assert server.said.count("POST tools/call") == 1
            await trio.testing.wait_all_tasks_blocked()
            assert server.said.count("POST notifications/cancelled") == (status != 404)


async def _resumed_after_refusal(status: int) -> None:
    asked: list[Any] = []
    gets = 0

    async def get(call: HttpCall) -> None:
        nonlocal gets
        if call.headers.get("last-event-id") is None:
            await nothing(call)
            return
        gets += 1
        if gets == 1:
            await call.answer(b"", status, None)
        else:
            await call.stream()
            await call.event(result(asked[0], done=True), id="2")

    async def handler(call: HttpCall) -> None:
        asked.append(call.id)
        await call.stream()
        await call.event(b"", id="1")

    async with client_of(handler, get=get) as (client, _):
        assert (await client.request("tools/call", {"name": "t"}))["done"] is True
    assert (len(asked), gets) == (1, 2)


async def test_no_refusal_loses_the_answer_of_a_call(
    autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """The server has done the work, and has given its stream an id."""
    for status in set(STATUSES) - {404}:
        with subtests.test(status=status):
            await _resumed_after_refusal(status)


async def test_a_stream_without_ids_is_not_taken_up(autojump_clock: trio.testing.MockClock) -> None:
    """There is no place to resume from."""

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "method": "notifications/x"})

    async with client_of(handler) as (client, server):
        with pytest.raises(ConnectionLost, match="in the middle of a response"):
            await client.request("tools/call", {"name": "t"})
        assert server.said.count("GET") == 1


# Giving up.


async def test_giving_up_is_said_and_then_the_stream_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    """A closed stream cancels nothing in this era: "the client SHOULD explicitly send" the notification."""

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await trio.sleep_forever()

    async with client_of(handler) as (client, server):
        with trio.move_on_after(3) as scope:
            await client.request("tools/call", {"name": "slow"})
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        cancelled = server.call("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == server.call("tools/call").id
        assert cancelled.headers.get("mcp-session-id") == SESSION
        assert [message["method"] for message in server.gone] == ["tools/call"]
        assert server.running == 0


@pytest.mark.spec("basic/transports", "Sending Messages to the Server", revisions="2025-11-25")
@pytest.mark.parametrize("session", [SESSION, None])
@pytest.mark.parametrize("sent", ["nothing", "a question", "an id", "an end"])
async def test_a_call_whose_answer_is_lost_is_cancelled(
    sent: str, session: str | None, autojump_clock: trio.testing.MockClock
) -> None:
    """A disconnection "SHOULD NOT be interpreted as the client cancelling its request", so its handler goes on."""
    log: list[str] = []

    async def handler(call: HttpCall) -> None:
        if sent != "nothing":
            await call.stream()
            await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
            await trio.sleep(1)
        if sent == "an id":
            await call.event(b"", id="1")
        if sent == "an end":
            await call.end()

    async def roots(_: object) -> dict[str, Any]:
        try:
            log.append("began")
            await trio.sleep_forever()
        finally:
            log.append("ended")

    async with client_of(handler, session=session, request_handlers={"roots/list": roots}) as (client, server):
        with pytest.raises(RemoteProtocolError if sent == "an end" else ConnectionLost):
            await client.request("tools/call", {"name": "t"})
        await trio.testing.wait_all_tasks_blocked()
        if session is None:  # nothing but its connection belonged to it
            assert "POST notifications/cancelled" not in server.said
            return
        cancelled = server.call("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == server.call("tools/call").id
        assert cancelled.headers.get("mcp-session-id") == SESSION
        assert log == ([] if sent == "nothing" else ["began", "ended"])
    assert server.said.count("POST notifications/cancelled") == 1


async def test_a_question_ends_with_the_call_that_it_was_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The server's goodbye goes over its other stream, and may have come before the question; here none comes."""
    log: list[str] = []

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        if call.message["params"]["name"] == "brief":
            await call.event(result(call.id, content=[]))
        else:
            await trio.sleep_forever()

    async def roots(_: object) -> dict[str, Any]:
        log.append("began")
        try:
            await trio.sleep(10)
        finally:
            log.append("ended")
        return {"roots": []}

    async with client_of(handler, request_handlers={"roots/list": roots}) as (client, server):
        with trio.move_on_after(3) as scope:
            await client.request("tools/call", {"name": "slow"})
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["began", "ended"]
        assert client.statistics().exchanges == 0
        # A call that was answered takes nothing along: its question is still to be answered.
        await client.request("tools/call", {"name": "brief"})
        await trio.sleep(20)
        answers = [call.message for call in server.calls if call.method == "POST" and call.rpc is None]
        assert [answer["id"] for answer in answers] == ["q1"]


@pytest.mark.parametrize(
    ("first", "times"),
    [("lost", 3), (503, 3), (429, 3), (400, 1), (404, 1)],
    ids=["lost", "503", "429", "400", "404"],
)
async def test_an_answer_that_does_not_get_through_is_sent_again(
    first: str | int, times: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's handler would wait for it until somebody gives up; and what is refused for good is said once."""

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        await trio.sleep(10)
        await call.event(result(call.id, content=[]))

    async def serve(call: HttpCall) -> None:
        if call.method != "POST" or call.rpc is not None or len(posted()) == 3:
            await inner(call)
        elif isinstance(first, int):
            await call.answer(b"no", first)

    async def roots(_: object) -> dict[str, Any]:
        return {"roots": []}

    def posted() -> list[Any]:
        return [call.message for call in server.calls if call.method == "POST" and call.rpc is None]

    with caplog.at_level(logging.CRITICAL, "trio_mcp.http"):
        async with client_of(handler, request_handlers={"roots/list": roots}) as (client, server):
            inner, server._handler = server._handler, serve
            await client.request("tools/call", {"name": "asks"})
    assert posted() == [{"jsonrpc": "2.0", "id": "q1", "result": {"roots": []}}] * times


@pytest.mark.parametrize("first", ["lost", 503])
async def test_an_answer_whose_question_was_cancelled_is_not_sent_again(
    first: str | int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 4: nothing more is sent for it. The answer to another question is still brought."""
    posted: list[tuple[float, str]] = []

    async def handler(call: HttpCall) -> None:
        await call.stream()
        for id in ("q1", "q2"):
            await call.event({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
        await trio.sleep(10)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q1"}}
        await call.event(cancelled)
        await trio.sleep(10)
        await call.event(result(call.id, content=[]))

    async def serve(call: HttpCall) -> None:
        if call.method == "POST" and call.rpc is None:
            posted.append((trio.current_time(), call.message["id"]))
            if len(posted) > 2 and call.message["id"] == "q2" and posted[-1][0] > 10:
                await inner(call)
            elif isinstance(first, int):
                await call.answer(b"no", first)
        else:
            await inner(call)

    async def roots(_: object) -> dict[str, Any]:
        return {"roots": []}

    with caplog.at_level(logging.CRITICAL, "trio_mcp.http"):
        async with client_of(handler, request_handlers={"roots/list": roots}) as (client, server):
            inner, server._handler = server._handler, serve
            await client.request("tools/call", {"name": "asks"})
    assert max(at for at, id in posted if id == "q1") < 10 < max(at for at, id in posted if id == "q2")
    assert [id for _, id in posted].count("q1") > 2


async def test_an_answer_whose_question_was_cancelled_before_it_could_be_sent_is_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 4: it waited for its header fields."""
    is_slow = False

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        await trio.sleep(1)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q1"}}
        await call.event(cancelled)
        await call.event(result(call.id, content=[]))

    async def roots(_: object) -> dict[str, Any]:
        nonlocal is_slow
        is_slow = True
        return {"roots": []}

    async def headers() -> dict[str, str]:
        await trio.sleep(60 * is_slow)
        return {}

    parameters = attrs.evolve(PARAMETERS, headers=headers, notification_timeout=90)
    async with client_of(handler, request_handlers={"roots/list": roots}, parameters=parameters) as opened:
        client, server = opened
        await client.request("tools/call", {"name": "asks"})
        await trio.sleep(80)
    assert not [call for call in server.calls if call.method == "POST" and call.rpc is None]


async def test_an_answer_is_not_sent_again_when_the_client_has_been_left(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is read any more, so it could not know whether that was still wanted; and it would hold up leaving."""
    posted_at: list[float] = []

    async def get(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        await trio.sleep_forever()

    async def serve(call: HttpCall) -> None:
        if call.method == "POST" and call.rpc is None:
            posted_at.append(trio.current_time())
            await call.answer(b"no", 503)
        else:
            await inner(call)

    server = session_server(echo, revision=Revision.V2025_11_25, get=get)
    inner, server._handler = server._handler, serve
    with caplog.at_level(logging.CRITICAL, "trio_mcp.http"):
        async with open_client(attrs.evolve(PARAMETERS, app=server), roots=[]):
            await trio.sleep(2)
            left_at = trio.current_time()
    assert len(posted_at) > 1
    assert posted_at[-1] <= left_at
    assert trio.current_time() == left_at


async def test_a_goodbye_that_nobody_takes_delays_nothing(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 3; and leaving has its own bound, with the DELETE in it."""

    async def handler(call: HttpCall) -> None:
        if call.rpc == "x/slow":
            await trio.sleep_forever()
        await echo(call)

    async def serve(call: HttpCall) -> object:
        if call.method == "DELETE" or call.rpc == "notifications/cancelled":
            await trio.sleep_forever()
        return await inner(call)

    inner = session_server(handler, revision=Revision.V2025_11_25)._handler
    server = McpScript(serve)
    async with open_asgi_client(server) as transport:
        async with open_streamable_http(PARAMETERS, Limits(goodbye_timeout=2), transport=transport) as channel:
            async with open_client(channel) as client:
                start = trio.current_time()
                with trio.move_on_after(1):
                    await client.request("x/slow")
                assert trio.current_time() - start == pytest.approx(1)
                await client.request("x/y")
                assert trio.current_time() - start == pytest.approx(1)
            start = trio.current_time()
        assert trio.current_time() - start == pytest.approx(2)
        await trio.testing.wait_all_tasks_blocked()
        assert server.running == 0


@pytest.mark.parametrize("is_wrapped", [False, True])
async def test_a_server_that_is_slow_to_end_the_handshake_is_left_at_once(
    is_wrapped: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The stream of the session is not waited for (`stream_timeout`), under `Faulty` either."""

    async def serve(call: HttpCall) -> object:
        if call.rpc == "notifications/initialized":
            await trio.sleep_forever()
        return await inner(call)

    inner = session_server(echo, revision=Revision.V2025_11_25)._handler
    server, limits = McpScript(serve), Limits(goodbye_timeout=10)
    async with (
        open_asgi_client(server) as transport,
        open_streamable_http(PARAMETERS, limits, transport=transport) as channel,
    ):
        async with open_client(Faulty(channel) if is_wrapped else channel, revision="2025-11-25", limits=limits):
            start = trio.current_time()
        assert trio.current_time() == start
    assert server.said == ["POST initialize", "POST notifications/initialized", "DELETE"]


async def test_a_cancelled_client_still_ends_its_session(autojump_clock: trio.testing.MockClock) -> None:
    """The goodbye of what was in flight first, then the DELETE, shielded."""

    async def handler(call: HttpCall) -> None:
        await trio.sleep_forever()

    server = session_server(handler, revision=Revision.V2025_11_25)
    async with open_asgi_client(server) as transport:
        with trio.CancelScope() as scope:
            async with (
                open_streamable_http(PARAMETERS, Limits(), transport=transport) as channel,
                open_client(channel) as client,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(client.request, "x/slow")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert server.running == 0
    assert server.said[-2:] == ["POST notifications/cancelled", "DELETE"]


# Sessions that end.


async def test_a_lost_session_is_told_and_a_new_one_can_begin(autojump_clock: trio.testing.MockClock) -> None:
    """404 means that nothing was done; `initialize` on the same channel has no old id (“Session Management”)."""
    known: list[str] = []

    async def serve(call: HttpCall) -> None:
        if call.rpc == "initialize":
            assert "mcp-session-id" not in call.headers
            known[:] = [f"session-{len(server.calls)}"]
            await call.answer(result(call.id, protocolVersion="2025-11-25"), Mcp_Session_Id=known[0])
        elif call.headers.get("mcp-session-id") not in known:
            await call.answer(b"", 404, None)
        elif call.method != "POST":
            await nothing(call)
        else:
            await echo(call)

    server = McpScript(serve)
    async with channel_to(server) as channel:

        async def ask(id: int, method: str) -> Incoming:
            await channel.send([Outgoing(encode_request(id, method, {}), (id,))])
            (received,) = await channel.receive()
            assert isinstance(received, Incoming)
            return received

        await ask(1, "initialize")
        assert (await ask(2, "x/y")).failure is None
        known.clear()
        failure = (await ask(3, "x/y")).failure
        assert isinstance(failure, SessionLost)
        await ask(4, "initialize")
        assert (await ask(5, "x/y")).failure is None
    assert server.said[-1] == "DELETE"
    assert server.calls[-1].headers.get("mcp-session-id") == known[0]


async def test_the_stream_of_a_session_that_is_lost_is_closed_when_another_begins(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What it brings is of no session any more, and a server may count what is open."""
    known: list[str] = []
    listening: list[str] = []

    async def serve(call: HttpCall) -> None:
        session = call.headers.get("mcp-session-id")
        if call.rpc == "initialize":
            known[:] = [f"session-{len(server.calls)}"]
            info = {"name": "s", "version": "1"}
            body = result(call.id, protocolVersion="2025-11-25", capabilities={}, serverInfo=info)
            await call.answer(body, Mcp_Session_Id=known[0])
        elif session not in known:
            await call.answer(b"", 404, None)
        elif call.method == "GET":
            await call.stream()
            listening.append(session)
            try:
                await trio.sleep_forever()
            finally:
                listening.remove(session)
        elif call.id_or_none is None:
            await call.answer(b"", 202, None)
        else:
            await echo(call)

    server = McpScript(serve)
    async with channel_to(server) as channel, open_client(channel, era="legacy") as client:
        await client.request("x/y")
        before = list(listening)
        known.clear()
        await client.request("x/y")
        await trio.testing.wait_all_tasks_blocked()
        assert len(before) == 1
        assert listening == known
        assert listening != before


# HTTP+SSE.


class OldServer:
    """A server of 2024-11-05: a stream, and an endpoint for messages."""

    def __init__(self, endpoint: bytes = b"/messages?session=1") -> None:
        self.endpoint = endpoint
        self.stream: HttpCall | None = None
        self.drop = trio.Event()
        self.script = McpScript(self.serve)

    async def serve(self, call: HttpCall) -> None:
        if call.method == "GET":
            await call.stream()
            self.stream = call
            await call.event(self.endpoint, event="endpoint")
            await self.drop.wait()
            return
        if call.path != "/messages":
            await call.answer(b"Method Not Allowed", 405, "text/plain")
            return
        if call.rpc == "x/refused":
            await call.answer(b"Could not find session", 404, "text/plain")
            return
        await call.answer(b"Accepted", 202, "text/plain")
        assert self.stream is not None
        if call.rpc == "initialize":
            info = {"name": "old", "version": "1"}
            await self.stream.event(
                result(call.id, protocolVersion="2024-11-05", capabilities={}, serverInfo=info), event="message"
            )
        elif call.rpc == "x/y":
            await self.stream.event(result(call.id, old=True), event="message")


@pytest.mark.spec("basic/transports", "HTTP with SSE", revisions="2024-11-05")
@pytest.mark.spec(
    "basic/transports", "Backwards Compatibility", revisions=("2025-03-26", "2025-06-18", "2025-11-25")
)
@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_an_old_server_is_spoken_to_in_its_way(
    transport: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """2024-11-05, basic/transports, "HTTP with SSE"; found out as later revisions say ("Backwards Compatibility")."""
    old = OldServer()
    parameters = attrs.evolve(PARAMETERS, transport=transport)
    async with channel_to(old.script, parameters) as channel, open_client(channel) as client:
        assert client.revision is Revision.V2024_11_05
        assert (await client.request("x/y"))["old"] is True
        with pytest.raises(RequestError, match="404"):
            await client.request("x/refused")
        with trio.move_on_after(1):
            await client.request("x/silent")
        await trio.testing.wait_all_tasks_blocked()
    said = old.script.said
    start = ["POST server/discover", "POST initialize", "GET"] if transport == "auto" else ["GET"]
    assert said == [
        *start,
        "POST initialize",
        "POST notifications/initialized",
        "POST x/y",
        "POST x/refused",
        "POST x/silent",
        "POST notifications/cancelled",
    ]


async def test_a_cancellation_waits_until_an_old_server_has_accepted_the_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It goes over another connection, and a server ignores the cancellation of what it does not have."""
    old = OldServer()
    accepted: list[str] = []

    async def serve(call: HttpCall) -> None:
        if call.rpc == "x/silent":
            await trio.sleep(2)
        if call.rpc is not None:
            accepted.append(call.rpc)
        await old.serve(call)

    limits = Limits(goodbye_timeout=10)
    async with channel_to(McpScript(serve), limits=limits) as channel, open_client(channel) as client:
        with trio.move_on_after(1):
            await client.request("x/silent")
        await trio.sleep(5)
    assert accepted[-2:] == ["x/silent", "notifications/cancelled"]


async def test_a_call_that_an_old_server_may_not_have_accepted_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Only the connection of its POST was lost, and it may have been served before."""
    old = OldServer()

    async def serve(call: HttpCall) -> None:
        if call.rpc != "x/silent":
            await old.serve(call)

    script = McpScript(serve)
    async with channel_to(script) as channel, open_client(channel) as client:
        with pytest.raises(ConnectionLost):
            await client.request("x/silent")
        await trio.testing.wait_all_tasks_blocked()
        assert script.call("notifications/cancelled").message["params"]["requestId"] == script.call("x/silent").id
        assert (await client.request("x/y"))["old"] is True


async def test_the_end_of_an_old_servers_stream_is_the_end(autojump_clock: trio.testing.MockClock) -> None:
    """Answers could only come on it."""
    old = OldServer()
    async with channel_to(old.script) as channel, open_client(channel) as client:
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(ConnectionLost):
                    await client.request("x/silent")

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            old.drop.set()
        with pytest.raises(ConnectionLost):
            await client.request("x/y")


@pytest.mark.parametrize("endpoint", [b"http://evil.example/m", b"//evil.example/m", b"http://u:p@localhost:8000/", b"javascript:x"])  # fmt: skip
async def test_an_endpoint_elsewhere_is_not_used(endpoint: bytes, autojump_clock: trio.testing.MockClock) -> None:
    """Whoever is there has no right to our credentials."""
    old = OldServer(endpoint)
    with pytest.raises(Exception, match="endpoint"):
        async with channel_to(old.script, attrs.evolve(PARAMETERS, transport="sse")):
            pytest.fail("it is open")


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_what_was_said_first_counts_if_it_is_no_old_server_either(
    status: int, autojump_clock: trio.testing.MockClock
) -> None:
    """The second refusal is only that of our guess."""

    async def serve(call: HttpCall) -> None:
        if call.method == "POST":
            await call.answer(b"what is this?", status, "text/plain")
        else:
            await call.answer(b"", 418, None)

    async with channel_to(McpScript(serve)) as channel:
        with pytest.raises(RequestError, match=str(status)):
            async with open_client(channel):
                pytest.fail("there is no server")


async def test_a_server_that_hangs_is_not_waited_for(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise 7: connecting to a silent peer fails by itself, and leaves nothing."""

    async def serve(call: HttpCall) -> None:
        await trio.sleep_forever()

    server = McpScript(serve)
    async with channel_to(server) as channel:
        with caplog.at_level(logging.CRITICAL), pytest.raises(Exception, match=r"\S"):
            async with open_client(channel, limits=Limits(connect_timeout=10)):
                pytest.fail("there is no server")
    await trio.testing.wait_all_tasks_blocked()
    assert server.running == 0


async def test_a_server_may_let_a_request_be_polled_for(autojump_clock: trio.testing.MockClock) -> None:
    """2025-11-25, "Sending Messages to the Server": it ends the stream and says when to come back, as often as it likes."""
    polls = 0

    async def handler(call: HttpCall) -> None:
        await call.stream()
        await call.raw(b"id: 0\nretry: 1000\ndata:\n\n")
        await call.end()
        asked.append(call.id)

    async def poll(call: HttpCall) -> None:
        nonlocal polls
        if call.headers.get("last-event-id") is None:
            await nothing(call)
            return
        polls += 1
        await call.stream()
        if polls < 20:
            await call.raw(b"id: %d\ndata:\n\n" % polls)
        else:
            await call.event(result(asked[0], done=True))
        await call.end()

    asked: list[Any] = []
    async with client_of(handler, get=poll) as (client, _):
        assert await client.request("x/slow") == {"done": True}
        assert trio.current_time() <= 20 * 1.2 + 1


@pytest.mark.spec("basic/transports", "Listening for Messages from the Server", revisions="2025-11-25")
@pytest.mark.parametrize("how", ["listening", "posted", "resumed"])
async def test_a_stream_answers_only_what_was_asked_on_it(
    how: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The server's own stream answers nothing, and that of a request nothing else, before and after it broke."""
    waiting: list[HttpCall] = []
    posted: list[HttpCall] = []
    asked, poisoned = trio.Event(), trio.Event()

    async def poison(call: HttpCall) -> None:
        await call.event(result(waiting[0].id, said="poison"))
        if how == "listening":
            await call.event(error(None, -32600))  # anywhere else it is an answer to what waits there
        poisoned.set()

    async def get(call: HttpCall) -> None:
        if call.headers.get("last-event-id") == "1":
            await call.stream()
            if how == "resumed":
                await poison(call)
            await call.event(result(posted[0].id, said="own"), id="2")
            await call.end()
        elif how == "listening":
            await call.stream()
            await asked.wait()
            await poison(call)
            await trio.sleep_forever()
        else:
            await nothing(call)

    async def handler(call: HttpCall) -> None:
        if call.message["params"]["name"] == "victim":
            waiting.append(call)
            asked.set()
            await poisoned.wait()
            await trio.sleep(5)
            await call.answer(result(call.id, said="true"))
            return
        posted.append(call)
        await call.stream()
        await call.event(b"", id="1", retry=10)
        if how == "posted":
            await call.event(result(waiting[0].id, said="poison"))
            poisoned.set()
        await call.end()

    answers: list[object] = []

    async with client_of(handler, get=get) as (client, _):

        async def ask() -> None:
            answers.append((await client.request("tools/call", {"name": "victim"}))["said"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await asked.wait()
            assert (await client.request("tools/call", {"name": "other"}))["said"] == "own"
        assert answers == ["true"]
    assert [r for r in caplog.records if "where that was not asked" in r.getMessage()]
