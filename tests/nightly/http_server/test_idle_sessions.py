"""What sessions cost while nothing happens in them, and that they end. Some of it in real time."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import trio
import trio.testing
from http_raw import open_raw
from inside_endpoint import LegacySession
from shared.http_server_idle_sessions import begin, ping

from trio_mcp import HttpServerSettings, Server


def living_sessions() -> list[LegacySession]:
    """Return all that there are: servers that were started for several tests may have some."""
    return [one for one in gc.get_objects() if isinstance(one, LegacySession)]


async def test_hundreds_of_sessions_are_gone_after_the_idle_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """All of them, to the last object; and not a moment before."""
    server: Server[Any] = Server("idle")
    others = weakref.WeakSet(living_sessions())
    async with open_raw(server, HttpServerSettings(session_idle_timeout=60)) as raw:
        tasks = trio.lowlevel.current_statistics().tasks_living
        ids = [await begin(raw) for _ in range(300)]
        await trio.testing.wait_all_tasks_blocked()
        assert server._application.changes.receivers == 300
        assert trio.lowlevel.current_statistics().tasks_living == tasks + 300
        await trio.sleep(59.9)
        assert server._application.changes.receivers == 300
        assert await ping(raw, ids[0]) == 200
        await trio.sleep(0.2)
        assert server._application.changes.receivers == 1
        assert [await ping(raw, id) for id in (ids[0], ids[1], ids[-1])] == [200, 404, 404]
        await trio.sleep(60.1)
        assert server._application.changes.receivers == 0
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert await ping(raw, ids[0]) == 404
        gc.collect()
        assert not [one for one in living_sessions() if one not in others]
