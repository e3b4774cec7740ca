"""What a message takes in memory when it is decoded, and for how long that holds everybody up."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import trio.testing
from inside_wire import decode, stdlib_decode
from wires import ScriptedChannel, answer, modern_server

from trio_mcp import Limits, RemoteProtocolError, RequestError, Server, open_client

MANY: list[list[object]] = [[] for _ in range(5_000)]
LIMITS = Limits(max_message_bytes=25_000)


@contextmanager
def counted_collections() -> Generator[list[int]]:
    """Count how often the garbage collector looks for garbage, by generation."""
    runs = [0, 0, 0]

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            runs[info["generation"]] += 1

    gc.callbacks.append(note)
    try:
        yield runs
    finally:
        gc.callbacks.remove(note)


@pytest.mark.parametrize("decode", [decode, stdlib_decode])
def test_the_garbage_collector_does_not_look_again_and_again_at_one_message(
    decode: Callable[[bytes], Any],
) -> None:
    """Four megabytes of ``[[],[],…`` had it run two thousand times, which took six times as long as decoding."""
    data = b"[" + b"[]," * 100_000 + b"[]]"
    gc.collect()
    with counted_collections() as runs:
        value = decode(data)
    assert sum(runs) <= 1
    assert len(value) == 100_001
    assert gc.isenabled()


@pytest.mark.parametrize("decode", [decode, stdlib_decode])
def test_decoding_leaves_the_garbage_collector_as_it_was(decode: Callable[[bytes], Any]) -> None:
    """What cannot be decoded must not switch it off, and nobody who has done so finds it on."""
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with pytest.raises(ValueError, match=r"truncated|Expecting"):
                decode(b"[" * 10 + b"0," * 100_000)
            decode(b"[" + b"0," * 100_000 + b"0]")
            assert gc.isenabled() is enabled
        finally:
            gc.enable()


async def test_a_request_with_too_many_values_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """8 times max_message_bytes: three bytes of JSON are a list of eighty; the request is refused, and nothing else is."""
    server = Server("values", limits=LIMITS)

    @server.tool
    async def count(values: list[Any]) -> int:
        return len(values)

    async with open_client(server) as client:
        with pytest.raises(
            RequestError, match=r"\d+ bytes that takes too much memory .* 8 times max_message_bytes is 200000"
        ):
            await client.call_tool("count", {"values": MANY})
        assert (await client.call_tool("count", {"values": MANY[:500]})).structured_content == 500
        assert (await client.call_tool("count", {"values": ["x" * 20_000]})).structured_content == 1


async def test_an_answer_with_too_many_values_fails_its_call(autojump_clock: trio.testing.MockClock) -> None:
    """8 times max_message_bytes, for clients: the call that it answers fails at once, and the next one works."""

    def react(message: dict[str, Any]) -> object:
        return answer(message, {"values": MANY if message["method"] == "x/many" else []})

    channel = ScriptedChannel(modern_server(react))
    async with open_client(channel, limits=LIMITS) as client:
        with pytest.raises(RemoteProtocolError, match="8 times max_message_bytes is 200000"):
            await client.request("x/many")
        assert (await client.request("x/few"))["values"] == []
        assert client.statistics().calls == 0


class Kept:
    """A server with a tool that keeps its arguments until its gate is opened."""

    def __init__(self, limits: Limits) -> None:
        self.server = Server("kept", limits=limits)
        self.gate = trio.Event()
        self.running = 0

        @self.server.tool
        async def keep(values: list[Any]) -> int:
            self.running += 1
            await self.gate.wait()
            return len(values)


def call(id: int, values: list[Any]) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": "keep", "arguments": {"values": values}},
    }


HELLO = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@pytest.mark.parametrize("comes", ["alone", "in a batch"])
async def test_requests_wait_for_what_others_take_in_memory(
    comes: str, autojump_clock: trio.testing.MockClock
) -> None:
    """4 times max_message_bytes: fifteen kilobytes of empty lists are half a megabyte, and were counted as fifteen."""
    kept = Kept(Limits(max_message_bytes=350_000))
    channel = ScriptedChannel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.server.serve_channel, channel)
        channel.say({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": HELLO})
        await trio.testing.wait_all_tasks_blocked()
        calls = [call(number, MANY) for number in range(3)]
        channel.say(*([calls] if comes == "in a batch" else calls))
        await trio.testing.wait_all_tasks_blocked()
        assert kept.running == 2
        kept.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert kept.running == 3
        channel.hang_up()
