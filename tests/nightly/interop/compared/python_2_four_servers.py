"""Four servers of a configuration file, one of which does not start; its group opens one after the other."""

# It runs in another environment, on a package that is not installed in this one.
# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false, reportArgumentType=false

import json
import sys
from pathlib import Path

import anyio
from mcp import ClientSessionGroup, MCPError, StdioServerParameters


async def main() -> None:
    """Open them, and ask each."""
    servers = json.loads(Path(sys.argv[1]).read_text())["mcpServers"]
    async with ClientSessionGroup(component_name_hook=lambda name, info: f"{info.name}_{name}") as group:
        for name, entry in servers.items():
            try:
                await group.connect_to_server(StdioServerParameters(**entry))
                print(name, (await group.call_tool(f"{name}_stock", {"title": "Dune"})).content[0].text)
            except (OSError, MCPError):
                print(name, "failed")


anyio.run(main)
