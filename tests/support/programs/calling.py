"""A client that calls twenty times, and gives up after a while: ``calling.py URL`` or ``calling.py COMMAND...``."""

from __future__ import annotations

import sys

import trio

from trio_mcp import StdioServerParameters, open_client


async def main() -> None:
    target = sys.argv[1] if len(sys.argv) == 2 else StdioServerParameters(sys.argv[1], sys.argv[2:])
    async with open_client(target) as client:
        for _ in range(20):
            with trio.move_on_after(0.3) as scope:
                await client.call_tool("echo", {"text": "hello"}, on_progress=lambda progress: None)
            if scope.cancelled_caught:
                return


trio.run(main)
