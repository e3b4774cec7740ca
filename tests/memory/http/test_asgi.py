"""The client for an application in this process keeps what a network would: streaming, back-pressure, disconnects."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from inside_http import HttpRequest, parse_target

from trio_mcp import AsgiApplication, AsgiClient, ConnectionLost, McpASGI, Server, open_asgi_client

TARGET = parse_target("http://localhost:8000/m%20p/ü?a=b")


def post(body: bytes = b"{}") -> HttpRequest:
    return HttpRequest(method="POST", target=TARGET, headers=[(b"X-A", b"b")], body=body)


async def fetch(client: AsgiClient, body: bytes = b"{}") -> tuple[int, bytes]:
    async with await client.send(post(body)) as response:
        return response.status, await response.read(10_000_000)


def http_only(app: AsgiApplication) -> AsgiApplication:
    async def whole(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        await app(scope, receive, send)

    return whole


async def test_a_request_arrives_as_asgi_says(autojump_clock: trio.testing.MockClock) -> None:
    """Decoded path, raw path, query, lower-case names, body in pieces."""
    scopes: list[Any] = []

    @http_only
    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        body = b""
        pieces = 0
        more = True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
            pieces += 1
        await send({"type": "http.response.start", "status": 201, "headers": [(b"X-Pieces", b"%d" % pieces)]})
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        await send({"type": "http.response.body", "body": body[len(body) // 2 :]})

    async with open_asgi_client(app) as client:
        assert await fetch(client) == (201, b"{}")
        assert await fetch(client, b"") == (201, b"")
        async with await client.send(post(bytes(200_000))) as response:
            assert response.headers.get("x-pieces") == "4"
            assert await response.read(10**6) == bytes(200_000)
            assert await response.receive_some() == b""
    assert scopes[0]["path"] == "/m p/ü"
    assert scopes[0]["raw_path"] == b"/m%20p/%C3%BC"
    assert scopes[0]["query_string"] == b"a=b"
    assert (b"host", b"localhost:8000") in scopes[0]["headers"]
    assert (b"x-a", b"b") in scopes[0]["headers"]


async def test_a_response_streams_and_holds_the_application_up(autojump_clock: trio.testing.MockClock) -> None:
    """What was sent is here, and what is not read is not produced."""
    sent: list[int] = []

    @http_only
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        for n in range(100):
            await send({"type": "http.response.body", "body": b"%d" % n, "more_body": True})
            sent.append(n)

    async with open_asgi_client(app) as client, await client.send(post()) as response:
        assert await response.receive_some() == b"0"
        assert await response.receive_some() == b"1"
        await trio.testing.wait_all_tasks_blocked()
        assert sent == [0, 1]


async def test_leaving_a_response_is_a_disconnect(autojump_clock: trio.testing.MockClock) -> None:
    """Told once, in the middle of a body or after the request; sending then does nothing, and nobody is cancelled."""
    told: list[Any] = []

    @http_only
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200})
        told.append(await receive())
        await send({"type": "http.response.body", "body": b"for nobody", "more_body": True})
        told.append("sent")
        await receive()
        told.append("twice")

    async with open_asgi_client(app) as client:
        async with await client.send(post()):
            pass
        await trio.testing.wait_all_tasks_blocked()
        assert told == [{"type": "http.disconnect"}, "sent"]
        with trio.move_on_after(1):
            async with await client.send(post()) as response:
                await response.receive_some()
        await trio.testing.wait_all_tasks_blocked()
        assert told[2:] == [{"type": "http.disconnect"}, "sent"]


async def test_an_application_that_fails_breaks_its_response(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Before it has started: 500. After: the connection ends. In both cases it is one request's loss."""

    @http_only
    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        if body == b"silent":
            return
        if body != b"early":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        if body != b"cut":
            raise ValueError(body)

    with caplog.at_level(logging.CRITICAL, "trio_mcp.http"):
        async with open_asgi_client(app) as client:
            assert await fetch(client, b"early") == (500, b"")
            for body in (b"late", b"cut"):
                with pytest.raises(ConnectionLost, match="in the middle"):
                    await fetch(client, body)
            with pytest.raises(ConnectionLost, match="in place of a response"):
                await fetch(client, b"silent")


async def test_the_lifespan_surrounds_everything(autojump_clock: trio.testing.MockClock) -> None:
    """What it puts into the state, requests find there."""
    events: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            scope["state"]["answer"] = b"42"
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            events.append("shutdown")
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": scope["state"]["answer"]})
        events.append("request")

    async with open_asgi_client(app) as client:
        assert await fetch(client) == (200, b"42")
    assert events == ["request", "shutdown"]


async def test_an_application_that_does_not_start_is_not_asked(autojump_clock: trio.testing.MockClock) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with pytest.raises(RuntimeError, match="no database"):
        async with open_asgi_client(app):
            pytest.fail("it has not started")


async def test_what_still_runs_is_cancelled_on_leaving(autojump_clock: trio.testing.MockClock) -> None:
    """And an exception of the block comes out as itself."""
    cancelled = False

    @http_only
    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal cancelled
        try:
            await trio.sleep_forever()
        finally:
            cancelled = True

    with pytest.raises(ZeroDivisionError):
        async with open_asgi_client(app) as client:
            with trio.move_on_after(1):
                await fetch(client)
            raise ZeroDivisionError
    assert cancelled


async def test_a_request_is_not_begun_in_an_application_that_is_being_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its lifespan may have ended a moment ago, and then it fails. Which of them is cancelled first is open."""
    for _ in range(30):
        with trio.CancelScope() as scope:
            async with open_asgi_client(McpASGI(Server("s"))) as client:
                scope.cancel()
                await client.send(post())
        assert scope.cancelled_caught
    assert caplog.messages == []
