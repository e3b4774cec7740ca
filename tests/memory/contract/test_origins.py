"""Where requests come from, over transports that have more than one place: who goes takes its requests along."""

from __future__ import annotations

from typing import Any

import attrs
import trio
import trio.testing
from wires import ScriptedChannel

from trio_mcp import Limits, Server


@attrs.frozen(eq=False)
class Place:
    principal: str | None = None


def call(id: int) -> dict[str, Any]:
    params = {"name": "hang", "arguments": {"number": id}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def test_an_origin_that_goes_takes_its_requests_along(autojump_clock: object) -> None:
    """What runs is cancelled, what waits never starts, neither is answered; what came from elsewhere goes on."""
    server: Server[None] = Server("places", limits=Limits(max_inbound_requests=2))
    log: list[str] = []

    @server.tool
    async def hang(number: int) -> None:
        log.append(f"{number} began")
        try:
            await trio.sleep(10)
        finally:
            log.append(f"{number} ended")

    wire, here, there = ScriptedChannel(), Place(), Place()
    client = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, wire)
        wire.say({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        wire.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        wire.say_as(there, call(1))
        wire.say_as(here, call(2), call(3))
        wire.say_as(there, call(4))
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(log) == ["1 began", "2 began"]
        wire.lose(here)
        await trio.testing.wait_all_tasks_blocked()
        assert log[2:] == ["2 ended", "4 began"]
        wire.lose(here)  # nothing is left of it
        await trio.sleep(20)
        assert sorted(message["id"] for message in wire.sent) == [0, 1, 4]
        wire.hang_up()
