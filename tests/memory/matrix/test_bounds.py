"""Promise 10 in every cell of the matrix: what is too much is refused by the name of its limit, or waits; sizes; the end.

Each limit in detail is in `tests/memory/contract`.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from lines import Line, open_line
from transports import carried

from trio_mcp import (
    Client,
    ConnectionLost,
    Context,
    HttpServerSettings,
    Limits,
    LocalProtocolError,
    McpError,
    RequestError,
    Server,
)
from trio_mcp.types import CallToolResult

MIB = 1_048_576
ODD = 'a line\nbreak, \r\n, a \\ and a ", \u2028 and \u2029, \x00, é, 😀, data: x\n\n'


class Gate:
    """A server whose handlers wait at a gate."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server: Server[Any] = Server("gate", limits=limits)
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
        async def many(size: int) -> CallToolResult:
            return CallToolResult(content=(), meta={"example.com/lists": [list[object]()] * size})

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


# Sizes.


@carried()
async def test_messages_arrive_as_they_were_sent(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Whatever is in them, and however small they are."""
    async with open_line(Gate().server, binding, revision) as line:
        for text in ("", "x", ODD, ODD * 1_000, *(character for character in ODD)):
            assert (await line.client.call_tool("echo", {"text": text})).text == text


@carried()
async def test_messages_of_four_megabytes_arrive(binding: str, revision: str) -> None:
    """In both directions, and others beside them."""
    text = ODD + "x" * (4 * MIB - 4_000)
    settings = HttpServerSettings(max_body_bytes=5 * MIB)
    with trio.fail_after(60):
        async with (
            open_line(Gate().server, binding, revision, settings) as line,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(still_works_beside, line)
            assert (await line.client.call_tool("echo", {"text": text})).text == text


async def still_works_beside(line: Line) -> None:
    """Make a small call while others are under way."""
    assert (await line.client.call_tool("echo", {"text": "beside"})).text == "beside"


@carried()
async def test_a_message_that_is_too_large_is_refused_by_name(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_message_bytes of either end: a request is not sent, a result becomes an error, and neither costs more."""
    gate = Gate(Limits(max_message_bytes=20_000))
    async with open_line(gate.server, binding, revision, limits=Limits(max_message_bytes=10_000)) as line:
        with pytest.raises(LocalProtocolError, match=r"\d+ bytes .* max_message_bytes is 10000"):
            await line.client.call_tool("echo", {"text": "x" * 20_000})
        with pytest.raises(RequestError, match=r"\d+ bytes; max_message_bytes is 20000"):
            await line.client.call_tool("large", {"size": 30_000})
        await still_works(line)


@carried()
async def test_an_answer_that_is_too_large_fails_its_call(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_message_bytes of the client: over a WebSocket the connection too, which is closed with 1009 (RFC 6455)."""
    async with open_line(Gate().server, binding, revision, limits=Limits(max_message_bytes=10_000)) as line:
        with pytest.raises(McpError, match=r"10000 bytes \(max_message_bytes\)|max_message_bytes is 10000"):
            await line.client.call_tool("large", {"size": 15_000})
        if not binding.startswith("websocket"):
            await still_works(line)


@carried()
async def test_a_request_that_is_too_large_for_the_server_is_refused(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_message_bytes of the server, and over HTTP max_body_bytes: that request fails, and says why."""
    settings = HttpServerSettings(max_body_bytes=10_000)
    gate = Gate(Limits(max_message_bytes=10_000))
    async with open_line(gate.server, binding, revision, settings) as line:
        with pytest.raises(McpError, match=r"max_message_bytes|max_body_bytes"):
            await line.client.call_tool("echo", {"text": "x" * 15_000})
        if not binding.startswith("websocket"):
            await still_works(line)


@carried()
async def test_an_answer_that_takes_too_much_memory_fails_its_call(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """8 times max_message_bytes: three bytes of JSON are a list of eighty."""
    async with open_line(Gate().server, binding, revision, limits=Limits(max_message_bytes=25_000)) as line:
        with pytest.raises(McpError, match="8 times max_message_bytes is 200000"):
            await line.client.call_tool("many", {"size": 5_000})
        assert (await line.client.call_tool("large", {"size": 20_000})).text == "x" * 20_000
        await still_works(line)


# Many at once.


@carried()
async def test_too_many_requests_wait_or_are_refused_by_name(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """max_inbound_requests of a session: they wait unstarted; without one, max_requests_per_principal: 429."""
    gate = Gate(Limits(max_inbound_requests=3))
    has_session = binding.partition("-")[0] in {"http", "json", "sse"} and revision < "2026"
    settings = HttpServerSettings(max_requests_per_principal=1_000 if has_session else 3)
    async with open_line(gate.server, binding, revision, settings) as line:
        has_session = has_session or line.is_duplex
        if has_session:
            async with trio.open_nursery() as nursery:
                for number in range(3):
                    nursery.start_soon(line.client.call_tool, "wait", {"number": number})
                await trio.testing.wait_all_tasks_blocked()
                with trio.move_on_after(1):
                    await line.client.call_tool("wait", {"number": 99})
                assert sorted(gate.running) == [0, 1, 2]
                nursery.cancel_scope.cancel()
        found = await outcomes(line.client, 8, gate)
        refused = [one for one in found if not one.isdigit()]
        assert len(found) == 8
        assert len(refused) == (0 if has_session else 5)
        assert all("max_requests_per_principal" in one for one in refused)
        await still_works(line)
    line.check_endings()


@carried()
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
            assert len(gate.running) == len(line.tape.requests("tools/call")) == 3
            gate.gate.set()
        assert len(line.tape.requests("tools/call")) == 5
        await still_works(line)


@carried("reports")
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


# The end.


@carried()
async def test_a_server_that_ends_answers_what_it_has_begun(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """drain_timeout: what is done by then has its result, the rest is told so; nothing new is taken, and nobody waits."""
    for seconds in (3, 60):
        await end_during_a_call(seconds, binding, revision)


async def end_during_a_call(seconds: int, binding: str, revision: str) -> None:
    """End a server that waits four seconds, when it has begun a call that takes so long."""
    server: Server[Any] = Server("ending", limits=Limits(drain_timeout=4))
    cancelled: list[int] = []

    @server.tool
    async def work(seconds: int) -> str:
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            cancelled.append(seconds)
            raise
        return "done"

    outcome: list[str] = []
    with trio.fail_after(1_000):
        async with open_line(server, binding, revision) as line:

            async def call() -> None:
                try:
                    outcome.append((await line.client.call_tool("work", {"seconds": seconds})).text)
                except (RequestError, ConnectionLost) as error:
                    outcome.append(str(error))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                begin = trio.current_time()
                line.drain()
            assert trio.current_time() - begin == min(seconds, 4)
            with pytest.raises(McpError):
                await line.client.call_tool("work", {"seconds": 0})
    if seconds == 3:
        assert outcome == ["done"]
    else:
        assert "serving ended before the request was done" in outcome[0]
    assert cancelled == ([] if seconds == 3 else [60])


@carried()
async def test_a_client_may_ask_so_often(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A server's rate counts messages, not connections or HTTP requests: over every transport alike."""
    server: Server[Any] = Server("limited", rate="3/hour")

    @server.tool
    async def echo(text: str) -> str:
        return text

    async with open_line(server, binding, revision) as line:
        for _ in range(3):
            assert (await line.client.call_tool("echo", {"text": "a"})).text == "a"
        with pytest.raises(
            RequestError, match=r"3/hour by each client \(rate\): try again in 1\d{3} s"
        ) as caught:
            await line.client.call_tool("echo", {"text": "a"})
        assert caught.value.code == -31002
