"""The client of the Python SDK 1 under measurement."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportArgumentType=false

from contextlib import asynccontextmanager
from functools import partial

import anyio
import driving
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.memory import create_connected_server_and_client_session


class Connection:
    def __init__(self, session):
        self._session = session

    async def call(self, name, arguments, on_progress=None):
        if on_progress is None:
            return (await self._session.call_tool(name, arguments)).content[0].text

        async def report(progress, total, message):
            on_progress(progress)

        return (await self._session.call_tool(name, arguments, progress_callback=report)).content[0].text

    async def list_tools(self):
        return len((await self._session.list_tools()).tools)

    async def give_up(self, name, arguments, seconds):
        with anyio.move_on_after(seconds):
            await self._session.call_tool(name, arguments)


@asynccontextmanager
async def connect(job, address):
    if job["transport"] == "memory":
        async with create_connected_server_and_client_session(driving.load_server("python_1.py")) as session:
            yield Connection(session)
        return
    if address is None:
        transport = stdio_client(StdioServerParameters(command=job["command"][0], args=job["command"][1:]))
    else:
        transport = streamablehttp_client(address)
    async with transport as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield Connection(session)


anyio.run(partial(driving.obey, connect, anyio.create_task_group, anyio.to_thread.run_sync))
