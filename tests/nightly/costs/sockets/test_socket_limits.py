"""What connections at sockets may cost: how many, how long, how much; and clients that mean harm."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import suppress
from pathlib import Path

import trio
from line_sockets import KINDS, Kind, connect, serving_at
from shared.sockets_socket_limits import MIB, make_server, none_kept

from trio_mcp import Limits


@KINDS
async def test_begun_messages_take_little_more_than_is_lent(kind: Kind, tmp_path: Path) -> None:
    """What is refused goes at once, also while no garbage is collected."""
    server = make_server(Limits(max_kept_bytes=8 * MIB))
    data = memoryview(b'{"x": "' + b"x" * (3 * MIB))

    async def begin(url: str) -> None:
        async with connect(url) as line:
            with suppress(trio.BrokenResourceError):
                await line.stream.send_all(data)

    async with serving_at(kind, server, tmp_path) as url:
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(30):
                    nursery.start_soon(begin, url)
            await none_kept(server)
            left, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert peak < 16 * MIB
    assert left < 30 * 40 * 1024  # of each, its connection
