"""A client on the Python SDK 2 that goes while a call is running: ``leaving_python_2.py MARKER URL|COMMAND…``."""

# It runs in another environment, on a package that is not installed in this one.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false

import json
import sys

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters


async def main():
    marker, target, *args = sys.argv[1:]
    blocking = anyio.Event()

    async def on_progress(value, total, message):
        blocking.set()

    async def block():
        try:
            await client.call_tool("block", {"marker": marker}, progress_callback=on_progress)
        except MCPError as error:
            print(json.dumps({"finding": "lost", "value": error.error.message}), flush=True)

    server = StdioServerParameters(command=target, args=args) if args else target
    async with anyio.create_task_group() as tasks, Client(server) as client:
        tasks.start_soon(block)
        await blocking.wait()


anyio.run(main)
