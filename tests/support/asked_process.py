"""A process that is watched: it serves something, and says how things stand when it is asked by a line."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from unmeasured import unmeasured

__all__ = ["AskedProcess"]


class AskedProcess:
    """The process. A context that ends it.

    Args:
        program: What it runs.
        options: What that is told, as JSON, in its command line.
        log: What it says goes there.
        patience: Seconds in which it answers, starts and ends.
    """

    def __init__(self, program: Path, options: Mapping[str, Any], log: Path, patience: float) -> None:
        self.log: Final = log
        self._patience: Final = patience
        with log.open("ab") as stderr:
            self._process: Final = subprocess.Popen(
                [sys.executable, str(program), json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=unmeasured(),
            )
        self.pid: Final = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, which it should not by itself."""
        return self._process.poll() is not None

    def hear(self) -> bytes:
        """Return the next line that it says.

        Raises:
            TimeoutError: It has ended, or says nothing.
        """
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], self._patience)
        line: bytes = stdout.readline() if ready else b""
        if not line:
            words = self.log.read_text(encoding="utf-8", errors="replace")[-2_000:]
            raise TimeoutError(f"the process does not say how things stand; last logged: {words}")
        return line

    def ask(self, command: str = "") -> dict[str, Any]:
        """Ask how things stand, after a command.

        Raises:
            OSError: It has ended, or does not answer.
        """
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(command.encode() + b"\n")
        stdin.flush()
        said: dict[str, Any] = json.loads(self.hear())
        return said

    def end(self) -> int | None:
        """Ask it to end, as an operator does, and return its status; `None` if it had to be killed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(self._patience)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
