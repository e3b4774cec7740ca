"""Connecting our client to the servers of other implementations, and what every such test ends with."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio
from recordings import Recorder, Recording, open_recorder
from their_servers import TheirServer
from typing_extensions import Unpack

import trio_mcp
from trio_mcp import Client, ClientOptions, Limits, StdioServerParameters
from trio_mcp.types import CallToolResult, TextContent

HANGS: Final = 60
"""Seconds after which something hangs, on a machine that is busy with other things."""

LIMITS: Final = Limits(discover_timeout=15, terminate_timeout=1)
"""A probe that is not answered in this time was not answered for another reason than a slow start."""

IMPATIENT: Final = Limits(discover_timeout=2, terminate_timeout=1)
"""For servers that are known to be silent."""

LEAVING: Final = 2 * LIMITS.terminate_timeout + LIMITS.goodbye_timeout + 2
"""What leaving a client may take, in seconds; the last part is for a busy machine."""


def every(servers: Sequence[TheirServer]) -> pytest.MarkDecorator:
    """Run a test with each of these servers."""
    return pytest.mark.parametrize("server", servers, ids=[server.id for server in servers])


def has_children() -> bool:
    """Whether any child process is left, running or not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def target(
    server: TheirServer, recorder: Recorder | None = None, *, stderr: Callable[[str], object] = lambda _: None
) -> StdioServerParameters:
    """Return what starts a server, with a recorder in front of it if there is one."""
    command, *args = server.command if recorder is None else recorder.command(*server.command)
    return StdioServerParameters(command, args, cwd=server.directory, stderr=stderr)


@asynccontextmanager
async def connected(
    server: TheirServer, **options: Unpack[ClientOptions]
) -> AsyncGenerator[tuple[Client, list[Recording]]]:
    """Connect to a server and record what is said.

    On leaving, what every test is about is checked: leaving does not take long, no process is left, and all that
    our client has written is what the official schema of the revision in use says it must be. The recordings, one
    for each process that was started, are complete when the block is left.
    """
    options.setdefault("limits", LIMITS if server.answers_probe else IMPATIENT)
    options.setdefault("revision", None if server.answers_probe else server.agreed)
    with trio.fail_after(HANGS):
        async with open_recorder() as recorder:
            async with trio_mcp.open_client(target(server, recorder), **options) as client:
                yield client, recorder.recordings
                leaving = trio.current_time()
            assert trio.current_time() - leaving < LEAVING
            assert not has_children()
    wires = [recording.check("client") for recording in recorder.recordings]
    assert wires[-1].revision == client.revision
    assert all(wire.checked_messages for wire in wires)


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))
