"""The cache of `examples/caching_proxy.py` keeps what it says, for so long, and no more."""

from __future__ import annotations

import runpy
from typing import Any

from places import EXAMPLES
from trio.testing import MockClock

from trio_mcp import Proxy, Server, ToolError, open_client

RESULT_CACHE: Any = runpy.run_path(str(EXAMPLES / "caching_proxy.py"))["ResultCache"]


def counting_server() -> tuple[Server, list[str]]:
    """Return a server, and the list of what has reached it."""
    server, reached = Server("counting"), list[str]()

    @server.tool
    async def look(what: str) -> str:
        reached.append(what)
        if what == "nothing":
            raise ToolError("there is nothing")
        return what

    @server.tool
    async def act(what: str) -> str:
        reached.append(what)
        return what

    return server, reached


async def test_results_are_kept_for_their_time(mock_clock: MockClock) -> None:
    """On Trio's clock; only of tools that are named, and no errors."""
    server, reached = counting_server()
    cache = RESULT_CACHE(frozenset({"look"}), ttl=60.0)
    async with open_client(Proxy(server, middleware=[cache])) as client:
        for _ in range(2):
            assert (await client.call_tool("look", {"what": "a"})).text == "a"
            await client.call_tool("look", {"what": "nothing"})
            await client.call_tool("act", {"what": "b"})
        assert reached == ["a", "nothing", "b", "nothing", "b"]
        mock_clock.jump(59)
        await client.call_tool("look", {"what": "a"})
        assert len(reached) == 5
        mock_clock.jump(2)
        await client.call_tool("look", {"what": "a"})
        assert reached[5:] == ["a"]


async def test_the_cache_is_bounded() -> None:
    """In entries, of which the one not used for longest goes, and in bytes, even for a single result."""
    server, reached = counting_server()
    few = RESULT_CACHE(frozenset({"look"}), max_entries=2)
    async with open_client(Proxy(server, middleware=[few])) as client:
        for what in ("a", "b", "a", "c", "a", "b"):
            await client.call_tool("look", {"what": what})
    assert reached == ["a", "b", "c", "b"]
    assert len(few.entries) == 2
    small = RESULT_CACHE(frozenset({"look"}), max_bytes=2_000)
    async with open_client(Proxy(server, middleware=[small])) as client:
        for number in range(20):
            await client.call_tool("look", {"what": str(number) * 100})
            assert 0 < small.size <= 2_000
        await client.call_tool("look", {"what": "x" * 3_000})
    assert (small.size, len(small.entries)) == (0, 0)
