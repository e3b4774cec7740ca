"""How many calls a second: `tools/call` of an echo tool, in memory and over stdio, one at a time and 64 at once.

    python benchmarks/echo.py [seconds per figure]

Both ends are ours and share the machine, so the figures compare versions of this library with one another on one
machine, and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from trio_mcp import Client, Server, StdioServerParameters, Target, open_client

server = Server("echo")


@server.tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


async def rate(client: Client, callers: int, seconds: float) -> float:
    """Return how many calls a second so many callers get answered."""
    done = 0

    async def call_again_and_again() -> None:
        nonlocal done
        while True:
            await client.call_tool("echo", {"text": "x" * 100})
            done += 1

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            for _ in range(callers):
                nursery.start_soon(call_again_and_again)
    return done / seconds


async def main(seconds: float) -> None:
    """Measure and print."""
    targets: dict[str, Target] = {
        "memory": server,
        "stdio": StdioServerParameters(sys.executable, [str(Path(__file__)), "serve"]),
    }
    for name, target in targets.items():
        async with open_client(target) as client:
            await rate(client, 1, 0.2)
            for callers in (1, 64):
                print(f"{name:8} {callers:3} at once {await rate(client, callers, seconds):10,.0f} calls/s")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run()
    else:
        trio.run(main, float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
