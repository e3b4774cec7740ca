"""`Server.activity`: what a server is doing now, for how long, and what its handlers wait for."""

from __future__ import annotations

import threading
from typing import Any

import trio
import trio.testing

from trio_mcp import Context, Limits, Server, ServerActivity, open_client
from trio_mcp.types import ElicitResult


def make_server() -> tuple[Server[Any], threading.Event, trio.Event]:
    server: Server[Any] = Server("busy", limits=Limits(max_threads=1))
    go_on, begun = threading.Event(), trio.Event()

    @server.tool
    async def stay() -> None:
        begun.set()
        await trio.sleep_forever()

    @server.tool
    def block() -> None:
        go_on.wait(20)

    @server.tool
    async def ask(ctx: Context[Any]) -> bool:
        return bool(await ctx.elicit("Really?", bool))

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        await trio.sleep(1_000)
        return name

    return server, go_on, begun


async def test_sessions_and_requests_are_shown_with_their_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Those that take longest first; nothing before the server runs, and nothing afterwards."""
    server, _, begun = make_server()
    assert server.activity() == ServerActivity((), ())
    async with open_client(server, era="legacy") as client, trio.open_nursery() as nursery:
        await trio.sleep(5)
        nursery.start_soon(client.call_tool, "stay")
        await begun.wait()
        await trio.sleep(2)
        nursery.start_soon(client.read_resource, "note://a")
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
        activity = server.activity()
        nursery.cancel_scope.cancel()
    (session,) = activity.sessions
    assert (session.transport, session.revision, session.requests) == ("memory", "2025-11-25", 2)
    assert session.seconds == 8
    assert [(each.method, each.target, each.seconds, each.waits_for) for each in activity.requests] == [
        ("tools/call", "stay", 3, None),
        ("resources/read", "note://a", 1, None),
    ]
    assert server.activity() == ServerActivity((), ())


async def test_who_waits_for_the_client_is_shown_in_both_eras(autojump_clock: trio.testing.MockClock) -> None:
    """In the legacy era the handler has asked; in the modern one it is parked between two requests."""
    server, _, _ = make_server()
    seen: list[str | None] = []

    async def answer(*_: object) -> ElicitResult:
        await trio.sleep(1)
        seen.extend(request.waits_for for request in server.activity().requests)
        return ElicitResult(action="accept", content={"value": True})

    for revision in ("2025-11-25", "2026-07-28"):
        async with open_client(server, revision=revision, on_elicit=answer) as client:
            await client.call_tool("ask")
            assert server.activity().requests == ()
    assert seen == ["the client: elicitation/create", "the client's next request"]


async def test_who_waits_for_a_thread_or_a_place_is_shown() -> None:
    """One plain function runs, the next has no place (`Limits.max_threads`); a subscription just stands."""
    server, go_on, _ = make_server()
    with trio.fail_after(10):
        async with open_client(server, revision="2026-07-28") as client, client.listen(tools_list_changed=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "block")
                nursery.start_soon(client.call_tool, "block")
                await trio.testing.wait_all_tasks_blocked(0.05)
                found = server.activity().requests
                go_on.set()
            assert sorted(str(request.waits_for) for request in found) == [
                "a place for a thread",
                "a thread",
                "one of the two sides to end it",
            ]
            (standing,) = server.activity().requests
            assert standing.method == "subscriptions/listen"
