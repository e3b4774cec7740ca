"""WebSockets of ASGI servers: Hypercorn's Trio worker, anycorn, and a host in memory that does what a test says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, final

import pytest
import trio
from raw import META
from watching import ENOUGH, Watcher

from trio_mcp import (
    HttpServerSettings,
    McpASGI,
)

pytestmark = pytest.mark.timeout(60)

SETTINGS = HttpServerSettings(websocket=True)


# A host in memory.


@final
class MemoryHost:
    """Hosts one WebSocket of an application, and does nothing by itself.

    Attributes:
        sent: What the application has sent.
        failure: What sending raises.
    """

    def __init__(self, extensions: dict[str, Any], receive: trio.MemoryReceiveChannel[dict[str, Any]]) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self._receive = receive
        self._changed = trio.Condition()
        self.received = 0
        self.failure: Exception | None = None
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/mcp",
            "headers": [(b"host", b"localhost"), (b"sec-websocket-protocol", b"chat, mcp")],
            "client": ("192.0.2.7", 4711),
            "extensions": extensions,
        }

    async def receive(self) -> dict[str, Any]:
        message = await self._receive.receive()
        self.received += 1
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self.failure is not None:
            await trio.lowlevel.checkpoint()
            raise self.failure
        async with self._changed:
            self.sent.append(message)
            self._changed.notify_all()

    async def wait_sent(self, count: int) -> list[MutableMapping[str, Any]]:
        """Wait until so much was sent, and return all of it."""
        async with self._changed:
            while len(self.sent) < count:
                await self._changed.wait()
        return self.sent


@asynccontextmanager
async def in_memory(
    watcher: Watcher, *, extensions: dict[str, Any] | None = None, headers: dict[bytes, bytes] | None = None
) -> AsyncGenerator[tuple[MemoryHost, trio.MemorySendChannel[dict[str, Any]]]]:
    """Run an application with one WebSocket, which is over when the block is."""
    app = McpASGI(watcher.server, SETTINGS)
    put, receive = trio.open_memory_channel[dict[str, Any]](1_000)
    host = MemoryHost(extensions or {}, receive)
    host.scope["headers"] = [*host.scope["headers"], *(headers or {}).items()]
    with trio.fail_after(ENOUGH):
        async with app.running(), trio.open_nursery() as nursery:
            put.send_nowait({"type": "websocket.connect"})
            nursery.start_soon(app, host.scope, host.receive, host.send)
            yield host, put


def text(name: str, id: int = 1, **arguments: object) -> dict[str, Any]:
    """Return the message of a call."""
    params = {"name": name, "arguments": arguments, "_meta": META}
    said = json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    return {"type": "websocket.receive", "text": said}


async def test_it_is_accepted_with_the_subprotocol() -> None:
    async with in_memory(Watcher()) as (host, put):
        (accepted,) = await host.wait_sent(1)
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", "mcp")
        put.send_nowait(text("add", a=20, b=22))
        sent = (await host.wait_sent(2))[1]
        assert json.loads(sent["text"])["id"] == 1
        put.send_nowait({"type": "websocket.disconnect", "code": 1001})
    assert [message["type"] for message in host.sent] == ["websocket.accept", "websocket.send"]


async def test_a_host_without_denial_responses_closes() -> None:
    """That is the status 403 on every host."""
    async with in_memory(Watcher(), headers={b"origin": b"https://evil.example"}) as (host, _):
        assert await host.wait_sent(1) == [{"type": "websocket.close", "code": 1008}]


async def test_a_refusal_is_one_response_where_the_host_takes_it() -> None:
    denial: dict[str, Any] = {"websocket.http.response": {}}
    async with in_memory(Watcher(), extensions=denial, headers={b"origin": b"null"}) as (host, _):
        start, body = await host.wait_sent(2)
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 403)
    assert body["type"] == "websocket.http.response.body"
    assert "allowed_origins" in json.loads(body["body"])["error"]["message"]


async def test_one_that_comes_when_the_application_has_ended_is_closed() -> None:
    """It had called the application before, and waited for the message with which it begins."""
    app = McpASGI(Watcher().server, SETTINGS)
    put, receive = trio.open_memory_channel[dict[str, Any]](1)
    host = MemoryHost({}, receive)
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            async with app.running():
                nursery.start_soon(app, host.scope, host.receive, host.send)
                await trio.testing.wait_all_tasks_blocked()
            put.send_nowait({"type": "websocket.connect"})
    assert host.sent == [{"type": "websocket.close", "code": 1008}]


async def test_what_waits_is_bounded() -> None:
    """Limits.max_waiting_bytes: nothing more is received until what waits is served; then all of it is."""
    watcher = Watcher(max_waiting_bytes=10_000, max_inbound_requests=2, slow_consumer_timeout=0.3)
    async with in_memory(watcher) as (host, put):
        for number in range(500):
            put.send_nowait(text("hang", number))
        await watcher.begun.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert host.received < 200
        while host.received < 501:
            await trio.sleep(0.01)
        put.send_nowait({"type": "websocket.disconnect", "code": 1006})
        await watcher.cancelled.wait()


async def test_it_is_closed_once_and_the_client_has_time_to_answer() -> None:
    """Limits.goodbye_timeout; what comes after is dropped."""
    watcher = Watcher(goodbye_timeout=600)
    async with in_memory(watcher) as (host, put):
        await host.wait_sent(1)
        put.send_nowait({"type": "websocket.receive", "bytes": b"{}", "text": None})
        sent = await host.wait_sent(2)
        assert (sent[1]["type"], sent[1]["code"]) == ("websocket.close", 1003)
        put.send_nowait(text("hang"))
        put.send_nowait({"type": "websocket.disconnect", "code": 1003})
    assert not watcher.begun.is_set()
    assert len(host.sent) == 2


async def test_text_that_is_not_unicode_is_refused() -> None:
    """A host could hand on halves of characters."""
    async with in_memory(Watcher()) as (host, put):
        await host.wait_sent(1)
        put.send_nowait({"type": "websocket.receive", "text": "\ud83d"})
        assert (await host.wait_sent(2))[1]["code"] == 1007
        put.send_nowait({"type": "websocket.disconnect"})


@pytest.mark.parametrize("error", [OSError("gone"), trio.BrokenResourceError()])
async def test_a_host_that_says_by_an_error_that_nobody_reads(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(Watcher()) as (host, put):
        await host.wait_sent(1)
        host.failure = error
        put.send_nowait(text("add", a=1, b=1))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_client_that_is_gone_before_it_is_accepted_is_served_nothing() -> None:
    app = McpASGI(Watcher().server, SETTINGS)
    put, receive = trio.open_memory_channel[dict[str, Any]](2)
    host = MemoryHost({}, receive)
    put.send_nowait({"type": "websocket.disconnect", "code": 1006})
    with trio.fail_after(ENOUGH):
        async with app.running():
            await app(host.scope, host.receive, host.send)
    assert host.sent == []


async def test_an_open_session_does_not_hold_up_the_end() -> None:
    """Limits.drain_timeout: closed with 1001 once it is answered."""
    watcher = Watcher()
    app = McpASGI(watcher.server, SETTINGS)
    put, receive = trio.open_memory_channel[dict[str, Any]](2)
    host = MemoryHost({}, receive)
    put.send_nowait({"type": "websocket.connect"})
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery, app.running():
            nursery.start_soon(app, host.scope, host.receive, host.send)
            await host.wait_sent(1)
    assert (host.sent[-1]["type"], host.sent[-1]["code"]) == ("websocket.close", 1001)


async def test_it_needs_a_running_application() -> None:
    _, receive = trio.open_memory_channel[dict[str, Any]](0)
    host = MemoryHost({}, receive)
    with pytest.raises(RuntimeError, match="running"):
        await McpASGI(Watcher().server, SETTINGS)(host.scope, host.receive, host.send)
