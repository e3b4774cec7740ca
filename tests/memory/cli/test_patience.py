"""How long a command waits for a server that says nothing."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import pytest
import trio
import trio.testing
from inside_cli import Exit, Failure, _connected, _Interruption

from trio_mcp import Client, Server

NAP = 330.0
"""More seconds than a client waits for a sign of life unless it is told."""


def napping() -> Server:
    server = Server("napping")

    @server.tool
    async def nap() -> str:
        await trio.sleep(NAP)
        return "slept well"

    return server


async def call(client: Client) -> int:
    result = await client.call_tool("nap")
    assert result.text == "slept well"
    return Exit.DONE


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_timeout_alone_says_how_long_a_server_may_be_silent(
    era: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Who waits 400 seconds gets what comes after 330, and who waits 310 is told after 310."""
    options: Any = {"era": era}
    for timeout, expected in ((400.0, Exit.DONE), (310.0, None)):
        begin = trio.current_time()
        status = await _connected(nullcontext(napping()), options, "napping", timeout, call, _Interruption())
        assert status is expected
        assert trio.current_time() - begin == pytest.approx(min(timeout, NAP))


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_without_a_timeout_five_silent_minutes_end_a_command(
    era: str, autojump_clock: trio.testing.MockClock
) -> None:
    """One sentence says so, in the words of the command line, and the status is that of a time that has passed."""
    options: Any = {"era": era}
    with pytest.raises(Failure) as caught:
        await _connected(nullcontext(napping()), options, "napping", math.inf, call, _Interruption())
    assert caught.value.status == Exit.LATE
    assert caught.value.message == (
        "napping: tools/call was not answered within 300 s, and there was neither progress nor a question "
        "(--timeout SECONDS waits longer)"
    )
