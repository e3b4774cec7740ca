"""What becomes of a handler's question when the handler is cancelled, or its connection ends."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from peers import Handlers, request
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits
from trio_mcp._peer._exchange import Exchange
from trio_mcp._peer._peer import open_peer

ENDS = ["closed", "aborted", "lost"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("where", ["for its answer", "for a place"])
async def test_a_handler_that_asks_while_its_connection_ends_is_cancelled_there(
    where: str, end: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 4: it ends as at any other await; what its question would have failed with is nobody's failure."""
    outcomes: list[str] = []

    async def ask(exchange: Exchange) -> dict[str, object]:
        try:
            return await exchange.ask("x/question")
        except BaseException as error:
            outcomes.append(type(error).__name__)
            raise

    channel = ScriptedChannel()
    limits = Limits(max_outbound_requests=1 if where == "for a place" else 10)
    async with open_peer(channel, Handlers({"x/ask": ask}), limits) as peer:
        channel.say(request(1, "x/ask"), request(2, "x/ask"))
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().exchanges == 2
        match end:
            case "closed":
                await peer.aclose()
            case "aborted":
                peer.abort()
            case _:
                channel.hang_up(ConnectionLost("the cable was cut"))
        await trio.testing.wait_all_tasks_blocked()
    assert outcomes == ["Cancelled", "Cancelled"]
