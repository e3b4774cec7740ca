"""How many passes of the event loop a call takes: each costs as much as a quarter of everything else."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from passes import counted

from trio_mcp import Server, open_client


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_in_memory_takes_two_passes(revision: str) -> None:
    """One of the task that serves it, and one of the caller: who brings the answer gives it to the caller."""
    server = Server("s")

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with open_client(server, revision=revision) as client:
        await client.call_tool("echo", {"text": "first"})
        with counted() as passes:
            for n in range(10):
                await client.call_tool("echo", {"text": str(n)})
    assert passes.number == 20


async def test_a_cancellation_is_written_before_the_caller_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What the caller computes next, without a checkpoint, does not delay it; also while others are under way."""
    server, sent = Server("s"), list[bytes]()

    @server.tool
    async def wait() -> None:
        await trio.sleep_forever()

    def note(direction: str, data: bytes) -> None:
        if direction == "sent":
            sent.append(data)

    async with open_client(server, on_frame=note) as client, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(client.call_tool, "wait")
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await client.call_tool("wait")
        assert b"tools/call" in sent[-2]
        assert b"notifications/cancelled" in sent[-1]
        nursery.cancel_scope.cancel()
