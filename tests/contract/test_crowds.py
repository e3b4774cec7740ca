"""The contract with many calls at once, and no frame torn whatever is cancelled."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import trio
import trio.testing
from inside_core import LineReader
from lines import LINES, open_line
from tape import Tape

from trio_mcp import Context, HttpServerSettings, Limits, Server, StreamChannel, open_client


@LINES
async def test_three_hundred_calls_each_cancelled_at_its_own_moment(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 1: 300 requests and exactly one ending each on the wire; nothing runs; the session still works."""
    settings = HttpServerSettings(max_requests_per_principal=1_000)
    server = Server("crowd", limits=Limits(max_inbound_requests=300))
    running: set[int] = set()

    @server.tool
    async def sleep(number: int, ctx: Context[Any]) -> str:
        running.add(number)
        try:
            async with ctx.progress() as progress:
                while True:
                    await trio.sleep(0.7)
                    await progress.advance()
        finally:
            running.remove(number)

    rng = random.Random(300)
    async with open_line(server, binding, revision, settings) as line:
        client, tape = line.client, line.tape

        async def call(number: int, seconds: float) -> None:
            with trio.move_on_after(seconds) as scope:
                await client.call_tool("sleep", {"number": number}, on_progress=lambda _: None)
            assert scope.cancelled_caught

        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(call, number, rng.uniform(0.1, 10))
            await trio.sleep(0.05)
            assert len(running) == 300
        await trio.testing.wait_all_tasks_blocked()
        assert not running
        calls = tape.requests("tools/call")
        assert len(calls) == 300
        assert line.goodbyes() == dict.fromkeys(calls, 1)
        assert not any(tape.answers()[id] for id in calls)
        line.check_endings()
        await client.ping()


async def test_no_frame_is_torn_whoever_is_cancelled_while_it_is_written() -> None:
    """Promise 6: a pipe that takes a little at a time, large messages, callers that are cancelled at random."""
    rng = random.Random(6)
    lines: list[bytes] = []
    reading_end, writing_end = os.pipe()
    from_server, to_client = os.pipe()
    incoming, outgoing = trio.lowlevel.FdStream(reading_end), trio.lowlevel.FdStream(to_client)

    async def read_slowly() -> None:
        """Be a server that reads a little at a time and answers nothing but the question who it is."""
        reader = LineReader(1 << 20)
        while data := await incoming.receive_some(rng.randint(1, 4000)):
            for line in reader.feed(bytes(data)):
                assert isinstance(line, bytes)
                lines.append(line)
                message = json.loads(line)
                if message.get("method") == "server/discover":
                    result: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}}
                    reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                    await outgoing.send_all(json.dumps(reply).encode() + b"\n")
        lines.extend(line for line in reader.finish() if isinstance(line, bytes))
        await outgoing.aclose()

    channel = StreamChannel(
        trio.lowlevel.FdStream(from_server),
        trio.lowlevel.FdStream(writing_end),
        max_message_bytes=1 << 20,
        description="a slow reader",
    )
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_slowly)
            async with open_client(channel) as client, trio.open_nursery() as callers:

                async def call(after: int) -> None:
                    with trio.CancelScope() as scope:
                        async with trio.open_nursery() as race:
                            race.start_soon(client.request, "x/y", {"text": "x" * rng.randint(1, 50_000)})
                            for _ in range(after):
                                await trio.lowlevel.checkpoint()
                            scope.cancel()

                for _ in range(150):
                    callers.start_soon(call, rng.randint(0, 400))
    tape = Tape()
    for line in lines:
        tape("sent", line)
    tape.check_endings()
    given_up = tape.goodbyes()
    assert given_up == dict.fromkeys(tape.requests("x/y"), 1)
    assert len(given_up) > 10
