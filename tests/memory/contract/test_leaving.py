"""Promises 3, 7 and 8 when a client is left while something happens that was begun by nobody here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from scripted_server import ScriptedServer
from wires import ScriptedChannel

from trio_mcp import Limits, Received, Revision, Server, open_client, open_clients

LEGACY = Revision.V2025_11_25
QUESTIONS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
}


def question(id: int, method: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": QUESTIONS[method]}


class Asked:
    """Handlers of questions that take longer than anybody should wait."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def __call__(self, *_: object) -> Any:
        self.begun += 1
        try:
            await trio.sleep(1_000)
        finally:
            self.ended += 1

    def options(self) -> dict[str, Any]:
        return {"on_elicit": self, "on_sample": self, "roots": self}


class PromptServer(ScriptedServer):
    """What it says is there in the turn in which it is said, as it is over a pipe."""

    async def receive(self) -> Sequence[Received]:
        if not self._to_us:
            await self._something.park()
        received = [item for item in self._to_us if not isinstance(item, Exception)]
        self._to_us.clear()
        return received


@pytest.mark.parametrize("is_cancelled", [False, True])
@pytest.mark.parametrize("method", sorted(QUESTIONS))
async def test_a_question_that_comes_while_the_client_is_left_is_not_begun(
    method: str, is_cancelled: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The goodbye waits for a server that does not read, and nobody would cancel a handler begun by then."""
    channel, asked = ScriptedServer(LEGACY, {"x/y": lambda _: None}), Asked()

    async def ask_late() -> None:
        await trio.sleep(1)
        for id in range(5):
            await trio.sleep(0.3)
            channel.say(question(id, method))

    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_late)
            with trio.move_on_after(1 if is_cancelled else 500):
                limits = Limits(goodbye_timeout=2)
                async with open_client(channel, revision=LEGACY, limits=limits, **asked.options()) as client:
                    channel.stop_reading()
                    with trio.move_on_after(500 if is_cancelled else 1):
                        await client.request("x/y")
            assert trio.current_time() == 1 + 2, "the goodbye's timeout, and no longer"
    assert asked.begun == 0
    assert channel.closed


@pytest.mark.parametrize("method", sorted(QUESTIONS))
async def test_a_question_in_the_turn_in_which_the_client_is_left_costs_no_time(
    method: str, autojump_clock: trio.testing.MockClock
) -> None:
    """However far it has come by then, it is cancelled or never begun; it had waited for a cancellation."""
    for turns in range(60):
        channel, asked = PromptServer(LEGACY), Asked()

        async def ask(channel: PromptServer = channel, turns: int = turns) -> None:
            for _ in range(turns // 4):  # each several times: the order within a turn is random
                await trio.lowlevel.checkpoint()
            channel.say(question(1, method))

        with trio.fail_after(10_000):
            async with (
                trio.open_nursery() as nursery,
                open_client(channel, revision=LEGACY, **asked.options()),
            ):
                nursery.start_soon(ask)
        assert trio.current_time() == 0, "left at once"
        assert asked.begun == asked.ended


async def test_a_request_that_comes_while_a_server_is_cancelled_is_not_begun(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The other end of the same: what a server says at last waits for a client that does not read."""
    server: Server[None] = Server("cancelled", limits=Limits(goodbye_timeout=2))
    begun: list[str] = []

    @server.tool
    async def work() -> None:
        begun.append("work")
        await trio.sleep_forever()

    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"name": "work", "arguments": {}, "_meta": meta}
    channel = ScriptedChannel()
    channel.stop_reading()

    async def ask_late() -> None:
        await trio.sleep(2)
        channel.say({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})

    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_late)
            with trio.move_on_after(1):
                channel.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
                await server.serve_channel(channel)
            assert trio.current_time() == 1 + 2
    assert begun == []


async def test_closing_once_more_does_not_cut_closing_short(autojump_clock: trio.testing.MockClock) -> None:
    """Neither by another task, nor by leaving the block: the server here leaves its lifespan in its own time."""
    left: list[float] = []

    @asynccontextmanager
    async def lifespan(_: Server[None]) -> AsyncGenerator[None]:
        yield None
        await trio.sleep(1)
        left.append(trio.current_time())

    server = Server("takes a second", lifespan=lifespan)
    async with trio.open_nursery() as nursery:
        async with open_client(server) as client:
            nursery.start_soon(client.aclose)
            nursery.start_soon(client.aclose)
            await trio.testing.wait_all_tasks_blocked()
        assert left == [1]
        async with open_clients({"a": server}) as group:
            await group.wait_ready()
            nursery.start_soon(group["a"].aclose)
            await trio.testing.wait_all_tasks_blocked()
        assert left == [1, 2]
