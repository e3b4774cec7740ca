"""No frame is torn, whatever is cancelled."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import trio
from inside_core import LineReader
from tape import Tape

from trio_mcp import StreamChannel, open_client


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
