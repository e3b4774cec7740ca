"""Promise 10 over HTTP: what is too much is refused by the name of its limit, costs only itself, and what waits waits."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from lines import ALL_LINES, DUPLEX, LEGACY, MODERN, Line, open_line

from trio_mcp import (
    Client,
    Context,
    HttpServerSettings,
    Limits,
    LocalProtocolError,
    McpError,
    RequestError,
    Server,
)

OVER_HTTP = pytest.mark.parametrize(
    ("binding", "revision"), [line for line in ALL_LINES if line[0] not in DUPLEX]
)
SESSIONS = pytest.mark.parametrize(("binding", "revision"), [("http", LEGACY), ("sse", "2024-11-05")])


class Gate:
    """A server whose handlers wait at a gate."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("gate", limits=limits)
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

        @self.server.tool
        async def large(size: int) -> str:
            return "x" * size

        @self.server.tool
        async def wide(size: int) -> str:
            return "x" * size + "\N{GRINNING FACE}"

        @self.server.tool
        async def chat(ctx: Context[Any]) -> str:
            for n in range(300):
                await ctx.report_progress(n + 1)
            return "done"


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
async def test_a_message_that_is_too_large_is_not_sent(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_message_bytes of either end: a request raises, a result becomes an error, and both name it."""
    gate = Gate(Limits(max_message_bytes=20_000))
    async with open_line(gate.server, binding, revision, limits=Limits(max_message_bytes=10_000)) as line:
        with pytest.raises(LocalProtocolError, match=r"\d+ bytes .* max_message_bytes is 10000"):
            await line.client.call_tool("echo", {"text": "x" * 20_000})
        with pytest.raises(RequestError, match=r"\d+ bytes; max_message_bytes is 20000"):
            await line.client.call_tool("large", {"size": 30_000})
        with pytest.raises(McpError, match=r"10000 bytes \(max_message_bytes\)|max_message_bytes is 10000"):
            await line.client.call_tool("large", {"size": 15_000})
        await still_works(line)


@OVER_HTTP
async def test_an_answer_that_takes_too_much_memory_fails_its_call(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_decoded_bytes: each letter beside an emoji takes four bytes."""
    async with open_line(Gate().server, binding, revision, limits=Limits(max_decoded_bytes=200_000)) as line:
        with pytest.raises(McpError, match="max_decoded_bytes is 200000"):
            await line.client.call_tool("wide", {"size": 60_000})
        assert (await line.client.call_tool("large", {"size": 60_000})).text == "x" * 60_000
        await still_works(line)


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


@SESSIONS
async def test_requests_of_a_session_beyond_the_limit_wait(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_inbound_requests: unstarted, and in the end all are served; one that is given up there never starts."""
    gate = Gate(Limits(max_inbound_requests=3))
    async with open_line(gate.server, binding, revision) as line:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(line.client.call_tool, "wait", {"number": number})
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await line.client.call_tool("wait", {"number": 99})
            assert sorted(gate.running) == [0, 1, 2]
            nursery.cancel_scope.cancel()
        assert sorted(await outcomes(line.client, 8, gate)) == [str(n) for n in range(8)]
        await still_works(line)
    line.check_endings()


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


@OVER_HTTP
async def test_calls_beyond_the_clients_limit_wait_for_their_turn(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_outbound_requests: nothing is written for them meanwhile."""
    gate = Gate()
    async with open_line(gate.server, binding, revision, limits=Limits(max_outbound_requests=3)) as line:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(line.client.call_tool, "wait", {"number": number})
            await trio.testing.wait_all_tasks_blocked()
            assert len(gate.running) == len(line.log.of("tools/call")) == 3
            gate.gate.set()
        assert len(line.log.of("tools/call")) == 5
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


@OVER_HTTP
async def test_a_callback_that_dawdles_holds_up_no_sibling(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_notifications, max_outbox_bytes: what its handler says fills every buffer on the way, and then waits."""
    limits = Limits(max_notifications=5, slow_consumer_timeout=3)
    gate = Gate(Limits(max_outbox_bytes=4_000))
    async with open_line(gate.server, binding, revision, limits=limits) as line, trio.open_nursery() as nursery:
        done = trio.Event()

        async def slow() -> None:
            await line.client.call_tool("chat", on_progress=lambda _: done.wait())

        nursery.start_soon(slow)
        await trio.testing.wait_all_tasks_blocked()
        begin = trio.current_time()
        await line.client.call_tool("echo", {"text": "x"})
        assert trio.current_time() - begin <= limits.slow_consumer_timeout
        begin = trio.current_time()
        await line.client.call_tool("echo", {"text": "y"})
        assert trio.current_time() == begin, "once, and not each time"
        done.set()
