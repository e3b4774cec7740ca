"""How large the house is: files, lines, and how many files one call runs through. The bounds only ever fall."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
import trio
from places import PROGRAMS

import trio_mcp
from trio_mcp import Client, HttpServerParameters, StdioServerParameters, open_client
from trio_mcp.types import TextContent

PACKAGE: Final = Path(trio_mcp.__file__).parent
TRACED: Final = PROGRAMS / "traced.py"
FILES_OF_A_STDIO_CALL: Final = 15
# In the legacy era one more since a peer is built from the bottom up, so that what wakes it is its own.
FILES_OF_A_POST: Final = {"legacy": 25, "modern": 18}
FILES_OF_CALL_TOOL: Final = 17


async def files_of_a_call(client: Client) -> list[str]:
    """Return the files that the server runs through for one call."""
    await client.call_tool("add", {"a": 1, "b": 2})
    await client.call_tool("begin")
    await client.call_tool("add", {"a": 1, "b": 2})
    (block,) = (await client.call_tool("files")).content
    assert isinstance(block, TextContent)
    files: list[str] = json.loads(block.text)
    return files


@contextmanager
def traced() -> Generator[set[str]]:
    """Note the files of the package in which anything is called meanwhile."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(PACKAGE)):
            files.add(path[len(str(PACKAGE)) + 1 :])

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_over_stdio_runs_through_few_files(era: trio_mcp.Era) -> None:
    """Each file that a debugger enters costs its reader a page turn."""
    parameters = StdioServerParameters(sys.executable, [str(TRACED), "stdio"])
    async with open_client(parameters, era=era) as client:
        files = await files_of_a_call(client)
        with traced() as ours:
            await client.call_tool("add", {"a": 1, "b": 2})
    assert 10 < len(files) <= FILES_OF_A_STDIO_CALL, files
    assert 10 < len(ours) <= FILES_OF_CALL_TOOL, sorted(ours)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_post_runs_through_few_files(era: trio_mcp.Era) -> None:
    """The same for a server over HTTP."""
    with subprocess.Popen([sys.executable, str(TRACED), "http"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = await trio.to_thread.run_sync(server.stdout.readline)
            async with open_client(HttpServerParameters(address.strip()), era=era) as client:
                files = await files_of_a_call(client)
        finally:
            server.terminate()
    assert 10 < len(files) <= FILES_OF_A_POST[era], files
