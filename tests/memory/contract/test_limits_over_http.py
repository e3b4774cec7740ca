"""Promise 10 over HTTP, where it has limits of its own: what is too much is refused by the name of its limit.

The limits that all transports have are in `tests/memory/matrix/test_bounds.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from lines import LEGACY, MODERN, Line, open_line

from trio_mcp import Client, HttpServerSettings, McpError, RequestError, Server

OVER_HTTP = pytest.mark.parametrize(
    ("binding", "revision"), [("http", LEGACY), ("http", MODERN), ("sse", "2024-11-05")]
)


class Gate:
    """A server whose handlers wait at a gate."""

    def __init__(self) -> None:
        self.server = Server("gate")
        self.running: list[int] = []
        self.gate = trio.Event()

        @self.server.tool
        async def wait(number: int) -> str:
            self.running.append(number)
            try:
                await self.gate.wait()
            finally:
                self.running.remove(number)
            return str(number)

        @self.server.tool
        async def echo(text: str) -> str:
            return text


async def outcomes(client: Client, calls: int, gate: Gate) -> list[str]:
    """Make calls at once, open the gate when all stand still, and say what became of each."""
    found: list[str] = []

    async def call(number: int) -> None:
        try:
            found.append((await client.call_tool("wait", {"number": number})).text)
        except McpError as error:
            found.append(str(error))

    async with trio.open_nursery() as nursery:
        for number in range(calls):
            nursery.start_soon(call, number)
        await trio.testing.wait_all_tasks_blocked()
        gate.gate.set()
    return found


async def still_works(line: Line) -> None:
    """Check that the connection is as good as before."""
    assert (await line.client.call_tool("echo", {"text": "still here"})).text == "still here"
    assert line.client.statistics().calls == 0


@OVER_HTTP
async def test_a_body_that_is_too_large_is_refused(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_body_bytes: 413, and the call says why."""
    settings = HttpServerSettings(max_body_bytes=10_000)
    async with open_line(Gate().server, binding, revision, settings) as line:
        with pytest.raises(RequestError, match=r"a body of \d+ bytes; max_body_bytes is 10000"):
            await line.client.call_tool("echo", {"text": "x" * 20_000})
        assert line.log.seen[-1].status == 413
        await still_works(line)


@pytest.mark.parametrize("limit", ["max_requests", "max_requests_per_principal"])
async def test_requests_beyond_the_limit_of_the_modern_era_are_refused(
    limit: str, autojump_clock: trio.testing.MockClock
) -> None:
    """503 and 429, by name; those that are being served know nothing of it."""
    gate = Gate()
    options: dict[str, Any] = {limit: 3}
    settings = HttpServerSettings(**options)
    async with open_line(gate.server, "http", MODERN, settings) as line:
        found = await outcomes(line.client, 8, gate)
        refused = [one for one in found if not one.isdigit()]
        assert len(refused) == 5
        assert all(limit in one for one in refused)
        assert [one.status for one in line.log.seen].count(503 if limit == "max_requests" else 429) == 5
        await still_works(line)


@pytest.mark.parametrize("binding", ["http", "sse"])
async def test_sessions_beyond_the_limit_are_refused(
    binding: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_sessions: 503, by name, and the one there is goes on. An idle one would have given way."""
    settings = HttpServerSettings(max_sessions=1)
    revision = LEGACY if binding == "http" else "2024-11-05"
    gate = Gate()
    async with open_line(gate.server, binding, revision, settings) as line, trio.open_nursery() as nursery:
        nursery.start_soon(line.client.call_tool, "wait", {"number": 1})
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RequestError, match="max_sessions"):
            async with line.another():
                raise AssertionError
        gate.gate.set()
        await still_works(line)
