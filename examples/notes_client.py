"""A client of `notes.py`: it writes, hears of each change, and fetches what has changed; then a restart.

Run ``python examples/notes_client.py``. You see::

    the list is now notes://1, notes://2
    notes://1 is now 'milk, two bottles'
    the list is now notes://2
    refused: there is no note 1
    -- after a restart
    notes://2 is still 'bread'
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import trio

from trio_mcp import Change, Client, ResourcesListChanged, ResourceUpdated, StdioServerParameters, open_client

SERVER = Path(__file__).with_name("notes.py")


async def tell(client: Client, change: Change) -> None:
    """Fetch what has changed; a notification says no more than that it has."""
    match change:
        case ResourceUpdated(uri=uri):
            print(uri, "is now", repr((await client.read_resource(uri)).text))
        case ResourcesListChanged():
            print("the list is now", ", ".join([note.uri async for note in client.list_resources()]))
        case _:
            print("fetch everything again:", change)  # `Resynced`: the connection was lost for a while


async def write(client: Client) -> None:
    """Change notes, and hear of it; another program that listens to this server hears the same."""
    await client.call_tool("add", {"text": "milk"})
    async with client.listen(resources=["notes://1"], resources_list_changed=True) as changes:
        for tool, arguments in (
            ("add", {"text": "bread"}),
            ("rewrite", {"number": 1, "text": "milk, two bottles"}),
            ("remove", {"number": 1}),
        ):
            await client.call_tool(tool, arguments)
            await tell(client, await anext(changes))  # as a rule: async for change in changes
    print("refused:", (await client.call_tool("remove", {"number": 1})).text)


async def main() -> None:
    """Start the server twice, with the same file."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {"NOTES": str(Path(directory, "notes.db"))}
        notes = StdioServerParameters(sys.executable, [str(SERVER)], env=environment)
        async with open_client(notes) as client:
            await write(client)
        print("-- after a restart")
        async with open_client(notes) as client:
            print("notes://2 is still", repr((await client.read_resource("notes://2")).text))


if __name__ == "__main__":
    trio.run(main)
