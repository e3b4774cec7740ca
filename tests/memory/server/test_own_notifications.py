"""Notifications of methods of one's own, which handlers send within their requests."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from eras import ENDS
from lines import LINES, MODERN, open_line
from talking import Talk, connect, note

from trio_mcp import CallNext, Context, Limits, LocalProtocolError, Message, Revision, Server, open_client

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


@pytest.mark.parametrize("revision", ENDS)
async def test_what_the_library_sends_is_not_sent_by_hand(subtests: pytest.Subtests, revision: Revision) -> None:
    """It would break a rule that the library keeps; the error says who sends it."""

    async def check(method: str) -> None:
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

    for method in PROTOCOLS_OWN:
        with subtests.test(method=method):
            await check(method)


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


# To all sessions.

V11 = Revision.V2025_11_25


@pytest.mark.parametrize("place", ["the loop", "a thread"])
@LINES
async def test_a_server_sends_all_sessions_a_notification_of_its_own(
    binding: str, revision: str, place: str
) -> None:
    """In order, outside of every request, where the revision lets a server speak there."""
    heard: list[object] = []
    server: Server[None] = Server("own")

    @server.tool
    async def plain() -> None: ...

    def tell() -> None:
        for number in range(5):
            server.notify("com.example/step", {"number": number})
        server.notify("com.example/bare")

    def hear(method: str, params: Any) -> None:
        heard.append((method, params.get("number")))

    steps = [*(("com.example/step", number) for number in range(5)), ("com.example/bare", None)]
    expected = [] if revision == MODERN else steps
    with trio.fail_after(20):
        async with open_line(server, binding, revision, on_notification=hear) as line:
            await line.client.call_tool("plain")
            await trio.testing.wait_all_tasks_blocked(0.05)
            await (trio.to_thread.run_sync(tell) if place == "a thread" else _at_once(tell))
            while len(heard) < len(expected):
                await trio.sleep(0.005)
            await line.client.call_tool("plain")
            await trio.testing.wait_all_tasks_blocked(0.05)
    assert heard == expected
    assert server.dropped_notifications == 0


async def _at_once(tell: Any) -> None:
    tell()
    await trio.lowlevel.checkpoint()


async def test_a_session_that_is_not_initialized_is_sent_nothing(nursery: trio.Nursery) -> None:
    """2025-11-25, basic/lifecycle, "Initialization": nothing but pings and logging before."""
    server: Server[None] = Server("own")
    talk = await connect(nursery, server)
    await talk.shake_hands(V11, initialized=False)
    server.notify("com.example/early")
    assert await talk.new() == []
    await talk.say(note("notifications/initialized"))
    server.notify("com.example/late", {"a": 1})
    assert await talk.new() == [note("com.example/late", a=1)]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("limits", "padding"),
    [(Limits(max_outbox_bytes=1, max_notifications=3), 0), (Limits(max_outbox_bytes=1), 300_000)],
    ids=["max_notifications", "MAX_ANNOUNCEMENT_BYTES"],
)
async def test_a_session_that_does_not_read_loses_the_oldest(
    limits: Limits, padding: int, nursery: trio.Nursery
) -> None:
    """Nobody waits for it, what waits for it is bounded, and what it loses is counted. Others lose nothing."""
    server: Server[None] = Server("own", limits=limits)
    slow, quick = await connect(nursery, server), await connect(nursery, server)
    for talk in (slow, quick):
        await talk.shake_hands(V11)
    slow.channel.stop_reading()
    for number in range(20):
        server.notify("com.example/step", {"number": number, "padding": "x" * padding})
        await trio.testing.wait_all_tasks_blocked()
    assert [message["params"]["number"] for message in await quick.new()] == list(range(20))
    slow.channel.reading.set()
    numbers = [message["params"]["number"] for message in await _all(slow)]
    assert numbers == sorted(numbers)
    assert numbers[-3:] == [17, 18, 19]
    assert 3 <= len(numbers) <= 6
    assert server.dropped_notifications == 20 - len(numbers)
    nursery.cancel_scope.cancel()


async def _all(talk: Talk) -> list[dict[str, Any]]:
    await trio.testing.wait_all_tasks_blocked()
    return await talk.new()


async def test_what_the_protocol_has_is_not_announced(subtests: pytest.Subtests) -> None:
    """Its own notifications are sent by who keeps their rules, and requests are none."""
    methods: list[str] = [*PROTOCOLS_OWN, "tools/call", "notifications/initialized"]
    for method in methods:
        with subtests.test(method=method):
            server: Server[None] = Server("own")
            with pytest.raises(ValueError if method in PROTOCOLS_OWN else LocalProtocolError, match=method):
                server.notify(method)


async def test_what_is_too_large_or_no_json_is_refused_at_once() -> None:
    """The sender gets the error, and not each session."""
    server: Server[None] = Server("own", limits=Limits(max_message_bytes=1000))
    with pytest.raises(LocalProtocolError, match="max_message_bytes is 1000"):
        server.notify("com.example/x", {"much": "x" * 1000})
    with pytest.raises(TypeError):
        server.notify("com.example/x", {"odd": object()})


async def test_a_notification_that_middleware_refuses_holds_back_none_behind_it(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """What one notification costs is that notification; those that lie ready go out without another change."""

    async def refuse_the_first(message: Message, call_next: CallNext) -> Any:
        if message.method == "com.example/step" and message.params == {"number": 0}:
            raise ValueError("not this one")
        return await call_next(message)

    heard: list[object] = []
    server: Server[None] = Server("own", middleware=[refuse_the_first])
    async with open_client(
        server, revision="2025-11-25", on_notification=lambda _, params: heard.append(params["number"])
    ):
        await trio.testing.wait_all_tasks_blocked()  # the server learns that the client is ready
        for number in range(3):
            server.notify("com.example/step", {"number": number})
        await trio.testing.wait_all_tasks_blocked()
    assert heard == [1, 2]
    assert "not this one" in caplog.text
