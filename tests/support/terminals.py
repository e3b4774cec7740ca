"""A terminal of the tests' own, at which commands run that were really started."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final, final

COMMAND: Final = (sys.executable, "-m", "trio_mcp")
ENOUGH: Final = 280
"""Seconds of silence after which nothing more will be shown."""


@final
class Terminal:
    """A command at a terminal: what it shows there, and what is typed.

    Attributes:
        process: The command.
        shown: What the terminal was given so far.
    """

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master

    def wait_for(self, text: str) -> str:
        """Wait until the terminal was given a text, and return all until its end, which is taken out."""
        while text not in self.shown:
            if not select.select([self._master], [], [], ENOUGH)[0]:
                raise AssertionError(f"never shown: {text!r}; but {self.shown!r}")
            if not self._take() and text not in self.shown:
                raise AssertionError(f"ended, and never shown: {text!r}; but {self.shown!r}")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait(self) -> int:
        """Wait until the command has ended, and return its status. What it showed last is in `shown`."""
        while select.select([self._master], [], [], ENOUGH)[0]:
            if not self._take():
                break
        return self.process.wait(ENOUGH)

    def _take(self) -> bool:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # nobody has the other end any more
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


@contextmanager
def at_terminal(
    *words: str, env: Mapping[str, str] | None = None, stdout: int | None = None
) -> Generator[Terminal]:
    """Run a command whose standard input, output and error are a terminal that it is in control of.

    Args:
        words: Its words.
        env: Further variables.
        stdout: Where its standard output goes instead.
    """
    master, slave = pty.openpty()

    def take_control() -> None:
        os.login_tty(slave)
        if stdout is not None:
            os.dup2(stdout, 1)

    process = subprocess.Popen(
        [*COMMAND, *words],
        preexec_fn=take_control,
        pass_fds=() if stdout is None else (stdout,),
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **(env or {})},
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        os.close(master)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
