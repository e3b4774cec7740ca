"""What sessions keep, and of whom: one client that takes what it can, and one that is honest."""

from __future__ import annotations

import tracemalloc

import pytest
from http_raw import open_raw
from shared.http_server_kept_sessions import HOG, Client, settings

from trio_mcp import Server

pytestmark = pytest.mark.usefixtures("under")


async def test_nothing_else_of_the_handshake_is_kept() -> None:
    """What a client adds to it is gone when it is answered."""
    async with open_raw(Server("s"), settings()) as raw:
        client = Client(raw, HOG)
        assert (await client.ask(junk=[[] for _ in range(100_000)])).status == 200
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(4):
                answer = await client.ask(junk=[[] for _ in range(100_000)], _meta={"junk": ["x"] * 100_000})
                assert answer.status == 200
                del answer
            assert tracemalloc.get_traced_memory()[0] - before < 4_000_000, "a fifth of what was sent"
        finally:
            tracemalloc.stop()
