"""WebSockets of ASGI servers: Hypercorn's Trio worker, anycorn, and a host in memory that does what a test says."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import attrs
import pytest
import trio
from other_hosts import HOSTS, hosted, mounted
from watching import Watcher, answer, authenticate, call
from websocket_raw import BINARY, CLOSE, CONTINUATION, TEXT, frame, raw_socket

from trio_mcp import (
    ConnectionLost,
    HttpServerSettings,
    McpASGI,
    RequestError,
    Revision,
    WebSocketServerParameters,
    open_client,
)

SETTINGS = HttpServerSettings(websocket=True)


def port_of(base: str) -> int:
    return int(base.rpartition(":")[2])


@HOSTS
@pytest.mark.parametrize("is_mounted", [False, True], ids=["alone", "mounted"])
async def test_both_eras_on_another_host(host: str, *, is_mounted: bool) -> None:
    """HttpServerSettings.websocket: beside HTTP, at the same path, also below a path of Starlette."""
    mcp = McpASGI(Watcher().server, SETTINGS)
    app: Any = mounted(mcp) if is_mounted else mcp
    path = "/tools/mcp" if is_mounted else "/mcp"
    async with hosted(host, app) as base:
        for revision in Revision:
            async with open_client(f"{base.replace('http', 'ws')}{path}", revision=revision) as client:
                assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
                assert len((await client.call_tool("large", {"size": 300_000})).text) == 300_000
        async with open_client(f"{base}{path}") as client:
            assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
        if is_mounted:
            async with raw_socket(port_of(base)) as socket:
                assert socket.status in (403, 404)


@HOSTS
async def test_it_is_opt_in(host: str) -> None:
    async with hosted(host, McpASGI(Watcher().server)) as base:
        async with raw_socket(port_of(base)) as socket:
            assert socket.status == 403
        async with open_client(f"{base}/mcp") as client:
            assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"


GOOD: dict[str, str | None] = {"Authorization": "Bearer good"}

REFUSED: dict[str, tuple[int, dict[str, str | None], str]] = {
    "host": (421, {"Host": "evil.example"}, "/mcp"),
    "origin": (403, {"Origin": "https://evil.example"}, "/mcp"),
    "subprotocol": (400, {"Sec-WebSocket-Protocol": "chat", **GOOD}, "/mcp"),
    "no subprotocol": (400, {"Sec-WebSocket-Protocol": None, **GOOD}, "/mcp"),
    "not authenticated": (401, {}, "/mcp"),
    "refused by authenticate": (401, {"Authorization": "Bearer bad"}, "/mcp"),
    "another path": (404, GOOD, "/other"),
    "the path of HTTP+SSE": (404, GOOD, "/sse"),
}


@HOSTS
async def test_handshakes_are_refused_by_a_status(host: str, subtests: pytest.Subtests) -> None:
    """ASGI's "Websocket Denial Response", which both hosts have: status, header fields and body."""
    app = McpASGI(Watcher().server, attrs.evolve(SETTINGS, sse=True), authenticate=authenticate)
    async with hosted(host, app) as base:
        url = f"{base.replace('http', 'ws')}/mcp"
        good = WebSocketServerParameters(url, headers={"Authorization": "Bearer good"})
        for what, (status, headers, path) in REFUSED.items():
            with subtests.test(what):
                async with raw_socket(port_of(base), headers, path) as socket:
                    assert socket.status == status
                    if what == "refused by authenticate":
                        assert "invalid" in socket.headers["www-authenticate"]
                async with open_client(good) as client:
                    assert (await client.call_tool("who")).text == "alice 127.0.0.1"


@HOSTS
async def test_sessions_are_limited(host: str) -> None:
    """max_sessions_per_principal: who rests gives way with 1013, and who does not is not disturbed."""
    watcher = Watcher()
    settings = attrs.evolve(SETTINGS, max_sessions=20)
    async with hosted(host, McpASGI(watcher.server, settings)) as base, AsyncExitStack() as stack:
        first, *kept = [await stack.enter_async_context(raw_socket(port_of(base))) for _ in range(11)]
        assert await first.closed_with() == 1013
        for socket in kept:
            assert socket.status == 101
            await socket.send(call("hang"), call("add", 2, a=1, b=1))
            await answer(socket)
        async with raw_socket(port_of(base)) as further:
            assert further.status == 429
            assert int(further.headers["retry-after"]) >= 1


@HOSTS
@pytest.mark.parametrize("polite", [False, True])
async def test_a_client_that_leaves_ends_its_handlers_alone(host: str, *, polite: bool) -> None:
    watcher = Watcher()
    async with hosted(host, McpASGI(watcher.server, SETTINGS)) as base, raw_socket(port_of(base)) as other:
        async with raw_socket(port_of(base)) as socket:
            await socket.send(call("hang"))
            await watcher.begun.wait()
            if polite:
                await socket.send(frame(CLOSE, (1000).to_bytes(2)))
                assert (await socket.receive()).code == 1000
        await watcher.cancelled.wait()
        await other.send(call("add", a=20, b=22))
        assert (await answer(other))["id"] == 1


BROKEN = {
    "binary": (frame(BINARY, b"{}"), 1003),
    "too large": (frame(TEXT, "x" * 20_001), 1009),
    "too large in bytes, not in characters": (frame(TEXT, "\N{GRINNING FACE}" * 5_001), 1009),
    "too large in fragments": (
        frame(TEXT, "x" * 9_000, is_last=False) + frame(CONTINUATION, "x" * 12_000),
        1009,
    ),
}


@HOSTS
async def test_what_is_not_allowed_closes_its_own_connection(host: str, subtests: pytest.Subtests) -> None:
    watcher = Watcher(max_message_bytes=20_000)
    async with (
        hosted(host, McpASGI(watcher.server, SETTINGS)) as base,
        raw_socket(port_of(base)) as other,
    ):
        for what, (data, code) in BROKEN.items():
            with subtests.test(what):
                async with raw_socket(port_of(base)) as socket:
                    await socket.send(data, call("add", a=1, b=1))
                    assert await socket.closed_with() == code
                await other.send(call("add", a=20, b=22))
                assert (await answer(other))["id"] == 1


@HOSTS
async def test_a_host_that_stops_ends_the_session(host: str) -> None:
    """It cancels the application after its own graceful timeout; nothing of the session is left then."""
    watcher = Watcher()
    async with hosted(host, McpASGI(watcher.server, SETTINGS), graceful_timeout=0.2) as base:
        stream = await trio.open_tcp_stream("127.0.0.1", port_of(base))
        async with raw_socket(port_of(base)) as socket:
            await stream.aclose()
            await socket.send(call("hang"))
            await watcher.begun.wait()
    assert not watcher.running


@HOSTS
async def test_the_client_learns_how_it_was_closed(host: str) -> None:
    """The reason is in what calls raise, where the application closes the session itself."""
    watcher = Watcher(max_message_bytes=20_000)
    async with (
        hosted(host, McpASGI(watcher.server, SETTINGS)) as base,
        open_client(f"{base.replace('http', 'ws')}/mcp") as client,
    ):
        with pytest.raises(ConnectionLost, match=r"1009 \(message too big\): .*max_message_bytes"):
            await client.call_tool("add", {"a": 1, "b": "x" * 30_000})


async def test_refusals_reach_our_client_with_status_and_body() -> None:
    async with hosted("anycorn", McpASGI(Watcher().server, SETTINGS, authenticate=authenticate)) as base:
        with pytest.raises(RequestError) as refused:
            async with open_client(f"{base.replace('http', 'ws')}/mcp"):
                raise AssertionError
    assert refused.value.status == 401
    assert "not authenticated" in str(refused.value)
