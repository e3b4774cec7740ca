"""Servers at the URL of a socket or a WebSocket that are started anew."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from trio_mcp import ConnectionLost, Era, Proxy, Server, Shutdown, open_client, serve_tcp, serve_websocket


def anew(answer: str) -> Server[None]:
    server = Server("anew")

    @server.tool
    async def name() -> str:
        return answer

    return server


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("serve", [serve_tcp, serve_websocket])
async def test_a_proxy_before_a_url_connects_again(serve: Any, era: Era) -> None:
    """A deploy of the server behind it does not end the session of its client. A client of a program is lost."""
    async with trio.open_nursery() as nursery:
        shutdown, ended = Shutdown(), trio.Event()

        async def first(*, task_status: Any) -> None:
            await serve(anew("first"), port=0, shutdown=shutdown, task_status=task_status)
            ended.set()

        started: Any = await nursery.start(first)
        url: str = started if isinstance(started, str) else started[0]
        async with open_client(Proxy(url), era=era) as client, open_client(url, era=era) as own:
            assert (await client.call_tool("name")).text == "first"
            assert (await own.call_tool("name")).text == "first"
            shutdown.abort()
            await ended.wait()
            port = int(url.rpartition(":")[2].partition("/")[0])

            async def second(*, task_status: Any) -> None:
                await serve(anew("second"), port=port, task_status=task_status)

            await nursery.start(second)
            with pytest.raises(ConnectionLost):
                await own.call_tool("name")
            assert (await client.call_tool("name")).text == "second"
        nursery.cancel_scope.cancel()
