"""What the tests of sessions share in several layers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
from http_raw import Answer, Raw
from inside_http import HttpResponse
from raw import initialize

from trio_mcp import (
    CapabilityMissing,
    Context,
    HttpServerSettings,
    Limits,
    Server,
)

ELICITING: dict[str, Any] = {"elicitation": {}, "sampling": {}}


def make_server(log: list[str] | None = None, **options: Any) -> Server[Any]:
    said = [] if log is None else log
    server: Server[Any] = Server("sessions", **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def steps(ctx: Context, wait: float = 0) -> str:
        async with ctx.progress(total=3) as progress:
            for _ in range(3):
                await progress.advance()
                await trio.sleep(wait)
        return "done"

    @server.tool
    async def hang() -> str:
        said.append("began")
        try:
            await trio.sleep_forever()
        finally:
            said.append("ended")
        raise AssertionError

    @server.tool
    async def ask(ctx: Context) -> str:
        result = await ctx.sample("what?", max_tokens=5)
        return f"said {result.text}"

    @server.tool
    async def later(ctx: Context) -> str:
        await ctx.release_connection(retry_after=0.5)
        await trio.sleep(10)
        return "fetched"

    @server.resource("x://watched")
    async def watched() -> str:
        return "w"

    return server


def call(name: str, id: int | str = 1, token: object = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


class Session:
    """One session, as a client by hand has it."""

    def __init__(self, raw: Raw, id: str, revision: str) -> None:
        self.raw = raw
        self.headers: dict[str, str | None] = {"Mcp-Session-Id": id, "MCP-Protocol-Version": revision}

    async def send(self, message: Any, **headers: str | None) -> Answer:
        return await self.raw.send(message, {**self.headers, **headers})

    @asynccontextmanager
    async def post(self, message: Any) -> AsyncGenerator[HttpResponse]:
        async with self.raw.open(message, self.headers) as response:
            yield response

    @asynccontextmanager
    async def get(self, last_event_id: str | None = None) -> AsyncGenerator[HttpResponse]:
        headers = {**self.headers, "Accept": "text/event-stream", "Last-Event-ID": last_event_id}
        async with self.raw.open(None, headers, method="GET") as response:
            yield response

    async def note(self, method: str, **params: Any) -> int:
        return (await self.send({"jsonrpc": "2.0", "method": method, "params": params})).status

    async def delete(self) -> int:
        return (await self.raw.send(None, self.headers, method="DELETE")).status


async def begin(
    raw: Raw,
    revision: str = "2025-11-25",
    headers: Mapping[str, str] | None = None,
    capabilities: Mapping[str, Any] | None = None,
) -> Session:
    message = initialize(revision)
    message["params"]["capabilities"] = dict(capabilities or {})
    answer = await raw.send(message, headers)
    assert answer.status == 200, answer
    assert answer.message["result"]["protocolVersion"] == revision
    session = Session(raw, answer.headers["mcp-session-id"], revision)
    session.headers.update(headers or {})
    assert await session.note("notifications/initialized") == 202
    return session


# What nobody reads.
def chatty_server(**options: Any) -> Server[Any]:
    server = make_server(limits=Limits(max_outbox_bytes=10_000), **options)

    @server.tool
    async def chat(ctx: Context) -> str:
        for number in range(100):
            await ctx.info(f"{number} " + "x" * 1_000)
        return "said it"

    @server.tool
    async def try_to_ask(ctx: Context) -> str:
        try:
            return (await ctx.sample("what?", max_tokens=5)).text
        except CapabilityMissing as error:
            return f"missing: {error.message}"

    return server


ONLY_JSON = HttpServerSettings(json_only=True)
