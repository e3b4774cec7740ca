"""Four servers of a configuration file, one of which does not start; its group is all or nothing."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from fastmcp.client.group import ClientGroup
from fastmcp.mcp_config import MCPConfig


async def main() -> None:
    """Open them at once, and ask each."""
    clients = ClientGroup.from_config(MCPConfig.from_file(Path(sys.argv[1]))).clients
    async with AsyncExitStack() as stack:
        await asyncio.gather(*map(stack.enter_async_context, clients.values()), return_exceptions=True)
        group = ClientGroup({name: client for name, client in clients.items() if client.is_connected()})
        for name in clients:
            try:
                print(name, (await group.call_tool(f"{name}_stock", {"title": "Dune"})).content[0].text)
            except KeyError:
                print(name, "failed")


asyncio.run(main())
