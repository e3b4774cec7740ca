"""Both ends are ours, over HTTP: sessions that are over their limits, and servers that are started again.

What holds over every transport is in `tests/memory/matrix`.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import (
    HttpServerParameters,
    HttpServerSettings,
    Limits,
    McpASGI,
    ResourceUpdated,
    Revision,
    Server,
    open_asgi_client,
    open_client,
)

WAYS = pytest.mark.parametrize(
    ("revision", "url"),
    [
        *((str(revision), "http://localhost/mcp") for revision in tuple(Revision)[1:]),
        ("2024-11-05", "http://localhost/sse"),
        ("2025-11-25", "http://localhost/sse"),
    ],
)


def make_server() -> Server[Any]:
    server: Server[Any] = Server("both ends", version="1")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.resource("memo://now")
    async def memo() -> str:
        return "now"

    return server


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
    server, old_server = make_server(), make_server()
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
