"""A client opened on a URL: which era it finds, which transport, and what it is told beforehand."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trio_mcp import (
    ConnectionLost,
    open_client,
    run_client,
)


async def test_a_server_that_is_nowhere_is_said_so(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 7; by a string as well, and `run_client` reports it to its caller."""
    with pytest.raises(ConnectionLost, match="could not connect to http\\+unix"):
        async with open_client("http+unix://%2Fnowhere.sock/mcp"):
            raise AssertionError
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionLost, match="could not connect")):
        async with trio.open_nursery() as nursery:
            await nursery.start(run_client, "http+unix://%2Fnowhere.sock/mcp")
