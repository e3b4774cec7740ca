"""A server, and the tests of it: ten minutes, and peers that die in the middle of a call, in no time.

    pytest -o trio_mode=true examples/test_warehouse.py

Needs pytest, pytest-trio, and trio-mcp, which brings the fixture `mcp_client`.
"""

import pytest
import trio
import trio.testing

from trio_mcp import ConnectionLost, Server, open_client
from trio_mcp.testing import ScriptedPeer, assert_nothing_left, scripted_client, scripted_server
from trio_mcp.testing.pytest_plugin import McpClient


class Robot:
    """Counts what is on a shelf, if it does not hang."""

    def __init__(self) -> None:
        self.is_at_work = trio.Event()
        self.was_parked = False

    async def count(self, shelf: str) -> int:
        """Count; shelf B is where it hangs."""
        self.is_at_work.set()
        try:
            await trio.sleep(30 if shelf == "A" else float("inf"))
        finally:
            self.was_parked = True
        return 42


def warehouse(robot: Robot) -> Server:
    """Return the server that is tested."""
    server = Server("warehouse")

    @server.tool(timeout=600)
    async def count(shelf: str) -> int:
        """Count what is on a shelf."""
        return await robot.count(shelf)

    return server


async def test_it_counts(mcp_client: McpClient, autojump_clock: trio.testing.MockClock) -> None:
    """The robot takes half a minute, the test does not."""
    robot = Robot()
    client = await mcp_client(warehouse(robot))
    assert await client.call_tool("count", {"shelf": "A"}, returns=int) == 42
    assert trio.current_time() == pytest.approx(30, abs=1)


async def test_a_robot_that_hangs_is_parked_after_ten_minutes(
    mcp_client: McpClient, autojump_clock: trio.testing.MockClock
) -> None:
    """And the caller is told."""
    robot = Robot()
    client = await mcp_client(warehouse(robot))
    result = await client.call_tool("count", {"shelf": "B"})
    assert result.is_error
    assert "took longer than 600 s" in result.text
    assert robot.was_parked
    assert trio.current_time() == pytest.approx(600, abs=1)


async def test_a_client_that_dies_leaves_no_robot_in_the_aisle(autojump_clock: trio.testing.MockClock) -> None:
    """It calls, and is gone: a peer by script does what no client would."""
    robot = Robot()
    with assert_nothing_left():
        async with scripted_client(warehouse(robot)) as peer:
            await peer.shake_hands("2025-11-25")
            await peer.request("tools/call", {"name": "count", "arguments": {"shelf": "B"}})
            await robot.is_at_work.wait()
            await peer.hang_up()
    assert robot.was_parked


async def test_a_warehouse_that_dies_is_no_riddle_to_its_client(autojump_clock: trio.testing.MockClock) -> None:
    """The other way round: a server by script, for whoever writes a client."""

    async def die(peer: ScriptedPeer) -> None:
        await peer.accept("2025-11-25", capabilities={"tools": {}})
        await peer.expect({"method": "tools/call", ...: ...})
        await peer.hang_up()

    async with scripted_server(die) as channel, open_client(channel, era="legacy") as client:
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await client.call_tool("count", {"shelf": "A"})
