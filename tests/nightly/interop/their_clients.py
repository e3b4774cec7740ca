"""Clients of other implementations: how each is started, what it speaks, and running it to see what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from environments import (
    PYTHON_1_0,
    PYTHON_1_30,
    PYTHON_2_3,
    TYPESCRIPT_1_4,
    TYPESCRIPT_1_32,
    TYPESCRIPT_2_4,
    NodeEnvironment,
    PythonEnvironment,
    node,
)
from http_recorder import open_http_recorder
from listening import Transport, open_listener
from recordings import Recording, open_recorder

from trio_mcp import Revision

PROGRAMS: Final = Path(__file__).with_name("clients")
HANGS: Final = 60
"""Seconds after which a client hangs, on a machine that is busy with other things."""


@final
@attrs.frozen(kw_only=True)
class TheirClient:
    """A client of another implementation, written for these tests.

    Attributes:
        environment: Where the implementation is installed.
        program: The program in ``clients``.
        agreed: The revision it and a server that speaks all of them agree on.
        transport: How it reaches a server.
        mode: How it is told to find a revision, if it can be told.
        shows_progress: Whether its SDK shows progress and can give up a call.
        has_structured: Whether its SDK shows structured output.
        asks_politely: Whether its SDK closes the server's input and waits, rather than ending it by a signal.
    """

    environment: PythonEnvironment | NodeEnvironment
    program: str
    agreed: Revision
    transport: Transport = "stdio"
    mode: str | None = None
    shows_progress: bool = True
    has_structured: bool = True
    asks_politely: bool = True

    @property
    def id(self) -> str:
        """What to call it in the name of a test."""
        reached = None if self.transport == "stdio" else self.transport
        return "-".join(filter(None, (self.environment.name, self.program, self.mode, reached)))

    @property
    def command(self) -> tuple[str, ...]:
        """What starts it.

        Raises:
            MissingEnvironmentError: The implementation is not installed.
        """
        self.environment.require()
        mode = () if self.mode is None else (self.mode,)
        program = str(PROGRAMS / self.program)
        if isinstance(self.environment, NodeEnvironment):
            return str(node()), program, *mode
        return str(self.environment.python), program, *mode


FULL_CLIENTS: Final = (
    TheirClient(environment=PYTHON_1_0, program="full_python_1_0.py", agreed=Revision.V2024_11_05),
    TheirClient(environment=PYTHON_1_30, program="full_python_1_30.py", agreed=Revision.V2025_11_25),
    TheirClient(environment=PYTHON_2_3, program="full_python_2_3.py", agreed=Revision.V2026_07_28, mode="auto"),
    TheirClient(environment=PYTHON_2_3, program="full_python_2_3.py", agreed=Revision.V2025_11_25, mode="legacy"),
    TheirClient(environment=PYTHON_2_3, program="full_fastmcp_4.py", agreed=Revision.V2026_07_28, mode="auto"),
    TheirClient(environment=PYTHON_2_3, program="full_fastmcp_4.py", agreed=Revision.V2025_11_25, mode="legacy"),
    TheirClient(
        environment=TYPESCRIPT_1_4,
        program="full_typescript_1.mjs",
        agreed=Revision.V2024_11_05,
        asks_politely=False,
    ),
    TheirClient(environment=TYPESCRIPT_1_32, program="full_typescript_1.mjs", agreed=Revision.V2025_11_25),
    TheirClient(
        environment=TYPESCRIPT_2_4, program="full_typescript_2.mjs", agreed=Revision.V2026_07_28, mode="auto"
    ),
    TheirClient(
        environment=TYPESCRIPT_2_4, program="full_typescript_2.mjs", agreed=Revision.V2025_11_25, mode="legacy"
    ),
)
"""One client of each SDK in each of its eras, with all that ``full_server.py`` shows; see `features`."""


def every_way(clients: Sequence[TheirClient]) -> Sequence[TheirClient]:
    """Return clients of servers over stdio, and as they are over the transports for HTTP they have."""
    ways: list[TheirClient] = []
    for client in clients:
        if client.agreed > Revision.V2024_11_05:
            ways.append(attrs.evolve(client, transport="streamable-http"))
        if not client.agreed.is_modern:
            ways.append(attrs.evolve(client, transport="sse"))
    return (*clients, *ways)


@final
@attrs.frozen
class Session:
    """What came of running a client.

    Attributes:
        client: The client.
        findings: What it reported, by name.
        recordings: The life of each server process it started, as some start one only to find out what it speaks;
            or that of the only one, which listened.
    """

    client: TheirClient
    findings: dict[str, Any]
    recordings: list[Recording]


async def run(client: TheirClient, server: Path, marker: Path) -> Session:
    """Run a client with one of our servers, and wait until it and every server are gone."""
    with trio.fail_after(HANGS):
        if client.transport == "stdio":
            async with open_recorder() as recorder:
                findings = await _run(client, str(marker), *recorder.command(sys.executable, server))
            return Session(client, findings, recorder.recordings)
        with open_listener((sys.executable, server, client.transport)) as listener:
            async with open_http_recorder(listener.url(client.transport)) as http_recorder:
                findings = await _run(client, str(marker), http_recorder.url)
            recording = http_recorder.recording
            recording.exit_status = listener.end()
            recording.signals.append("SIGTERM")
        return Session(client, findings, [recording])


async def _run(client: TheirClient, *arguments: str) -> dict[str, Any]:
    """Run a client, and return what it found."""
    done = await trio.run_process(
        [*client.command, *arguments],
        cwd=client.environment.directory,
        capture_stdout=True,
        stderr=subprocess.DEVNULL,
    )
    return {line["finding"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
