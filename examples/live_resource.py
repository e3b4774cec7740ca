"""A live resource: one client changes it, another listens and reads it again each time.

`Server.resource_updated` tells every client that listens, in every revision; nobody waits for a client that reads
slowly, and what it has not heard of yet is told once.

Run ``python examples/live_resource.py``. You see::

    -- over 2025-11-25
    score://today is now 1:0
    score://today is now 1:1
    score://today is now 2:1
    the tools are now end_match
    -- over 2026-07-28
    ...
"""

from __future__ import annotations

from typing import Literal

import trio

from trio_mcp import Change, Client, ResourceUpdated, Revision, Server, ToolsListChanged, open_client


def new_server() -> Server:
    """Return a server for one match."""
    server = Server("scoreboard", version="1.0")
    goals = {"home": 0, "away": 0}

    @server.resource("score://today")
    async def score() -> str:
        """The score as it is now."""
        return f"{goals['home']}:{goals['away']}"

    @server.tool
    async def goal(team: Literal["home", "away"]) -> None:
        """Count a goal."""
        goals[team] += 1
        await server.resource_updated("score://today")

    @server.tool
    async def end_match() -> None:
        """End the match."""
        server.disable_tool("goal")

    return server


async def tell(fan: Client, change: Change) -> None:
    """Say what has changed. What is told is only that; what it is now must be fetched."""
    match change:
        case ResourceUpdated(uri=uri):
            print(uri, "is now", (await fan.read_resource(uri)).text)
        case ToolsListChanged():
            print("the tools are now", ", ".join([tool.name async for tool in fan.list_tools()]))
        case _:
            print("fetch everything again:", change)  # `Resynced`: the connection was lost for a while


async def follow_match(revision: Revision) -> None:
    """Play a match with one client, and follow it with another."""
    server = new_server()
    async with (
        open_client(server, revision=revision) as referee,
        open_client(server, revision=revision) as fan,
        fan.listen(resources=["score://today"], tools_list_changed=True) as changes,
    ):
        for team in ("home", "away", "home"):
            await referee.call_tool("goal", {"team": team})
            await tell(fan, await anext(changes))  # as a rule: async for change in changes
        await referee.call_tool("end_match")
        await tell(fan, await anext(changes))


async def main() -> None:
    """Follow a match in both eras."""
    for revision in (Revision.V2025_11_25, Revision.V2026_07_28):
        print("-- over", revision)
        await follow_match(revision)


if __name__ == "__main__":
    trio.run(main)
