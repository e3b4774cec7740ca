"""What is lent for an answer over a WebSocket is given back when it is written, whether Python has looked for cycles or not."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import pytest
import trio
import trio.testing
from lines import LEGACY, MODERN, open_line

from trio_mcp import Context, RequestError, Server, ToolError


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("how", ["result", "tool error", "error", "question"])
async def test_what_is_lent_for_an_answer_is_given_back_with_it(
    how: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """A cycle of references would keep it until the collector comes, and an honest client would be refused meanwhile."""
    server: Server[Any] = Server("cycles")

    @server.tool
    async def answer(ctx: Context) -> str:
        match how:
            case "tool error":
                raise ToolError("x" * 20_000)
            case "error":
                raise RequestError(-32050, "x" * 20_000)
            case "question":
                await ctx.list_roots()
            case _:
                pass
        return "x" * 20_000

    async with open_line(server, "websocket", revision, roots=["file:///x"]) as line:
        gc.collect()
        gc.disable()
        try:
            with contextlib.suppress(RequestError):
                await line.client.call_tool("answer")
            await trio.sleep(1)
            assert not line.statistics().kept["bytes"].of.get("answers")
        finally:
            gc.enable()
