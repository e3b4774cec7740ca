"""Handlers that ask their client, over real sockets: each round of the modern era is a POST of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from http_wire import DEFAULTS

from trio_mcp import Context, Revision, Server, open_client, serve_http

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
        await trio.sleep(0.05)  # the response that asked is long over
        return {"value": True}

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            [url, *_] = await nursery.start(partial(serve_http, server, "127.0.0.1", 0, **DEFAULTS))
            async with open_client(url, on_elicit=answer, revision=revision) as client:
                assert await client.call_tool("add", {"a": 1, "b": 2}, returns=int) == 3
            nursery.cancel_scope.cancel()
    assert asked == ["Sure?", "Really?"]
    assert cancelled == []
