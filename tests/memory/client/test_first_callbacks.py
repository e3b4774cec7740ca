"""Callbacks that use the client they were called for."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from wires import ScriptedChannel, answer, modern_server

from trio_mcp import Client, Context, Limits, Progress, Server, open_client

LEGACY = "2025-11-25"


def counting_server() -> Server[None]:
    server: Server[None] = Server("counting")

    @server.tool
    async def count(to: int, ctx: Context[Any]) -> str:
        async with ctx.progress() as progress:
            for _ in range(to):
                await trio.sleep(0.1)
                await progress.advance()
        return "counted"

    @server.tool
    async def speak(ctx: Context[Any]) -> str:
        await ctx.info("spoken")
        return "said"

    return server


async def test_a_progress_callback_may_make_a_call_with_progress(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 9 keeps the callbacks of a call apart, but one that waits for another must not wait for itself."""
    seen: list[str] = []
    async with open_client(counting_server()) as client:

        async def outer(progress: Progress) -> None:
            seen.append(f"outer {progress.progress}")

            async def inner(progress: Progress) -> None:
                seen.append(f"inner {progress.progress}")
                await client.call_tool("count", {"to": 1}, on_progress=lambda _: seen.append("innermost"))

            await client.call_tool("count", {"to": 2}, on_progress=inner)
            seen.append("outer done")

        with trio.fail_after(60):
            await client.call_tool("count", {"to": 2}, on_progress=outer)
    once = ["inner 1", "innermost", "inner 2", "innermost", "outer done"]
    assert seen == ["outer 1", *once, "outer 2", *once]


async def test_a_log_callback_may_make_a_call_with_progress(autojump_clock: trio.testing.MockClock) -> None:
    """The same from the task that delivers the notifications."""
    seen: list[float] = []
    done = trio.Event()
    clients: list[Client] = []

    async def on_log(_: object) -> None:
        await clients[0].call_tool(
            "count", {"to": 3}, on_progress=lambda progress: seen.append(progress.progress)
        )
        done.set()

    with trio.fail_after(60):
        async with open_client(counting_server(), revision=LEGACY, on_log=on_log) as client:
            clients.append(client)
            await client.call_tool("speak")
            await done.wait()
    assert seen == [1, 2, 3]


async def test_another_connection_is_not_held_up(autojump_clock: trio.testing.MockClock) -> None:
    """A callback may wait for a call over another connection, with progress of its own."""
    seen: list[str] = []
    async with open_client(counting_server()) as one, open_client(counting_server()) as other:

        async def outer(_: Progress) -> None:
            await other.call_tool("count", {"to": 2}, on_progress=lambda p: seen.append(f"other {p.progress}"))

        with trio.fail_after(60):
            await one.call_tool("count", {"to": 1}, on_progress=outer)
    assert seen == ["other 1", "other 2"]


async def test_the_progress_of_a_call_that_a_callback_makes_is_bounded_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """max_notifications: a callback that makes a call and is slow loses the oldest, and they are counted."""

    def handle(message: dict[str, Any]) -> object:
        if message.get("method") != "x/inner":
            return None
        for number in range(10):
            params = {"progressToken": message["id"], "progress": number}
            channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return answer(message, {})

    channel = ScriptedChannel(modern_server(handle))
    seen: list[float] = []
    options = Limits(max_notifications=3)
    async with (
        open_client(channel, revision="2026-07-28", limits=options) as client,
        trio.open_nursery() as nursery,
    ):

        async def dawdle(progress: Progress) -> None:
            seen.append(progress.progress)
            await trio.sleep(2)

        async def outer(_: Progress) -> None:
            await client.request("x/inner", on_progress=dawdle)
            nursery.cancel_scope.cancel()

        async def ask() -> None:
            await client.request("x/outer", on_progress=outer)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        token = channel.sent[-1]["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        channel.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        with trio.move_on_after(60):
            await trio.sleep_forever()
    assert seen[-1] == 9, "the newest is kept"
    assert seen == sorted(seen)
    assert client.statistics().dropped_notifications == 10 - len(seen) > 0
