"""Servers that listen: processes of their own, each at a port that it chooses and says."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias, final

import attrs

Transport: TypeAlias = Literal["stdio", "streamable-http", "sse"]
"""How clients reach a server."""

PATHS: Final[Mapping[Transport, str]] = {"streamable-http": "/mcp", "sse": "/sse"}
"""Where it is at its port: all that are tried have agreed on that without knowing of each other."""

STARTING: Final = 60
"""Seconds in which a server says where it is, on a machine that is busy with other things."""

ENDING: Final = 15
"""Seconds a server that was asked to end may take."""

_PLACE: Final = re.compile(rb"http://(?:127\.0\.0\.1|localhost):([1-9][0-9]*)")


@final
@attrs.define
class Listener:
    """A server process that listens.

    Attributes:
        port: Where.
        process: The process.
    """

    port: int
    process: subprocess.Popen[bytes]

    def url(self, transport: Transport) -> str:
        """Return where clients of a transport find it."""
        return f"http://127.0.0.1:{self.port}{PATHS[transport]}"

    def end(self) -> int:
        """Ask it to end, and return its exit status."""
        self.process.terminate()
        return self.process.wait(ENDING)


@contextmanager
def open_listener(
    command: Sequence[str | Path], *, directory: Path | None = None, more: Mapping[str, str] | None = None
) -> Generator[Listener]:
    """Start a server and wait until it has said where it is. Leaving kills it, unless it has ended.

    Args:
        command: What starts it.
        directory: Where it is started.
        more: What its environment has beside ours.
    """
    process = subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, **(more or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    said: queue.Queue[int | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, said))
    reader.start()
    try:
        port = said.get(timeout=STARTING)
        assert port is not None, f"{command} ended with status {process.wait()} instead of listening"
        yield Listener(port, process)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


def _read(output: IO[bytes], said: queue.Queue[int | None]) -> None:
    """Read all that a server says, so that it never waits for us, and pass on where it is."""
    for line in output:
        if place := _PLACE.search(line):
            said.put(int(place[1]))
    said.put(None)
