"""HTTP/1.1 on one connection, over every host: what follows what, what ends it, and what it costs. Real sockets."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from http_raw import call_tool
from http_wire import serving
from shared.http_server_connections import make_server

from trio_mcp import HttpServerSettings

pytestmark = [pytest.mark.usefixtures("host")]


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
