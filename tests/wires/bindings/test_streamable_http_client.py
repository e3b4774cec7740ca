"""The client's end of Streamable HTTP in the modern era: what goes out, what comes back, what is given up, what fails."""

from __future__ import annotations

from typing import Final

import trio
import trio.testing
from inside_transports import open_streamable_http
from inside_wire import encode_request

from trio_mcp import (
    ConnectionLost,
    HttpServerParameters,
    Incoming,
    Limits,
    Outgoing,
)

META: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


async def test_a_server_that_is_not_there_fails_each_request(autojump_clock: trio.testing.MockClock) -> None:
    """There is no connection to lose: the next request tries again."""
    parameters = HttpServerParameters("http+unix://%2Fnowhere.sock/mcp")
    async with open_streamable_http(parameters, Limits()) as channel:
        for id in (1, 2):
            await channel.send([Outgoing(encode_request(id, "x/y", {"_meta": META}), (id,))])
            (received,) = await channel.receive()
            assert isinstance(received, Incoming)
            assert isinstance(received.failure, ConnectionLost)
            assert "could not connect" in str(received.failure)
