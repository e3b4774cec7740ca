"""A client opened on a URL: which era it finds, which transport, and what it is told beforehand."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing
from steps import cancelled_after_steps

from tests.simulation.play import ordered_by
from trio_mcp import (
    ConnectionLost,
    McpError,
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


async def test_left_in_the_pass_in_which_the_server_is_found_to_be_old() -> None:
    """Promise 8: HTTP+SSE is not tried over a channel that was closed just before, in whatever order that falls."""

    async def refuse(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    await stream.send_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/sse"
        for order in range(8):
            for n in range(8, 20):
                with ordered_by(order), cancelled_after_steps(n), suppress(McpError):
                    async with open_client(url, revision="2025-06-18"):
                        raise AssertionError
        nursery.cancel_scope.cancel(reason="no more clients come")
