"""HTTP/1.1 on one connection, over every host: what follows what, what ends it, and what it costs. Real sockets."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest
import trio
from http_raw import call_tool
from http_wire import serving

from trio_mcp import Context, HttpServerSettings, Server

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("host")]

who: ContextVar[str] = ContextVar("who", default="nobody")


def make_server(log: list[str] | None = None) -> Server[Any]:
    said = [] if log is None else log
    server: Server[Any] = Server("connected")

    @server.tool
    async def echo(text: str) -> str:
        said.append(f"echo {text[:10]}")
        return text

    @server.tool
    async def nap(seconds: float) -> str:
        said.append("nap began")
        try:
            await trio.sleep(seconds)
        finally:
            said.append("nap ended")
        return "rested"

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.log("info", "told")
        return "done"

    @server.tool
    async def enter(who_is_it: str) -> str:
        before = who.get()
        who.set(who_is_it)
        return before

    return server


async def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    """`idle_timeout`: also for a head that comes slowly, however steadily."""
    settings = HttpServerSettings(idle_timeout=0.4)
    with trio.fail_after(20):
        async with (
            serving(make_server(), settings) as served,
            served.wire() as idle,
            served.wire() as slow,
            served.wire() as busy,
            served.wire() as used,
        ):
            began = trio.current_time()
            await used.stream.send_all(used.request(call_tool("echo", text="a")))
            assert (await used.answer())[0] == 200
            await busy.stream.send_all(busy.request(call_tool("nap", seconds=1)))
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    with suppress(trio.BrokenResourceError):
                        for byte in slow.head(0) * 10:
                            await slow.stream.send_all(bytes([byte]))
                            await trio.sleep(0.02)

                nursery.start_soon(trickle)
                assert await idle.wait_closed() == b""
                await slow.wait_closed()
                assert await used.wait_closed() == b""
                assert trio.current_time() - began < 0.95
                nursery.cancel_scope.cancel()
            assert (await busy.answer())[0] == 200
