"""What the tests of kept parked share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from http_raw import Raw, call_tool, open_raw
from raw import META

from trio_mcp import Context, HttpServerSettings, Limits, Server

HOG, HONEST = "203.0.113.1", "203.0.113.2"

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}

CAPABLE: dict[str, dict[str, Any]] = {
    "_meta": {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
}


class Asking:
    """A server whose tool asks, and clients at addresses of their own."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    async def ask(self, address: str, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a first request."""
        arguments = {"greeting": "Hello", **arguments}
        return await self.send(
            address, call_tool("greet", _meta={**CAPABLE["_meta"], **(meta or {})}, **arguments)
        )

    async def go_on(self, address: str, required: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        """Return the answer to the request that brings the client's."""
        request = call_tool("greet", _meta=CAPABLE["_meta"], **{"greeting": "Hello", **arguments})
        answers = {key: {"action": "accept", "content": {"name": "Ada"}} for key in required["inputRequests"]}
        request["params"] |= {"requestState": required["requestState"], "inputResponses": answers}
        return await self.send(address, request)

    async def send(self, address: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = await self.raw.send(request, {"X-Forwarded-For": address})
        message: dict[str, Any] = answer.message
        return message


@asynccontextmanager
async def asking(**options: Any) -> AsyncGenerator[tuple[Asking, list[str]]]:
    server: Server[Any] = Server("asking", limits=Limits(**options))
    ended: list[str] = []

    @server.tool
    async def greet(greeting: str, ctx: Context, padding: Any = None, says: int = 0, size: int = 0) -> str:
        async def say() -> None:
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(says):
                await ctx.info("x" * size)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            try:
                answer = await ctx.request("elicitation/create", FORM)
            except trio.Cancelled:
                ended.append("cancelled")
                raise
        ended.append("answered")
        return f"{greeting}, {answer['content']['name']}"

    settings = HttpServerSettings(trusted_proxies=frozenset({"127.0.0.1"}))
    async with open_raw(server, settings) as raw:
        yield Asking(raw), ended


def is_parked(answer: dict[str, Any]) -> bool:
    return bool(answer.get("result", {}).get("resultType") == "input_required")
