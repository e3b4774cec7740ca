"""The low level, from the other side: a pair of streams, methods by name, and plain JSON.

The streams are those of a process here. Those of a TCP or Unix socket do as well, on both sides: a server takes
them with ``await server.serve_channel(StreamChannel(stream, stream))``.

Run ``python examples/low_level_client.py``. You see::

    low-level speaks 2026-07-28
    tools/list: add
    tools/call: 5
    calculator/constants: {'e': 2.71828, 'pi': 3.14159}
    tools/call: there is only one tool, add [-32602]
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import trio

from trio_mcp import RequestError, StreamChannel, open_client

SERVER = Path(__file__).with_name("low_level_server.py")


async def main() -> None:
    """Start the server by hand, and talk to it over its standard streams."""
    async with trio.open_nursery() as nursery:
        command = [sys.executable, str(SERVER)]
        start = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process: trio.Process = await nursery.start(start)
        assert process.stdin is not None
        assert process.stdout is not None
        # Leaving the block closes the streams; that ends the server, and so the nursery.
        async with open_client(StreamChannel(process.stdout, process.stdin)) as client:
            print(client.server_info.name if client.server_info else "somebody", "speaks", client.revision)
            tools = await client.request("tools/list")
            print("tools/list:", ", ".join(tool["name"] for tool in tools["tools"]))
            result = await client.request("tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})
            print("tools/call:", result["content"][0]["text"])
            constants = await client.request("calculator/constants")
            print("calculator/constants:", {name: constants[name] for name in ("e", "pi")})
            try:
                await client.request("tools/call", {"name": "subtract"})
            except RequestError as error:
                print("tools/call:", error)


if __name__ == "__main__":
    trio.run(main)
