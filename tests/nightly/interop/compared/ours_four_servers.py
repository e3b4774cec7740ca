"""Four servers of a configuration file, one of which does not start, and calls by names that a model can be given."""

import sys

import trio

from trio_mcp import McpError, open_clients


async def main() -> None:
    """Open them at once, and ask each."""
    async with open_clients(sys.argv[1]) as group:
        await group.wait_settled()
        for name in group.states:
            try:
                print(name, (await group.call_tool(f"{name}_stock", {"title": "Dune"})).text)
            except McpError:
                print(name, "failed")


trio.run(main)
