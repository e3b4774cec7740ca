"""Servers of others in one group: one is killed in a call, the others do not notice, and it comes back."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from children import children, has_children
from connecting import HANGS, LIMITS, text_of
from their_servers import EVERYTHING_2026, TIME, TheirServer

from trio_mcp import ConnectionLost, Server, open_clients
from trio_mcp.types import CallToolResult

LONG = "trigger-long-running-operation"


def entry_of(server: TheirServer) -> dict[str, Any]:
    command, *args = server.command
    return {"type": "stdio", "command": command, "args": args, "cwd": str(server.directory)}


def started_since(before: frozenset[int], program: Path) -> int:
    """Return the child process that runs a program."""
    (pid,) = (
        pid
        for pid in children() - before
        if str(program) in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    )
    return pid


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for the process in /proc")
async def test_one_of_four_is_killed_in_a_call() -> None:
    """Two processes, one over HTTP, one in this process; nothing is left behind."""
    here = Server("here")

    @here.tool
    async def hello() -> str:
        return "hello"

    before = children()
    over_http = attrs.evolve(EVERYTHING_2026, transport="streamable-http", arguments=("streamableHttp",))
    with over_http.open_listener() as listener:
        listening = children()
        servers = {
            "everything": entry_of(EVERYTHING_2026),
            "time": entry_of(TIME),
            "web": listener.url("streamable-http"),
            "here": here,
        }
        with trio.fail_after(HANGS):
            async with open_clients(servers, limits=LIMITS) as group:
                assert await group.wait_ready() == list(servers)
                tools = await group.list_tools()
                assert tools.failures == {}
                assert {each.server for each in tools} == set(servers)
                names = {each.name for each in tools}
                assert {"everything_echo", "time_get_current_time", "web_echo", "here_hello"} <= names
                pid = started_since(listening, EVERYTHING_2026.program)
                results: dict[str, CallToolResult] = {}

                async def call(name: str, **arguments: object) -> None:
                    results[name] = await group.call_tool(name, arguments)

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(call, f"web_{LONG}", duration=1, steps=2))
                    with pytest.raises(ConnectionLost):
                        await group.call_tool(
                            f"everything_{LONG}",
                            {"duration": 60, "steps": 600},
                            on_progress=lambda _: os.kill(pid, signal.SIGKILL),
                        )
                    assert group.states["everything"].status == "lost"
                    nursery.start_soon(partial(call, "time_get_current_time", timezone="Europe/Rome"))
                    nursery.start_soon(call, "here_hello")
                assert {name for name, result in results.items() if result.is_error} == set()
                assert json.loads(text_of(results["time_get_current_time"]))["timezone"] == "Europe/Rome"
                assert {state.status for name, state in group.states.items() if name != "everything"} == {"ready"}
                assert await group.wait_ready("everything") == ["everything"]
                echo = await group.call_tool("everything_echo", {"message": "back"})
                assert "back" in text_of(echo)
                assert started_since(listening, EVERYTHING_2026.program) != pid
        assert children() <= listening
    assert children() <= before
    assert not has_children()
