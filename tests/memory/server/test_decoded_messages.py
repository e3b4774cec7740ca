"""Messages that the transport had to look into are not decoded again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing
from wires import ScriptedChannel

from trio_mcp import Incoming, Received, Server


class DecodingChannel(ScriptedChannel):
    """Its messages come decoded, and what came in bytes cannot be decoded any more."""

    async def receive(self) -> Sequence[Received]:
        return [
            Incoming(b"{", value=json.loads(received.data)) if isinstance(received, Incoming) else received
            for received in await super().receive()
        ]


@pytest.mark.parametrize("batch", [False, True])
async def test_what_is_decoded_already_is_taken_as_it_is(nursery: trio.Nursery, *, batch: bool) -> None:
    channel = DecodingChannel()
    server: Server[Any] = Server("s")
    nursery.start_soon(server.serve_channel, channel)
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    channel.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}
    channel.say([ping] if batch else ping)
    await trio.testing.wait_all_tasks_blocked()
    assert channel.sent[-1] == answer  # a batch of one, taken apart
    channel.hang_up()
