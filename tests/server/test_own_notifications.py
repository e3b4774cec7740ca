"""Notifications of methods of one's own, which handlers send within their requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from lines import LINES, open_line

from trio_mcp import Context, LocalProtocolError, Revision, Server, open_client

PROTOCOLS_OWN = [
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/subscriptions/acknowledged",
    "notifications/elicitation/complete",
]


@LINES
async def test_a_handler_sends_a_notification_of_its_own(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock
) -> None:
    """2026-07-28, basic/patterns, "Request and Response": within the request, and in order."""
    heard: list[object] = []
    server: Server[None] = Server("own")

    @server.tool
    async def tell(ctx: Context[Any]) -> str:
        for number in range(3):
            await ctx.notify("notifications/com.example/step", {"number": number})
        await ctx.notify("com.example/bare")
        return "done"

    def hear(method: str, params: Any) -> None:
        heard.append((method, params.get("number")))

    async with open_line(server, binding, revision, on_notification=hear) as line:
        assert (await line.client.call_tool("tell")).text == "done"
        await trio.testing.wait_all_tasks_blocked()
    steps: list[object] = [("notifications/com.example/step", number) for number in range(3)]
    assert heard == [*steps, ("com.example/bare", None)]


@pytest.mark.parametrize("revision", list(Revision))
@pytest.mark.parametrize("method", PROTOCOLS_OWN)
async def test_what_the_library_sends_is_not_sent_by_hand(method: str, revision: Revision) -> None:
    """It would break a rule that the library keeps; the error says who sends it."""
    server: Server[None] = Server("own")
    errors: list[str] = []

    @server.tool
    async def tell(ctx: Context[Any]) -> None:
        with pytest.raises(ValueError, match=f"^{method} cannot be sent by hand: ") as caught:
            await ctx.notify(method)
        errors.append(str(caught.value))

    async with open_client(server, revision=revision) as client:
        await client.call_tool("tell")
    assert len(errors) == 1


@pytest.mark.parametrize(
    "method", ["tools/call", "notifications/initialized", "notifications/roots/list_changed"]
)
async def test_what_no_server_sends_is_refused(method: str) -> None:
    server: Server[None] = Server("own")
    refused: list[str] = []

    @server.tool
    async def tell(ctx: Context[Any]) -> None:
        with pytest.raises(LocalProtocolError, match=f"has no notification {method}$"):
            await ctx.notify(method)
        refused.append(method)

    async with open_client(server) as client:
        await client.call_tool("tell")
    assert refused == [method]


async def test_once_the_request_is_over_nothing_is_sent(autojump_clock: trio.testing.MockClock) -> None:
    """A notification that belongs to no request is none that a modern server may send."""
    heard: list[str] = []
    server: Server[None] = Server("own")
    told = trio.Event()

    @server.tool
    async def tell(ctx: Context[Any]) -> None:
        async def later() -> None:
            await trio.sleep(1)
            await ctx.notify("com.example/late")
            told.set()

        ctx.start_soon(later)
        await trio.lowlevel.checkpoint()

    async with open_client(server, on_notification=lambda method, _: heard.append(method)) as client:
        await client.call_tool("tell")
        await told.wait()
        await client.call_tool("tell")
    assert heard == []
