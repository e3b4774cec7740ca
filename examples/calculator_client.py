"""The first client: start a server process, see what it offers, use it.

Run ``python examples/calculator_client.py``. You see::

    add: Add two numbers.
    divide: Divide a number by another.
    add(2, 3) gives 5.0
    divide(1, 8) gives 0.125
    divide(1, 0) fails: b is 0, and nothing can be divided by that; ask for another number
    divide(1, 'two') fails: Invalid arguments for divide: b: expected a number, got "two"
"""

import sys
from pathlib import Path

import trio

from trio_mcp import Client, StdioServerParameters, open_client

SERVER = Path(__file__).with_name("calculator.py")


async def show(client: Client, name: str, a: object, b: object) -> None:
    """Call a tool, and print what a model would read."""
    result = await client.call_tool(name, {"a": a, "b": b})
    print(f"{name}({a!r}, {b!r}) {'fails:' if result.is_error else 'gives'} {result.text}")


async def main() -> None:
    """Ask the calculator a few things."""
    async with open_client(StdioServerParameters(sys.executable, [str(SERVER)])) as client:
        async for tool in client.list_tools():
            print(f"{tool.name}: {tool.description}")
        await show(client, "add", 2, 3)
        await show(client, "divide", 1, 8)
        await show(client, "divide", 1, 0)
        await show(client, "divide", 1, "two")


if __name__ == "__main__":
    trio.run(main)
