"""Handlers that wait for their client between two of its requests (2026-07-28, basic/patterns/mrtr)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio

from trio_mcp import (
    Client,
    Context,
    Limits,
    RequestError,
    Server,
    open_client,
)
from trio_mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
)

MODERN = "2026-07-28"
CAPABLE = ClientCapabilities(elicitation=ElicitationCapability(), roots=RootsCapability())
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


async def ask_name(ctx: Context[Any], message: str = "Who?") -> str:
    answer = await ctx.request("elicitation/create", {**FORM, "message": message})
    return str(answer["content"]["name"])


class Asking:
    """A server whose tool asks, and that tells what became of it."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.server = Server("asking", limits=limits)
        self.started = 0
        self.ended: list[str] = []

        @self.server.tool
        async def greet(greeting: str, ctx: Context[Any]) -> str:
            self.started += 1
            try:
                name = await ask_name(ctx)
            except trio.Cancelled:
                self.ended.append("cancelled")
                raise
            except RequestError as error:
                self.ended.append(error.message)
                raise
            self.ended.append("answered")
            return f"{greeting}, {name}"

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        async with open_client(self.server, revision=MODERN, capabilities=CAPABLE) as client:
            yield client


def call(name: str = "greet", /, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments or ({"greeting": "Hello"} if name == "greet" else {})}


async def test_a_thousand_parked_handlers_cost_little_and_leave_nothing() -> None:
    asking = Asking()
    async with asking.client() as client:
        before = _memory()
        for _ in range(1_000):
            await client.request("tools/call", call())
        assert (_memory() - before) / 1_000 < 16 * 1024
    assert asking.ended == ["cancelled"] * 1_000


def _memory() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096
