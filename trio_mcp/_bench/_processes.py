"""The process that is measured: started on its cores, looked at from outside, and ended with all its children.

A server is a group of processes: what it has started counts as its own, for memory and for time. Looking needs
Linux; elsewhere nothing is known, which is 0.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, final

from ._links import Ended, LoadError

END_SECONDS: Final = 3.0
"""How long a process has to end by itself, once it was asked to."""
LAST_WORDS: Final = 2_000
"""How much is kept of what it has written to standard error, in bytes, from the end."""
PROCESSES: Final = Path("/proc")


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module's ``main`` by this interpreter, with what it finds to import here.

    ``python -m`` would look in the current directory first, and not where this process has found the package.
    """
    script = (
        f"import sys; sys.path[:] = {[os.path.abspath(path) for path in sys.path]!r}\n"  # noqa: PTH100 - of ""
        f"from {module} import main\nmain(*sys.argv[1:])"
    )
    return [sys.executable, "-c", script, *arguments]


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

    def check_alive(self) -> None:
        """Raise `Ended` if it has ended."""
        status = self.process.poll()
        if status is not None:
            raise Ended(f"the server has ended with status {status}")

    def last_words(self) -> str:
        """Return the end of what it has written to standard error."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - LAST_WORDS))
        return self._log.read().decode(errors="replace").strip()

    def cpu_seconds(self) -> float:
        """Return how much time it has been computing, all its threads and children together."""
        return sum(_cpu_of(pid) for pid in self._members())

    def memory_bytes(self) -> int:
        """Return how much memory it has resident, with all its children."""
        return sum(memory_of(pid) for pid in self._members())

    def wakeups(self) -> int:
        """Return how often it has begun to compute after it had waited."""
        return sum(
            _number_in(task / "status", "voluntary_ctxt_switches:")
            for pid in self._members()
            for task in _tasks_of(pid)
        )

    def _members(self) -> list[int]:
        return [one.pid for one in _look() if one.group == self.process.pid] or [self.process.pid]

    def close(self) -> None:
        """End it: the end of its input, a signal, and then by force; and all its children."""
        process = self.process
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # of input that was never read
                    stream.close()
        signal_group(process.pid, signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        signal_group(process.pid, signal.SIGKILL)
        self._log.close()


def signal_group(group: int, number: int) -> None:
    """Send a signal to all processes of a group; do nothing if there are none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_session(session: int) -> None:
    """End at once, by force, what is left of a session, and what its leader has started elsewhere."""
    every = _look()
    for pid in {one.pid for one in every if one.session == session} | _descendants(session, every):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    signal_group(session, signal.SIGKILL)


class _Process(NamedTuple):
    """A process as ``/proc/PID/stat`` has it; times are in ticks."""

    pid: int
    parent: int
    group: int
    session: int
    ticks: int


def _look() -> list[_Process]:
    """Return all processes of this machine."""
    found: list[_Process] = []
    try:
        entries = [entry for entry in os.listdir(PROCESSES) if entry.isdecimal()]  # noqa: PTH208 - much faster
    except OSError:
        return found
    for entry in entries:
        with suppress(OSError, ValueError, IndexError):
            _, _, behind = (PROCESSES / entry / "stat").read_text().rpartition(")")
            fields = behind.split()
            ticks = sum(map(int, fields[11:15]))  # its own, and those of the children it has waited for
            found.append(_Process(int(entry), int(fields[1]), int(fields[2]), int(fields[3]), ticks))
    return found


def _descendants(pid: int, every: Sequence[_Process]) -> set[int]:
    found = {pid}
    while more := {one.pid for one in every if one.parent in found} - found:
        found |= more
    return found - {pid}


def seconds_elsewhere(pid: int) -> float:
    """Return how much time all cores have been computing for anybody but a process and its descendants."""
    every = _look()
    mine = _descendants(pid, every) | {pid}
    ticks = _busy_ticks()
    others = ticks - sum(one.ticks for one in every if one.pid in mine)
    return others / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return _number_in(PROCESSES / str(pid) / "status", "VmRSS:") * 1024


def peak_memory_of(pid: int) -> int:
    """Return the most memory that a process has had resident, in bytes."""
    return _number_in(PROCESSES / str(pid) / "status", "VmHWM:") * 1024


def _number_in(path: Path, name: str) -> int:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def _tasks_of(pid: int) -> list[Path]:
    try:
        return list((PROCESSES / str(pid) / "task").iterdir())
    except OSError:
        return []


def _cpu_of(pid: int) -> float:
    total = 0
    for task in _tasks_of(pid):
        with suppress(OSError, ValueError, IndexError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _busy_ticks() -> int:
    """Return how long all cores of this machine have been computing, together."""
    try:
        first = (PROCESSES / "stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, interrupts, soft, *_ = map(int, first[1:])
    except (OSError, ValueError):
        return 0
    return user + nice + system + interrupts + soft


def pinned(cores: Iterable[int] | None) -> frozenset[int] | None:
    """Move this process to these cores, if that is possible; return where it was."""
    if sys.platform == "linux" and cores is not None:
        before = frozenset(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores)
        return before
    return None


def start_server(
    command: Sequence[str],
    *,
    cwd: str | None = None,
    cores: Iterable[int] | None = None,
    variables: Mapping[str, str] | None = None,
    is_quiet: bool = False,
) -> ServerProcess:
    """Start a server with pipes, on its cores; its errors go to a file.

    Args:
        command: What to run.
        cwd: Where.
        cores: On which cores.
        variables: Its environment. Default: a quiet one.
        is_quiet: Whether what it writes to standard output is nobody's business.

    Raises:
        LoadError: There is no such program.
    """
    log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    # A child is born where its parent is; moved later, the threads it has started by then would stay.
    before = pinned(cores)
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=log if is_quiet else subprocess.PIPE,
            stderr=log,
            bufsize=0,
            env=quiet_environment() if variables is None else variables,
            process_group=0,
        )
    except OSError as error:
        log.close()
        raise LoadError(f"{command[0]} cannot be started: {error.strerror}") from error
    finally:
        pinned(before)
    return ServerProcess(process, log)


def quiet_environment() -> dict[str, str]:
    """Return the environment of what is measured beside others: nothing in it changes how fast anything is."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NODE", "COVERAGE"))
    }
    return {**kept, "NO_COLOR": "1", "NODE_ENV": "production"}
