"""A client left alone with a server that fails it at every turn: how often it asks in a minute, and then in the next."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
import trio
import trio.testing
from http_mcp import MODERN_DISCOVERY, HttpCall, error, result
from http_sessions import SSE, HttpServer
from scripted import NO_ANSWER, ScriptedServer, acknowledge, open_scripted

from trio_mcp import Client, McpError, RestartPolicy, open_client

Use = Callable[[Client], Awaitable[object]]


async def idle(_: Client) -> None:
    await trio.sleep_forever()


async def listen(client: Client) -> None:
    async with client.listen(tools_list_changed=True) as events:
        async for _ in events:
            pass


async def subscribe(client: Client) -> None:
    async with client.listen(resources=["memo://a"]) as events:
        async for _ in events:
            pass


async def ask(client: Client) -> None:
    await client.call_tool("x")


def _get(answer: Callable[[HttpServer, HttpCall], Awaitable[object]]) -> Callable[[], HttpServer]:
    """A server of sessions whose own stream is odd."""

    def make() -> HttpServer:
        server = HttpServer("2025-11-25", capabilities={"tools": {}, "resources": {"subscribe": True}})
        inner = server.script._handler

        async def serve(call: HttpCall) -> None:
            if call.method == "GET":
                await answer(server, call)
            else:
                await inner(call)

        server.script._handler = serve
        return server

    return make


async def _not_found(_: HttpServer, call: HttpCall) -> None:
    await call.answer(b"Not Found", 404, "text/plain")


async def _busy(_: HttpServer, call: HttpCall) -> None:
    await call.answer(b"", 503, None)


async def _end_at_once(_: HttpServer, call: HttpCall) -> None:
    await call.stream()
    await call.end()


async def _end_after_priming(_: HttpServer, call: HttpCall) -> None:
    await call.stream()
    await call.raw(b"id: 1\nretry: 0\ndata:\n\n")
    await call.end()


async def _end_after_a_message(_: HttpServer, call: HttpCall) -> None:
    await call.stream()
    await call.raw(b"retry: 0\n\n")
    await call.event(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
    )
    await call.end()


async def _forget(server: HttpServer, call: HttpCall) -> None:
    """The stream opens and ends; after that the session is not known any more."""
    if call.headers.get("mcp-session-id") not in server.sessions:
        await _not_found(server, call)
        return
    await call.stream()
    await call.end()
    server.sessions.clear()


def _modern(
    refuse: Callable[[HttpServer, HttpCall], Awaitable[object]], method: str = "subscriptions/listen"
) -> Callable[[], HttpServer]:
    def make() -> HttpServer:
        can = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        server = HttpServer("2026-07-28", capabilities=can)

        async def serve(call: HttpCall) -> None:
            await refuse(server, call)

        server.handlers[method] = serve
        return server

    return make


async def _unsupported(_: HttpServer, call: HttpCall) -> None:
    await call.answer(error(call.id, -32022, "no", supported=["2026-07-28"]), 400)


async def _grant_and_fail(_: HttpServer, call: HttpCall) -> None:
    await call.stream()
    await call.event(acknowledge(call.id, call.message["params"]["notifications"]))
    await call.event(error(call.id, -32603, "fell over"))
    await call.end()


async def _refuse_all(server: HttpServer, call: HttpCall) -> None:
    await server.refuse(call, -32603, "no", 500)


async def _limit(_: HttpServer, call: HttpCall) -> None:
    await call.answer(b"", 429, None, Retry_After="0")


async def _unauthorized(_: HttpServer, call: HttpCall) -> None:
    await call.answer(b"", 401, None)


async def _redirect(_: HttpServer, call: HttpCall) -> None:
    await call.answer(b"", 307, None, Location="/mcp")


async def _ask_back(server: HttpServer, call: HttpCall) -> None:
    await server.send(call, result(call.id, resultType="input_required", requestState="again"))


def _sse(answer: Callable[[HttpServer, HttpCall], Awaitable[object]]) -> Callable[[], HttpServer]:
    def make() -> HttpServer:
        server = HttpServer(SSE)
        inner = server.script._handler

        async def serve(call: HttpCall) -> None:
            await inner(call)
            await answer(server, call)

        server.script._handler = serve
        return server

    return make


async def _hang_up(server: HttpServer, call: HttpCall) -> None:
    if call.rpc == "notifications/initialized":
        server.forget_sessions()


CALLBACKS: dict[str, Any] = {"on_tools_list_changed": lambda: None}

OVER_HTTP: dict[str, tuple[Callable[[], HttpServer], Use, dict[str, Any], int]] = {
    # name: the server, what the client does, its options, the most HTTP requests in the first minute
    "GET answered with 404": (_get(_not_found), idle, {}, 5),
    "GET answered with 404, listening": (_get(_not_found), subscribe, {}, 6),
    "GET answered with 503": (_get(_busy), idle, {}, 15),
    "a stream that ends at once": (_get(_end_at_once), idle, {}, 15),
    "a stream that ends after priming": (_get(_end_after_priming), idle, {}, 20),
    "a stream that ends after each message": (_get(_end_after_a_message), idle, {}, 620),
    "a session that is lost with its stream": (_get(_forget), idle, {}, 60),
    "a session that is lost with its stream, listening": (_get(_forget), subscribe, {}, 90),
    "listening unsupported, callbacks": (_modern(_unsupported), idle, CALLBACKS, 30),
    "listening unsupported": (_modern(_unsupported), listen, {}, 30),
    "listening refused, callbacks": (_modern(_refuse_all), idle, CALLBACKS, 20),
    "listening refused": (_modern(_refuse_all), listen, {}, 20),
    "listening granted and failed, callbacks": (_modern(_grant_and_fail), idle, CALLBACKS, 20),
    "listening granted and failed": (_modern(_grant_and_fail), listen, {}, 20),
    "calls limited": (_modern(_limit, "tools/call"), ask, {}, 2),
    "calls unauthorized": (_modern(_unauthorized, "tools/call"), ask, {}, 2),
    "calls redirected": (_modern(_redirect, "tools/call"), ask, {}, 7),
    "calls that ask back without a question": (_modern(_ask_back, "tools/call"), ask, {}, 12),
    "HTTP+SSE that hangs up": (_sse(_hang_up), idle, {}, 60),
}


@pytest.fixture
def even_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are drawn between two bounds; where minutes are compared, luck must not decide."""

    def middle(low: float, high: float) -> float:
        return (low + high) / 2

    monkeypatch.setattr(random, "random", lambda: 0.5)
    monkeypatch.setattr(random, "uniform", middle)


@pytest.mark.usefixtures("even_pauses")
@pytest.mark.parametrize("storm", OVER_HTTP)
async def test_no_loop_of_the_client_goes_round_without_a_pause(
    storm: str, autojump_clock: trio.testing.MockClock
) -> None:
    """What is voided at once is no success, so every pause grows until something lasts."""
    make, use, options, most = OVER_HTTP[storm]
    server = make()
    counts: list[int] = []
    async with AsyncExitStack() as stack:
        stack.push_async_exit(_swallow)
        client = await stack.enter_async_context(open_client(server.parameters(), **options))
        for _ in range(3):
            before = len(server.script.calls)
            with trio.move_on_after(60), suppress(McpError):
                if counts:
                    await idle(client)
                await use(client)
            counts.append(len(server.script.calls) - before)
    first, *_, last = counts
    assert first <= most
    assert last <= first + 1  # at a steady pace, one minute has room for one more than another


async def _swallow(_: Any, raised: BaseException | None, __: Any) -> bool:
    return isinstance(raised, McpError)


@pytest.mark.parametrize("connects", ["and is lost at once", "and refuses to listen"])
async def test_a_server_that_is_started_again_and_again_is_given_up(
    connects: str, autojump_clock: trio.testing.MockClock
) -> None:
    """`RestartPolicy`: a connection that did not last is a failure, however well it began."""

    def script(server: ScriptedServer, message: dict[str, Any]) -> object:
        if message["method"] == "subscriptions/listen":
            server.lose()
            return NO_ANSWER
        return None

    server = ScriptedServer(script=script)
    server.restart = RestartPolicy(max_restarts=4, first_delay=0.1)
    connections = 0
    with suppress(McpError):
        async with open_scripted(server, **CALLBACKS) as client:
            for _ in range(60):
                if connects == "and is lost at once" and server.connections > connections:
                    connections = server.connections
                    server.lose()
                await trio.sleep(1)
            del client
    assert server.connections <= 5


async def test_discovery_is_not_repeated_for_a_call_more_than_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A call asks for another agreement once, whatever comes of it; it need not wait for that either."""
    server = _modern(_unsupported, "tools/call")()
    async with open_client(server.parameters(), **CALLBACKS) as client:
        for _ in range(5):
            with pytest.raises(McpError):
                await client.call_tool("x")
        assert trio.current_time() == 0
        assert len(server.asked("server/discover")) <= 6
    assert MODERN_DISCOVERY["supportedVersions"] == ["2026-07-28"]
