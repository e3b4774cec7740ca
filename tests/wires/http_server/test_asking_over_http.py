"""Handlers that ask their client, over real sockets: each round of the modern era is a POST of its own."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from http_wire import DEFAULTS
from patient_clock import STILL

from trio_mcp import Context, Limits, Revision, Server, open_client, serve_http

MODERN = Revision.V2026_07_28


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("revision", [MODERN, Revision.V2025_11_25])
async def test_a_handler_that_asked_outlives_the_response_that_asked(revision: Revision) -> None:
    """That its POST is answered and its connection closed does not cancel what is parked."""
    server = Server("asking")
    cancelled: list[str] = []

    @server.tool
    async def add(a: int, b: int, ctx: Context[Any]) -> int:
        try:
            first = await ctx.elicit("Sure?", bool)
            return a + b if first and await ctx.elicit("Really?", bool) else 0
        except trio.Cancelled:
            cancelled.append("add")
            raise

    asked: list[str] = []

    async def answer(params: Any) -> dict[str, bool]:
        asked.append(params.message)
        await trio.testing.wait_all_tasks_blocked(STILL)  # the response that asked is long over
        return {"value": True}

    async with trio.open_nursery() as nursery:
        [url, *_] = await nursery.start(partial(serve_http, server, "127.0.0.1", 0, **DEFAULTS))
        async with open_client(url, on_elicit=answer, revision=revision) as client:
            assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
        nursery.cancel_scope.cancel()
    assert asked == ["Sure?", "Really?"]
    assert cancelled == []


@pytest.mark.usefixtures("host")
async def test_a_handler_whose_question_never_reached_a_client_that_has_gone_ends() -> None:
    """Promise 4: what lies behind progress that the client does not read was never said, so nobody can go on."""
    server = Server("asking", limits=Limits(max_message_bytes=64 * 1024 * 1024))
    asked, ended = trio.Event(), trio.Event()

    @server.tool
    async def ask(ctx: Context[Any]) -> str:
        try:
            await ctx.report_progress(1, message="x" * (32 * 1024 * 1024))  # more than sockets hold
            asked.set()
            await ctx.elicit("Sure?", bool)
        except trio.Cancelled:
            ended.set()
            raise
        return "answered"

    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "ask",
                "arguments": {},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                    "progressToken": 1,
                },
            },
        }
    ).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n"
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        f"mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: ask\r\n\r\n"
    )
    async with trio.open_nursery() as nursery:
        [url, *_] = await nursery.start(partial(serve_http, server, "127.0.0.1", 0, **DEFAULTS))
        async with await trio.open_tcp_stream("127.0.0.1", int(url.split(":")[2].split("/")[0])) as stream:
            await stream.send_all(head.encode() + body)
            await asked.wait()
            await trio.testing.wait_all_tasks_blocked(STILL)  # the question lies ready
            assert not ended.is_set()
        await ended.wait()
        nursery.cancel_scope.cancel()
