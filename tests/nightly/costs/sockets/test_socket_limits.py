"""What connections at sockets may cost: how many, how long, how much; and clients that mean harm."""

from __future__ import annotations

import gc
import os
import tracemalloc
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
import trio
from inside_endpoint import StreamSocket
from line_sockets import KINDS, Kind, connect, serving_at
from shared.sockets_socket_limits import MIB, kept, make_server, none_kept

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


@KINDS
async def test_what_waits_for_its_turn_is_lent(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte may be read behind a full read, of each of many clients: only as long as there is room for it."""
    server = make_server(Limits(max_kept_bytes=8 * MIB))
    accepted: set[StreamSocket] = set()
    waiting: set[StreamSocket] = set()

    async def wait_to_read(socket: StreamSocket) -> None:
        await trio.lowlevel.checkpoint()
        if socket in accepted:
            waiting.add(socket)
            await trio.sleep_forever()
        accepted.add(socket)

    monkeypatch.setattr(StreamSocket, "wait_to_read", wait_to_read)
    clients = 30
    with trio.fail_after(30):
        async with serving_at(kind, server, tmp_path) as url, AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(connect(url)) for _ in range(clients)]
            for line in lines:
                descriptor = line.stream.socket.fileno()
                with suppress(BlockingIOError):
                    while True:
                        os.write(descriptor, bytes(64 * 1024))
            tracemalloc.start()
            try:
                while len(waiting) < clients:
                    await trio.sleep(0.01)
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            # Without reading ahead, 64 KiB of each; with it, what is lent.
            assert held < kept(server) + clients * 80 * 1024
            monkeypatch.undo()
