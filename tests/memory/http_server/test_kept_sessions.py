"""What sessions keep, of whom, and which are ended: one client that takes what it can, and one that is honest."""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
import trio.testing
from http_raw import Events, open_raw
from http_server_fixtures import EVERY_HOST
from inside_endpoint import REPLACED_AT_ONCE
from shared.http_server_kept_sessions import EVENTS, HOG, HONEST, PING, Client, settings

from trio_mcp import Context, HttpServerParameters, Limits, McpASGI, Server, open_client

pytestmark = pytest.mark.usefixtures("under")


async def test_a_client_that_takes_all_sessions_loses_its_own_and_not_those_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One address took all of max_sessions, and everybody else got 503 for half an hour."""
    caplog.set_level(logging.INFO, "trio_mcp.http")
    async with open_raw(Server("s"), settings(max_sessions=16)) as raw:
        hog, honest = Client(raw, HOG), Client(raw, HONEST)
        first = await honest.begin()
        ids = [await hog.begin() for _ in range(60)]
        assert (await honest.send(first)).status == 200
        others = [await honest.begin() for _ in range(5)]
        assert [(await honest.send(id)).status for id in others] == [200] * 5
        left = [id for id in ids if (await hog.send(id)).status == 200]
        assert left == ids[-10:], "of its own the oldest goes first"
        third = Client(raw, "203.0.113.3")
        assert (await third.send(await third.begin())).status == 200, (
            "of all the one that is idle for longest goes"
        )
        assert (await honest.send(first)).status == 404
        assert [(await honest.send(id)).status for id in others] == [200] * 5
    assert any("gives way" in record.message and HOG in record.message for record in caplog.records)


async def test_a_session_in_use_does_not_give_way() -> None:
    """Who has a stream open is not idle; where nobody is, the newcomer is refused, and told when to ask again."""
    async with open_raw(Server("s"), settings(max_sessions=2)) as raw:
        hog, honest = Client(raw, HOG), Client(raw, HONEST)
        async with AsyncExitStack() as streams:
            ids = [await hog.begin() for _ in range(2)]
            for id in ids:
                await streams.enter_async_context(hog.listening(id))
            await trio.testing.wait_all_tasks_blocked()
            refused = await honest.ask()
            assert (refused.status, int(refused.headers["retry-after"])) == (503, 10)
            assert "max_sessions" in refused.error["message"]
            assert [(await hog.send(id)).status for id in ids] == [200, 200]


async def test_one_client_has_its_own_bound() -> None:
    """Its own oldest goes; while it uses all of them it is refused, and others are not."""
    async with open_raw(Server("s"), settings(max_sessions=20)) as raw:
        hog, honest = Client(raw, HOG), Client(raw, HONEST)
        async with AsyncExitStack() as streams:
            ids = [await hog.begin() for _ in range(11)]
            assert [(await hog.send(id)).status for id in ids] == [404, *[200] * 10]
            for id in ids[1:]:
                await streams.enter_async_context(hog.listening(id))
            await trio.testing.wait_all_tasks_blocked()
            refused = await hog.ask()
            assert (refused.status, int(refused.headers["retry-after"])) == (429, 10)
            assert "max_sessions_per_principal" in refused.error["message"]
            await honest.begin()


async def test_sessions_are_not_replaced_without_end(autojump_clock: trio.testing.MockClock) -> None:
    """A client with as many as it may have began others as fast as it could, which cost everybody time."""
    async with open_raw(Server("s"), settings(max_sessions=150, message_timeout=3_600)) as raw:
        hog, honest = Client(raw, HOG), Client(raw, HONEST)
        for _ in range(30 + REPLACED_AT_ONCE):
            assert (await hog.ask()).status == 200
        refused = await hog.ask()
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "max_sessions_per_principal" in refused.error["message"]
        await honest.begin()
        await trio.sleep(10)
        answers = [(await hog.ask()).status for _ in range(11)]
        assert answers == [200] * 10 + [429]


async def test_the_session_that_was_used_last_goes_last() -> None:
    """What counts is when it was used, not when it was begun."""
    async with open_raw(Server("s"), settings(max_sessions=3)) as raw:
        client = Client(raw, HOG)
        ids = [await client.begin() for _ in range(3)]
        assert (await client.send(ids[0])).status == 200
        await client.begin()
        assert [(await client.send(id)).status for id in ids] == [200, 404, 200]


async def test_a_session_that_is_only_begun_does_not_last(autojump_clock: trio.testing.MockClock) -> None:
    """Sessions that are never initialised counted like others, for half an hour."""
    async with open_raw(Server("s"), settings(message_timeout=20, session_idle_timeout=1_800)) as raw:
        client = Client(raw, HOG)
        begun = (await client.ask()).headers["mcp-session-id"]
        used = (await client.ask()).headers["mcp-session-id"]
        initialized = await client.begin()
        await trio.sleep(19)
        assert (await client.send(used)).status == 200
        await trio.sleep(2)
        assert [(await client.send(id)).status for id in (begun, used, initialized)] == [404, 200, 200]


@EVERY_HOST
async def test_a_stream_of_2024_on_which_nothing_is_said_does_not_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """There a session is its stream, and costs as much."""
    async with open_raw(Server("s"), settings(sse=True, message_timeout=20)) as raw:
        address = {"X-Forwarded-For": HOG, **EVENTS}
        async with raw.open(None, address, method="GET", path="/sse") as response:
            begin = trio.current_time()
            while await response.receive_some():
                pass
            assert trio.current_time() - begin == 20


async def test_what_a_client_says_of_itself_is_bounded_by_name() -> None:
    """4 MiB of capabilities were kept as long as the session, 20 MiB in memory."""
    server: Server[Any] = Server("s")
    async with open_raw(server, settings(max_sessions=1)) as raw:
        client = Client(raw, HOG)
        for said in (
            {"capabilities": {"experimental": {"x": {"y": "z" * 65_536}}}},
            {"clientInfo": {"name": "n" * 65_536, "version": "1"}},
        ):
            refused = await client.ask(**said)
            assert refused.error["code"] == -32602
            assert "65536 are allowed" in refused.error["message"]
            assert "mcp-session-id" not in refused.headers
        answer = await client.ask(clientInfo={"name": "n" * 65_000, "version": "1"})
        assert "mcp-session-id" in answer.headers


@pytest.mark.parametrize("is_open", [False, True])
@EVERY_HOST
async def test_unread_messages_for_which_there_is_no_room_are_dropped(*, is_open: bool) -> None:
    """max_outbox_bytes is for each session: of a thousand that nobody reads it was a gigabyte."""
    times = (
        4 if is_open else 1
    )  # what is being sent is kept for the session, for who comes back, and for the wire
    limits = Limits(
        max_kept_bytes=1_000_000 * times, max_kept_bytes_per_principal=400_000 * times, max_outbox_bytes=200_000
    )
    server: Server[Any] = Server("s", limits=limits)

    @server.tool
    async def chat(ctx: Context, size: int) -> str:
        await ctx.info("x" * size)
        return "said"

    def call(size: int) -> dict[str, Any]:
        params = {"name": "chat", "arguments": {"size": size}}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async with open_raw(server, settings(json_only=True)) as raw, AsyncExitStack() as streams:
        hog, honest = Client(raw, HOG), Client(raw, HONEST)
        quiet = await honest.begin()
        assert (await honest.send(quiet, call(50_000))).status == 200
        ids = [await hog.begin() for _ in range(12 if is_open else 5)]
        for id in ids:
            if is_open:
                await streams.enter_async_context(hog.listening(id))
            assert (await hog.send(id, call(150_000))).status in ((200, 503) if is_open else (200,))
        living = [id for id in ids if (await hog.send(id)).status == 200]
        # Where a stream is open and not read, its session goes. Where there is none yet, only what was said goes.
        assert 1 <= len(living) < len(ids) if is_open else living == ids
        kept = server.statistics()[0]["bytes"]
        assert kept.lent <= limits.max_kept_bytes_per_principal + 100_000
        async with raw.open(None, {**honest.headers(quiet), **EVENTS}, method="GET") as response:
            event = await Events(response).next()
            assert event is not None
            assert json.loads(event.data)["params"]["data"] == "x" * 50_000


async def test_a_client_of_ours_goes_on_when_its_session_gave_way() -> None:
    """It is told 404 and begins anew; the call that was refused is made again."""
    server: Server[Any] = Server("s")
    runs: list[int] = []

    @server.tool
    async def count() -> int:
        runs.append(1)
        return len(runs)

    asgi = McpASGI(server, settings(max_sessions=2))

    async def without_streams(scope: Any, receive: Any, send: Any) -> None:
        """A client whose stream is open is not idle."""
        if scope["type"] == "lifespan":  # it is running already
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
        elif scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body"})
        else:
            await asgi(scope, receive, send)

    parameters = HttpServerParameters("http://localhost:8000/mcp", app=without_streams)
    async with asgi.running(), AsyncExitStack() as others:
        client = await others.enter_async_context(open_client(parameters, revision="2025-11-25"))
        for n in range(1, 5):
            assert (await client.call_tool("count")).structured_content == {"result": n}
            for _ in range(2):
                await others.enter_async_context(open_client(parameters, revision="2025-11-25"))
        assert server._application.changes.receivers == 2


async def test_the_ids_that_a_session_remembers_count_too() -> None:
    """It remembers some, for cancellations that overtake what they cancel: 100 KiB of them in each session."""
    server: Server[Any] = Server("s")
    async with open_raw(server, settings()) as raw:
        client = Client(raw, HOG)
        id = await client.begin()
        before = server.statistics()[0]["bytes"].lent
        for n in range(600):
            assert (await client.send(id, {**PING, "id": f"{n:064}"})).status == 200
        lent = server.statistics()[0]["bytes"].lent - before
        assert 512 * 128 < lent < 512 * 512
        await raw.send(None, client.headers(id), method="DELETE")
        await trio.testing.wait_all_tasks_blocked()
        assert not server.statistics()[0]["bytes"].lent
