"""What sessions cost while nothing happens in them, and that they end. Some of it in real time."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from http_raw import Raw
from inside_http import open_http_client, parse_target
from places import MEASURED
from shared.http_server_idle_sessions import begin, ping
from unmeasured import unmeasured

PROGRAM = MEASURED / "idle_server.py"
MAX_BYTES = 20 * 1024
"""What an idle session may cost."""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is told otherwise")


@attrs.frozen
class Costs:
    bytes: int
    tasks: int
    sessions: int


class Program:
    """The program, and what it says of itself."""

    def __init__(self, process: trio.Process, raw: Raw) -> None:
        self.process = process
        self.raw = raw

    async def costs(self) -> Costs:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"\n")
        return Costs(**json.loads(await _line(self.process)))

    async def begin(self, count: int) -> str | None:
        """Begin so many sessions, and return the id of the last one."""
        id: str | None = None
        for _ in range(count):
            id = await begin(self.raw)
        return id


async def _line(process: trio.Process) -> bytes:
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        received = await process.stdout.receive_some()
        assert received, "the program has ended"
        line += received
    return line


@asynccontextmanager
async def running(idle_timeout: float) -> AsyncGenerator[Program]:
    command = [sys.executable, str(PROGRAM), str(idle_timeout)]
    process = await trio.lowlevel.open_process(command, stdin=-1, stdout=-1, env=unmeasured())
    try:
        url = (await _line(process)).decode().strip()
        async with open_http_client() as client:
            yield Program(process, Raw(client, parse_target(url)))
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@on_linux
@pytest.mark.timeout(300)
async def test_idle_sessions_cost_less_than_20_kib_each() -> None:
    """Over a server that has served some already: what every process needs once is not a session's cost."""
    async with running(idle_timeout=1_800) as program:
        await program.begin(200)
        before = await program.costs()
        last = await program.begin(400)
        after = await program.costs()
        assert (before.sessions, after.sessions) == (200, 600)
        assert (after.bytes - before.bytes) / 400 < MAX_BYTES
        # One each; a few are the connections' and the program's own.
        assert after.tasks - before.tasks < 400 + 10
        assert await ping(program.raw, last) == 200


@on_linux
async def test_idle_sessions_leave_nothing_behind() -> None:
    """For real, with a short timeout: sessions come and go, and memory is what it was."""
    async with running(idle_timeout=1) as program:
        seen: list[Costs] = []
        for _ in range(6):
            last = await program.begin(100)
            assert (await program.costs()).sessions > 0
            with trio.fail_after(20):
                while (costs := await program.costs()).sessions:
                    await trio.sleep(0.1)
            seen.append(costs)
            assert await ping(program.raw, last) == 404
        # What 400 sessions have left is less than what 50 cost.
        assert seen[-1].bytes - seen[1].bytes < 50 * MAX_BYTES
        assert seen[-1].tasks <= seen[1].tasks + 2
