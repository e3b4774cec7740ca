"""What the tests of group share in several layers."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

import trio_mcp
from trio_mcp import (
    Channel,
    ClientGroup,
    Limits,
    Server,
    StdioServerParameters,
)

ENOUGH = 280

TREE = str(Path(trio_mcp.__file__).parents[1])

CHILD = """
import os, trio, trio_mcp
server = trio_mcp.Server("child")

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def wait(ctx: trio_mcp.Context) -> str:
    await ctx.report_progress(1)
    await trio.sleep_forever()

@server.tool
async def slow() -> str:
    await trio.sleep(0.5)
    return "done"

server.run()
"""


def child(**options: Any) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, ["-c", CHILD], env={"PYTHONPATH": TREE}, **options)


def make_server(name: str = "here") -> Server[None]:
    server: Server[None] = Server(name)

    @server.tool
    async def hello() -> str:
        return f"hello from {name}"

    return server


class Odd:
    """A server in this process that is told what to do at each connection."""

    def __init__(self, *serve: Callable[[Channel], Awaitable[object]]) -> None:
        self._serve = iter(serve)

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()
        await next(self._serve)(channel)


async def be_silent(channel: Channel) -> None:
    del channel
    await trio.sleep_forever()


SOON = Limits(goodbye_timeout=0.1)
"""For a group with a server that is silent: leaving it waits no longer, in real time."""


def statuses(group: ClientGroup) -> dict[str, str]:
    return {name: state.status for name, state in group.states.items()}


async def text_of(group: ClientGroup, tool: str) -> str:
    return (await group.call_tool(tool)).text
