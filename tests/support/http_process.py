"""A server process of ours that listens, for the tests of a module or of all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

from places import PROGRAMS

__all__ = ["HttpProcess"]

PROGRAM = PROGRAMS / "http_program.py"
ENOUGH = 280
"""Seconds in which any server has ended that was asked to."""


@final
class HttpProcess:
    """The process. It serves when this is made.

    Args:
        script: The program whose `server` it serves.
        settings: Those of HTTP.
        env: Further variables of its environment.
        how: What to serve instead of HTTP: ``("tcp",)``, or ``("unix", path)``.

    Attributes:
        url: Where it is.
        port: Its port; 0 at a Unix socket.
        pid: Which it is.
        files_at_start: How many files and sockets it has open when nobody is connected.
    """

    def __init__(
        self,
        script: Path,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        how: Sequence[str] = (),
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(script), *(how or (json.dumps(settings or {}),))],
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            said = stdout.readline()
        assert said, "the server did not start"
        self.url: str = said.strip()
        port: int | None = urlsplit(self.url).port
        self.port: int = port or 0
        self.pid = self._process.pid
        self.files_at_start = self.files()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def wait(self) -> int:
        """Wait until it has ended, and return its status."""
        try:
            return self._process.wait(ENOUGH)
        finally:
            self.kill()

    def files(self) -> int:
        """Return how many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))
