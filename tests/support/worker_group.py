"""Processes that serve together, and one connection to each of them. Real processes, real time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import trio
from children import children
from http_raw import Answer, Raw, call_tool
from inside_http import open_http_client, parse_target
from places import PROGRAMS

__all__ = ["ENOUGH", "Group", "begin_session", "gone", "open_group", "text_of", "wait_until"]

PROGRAM: Final = PROGRAMS / "worker_program.py"
ENOUGH: Final = 280
"""Seconds in which anything has happened that was asked for."""

INITIALIZE: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def text_of(answer: Answer) -> str:
    """Return what a tool has said."""
    text: str = answer.message["result"]["content"][0]["text"]
    return text


@final
class Group:
    """The processes.

    Attributes:
        process: The supervisor.
        url: Where they serve.
        errors: The file of their standard error.
        directory: Where they have their files for temporary things.
    """

    def __init__(self, process: trio.Process, url: str, errors: Path, directory: Path) -> None:
        self.process = process
        self.url = url
        self.errors = errors
        self.directory = directory

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Raw]:
        """Open a client that has one connection, as long as its requests come one after another."""
        async with open_http_client() as client:
            yield Raw(client, parse_target(self.url))

    @asynccontextmanager
    async def each(self) -> AsyncGenerator[list[tuple[int, Raw]]]:
        """Open a connection to each of two workers."""
        async with AsyncExitStack() as stack:
            found: dict[int, Raw] = {}
            with trio.fail_after(ENOUGH):
                while len(found) < 2:
                    raw = await stack.enter_async_context(self.connected())
                    found[int(text_of(await raw.send(call_tool("who"))))] = raw
            yield list(found.items())

    async def pids(self) -> set[int]:
        """Return which processes serve."""
        async with self.each() as each:
            return {pid for pid, _ in each}

    def workers(self) -> set[int]:
        """Return the processes that the supervisor has started and not reaped."""
        stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if _exists(path)]
        return {int(s.split()[0]) for s in stats if s.rpartition(")")[2].split()[1] == str(self.process.pid)}

    def said(self) -> str:
        """Return what they have said on standard error."""
        return self.errors.read_text()


def _exists(path: Path) -> bool:
    try:
        path.read_text()
    except OSError:
        return False
    return True


async def begin_session(raw: Raw, **headers: str) -> Mapping[str, str]:
    """Begin a session of the legacy era; return the header fields of its requests."""
    answer = await raw.send(INITIALIZE, headers)
    assert answer.status == 200, answer.body
    fields = {
        "Mcp-Session-Id": answer.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
        **headers,
    }
    done = await raw.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, fields)
    assert done.status == 202
    return fields


@asynccontextmanager
async def open_group(folder: Path, **options: Any) -> AsyncGenerator[Group]:
    """Run the program while the block runs; kill what is left of it."""
    errors = folder / "errors.txt"
    temporary = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # a short path, as sockets need
    with errors.open("w") as stderr:
        process = await trio.lowlevel.open_process(
            [sys.executable, str(PROGRAM), json.dumps(options)],
            stderr=stderr,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
    group = Group(process, "", errors, temporary)
    try:
        with trio.fail_after(ENOUGH):
            while "workers serve at " not in group.said():
                assert process.poll() is None, group.said()
                await trio.sleep(0.05)
        group.url = group.said().partition("workers serve at ")[2].split()[0]
        yield group
    finally:
        with trio.CancelScope(shield=True):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with trio.move_on_after(ENOUGH):
                    await process.wait()
                process.kill()
            await process.wait()
        shutil.rmtree(temporary)


def gone(pid: int) -> bool:
    """Whether a process has ended, and was reaped or will be by nobody here."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z" and pid not in children()


async def wait_until(condition: Any) -> None:
    """Wait until something is so."""
    with trio.fail_after(ENOUGH):
        while not condition():
            await trio.sleep(0.05)
