"""The process that is measured: started on its cores, looked at from outside, and ended."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, final

from .link import LoadError

__all__ = ["ServerProcess", "pinned", "start_server"]

START_SECONDS: Final = 60.0
END_SECONDS: Final = 3.0


@final
class ServerProcess:
    """A server that was started; it ends with `close`."""

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        self.process = process
        self._log = log

    def read_address(self) -> str:
        """Return the line in which the server says where it is.

        Raises:
            LoadError: It has ended instead.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode().strip()
        if "://" not in line:
            raise LoadError(f"the server did not say where it is, but {line!r}; {self.last_words()}")
        return line

    def last_words(self) -> str:
        """Return the end of what it said on standard error."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 2_000))
        return self._log.read().decode(errors="replace").strip()

    def cpu_seconds(self) -> float:
        """Return how much time it has been computing, all its threads together; 0 where nobody knows."""
        try:
            tasks = list(Path(f"/proc/{self.process.pid}/task").iterdir())
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        except (OSError, ValueError):
            return 0.0

    def memory_bytes(self) -> int:
        """Return how much memory of its own it has resident; 0 where nobody knows."""
        return memory_of(self.process.pid)

    def close(self) -> None:
        """End it: the end of its input, a signal, and then by force."""
        process = self.process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._log.close()


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 where nobody knows."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0


def pinned(cores: Iterable[int] | None) -> frozenset[int] | None:
    """Move this process to these cores, if that is possible; return where it was."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        return None
    before = frozenset(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores)
    return before


def start_server(
    command: Sequence[str], *, cwd: str | None = None, cores: Iterable[int] | None = None
) -> ServerProcess:
    """Start a server with pipes, on its cores. It has a quiet environment, and its errors go to a file."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    # A child is born where its parent is; moved later, the threads it has started by then would stay.
    before = pinned(cores)
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            env=environment(),
        )
    finally:
        pinned(before)
    return ServerProcess(process, log)


def environment() -> Mapping[str, str]:
    """Return the environment of whatever is measured."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NODE", "COVERAGE"))
    }
    return {**kept, "NO_COLOR": "1", "NODE_ENV": "production"}
