"""Connections behind a proxy: whose they are, how many there are, when they end, and what happens when one is lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from raw_ends import LEGACY

from trio_mcp import (
    Proxy,
    ResourceUpdated,
    Server,
    Shutdown,
    open_client,
    serve_http,
)


async def test_a_server_over_http_that_has_forgotten_its_sessions() -> None:
    """It was started anew at the same address: it is greeted again, and the call it has refused is sent once more."""
    calls: list[int] = []

    def anew() -> Server[None]:
        server = Server("anew", revisions=[LEGACY])

        @server.tool
        async def count() -> int:
            calls.append(1)
            return len(calls)

        server.add_resource("a://b", "c")
        return server

    async def serve(server: Server[None], port: int, *, task_status: Any) -> None:
        shutdown = Shutdown()

        def started(urls: tuple[str, ...]) -> None:
            task_status.started((urls[0], shutdown.abort))

        status: Any = SimpleNamespace(started=started)
        await serve_http(server, port=port, http="lean", shutdown=shutdown, task_status=status)
        ended.set()

    async with trio.open_nursery() as nursery:
        ended = trio.Event()
        url, end = await nursery.start(serve, anew(), 0)
        async with (
            open_client(Proxy(url), era="legacy") as client,
            client.listen(resources=["a://b"]) as events,
        ):
            assert (await client.call_tool("count")).text == "1"
            end()
            await ended.wait()
            again = anew()
            _, end = await nursery.start(serve, again, int(url.rpartition(":")[2].partition("/")[0]))
            assert (await client.call_tool("count")).text == "2"
            assert await anext(events) == ResourceUpdated("a://b")  # it may have changed meanwhile
            await again.resource_updated("a://b")
            assert await anext(events) == ResourceUpdated("a://b")
        end()
