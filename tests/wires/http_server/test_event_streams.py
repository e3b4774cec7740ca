"""Event streams over real sockets that take a part of what is sent: whole, in order, and nobody waits for them."""

from __future__ import annotations

import json
import random
import socket
from typing import Any, Final

import pytest
import trio
import trio.testing
from http_raw import call_tool
from http_wire import Served, Wire, head_for, serving
from patient_clock import STILL, pass_time
from raw import initialize

from trio_mcp import Context, HttpServerSettings, Limits, Server

pytestmark = [pytest.mark.usefixtures("host")]

COUNT: Final = 300
SIZES: Final = [random.Random(7).choice((10, 1_000, 20_000, 70_000)) for _ in range(COUNT)]
"""How long the messages are: together more than the buffers of a socket hold."""

LOGGING: Final = {"io.modelcontextprotocol/logLevel": "debug"}


class Flooding:
    """A server with a tool that sends all messages, and how many of them it has sent."""

    def __init__(self) -> None:
        self.sent = 0
        self.ended = ""
        self.server: Server[Any] = Server("flooding", limits=Limits(max_outbox_bytes=100_000))

        @self.server.tool
        async def flood(ctx: Context) -> str:
            try:
                for number, size in enumerate(SIZES):
                    await ctx.log("info", f"{number} " + "x" * size)
                    self.sent += 1
            except trio.Cancelled:
                self.ended = "cancelled"
                raise
            self.ended = "returned"
            return "done"

        @self.server.tool
        async def add(a: int, b: int) -> int:
            return a + b

    async def wait_blocked(self) -> None:
        """Wait until the tool waits for its client."""
        while not self.sent:
            await trio.sleep(0.01)
        await trio.testing.wait_all_tasks_blocked(STILL)
        assert self.sent < COUNT


class Asking:
    """A client of one era, which reads nothing before it is asked to."""

    def __init__(self, served: Served, wire: Wire, era: str) -> None:
        self._served = served
        self._wire = wire
        self._era = era
        self._fields: dict[str, str] = {}
        wire.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)

    async def begin(self, **meta: Any) -> None:
        """Call the tool."""
        message = call_tool("flood", _meta=LOGGING | meta)
        if self._era == "modern":
            await self._wire.stream.send_all(self._wire.request(message))
            return
        begun = await self._served.raw.send(initialize("2025-11-25"))
        self._fields = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        assert await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        del message["params"]["_meta"]
        body = json.dumps(message).encode()
        await self._wire.stream.send_all(head_for(len(body), self._fields) + body)

    async def _post(self, message: Any) -> int:
        return (await self._served.raw.send(message, self._fields)).status

    async def cancel(self) -> None:
        """Cancel the call, in the legacy era."""
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert await self._post(cancelled) == 202

    async def read(self) -> tuple[list[int], list[Any]]:
        """Read the rest: the numbers of the messages, and what else there was."""
        status, body = await self._wire.answer()
        assert status == 200
        numbers: list[int] = []
        others: list[Any] = []
        for event in body.decode().split("\n\n"):
            for line in event.splitlines():
                if line.startswith("data: {"):
                    message = json.loads(line.removeprefix("data: "))
                    if message.get("method") == "notifications/message":
                        number, _, text = message["params"]["data"].partition(" ")
                        assert len(text) == SIZES[int(number)]
                        numbers.append(int(number))
                    else:
                        others.append(message)
        return numbers, others


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_a_slow_reader_gets_is_whole_and_in_order(era: str) -> None:
    """Meanwhile others are answered: only its own handler waits for it."""
    flooding = Flooding()
    async with serving(flooding.server) as served, served.wire() as wire:
        client = Asking(served, wire, era)
        await client.begin()
        await flooding.wait_blocked()
        for number in range(3):
            answer = await served.raw.send(call_tool("add", a=number, b=1))
            assert answer.messages[-1]["result"]["structuredContent"] == number + 1
        numbers, others = await client.read()
    assert numbers == list(range(COUNT))
    assert [message["result"]["content"][0]["text"] for message in others] == ["done"]
    assert flooding.ended == "returned"


async def test_a_deadline_while_its_client_does_not_read_leaves_the_stream_whole() -> None:
    """The handler ends where it waits, and the answer follows the last message that it has sent."""
    flooding = Flooding()
    async with serving(flooding.server) as served, served.wire() as wire:
        client = Asking(served, wire, "modern")
        await client.begin(**{"trio-mcp/timeoutMs": 20_000})
        await flooding.wait_blocked()
        await pass_time(20)
        await pass_time(Limits().goodbye_timeout)  # for what it was about to send
        while not flooding.ended:
            await trio.sleep(0.01)
        numbers, others = await client.read()
    assert flooding.ended == "cancelled"
    assert numbers == list(range(len(numbers)))
    assert 0 < len(numbers) < COUNT
    assert len(others) == 1
    assert "error" in others[0]


async def test_a_cancellation_while_its_client_does_not_read_leaves_the_stream_whole() -> None:
    """Legacy era: what was sent before is read to its end, and nothing follows."""
    flooding = Flooding()
    async with serving(flooding.server) as served, served.wire() as wire:
        client = Asking(served, wire, "legacy")
        await client.begin()
        await flooding.wait_blocked()
        await client.cancel()
        while not flooding.ended:
            await trio.sleep(0.01)
        numbers, others = await client.read()
    assert flooding.ended == "cancelled"
    assert numbers == list(range(len(numbers)))
    assert not others


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_reader_that_never_reads_loses_its_connection(era: str) -> None:
    """`send_timeout` counts from when the socket takes no more."""
    flooding = Flooding()
    settings = HttpServerSettings(send_timeout=20)
    async with serving(flooding.server, settings) as served, served.wire() as wire:
        client = Asking(served, wire, era)
        await client.begin()
        await flooding.wait_blocked()
        await pass_time(20)
        while not flooding.ended:
            await trio.sleep(0.01)
        assert not (await wire.wait_closed()).endswith(b"0\r\n\r\n")
    # A client of the legacy era can come back for the rest.
    assert flooding.ended == ("cancelled" if era == "modern" else "returned")
