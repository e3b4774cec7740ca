"""The client of the Python SDK 2 under measurement."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false

from contextlib import asynccontextmanager
from functools import partial

import anyio
import driving
from mcp import Client
from mcp.client.stdio import StdioServerParameters


class Connection:
    def __init__(self, client):
        self._client = client

    async def call(self, name, arguments, on_progress=None):
        if on_progress is None:
            return (await self._client.call_tool(name, arguments)).content[0].text

        async def report(progress, total, message):
            on_progress(progress)

        return (await self._client.call_tool(name, arguments, progress_callback=report)).content[0].text

    async def list_tools(self):
        return len((await self._client.list_tools(cache_mode="bypass")).tools)

    async def give_up(self, name, arguments, seconds):
        with anyio.move_on_after(seconds):
            await self._client.call_tool(name, arguments)


def target_of(job, address):
    if job["transport"] == "memory":
        return driving.load_server("python_2.py")
    if address is None:
        return StdioServerParameters(command=job["command"][0], args=job["command"][1:], cwd=job["cwd"])
    return address


@asynccontextmanager
async def connect(job, address):
    mode = "legacy" if job["era"] == "legacy" else "2026-07-28"
    async with Client(target_of(job, address), mode=mode) as client:
        yield Connection(client)


anyio.run(partial(driving.obey, connect, anyio.create_task_group, anyio.to_thread.run_sync))
