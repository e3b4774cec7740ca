"""What becomes of a client when its server loses the session: one new one, and nobody notices but those who must."""

from __future__ import annotations

import contextlib

import pytest
import trio
import trio.testing
from http_mcp import HttpCall, McpScript, result
from http_sessions import LEGACY, SSE, URL, HttpServer

from trio_mcp import (
    Client,
    ConnectionLost,
    HttpServerParameters,
    HttpStatusError,
    Limits,
    ResourceUpdated,
    Resynced,
    SessionLost,
    ToolsListChanged,
    open_client,
)

SESSIONS = pytest.mark.parametrize("revision", LEGACY[1:])


@pytest.mark.spec("basic/transports", "Session Management", revisions=("2025-03-26", "2025-06-18", "2025-11-25"))
@SESSIONS
async def test_a_lost_session_is_begun_anew_once_for_all(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/transports, "Session Management", 4: on 404 a new session, and every call is made again."""
    server = HttpServer(revision)
    async with open_client(server.parameters()) as client:
        await client.request("x/echo")
        server.forget_sessions()
        async with trio.open_nursery() as nursery:
            for n in range(5):

                async def ask(n: int = n) -> None:
                    assert (await client.request("x/echo", {"n": n}))["echo"] == {"n": n}

                nursery.start_soon(ask)
        assert client.revision == revision
    begun = server.asked("initialize")
    assert len(begun) == 2
    assert "mcp-session-id" not in begun[1].headers
    assert len(server.asked("notifications/initialized")) == 2
    echoes = server.asked("x/echo")
    assert [call.headers.get("mcp-session-id") for call in echoes].count("session-2") == 5
    assert len(echoes) <= 1 + 2 * 5
    ended = [call.headers.get("mcp-session-id") for call in server.script.calls if call.method == "DELETE"]
    assert ended == ["session-2"]


async def test_typed_calls_batches_and_the_log_level_survive(autojump_clock: trio.testing.MockClock) -> None:
    """Whatever is asked: the refused request is made again, and what the server was told is told again."""
    server = HttpServer("2025-03-26")

    async def tool(call: HttpCall) -> None:
        await server.reply(call, content=[{"type": "text", "text": call.message["params"]["name"]}])

    async def level(call: HttpCall) -> None:
        levels.append((call.headers.get("mcp-session-id"), call.message["params"]["level"]))
        await server.reply(call)

    levels: list[tuple[str | None, str]] = []
    server.handlers.update({"tools/call": tool, "logging/setLevel": level})
    async with open_client(server.parameters()) as client:
        await client.set_log_level("warning")
        server.forget_sessions()
        assert (await client.call_tool("again")).content
        server.forget_sessions()
        await client.ping()
        server.forget_sessions()
        await client.set_log_level("error")
        assert [len(await client.request_many([("ping", None), ("ping", None)]))] == [2]
    assert levels == [
        ("session-1", "warning"),
        ("session-2", "warning"),
        ("session-3", "warning"),
        ("session-4", "warning"),
        ("session-4", "error"),
    ]


async def test_what_is_under_way_in_the_old_session_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """A sibling whose answer is already being streamed is none of the refused call's business."""
    server = HttpServer("2025-06-18")

    async def slow(call: HttpCall) -> None:
        await call.stream()
        await trio.sleep(10)
        await call.event({"jsonrpc": "2.0", "id": call.id, "result": {"slow": True}})
        await call.end()

    server.handlers["x/slow"] = slow
    async with open_client(server.parameters()) as client, trio.open_nursery() as nursery:

        async def ask_slowly() -> None:
            assert await client.request("x/slow") == {"slow": True}

        nursery.start_soon(ask_slowly)
        await trio.testing.wait_all_tasks_blocked()
        server.forget_sessions()
        await client.request("x/echo")
        assert trio.current_time() < 1
    assert len(server.asked("x/slow")) == 1


async def test_a_call_whose_response_is_broken_ends_with_its_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Promise 7: nobody waits to take up a stream of which nothing is left. Nothing of it is said in another session."""
    server = HttpServer("2025-11-25")
    asked: list[str] = []

    async def slow(call: HttpCall) -> None:
        await call.stream()
        await call.event(b"", id="1", retry=3_600_000)
        await call.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}, id="2")
        await trio.sleep(1)  # then the response breaks

    async def roots() -> list[str]:
        asked.append("began")
        try:
            await trio.sleep_forever()
        finally:
            asked.append("ended")

    server.handlers["x/slow"] = slow
    async with open_client(server.parameters(), roots=roots) as client, trio.open_nursery() as nursery:
        ended: list[float] = []

        async def ask_slowly() -> None:
            with pytest.raises(ConnectionLost, match="the session ended before the request was answered"):
                await client.request("x/slow")
            ended.append(trio.current_time())

        nursery.start_soon(ask_slowly)
        await trio.sleep(2)
        assert asked == ["began"]
        server.forget_sessions()
        await client.request("x/echo")
        await trio.testing.wait_all_tasks_blocked()
        assert asked == ["began", "ended"]
        assert ended == [trio.current_time()]
        assert client.statistics().exchanges == 0
    assert len(server.asked("x/slow")) == 1, "it may have been done: only its caller can make it again"
    assert "notifications/cancelled" not in [call.rpc for call in server.script.calls]
    assert not [call for call in server.script.calls if call.method == "POST" and call.rpc is None]


@pytest.mark.parametrize("what", ["call", "batch", "ping"])
async def test_what_is_given_up_is_cancelled_in_its_own_session(
    what: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2025-11-25, basic/utilities/cancellation: another session has never had a request of that id."""
    server = HttpServer("2025-03-26")

    async def slow(call: HttpCall) -> None:
        await call.stream()
        await trio.sleep_forever()

    server.handlers |= {"x/slow": slow, "ping": slow}
    serve = server.script._handler

    async def serve_batches(call: HttpCall) -> None:
        await (slow(call) if isinstance(call.message, list) else serve(call))

    server.script._handler = serve_batches
    async with open_client(server.parameters()) as client, trio.open_nursery() as nursery:

        async def give_up() -> None:
            with trio.move_on_after(3):
                match what:
                    case "call":
                        await client.request("x/slow")
                    case "batch":
                        await client.request_many([("x/slow", None), ("x/slow", None)], batch=True)
                    case _:
                        await client.ping()

        nursery.start_soon(give_up)
        await trio.sleep(1)
        server.forget_sessions()
        await client.request("x/echo")
        assert server.sessions == ["session-2"]
    goodbyes = server.asked("notifications/cancelled")
    assert len(goodbyes) == (2 if what == "batch" else 1)
    assert {call.headers.get("mcp-session-id") for call in goodbyes} == {"session-1"}
    assert len(server.script.gone) >= 1, "its response is closed as well"


async def test_a_question_ends_with_its_session(autojump_clock: trio.testing.MockClock) -> None:
    """Each session counts from the start: an answer to the old question would be one to the new one."""
    server = HttpServer("2025-11-25")
    ended: list[int] = []

    async def roots() -> list[str]:
        number = len(server.asked("initialize"))
        try:
            await trio.sleep(10 if number == 1 else 1)
        finally:
            ended.append(number)
        return [f"file:///{number}"]

    async with open_client(server.parameters(), roots=roots) as client:
        await client.request("x/echo")
        for session in (1, 2):
            if session == 2:
                server.forget_sessions()
                await client.request("x/echo")
            await server.streams[-1].event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
            await trio.sleep(0.5)
        await trio.sleep(20)
    assert ended == [1, 2]
    answers = [call for call in server.script.calls if call.method == "POST" and call.rpc is None]
    assert [call.headers.get("mcp-session-id") for call in answers] == ["session-2"]
    assert answers[0].message["result"]["roots"][0]["uri"] == "file:///2"


async def test_a_question_of_a_call_that_goes_on_is_answered_in_its_own_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = HttpServer("2025-11-25")

    async def slow(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await trio.sleep(10)
        await call.event({"jsonrpc": "2.0", "id": call.id, "result": {"slow": True}})
        await call.end()

    async def roots() -> list[str]:
        await trio.sleep(5)
        return []

    server.handlers["x/slow"] = slow
    async with open_client(server.parameters(), roots=roots) as client, trio.open_nursery() as nursery:

        async def ask_slowly() -> None:
            assert await client.request("x/slow") == {"slow": True}

        nursery.start_soon(ask_slowly)
        await trio.testing.wait_all_tasks_blocked()
        server.forget_sessions()
        await client.request("x/echo")
        assert trio.current_time() < 1
    (answer,) = (call for call in server.script.calls if call.method == "POST" and call.rpc is None)
    assert answer.headers.get("mcp-session-id") == "session-1"


async def test_a_server_that_keeps_no_session_is_believed_the_second_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One new session and one retry, then `SessionLost`; the next call has its own retry, and may work."""
    server = HttpServer("2025-11-25")
    is_forgetful = True

    async def forget(call: HttpCall) -> None:
        if is_forgetful:
            await call.answer(b"gone", 404, "text/plain")
        else:
            await server.reply(call, fine=True)

    server.handlers["x/forget"] = forget
    async with open_client(server.parameters()) as client:
        for n in (1, 2):
            with pytest.raises(SessionLost) as caught:
                await client.request("x/forget")
            assert (caught.value.status, caught.value.body) == (404, "gone")
            assert len(server.asked("x/forget")) == 2 * n
        is_forgetful = False
        assert await client.request("x/forget") == {"fine": True}


@pytest.mark.parametrize("how", ["refused", "silent", "nobody there"])
async def test_when_there_is_no_new_session_the_calls_say_so_and_later_ones_try_again(
    how: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that is being started again. Nobody waits for ever, and nothing is over for good."""
    server = HttpServer("2025-11-25", has_stream=False)
    initialize = server.script._handler
    limits = Limits(connect_timeout=4)
    broken = False

    async def serve(call: HttpCall) -> None:
        if broken and call.rpc == "initialize":
            if how == "silent":
                await trio.sleep_forever()
            if how == "refused":
                await call.answer(b"starting", 503, "text/plain")
            return
        await initialize(call)

    server.script._handler = serve
    async with open_client(server.parameters(), limits=limits) as client:
        broken = True
        server.forget_sessions()
        for _ in range(2):
            begin = trio.current_time()
            with pytest.raises((SessionLost, HttpStatusError, ConnectionLost)) as caught:
                await client.request("x/echo")
            assert trio.current_time() - begin <= 2 * limits.connect_timeout
            assert how != "refused" or getattr(caught.value, "status", None) in {404, 503}
        await trio.sleep(100)
        attempts = len(server.asked("initialize"))
        await trio.sleep(1000)
        assert len(server.asked("initialize")) <= attempts + 1, "a server is not asked for ever"
        broken = False
        await client.request("x/echo")
        assert client.revision == "2025-11-25"
    assert "no new agreement" in caplog.text


@SESSIONS
async def test_listeners_learn_that_something_may_be_missing(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Subscriptions are made again in the new session, also if nobody calls anything meanwhile."""
    server = HttpServer(revision, capabilities={"resources": {"subscribe": True}, "tools": {"listChanged": True}})
    called: list[str] = []
    async with (
        open_client(server.parameters(), on_tools_list_changed=lambda: called.append("tools")) as client,
        client.listen(resources=["a:b"]) as events,
    ):
        server.forget_sessions()
        with trio.fail_after(10):
            event = await anext(events)
        assert isinstance(event, Resynced)
        assert called == ["tools"]
        params = {"uri": "a:b"}
        message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
        await server.streams[-1].event(message)
        assert await anext(events) == ResourceUpdated("a:b")
    subscribed = [call.headers.get("mcp-session-id") for call in server.asked("resources/subscribe")]
    assert subscribed == ["session-1", "session-2"]
    unsubscribed = [call.headers.get("mcp-session-id") for call in server.asked("resources/unsubscribe")]
    assert unsubscribed == ["session-2"], "nothing of the old session is said in the new one"


@pytest.mark.parametrize("status", [404, 405])
async def test_a_new_session_whose_first_stream_is_refused_is_heard_all_the_same(
    status: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that has had a stream has one: a replica that does not know the new session yet refuses it at first."""
    server = HttpServer("2025-11-25", capabilities={"tools": {"listChanged": True}})
    async with (
        open_client(server.parameters(), era="legacy") as client,
        client.listen(tools_list_changed=True) as events,
    ):
        await client.request("x/echo")
        server.stream_refusals = [status, status]
        server.forget_sessions()
        await client.request("x/echo")
        assert isinstance(await anext(events), Resynced)
        await trio.sleep(60)
        assert (len(server.streams), server.stream_refusals) == (2, [])
        await server.streams[-1].event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        with trio.fail_after(10):
            while await anext(events) != ToolsListChanged():
                pass
    assert "is not open, and is tried again" in caplog.text


async def test_listening_begins_anew_if_the_session_is_lost_just_then(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = HttpServer("2025-11-25", capabilities={"resources": {"subscribe": True}}, has_stream=False)
    async with open_client(server.parameters()) as client:
        server.forget_sessions()
        async with client.listen(resources=["a:b"]) as events:
            assert events.acknowledged.resource_subscriptions == ("a:b",)
            assert events.waiting == 0, "nothing was missed"
        server.down = (404, b"")
        with pytest.raises(HttpStatusError):
            async with client.listen(resources=["a:b"]):
                raise AssertionError


async def test_an_old_servers_stream_is_opened_again(autojump_clock: trio.testing.MockClock) -> None:
    """HTTP+SSE: the stream is the connection. What waits for it fails, what is asked later waits for the next."""
    server = HttpServer("sse", capabilities={"resources": {"subscribe": True}})
    async with open_client(server.parameters()) as client, client.listen(resources=["a:b"]) as events:
        async with trio.open_nursery() as nursery:

            async def hang() -> None:
                with pytest.raises(ConnectionLost):
                    await client.request("x/hang")

            nursery.start_soon(hang)
            await trio.testing.wait_all_tasks_blocked()
            server.forget_sessions()
        assert (await client.request("x/echo", {"n": 1}))["echo"] == {"n": 1}
        assert isinstance(await anext(events), Resynced)
    assert len(server.streams) == 2


@pytest.mark.parametrize("speaks", [SSE, "2025-11-25", "2026-07-28"])
async def test_leaving_ends_the_session_and_leaves_nothing(
    speaks: str, autojump_clock: trio.testing.MockClock, subtests: pytest.Subtests
) -> None:
    """Promises 3 and 8; 2025-11-25, "Session Management", 5: DELETE, whatever the reason."""
    for way in ("quietly", "exception", "cancelled", "deadline", "in flight"):
        with subtests.test(way=way):
            await leave(speaks, way)


async def leave(speaks: str, way: str) -> None:
    """Leave a session in this way, and look what is left."""
    server = HttpServer(speaks)
    tasks = trio.lowlevel.current_statistics().tasks_living

    async def body(client: Client) -> None:
        await client.request("x/echo")
        if way == "exception":
            raise LookupError("the body's own")
        if way == "in flight":
            async with trio.open_nursery() as nursery:

                async def hang() -> None:
                    with pytest.raises(trio.ClosedResourceError):
                        await client.request("x/hang")

                nursery.start_soon(hang)
                await trio.testing.wait_all_tasks_blocked()
                await client.aclose()
        elif way != "quietly":
            await client.request("x/hang")

    begin = trio.current_time()
    with trio.CancelScope() as scope:
        if way == "deadline":
            scope.deadline = trio.current_time() + 3
        async with trio.open_nursery() as nursery:

            async def cancel_later() -> None:
                await trio.sleep(2)
                scope.cancel()

            if way == "cancelled":
                nursery.start_soon(cancel_later)
            with pytest.raises(LookupError) if way == "exception" else contextlib.nullcontext():
                async with open_client(server.parameters()) as client:
                    await body(client)
    assert trio.current_time() - begin <= 3 + Limits().goodbye_timeout
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert server.script.running == 0
    is_session = speaks not in {"2026-07-28", "sse"}
    assert server.script.said.count("DELETE") == is_session
    if is_session:
        assert server.script.said[-1] == "DELETE"
    if way in {"cancelled", "deadline", "in flight"}:
        goodbyes = [call.message["params"]["requestId"] for call in server.asked("notifications/cancelled")]
        hanging = server.script.call("x/hang")
        assert goodbyes == ([] if server.is_modern else [hanging.id])
        assert (hanging.message in server.script.gone) or speaks == "sse"


@pytest.mark.parametrize("way", ["quietly", "cancelled"])
async def test_a_server_that_ignores_the_end_of_its_session_is_waited_for_no_longer_than_agreed(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """`Limits.goodbye_timeout`, shielded."""
    server = HttpServer("2025-11-25")
    inner = server.script._handler

    async def serve(call: HttpCall) -> None:
        if call.method == "DELETE":
            await trio.sleep_forever()
        await inner(call)

    server.script._handler = serve
    with trio.move_on_after(1):
        async with open_client(server.parameters(), limits=Limits(goodbye_timeout=0.5)):
            if way == "cancelled":
                await trio.sleep_forever()
    assert trio.current_time() == 0.5 + (way == "cancelled")
    assert server.script.said[-1] == "DELETE"
    assert server.script.running == 0


@pytest.mark.parametrize("takes", ["no goodbye", "no notification", "no answer"])
async def test_a_server_that_takes_nothing_is_told_that_the_session_is_over(
    takes: str, autojump_clock: trio.testing.MockClock
) -> None:
    """ "Session Management", 5: the DELETE has a share of the time that nothing else can take."""
    server = HttpServer("2025-11-25")
    inner = server.script._handler

    async def ask(call: HttpCall) -> None:
        await call.stream()
        await call.event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"})
        await trio.sleep_forever()

    async def serve(call: HttpCall) -> None:
        stuck = {"no goodbye": "notifications/cancelled", "no notification": "notifications/x"}
        if call.method == "POST" and call.rpc == stuck.get(takes):
            await trio.sleep_forever()
        await inner(call)

    server.handlers["x/ask"] = ask
    server.script._handler = serve
    with trio.move_on_after(1):
        async with (
            open_client(server.parameters(), roots=["file:///tmp"]) as client,
            trio.open_nursery() as nursery,
        ):
            for _ in range(5):
                await client.notify("notifications/x")
            nursery.start_soon(client.request, "x/ask")
            await trio.sleep_forever()
    assert trio.current_time() == 1 + Limits().goodbye_timeout / 2
    assert server.script.said[-1] == "DELETE"
    assert not server.sessions


async def test_leaving_waits_once_for_a_server_that_is_stuck(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 3: what is queued, and the end of the session, have `goodbye_timeout` together."""

    async def answer(call: HttpCall) -> None:
        if call.rpc == "initialize":
            said = {
                "protocolVersion": LEGACY[-1],
                "capabilities": {},
                "serverInfo": {"name": "stuck", "version": "1"},
            }
            await call.answer(result(call.id, **said), Mcp_Session_Id="session")
        else:
            await trio.sleep_forever()

    script = McpScript(answer)
    limits = Limits(goodbye_timeout=2)
    async with open_client(HttpServerParameters(URL, app=script), revision=LEGACY[-1], limits=limits):
        begin = trio.current_time()
    assert trio.current_time() - begin <= 2
    assert script.said == ["POST initialize", "POST notifications/initialized", "DELETE"]
