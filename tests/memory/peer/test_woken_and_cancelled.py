"""A handler that waits until it can send, and is cancelled in the very pass in which it could."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from trio_mcp import Channel, Context, Incoming, Limits, Outgoing, Server


class Wire(Channel):
    """The client's end by hand: when it takes something, and what it brings."""

    @property
    def description(self) -> str:
        """What errors call it."""
        return "a wire"

    def __init__(self) -> None:
        self.takes = trio.Event()
        self.coming: list[dict[str, Any]] = []
        self.brings = trio.Event()
        self.sent: list[dict[str, Any]] = []

    def bring(self, *messages: dict[str, Any]) -> None:
        self.coming += messages
        self.brings.set()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.takes.wait()
        self.sent += [json.loads(message.data) for message in messages]

    async def receive(self) -> Sequence[Incoming]:
        await self.brings.wait()
        self.brings = trio.Event()
        coming, self.coming = self.coming, []
        return [Incoming(json.dumps({"jsonrpc": "2.0", **message}).encode()) for message in coming]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


async def test_it_is_cancelled_and_gets_no_other_error(subtests: pytest.Subtests, autojump_clock: object) -> None:
    """Promise 4. Trio runs the tasks of a pass in any order, so it is tried several times."""

    async def check() -> None:
        server: Server[Any] = Server("s", limits=Limits(max_outbox_bytes=1_000))
        ends: list[str] = []

        @server.tool
        async def ask(ctx: Context) -> str:
            for _ in range(2):  # one that is being written, and one that fills the queue
                await ctx.log("info", "x" * 2_000)
            try:
                await ctx.elicit("Sure?", bool)
            except BaseException as error:
                ends.append(type(error).__name__)
                raise
            return "done"

        wire = Wire()
        wire.takes.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve_channel, wire)
            me = {"name": "t", "version": "1"}
            hello: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": me,
            }
            wire.bring({"id": 0, "method": "initialize", "params": hello})
            await trio.testing.wait_all_tasks_blocked()
            wire.bring({"method": "notifications/initialized"})
            await trio.testing.wait_all_tasks_blocked()
            wire.takes = trio.Event()
            wire.bring({"id": 1, "method": "tools/call", "params": {"name": "ask"}})
            await trio.testing.wait_all_tasks_blocked()
            wire.takes.set()
            wire.bring({"method": "notifications/cancelled", "params": {"requestId": 1}})
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert ends == ["Cancelled"]

    for attempt in range(8):
        with subtests.test(attempt=attempt):
            await check()
