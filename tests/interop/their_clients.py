"""Clients of other implementations: how each is started, what it speaks, and running it to see what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, final

import attrs
import trio
from environments import NodeEnvironment, PythonEnvironment, node
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
        mode: How it is told to find a revision, if it can be told.
        shows_progress: Whether its SDK shows progress and can give up a call.
        has_structured: Whether its SDK shows structured output.
        asks_politely: Whether its SDK closes the server's input and waits, rather than ending it by a signal.
    """

    environment: PythonEnvironment | NodeEnvironment
    program: str
    agreed: Revision
    mode: str | None = None
    shows_progress: bool = True
    has_structured: bool = True
    asks_politely: bool = True

    @property
    def id(self) -> str:
        """What to call it in the name of a test."""
        return "-".join(filter(None, (self.environment.name, self.program, self.mode)))

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


@final
@attrs.frozen
class Session:
    """What came of running a client.

    Attributes:
        client: The client.
        findings: What it reported, by name.
        recordings: The life of each server process it started; some start one only to find out what it speaks.
    """

    client: TheirClient
    findings: dict[str, Any]
    recordings: list[Recording]


async def run(client: TheirClient, server: Path, marker: Path) -> Session:
    """Run a client with one of our servers, and wait until it and every server it has started are gone."""
    with trio.fail_after(HANGS):
        async with open_recorder() as recorder:
            command = recorder.command(sys.executable, server)
            done = await trio.run_process(
                [*client.command, str(marker), *command],
                cwd=client.environment.directory,
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
            )
    findings = {line["finding"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
    return Session(client, findings, recorder.recordings)
