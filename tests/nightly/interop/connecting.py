"""Connecting our client to the servers of other implementations, and what every such test ends with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import pytest
import trio
from children import children
from http_recorder import open_http_recorder
from recordings import Recorder, Recording, open_recorder
from their_servers import TheirServer
from typing_extensions import Unpack

import trio_mcp
from trio_mcp import Client, ClientOptions, Limits, StdioServerParameters, Target
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
    """Run a test with each of these servers; those that listen run for all tests of a module."""
    return pytest.mark.parametrize("server", servers, ids=[server.id for server in servers], indirect=True)


def each_started(servers: Sequence[TheirServer]) -> pytest.MarkDecorator:
    """Run a test with each of these servers, each started for that test alone."""
    return pytest.mark.parametrize("everything", servers, ids=[server.id for server in servers])


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

    On leaving, what every test is about is checked: leaving does not take long, no process is left of those that
    the client has started, and all that it has written is what the official schema of the revision in use says it
    must be. The recordings, one for each process that the client has started, or the only one of a server that
    listens, are complete when the block is left.
    """
    options.setdefault("limits", LIMITS if server.answers_probe else IMPATIENT)
    options.setdefault("revision", None if server.answers_probe else server.agreed)
    before = children()
    with trio.fail_after(HANGS):
        async with recorded(server) as (place, recordings):
            async with trio_mcp.open_client(place, **options) as client:
                yield client, recordings
                leaving = trio.current_time()
            assert trio.current_time() - leaving < LEAVING
            assert server.transport != "stdio" or children() <= before
    wires = [recording.check("client") for recording in recordings]
    assert wires[-1].revision == client.revision
    assert all(wire.checked_messages for wire in wires)


@asynccontextmanager
async def recorded(server: TheirServer) -> AsyncGenerator[tuple[Target, list[Recording]]]:
    """Record what is said to a server, which is started if it listens and nobody has started it."""
    if server.transport == "stdio":
        async with open_recorder() as recorder:
            yield target(server, recorder), recorder.recordings
    elif server.url is not None:
        async with open_http_recorder(server.url) as http_recorder:
            yield http_recorder.url, [http_recorder.recording]
    else:
        with server.open_listener() as listener:
            async with recorded(attrs.evolve(server, url=listener.url(server.transport))) as found:
                yield found


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))
