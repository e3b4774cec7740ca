"""Both ends are ours: a client opened on a URL, and a server over HTTP, in every revision and over HTTP+SSE."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import (
    Client,
    Context,
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    ResourceUpdated,
    Revision,
    Server,
    ToolError,
    open_asgi_client,
    open_client,
    serve_http,
)

WAYS = pytest.mark.parametrize(
    ("revision", "url"),
    [
        *((str(revision), "http://localhost/mcp") for revision in tuple(Revision)[1:]),
        ("2024-11-05", "http://localhost/sse"),
        ("2025-11-25", "http://localhost/sse"),
    ],
)


def make_server() -> tuple[Server[Any], list[str]]:
    server = Server("both ends", version="1")
    cancelled: list[str] = []

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(to: int, ctx: Context[Any]) -> str:
        await ctx.info("counting")
        async with ctx.progress(total=to) as progress:
            for _ in range(to):
                await trio.sleep(0.1)
                await progress.advance()
        return "counted"

    @server.tool
    async def hang(name: str) -> str:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(name)

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        answer = await ctx.elicit("really?", bool)
        return f"it is {bool(answer)}"

    @server.tool
    async def fail() -> str:
        raise ToolError("no ink")

    @server.resource("memo://now")
    async def memo() -> str:
        return "now"

    return server, cancelled


@asynccontextmanager
async def both_ends(
    revision: str, url: str, **options: Any
) -> AsyncGenerator[tuple[Client, Server[Any], list[str]]]:
    server, cancelled = make_server()
    app = McpASGI(server, HttpServerSettings(sse=True))
    era: Any = "sse" if url.endswith("sse") else "auto"
    parameters = HttpServerParameters(url, app=app)
    async with open_client(parameters, revision=revision, era=era, **options) as client:
        assert client.revision == revision
        yield client, server, cancelled


@WAYS
async def test_everything_works(revision: str, url: str, autojump_clock: trio.testing.MockClock) -> None:
    logged: list[Any] = []
    options: dict[str, Any] = {
        "on_log": lambda message: logged.append(message.data),  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType]
        "on_elicit": lambda _: {"value": True},  # pyright: ignore[reportUnknownLambdaType]
    }
    async with both_ends(revision, url, **options) as (client, server, cancelled):
        assert [tool.name async for tool in client.list_tools()] == ["add", "count", "hang", "ask", "fail"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        await client.set_log_level("info")
        seen: list[float] = []
        await client.call_tool("count", {"to": 5}, on_progress=lambda p: seen.append(p.progress))
        assert seen == [1, 2, 3, 4, 5]
        assert logged == ["counting"]
        if revision >= "2025-06-18":
            assert (await client.call_tool("ask")).text == "it is True"
        with pytest.raises(ToolError, match="no ink"):
            await client.call_tool("fail", returns=str)
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(client.call_tool, "add", {"a": n, "b": n})
        for name in ("a", "b"):
            begin = trio.current_time()
            with trio.move_on_after(2):
                await client.call_tool("hang", {"name": name})
            assert trio.current_time() - begin == 2
        await trio.sleep(0.1)
        assert cancelled == ["a", "b"]
        async with client.listen(resources=["memo://now"]) as events:
            await server.resource_updated("memo://now")
            with trio.fail_after(5):
                assert await anext(events) == ResourceUpdated("memo://now")


@WAYS
async def test_leaving_with_calls_in_flight_cancels_their_handlers(
    revision: str, url: str, autojump_clock: trio.testing.MockClock
) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    cancelled: list[str] = []
    with trio.move_on_after(5):
        async with both_ends(revision, url) as (client, _, cancelled):
            await client.call_tool("hang", {"name": "it"})
    assert cancelled == ["it"]
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks


@WAYS
async def test_leaving_a_session_that_is_over_its_limits_cancels_its_handlers(
    revision: str, url: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Reading has stopped, so no cancellation is taken; the end of the session has time that nothing else can take."""
    server = Server("busy", version="1", limits=Limits(max_inbound_requests=2, max_waiting_bytes=3_000))
    running = 0
    begun = trio.Event()

    @server.tool
    async def hang(name: str) -> None:
        nonlocal running
        running += 1
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            running -= 1

    era: Any = "sse" if url.endswith("sse") else "auto"
    async with open_asgi_client(McpASGI(server, HttpServerSettings(sse=True))) as app:
        parameters = HttpServerParameters(url, app=app)
        with trio.move_on_after(1):
            async with (
                open_client(parameters, revision=revision, era=era) as client,
                trio.open_nursery() as nursery,
            ):
                for n in range(20):
                    nursery.start_soon(client.call_tool, "hang", {"name": f"{n:01000}"})
        assert trio.current_time() <= 1 + Limits().goodbye_timeout
        await trio.testing.wait_all_tasks_blocked()
        assert begun.is_set()
        assert running == 0


@pytest.mark.parametrize("revision", [str(revision) for revision in tuple(Revision)[1:-1]])
async def test_a_server_that_was_started_again_is_not_noticed(
    revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The new one knows nothing of the session: 404, one new session, and the call is made again."""
    (server, _), (old_server, _) = make_server(), make_server()
    old, new = McpASGI(old_server), McpASGI(server)
    switch = _Switch(old)
    async with (
        old.running(),
        new.running(),
        open_asgi_client(switch) as shared,
        open_client(HttpServerParameters("http://localhost/mcp", app=shared), revision=revision) as client,
    ):
        assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"
        switch.app = new
        async with client.listen(resources=["memo://now"]) as events:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            await server.resource_updated("memo://now")
            with trio.fail_after(5):
                assert await anext(events) == ResourceUpdated("memo://now")


class _Switch:
    """Passes requests on, and no lifespan."""

    def __init__(self, app: McpASGI) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        await self.app(scope, receive, send)


@pytest.mark.parametrize("revision", [str(revision) for revision in tuple(Revision)[1:]])
async def test_over_real_sockets(revision: str) -> None:
    server, cancelled = make_server()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            served = await nursery.start(serve_http, server, "127.0.0.1", 0)
            async with open_client(served[0], revision=revision) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
                with trio.move_on_after(0.2):
                    await client.call_tool("hang", {"name": "it"})
                while not cancelled:
                    await trio.sleep(0.01)
                async with trio.open_nursery() as calls:
                    for n in range(50):
                        calls.start_soon(client.call_tool, "add", {"a": n, "b": n})
            nursery.cancel_scope.cancel()
