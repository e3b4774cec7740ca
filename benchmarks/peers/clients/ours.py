"""Our client under measurement."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, final

import trio

from benchmarks.peers.clients import driving
from trio_mcp import Client, Progress, StdioServerParameters, Target, open_client


@final
class Connection:
    """A client, as the driver sees it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: driving.OnProgress | None = None
    ) -> str:
        """Call a tool and return the text of its result."""
        if on_progress is None:
            return (await self._client.call_tool(name, arguments)).text

        def report(progress: Progress) -> None:
            on_progress(progress.progress)

        return (await self._client.call_tool(name, arguments, on_progress=report)).text

    async def list_tools(self) -> int:
        """Ask for the tools and return how many there are."""
        return len([tool async for tool in self._client.list_tools(fresh=True)])

    async def give_up(self, name: str, arguments: Mapping[str, Any], seconds: float) -> None:
        """Call a tool, and give the call up at a deadline."""
        with trio.move_on_after(seconds):
            await self._client.call_tool(name, arguments)


def target_of(job: Mapping[str, Any], address: str | None) -> Target:
    """Return what the client is opened on."""
    if job["transport"] == "memory":
        server: Target = driving.load_server("ours.py")
        return server
    if address is None:
        return StdioServerParameters(job["command"][0], job["command"][1:], cwd=job["cwd"])
    return address


@asynccontextmanager
async def connect(job: Mapping[str, Any], address: str | None) -> AsyncGenerator[Connection]:
    """Open a client."""
    async with open_client(target_of(job, address), era=job["era"]) as client:
        yield Connection(client)


if __name__ == "__main__":
    trio.run(partial(driving.obey, connect, trio.open_nursery, trio.to_thread.run_sync))
