"""What sessions cost while nothing happens in them, and that they end. Some of it in real time."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from http_raw import Raw, open_raw
from inside_endpoint import LegacySession
from inside_http import open_http_client, parse_target
from raw import initialize
from unmeasured import unmeasured

from trio_mcp import HttpServerParameters, HttpServerSettings, McpASGI, Server, open_client

PROGRAM = Path(__file__).parent.parent / "support" / "idle_server.py"
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


async def begin(raw: Raw) -> str:
    """Begin a session as clients do, and return its id."""
    answer = await raw.send(initialize("2025-11-25"))
    assert answer.status == 200, answer
    id = answer.headers["mcp-session-id"]
    said = await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"Mcp-Session-Id": id})
    assert said.status == 202, said
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


async def ping(raw: Raw, session: str | None) -> int:
    answer = await raw.send({"jsonrpc": "2.0", "id": 9, "method": "ping"}, {"Mcp-Session-Id": session})
    return answer.status


@pytest.mark.measured
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


@pytest.mark.measured
@on_linux
@pytest.mark.timeout(120)
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


def living_sessions() -> list[LegacySession]:
    """Return all that there are: servers that were started for several tests may have some."""
    return [one for one in gc.get_objects() if isinstance(one, LegacySession)]


async def test_hundreds_of_sessions_are_gone_after_the_idle_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """All of them, to the last object; and not a moment before."""
    server: Server[Any] = Server("idle")
    others = weakref.WeakSet(living_sessions())
    async with open_raw(server, HttpServerSettings(session_idle_timeout=60)) as raw:
        tasks = trio.lowlevel.current_statistics().tasks_living
        ids = [await begin(raw) for _ in range(300)]
        await trio.testing.wait_all_tasks_blocked()
        assert server._application.changes.receivers == 300
        assert trio.lowlevel.current_statistics().tasks_living == tasks + 300
        await trio.sleep(59.9)
        assert server._application.changes.receivers == 300
        assert await ping(raw, ids[0]) == 200
        await trio.sleep(0.2)
        assert server._application.changes.receivers == 1
        assert [await ping(raw, id) for id in (ids[0], ids[1], ids[-1])] == [200, 404, 404]
        await trio.sleep(60.1)
        assert server._application.changes.receivers == 0
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert await ping(raw, ids[0]) == 404
        gc.collect()
        assert not [one for one in living_sessions() if one not in others]


async def test_a_client_begins_again_when_its_session_was_idle_for_too_long(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2025-11-25, basic/transports, "Session Management" 4: once, and the call that was refused is made again."""
    server: Server[Any] = Server("idle")
    begun: list[str] = []
    runs: list[int] = []

    @server.tool
    async def count() -> int:
        runs.append(1)
        return len(runs)

    asgi = McpASGI(server, HttpServerSettings(session_idle_timeout=60))

    async def without_streams(scope: Any, receive: Any, send: Any) -> None:
        """A client whose stream is open is not idle."""
        if scope["type"] == "http" and scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body"})
            return

        async def sending(message: Any) -> None:
            names = [name.lower() for name, _ in message.get("headers", ())]
            begun.extend("" for name in names if name == b"mcp-session-id")
            await send(message)

        await asgi(scope, receive, sending)

    parameters = HttpServerParameters("http://localhost:8000/mcp", app=without_streams)
    async with open_client(parameters, revision="2025-11-25") as client:
        assert (await client.call_tool("count")).structured_content == {"result": 1}
        assert (len(begun), server._application.changes.receivers) == (1, 1)
        await trio.sleep(61)
        assert server._application.changes.receivers == 0
        results: list[object] = []

        async def call() -> None:
            results.append((await client.call_tool("count")).structured_content)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call)
        assert (len(begun), server._application.changes.receivers) == (2, 1)
        assert len(results) == 5
        assert len(runs) == 6
