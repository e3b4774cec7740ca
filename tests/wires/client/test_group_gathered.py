"""What is gathered of several servers, and what is brought back to the right one: lists, calls, changes, questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from shared.client_group_gathered import ENOUGH, make_server, make_tool

from trio_mcp import (
    LocalProtocolError,
    Server,
    ServerUnavailable,
    StdioServerParameters,
    open_clients,
)

DEAD = StdioServerParameters("/nonexistent/server")


async def test_a_server_that_does_not_answer_is_missing_from_the_list(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """After `server_timeout`, and it is said why; so are those that are not ready."""
    del autojump_clock

    async def dawdle(message: Any, call_next: Any) -> Mapping[str, Any] | None:
        if message.method == "tools/list":
            await trio.sleep(60)
        result: Mapping[str, Any] | None = await call_next(message)
        return result

    slow = Server("slow", middleware=[dawdle])
    slow.tool(make_tool())
    servers = {"slow": slow, "good": make_server("good", "look"), "dead": DEAD}
    async with open_clients(servers, server_timeout=3) as group:
        await group.wait_settled()
        began = trio.current_time()
        tools = await group.list_tools()
        assert trio.current_time() - began == pytest.approx(3)
        assert [each.name for each in tools] == ["good_look"]
        assert {name: type(error) for name, error in tools.failures.items()} == {
            "slow": trio.TooSlowError,
            "dead": ServerUnavailable,
        }


async def test_what_is_remembered_of_marked_names_is_bounded() -> None:
    """What was forgotten is listed again when it is called."""
    odd = tuple(f"tool.{number}" for number in range(4))
    async with open_clients({"a": make_server("a", *odd)}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_ready()
            names = [each.name for each in await group.list_tools()]
            for number in range(10_000):
                group._remember(("tool", str(number)), ("a", "other"))
            assert len(group._marked) == 10_000
            for name, own in zip(names, odd, strict=True):
                assert (await group.call_tool(name)).text == f"{own} of a"
    async with open_clients({"a": make_server("a", *odd), "dead": DEAD}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_settled()
            with pytest.raises(LocalProtocolError, match="could not be asked: dead"):
                await group.call_tool("dead_tool_0123456789")


@pytest.mark.parametrize("name", ["look", "c_look", "a_", "a_look_0123456789", ""])
async def test_a_name_of_no_server_is_refused_here(name: str) -> None:
    """Nothing is sent."""
    async with open_clients({"a": make_server("a", "look"), "dead": DEAD}) as group:
        with trio.fail_after(ENOUGH):
            await group.wait_settled()
            with pytest.raises(LocalProtocolError, match="no server of this group has the tool"):
                await group.call_tool(name)
            with pytest.raises(ServerUnavailable, match="'dead' is not ready: failed"):
                await group.call_tool("dead_look")
