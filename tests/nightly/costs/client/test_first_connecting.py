"""Connecting that is cut short, and connections that end in odd ways."""

from __future__ import annotations

import sys

import pytest
import trio

from trio_mcp import (
    ConnectionLost,
    Limits,
    StdioServerParameters,
    open_client,
)


async def test_a_silent_process_gets_one_connect_timeout() -> None:
    """Promise 7: the second chance, without the question that some servers die of, has no time of its own."""
    parameters = StdioServerParameters(sys.executable, ["-c", "import time; time.sleep(600)"])
    limits = Limits(connect_timeout=1, discover_timeout=5, terminate_timeout=0.1)
    starts = trio.current_time()
    with pytest.raises(ConnectionLost, match="connect_timeout"):
        async with open_client(parameters, limits=limits):
            pass
    assert 1 <= trio.current_time() - starts < 1.9
