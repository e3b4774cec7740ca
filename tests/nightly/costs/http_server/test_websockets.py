"""WebSockets as the server serves them, spoken to byte by byte: RFC 6455, who is let in, and what ends nothing."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import trio
from watching import ENOUGH, Watcher, call
from websocket_raw import (
    TEXT,
    frame,
    raw_socket,
    served,
)

from trio_mcp import (
    HttpServerSettings,
    open_client,
)


async def still_works(port: int) -> None:
    """Check that others are served."""
    async with open_client(f"ws://127.0.0.1:{port}/mcp") as client:
        assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"


async def test_a_late_pong_is_no_silence() -> None:
    """Whatever comes is a sign of life."""
    watcher = Watcher()
    settings = HttpServerSettings(keep_alive_interval=0.15)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server, settings=settings) as port, raw_socket(port) as socket:
            for number in range(12):
                await socket.send(call("add", number, a=1, b=1))
                await trio.sleep(0.1)
            seen = [await socket.receive() for _ in range(12)]
            assert [each.opcode for each in seen].count(TEXT) >= 10


async def test_what_has_given_way_takes_no_memory_until_its_client_closes() -> None:
    """max_kept_bytes: clients that begin large messages, and then neither end them nor answer Close."""
    watcher = Watcher(max_kept_bytes=4_000_000)
    data = frame(TEXT, "x" * 3_000_000)[:2_500_000]

    async with served(watcher.server) as port, trio.open_nursery() as nursery:

        async def begin() -> None:
            async with raw_socket(port) as socket:
                with suppress(trio.BrokenResourceError):
                    await socket.stream.send_all(data)
                    await trio.sleep_forever()

        with trio.fail_after(ENOUGH):
            tracemalloc.start()
            try:
                for _ in range(20):
                    nursery.start_soon(begin)
                    await trio.sleep(0.02)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            await still_works(port)
        nursery.cancel_scope.cancel()
    assert peak < 12_000_000
