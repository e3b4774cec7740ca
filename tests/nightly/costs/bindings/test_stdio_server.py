"""A server over its own standard streams, spoken to by hand: how it reads, writes, and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from resident import memory_of
from shared.bindings_stdio_server import call, discover, witness
from shared.bindings_stdio_server import diary as diary

# Size.


def test_a_line_costs_time_linear_in_its_length(diary: Path) -> None:
    """A 64 MiB line costs about four times a 16 MiB line, not sixteen. Processor time, not the clock."""
    sizes = (16, 64)
    costs: dict[int, float] = {}
    for mebibytes in sizes:
        line = json.dumps(call(1, "echo", text="x" * (mebibytes * 1024 * 1024 - 200))).encode() + b"\n"
        best = 1e9
        for _ in range(3):
            process = subprocess.run(
                [sys.executable, "-c", _READ_ONE_LINE], input=line, capture_output=True, check=True
            )
            best = min(best, float(process.stdout))
        costs[mebibytes] = best
    assert costs[64] / costs[16] < 8, costs


_READ_ONE_LINE = """
import sys, time, trio
from trio_mcp._bindings._stdio_server import open_stdio_channel
from trio_mcp import Limits
async def main():
    async with open_stdio_channel(Limits(max_message_bytes=1 << 27)) as channel:
        begin = time.process_time()
        (received,) = await channel.receive()
        assert len(received.data) > 1 << 23
        return time.process_time() - begin
print(trio.run(main))
"""


async def test_twenty_thousand_requests_without_reading_cost_little_memory(diary: Path) -> None:
    """The server stops reading before it grows; when the client reads at last, every request is answered."""
    async with witness(diary, seconds=60) as server:
        await discover(server)
        before = memory_of(server.process.pid)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for start in range(0, 20_000, 100):
                await server.send(*(call(i, "echo", text="x" * 100) for i in range(start, start + 100)))
                sent += 100

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            with trio.move_on_after(1.5):
                while sent < 20_000:
                    await trio.sleep(0.05)
            grown = memory_of(server.process.pid) - before
            assert grown < 32 * 1024 * 1024, f"{grown / 1024 / 1024:.0f} MiB"
            answered = {(await server.receive())["id"] for _ in range(20_000)}
        assert answered == set(range(20_000))
        assert memory_of(server.process.pid) - before < 32 * 1024 * 1024
        await server.close_input()


@pytest.mark.spec("basic/transports/stdio", "Shutdown", revisions="2026-07-28")
async def test_what_takes_too_long_at_the_end_is_told_so(diary: Path) -> None:
    """Nothing is lost without a word."""
    async with witness(diary, drain_timeout=0.3) as server:
        await server.send(call(1, "sleep", seconds=60, name="long"))
        await server.close_input()
        (answer,) = await server.receive_all()
    assert "serving ended" in answer["error"]["message"]
    assert server.process.returncode == 0
    assert diary.read_text().splitlines()[-2:] == ["cancelled long", "lifespan ends"]
