"""What the tests of parking share in several layers."""

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
