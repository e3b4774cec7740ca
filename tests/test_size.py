"""How large the house is: files, lines, and how many files one call runs through. The bounds only ever fall."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
import trio

import trio_mcp
from trio_mcp import Client, HttpServerParameters, StdioServerParameters, open_client
from trio_mcp.types import TextContent

PACKAGE: Final = Path(trio_mcp.__file__).parent
TRACED: Final = Path(__file__).parent / "support" / "traced.py"

# 128 files and 27,990 lines before WebSocket, sockets, groups of clients and the command line; 160 and 32,600 before
# the proxy, which is 1,160 lines, the bridge, and WebSockets in ASGI applications; 167 and 34,700 before authorization,
# of clients and of servers, with an authorization server for tests, and before what attacks on all of that brought.
FILES: Final = 197
CODE_LINES: Final = 40_600
LINES_OF_A_FILE: Final = 500
FILES_OF_A_STDIO_CALL: Final = 22
FILES_OF_A_POST: Final = {"legacy": 31, "modern": 25}
FILES_OF_CALL_TOOL: Final = 19

_NO_CODE: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Return how many lines there are that are neither blank, nor comments, nor docstrings."""
    strings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def test_the_house_does_not_grow_by_itself() -> None:
    """Who needs more files or lines finds fewer elsewhere, or raises the bound and says why."""
    sizes = {path: code_lines(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert len(sizes) <= FILES
    assert sum(sizes.values()) <= CODE_LINES
    assert {path.name: size for path, size in sizes.items() if size > LINES_OF_A_FILE} == {}


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
