"""`subscriptions/listen`: acknowledged, tagged, bounded, ended by either side (2026-07-28, basic/patterns/subscriptions)."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing
from talking import connect, full_server, listen


async def test_a_thousand_listeners_on_one_server(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """On ten connections, one of which does not read: each of the others is told, and each ends gracefully."""
    server = full_server()
    talks = [await connect(nursery, server) for _ in range(10)]
    for talk in talks:
        kinds: list[dict[str, Any]] = [{"toolsListChanged": True}, {"resourceSubscriptions": ["file:///x"]}]
        await talk.say(*(listen(id, **kinds[id % 2]) for id in range(100)))
        await talk.new()
    assert server._application.changes.receivers == 1_010
    stuck, *others = talks
    stuck.channel.stop_reading()
    for _ in range(3):
        await server.resource_updated("file:///x")
        server.list_changed("tools")
        server.list_changed("prompts")
        for talk in others:
            methods = [message["method"] for message in await talk.new()]
            assert methods.count("notifications/resources/updated") == 50
            assert methods.count("notifications/tools/list_changed") == 50
            assert len(methods) == 100
    for talk in others:
        talk.shutdown.drain()
        answers = await talk.new()
        assert sorted(message["id"] for message in answers) == list(range(100))
        assert talk.ended
    assert server._application.changes.receivers == 101
    stuck.shutdown.abort()
    await trio.testing.wait_all_tasks_blocked()
    await trio.sleep(3)
    assert stuck.ended
    assert server._application.changes.receivers == 0
