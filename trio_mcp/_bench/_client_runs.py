"""What is measured of any client: its command is run at the fixed server, which notes when what came.

A client does what it does: it connects, and calls what it likes, as often as it likes. In each run the server
answers calls in another way.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, final

import attrs

from ._links import LoadError, stamp
from ._loops import Sample
from ._processes import (
    ServerProcess,
    module_command,
    pinned,
    signal_group,
    start_server,
)

FIXED: Final = f"{__package__}._fixed_server"
URL: Final = "{url}"
SERVER: Final = "{server}"
LOOK_SECONDS: Final = 0.001
TERMINATE_SECONDS: Final = 2.0
"""How long a client that does not end by itself has to obey SIGTERM."""
LAST_WORDS: Final = 500


@final
@attrs.frozen(kw_only=True)
class _Run:
    """One run of a client.

    Attributes:
        began: When it was started, in nanoseconds.
        ended: When it had ended, or was ended.
        is_ended: Whether it ended by itself.
        status: Its exit status.
        cpu: How many seconds it has computed, with the children that it has waited for.
        memory: How many bytes it had resident at most.
        seen: What the server has noted.
        words: The end of what it has written.
    """

    began: int
    ended: int
    is_ended: bool
    status: int
    cpu: float
    memory: int
    seen: Mapping[str, Any]
    words: str


_runs: dict[str, _Run] = {}
"""The runs of this process: several figures are taken from each."""


def measure_client(job: Mapping[str, Any], options: Mapping[str, Any]) -> Sample:
    """Return one figure of a run of the client, which is run if it was not yet.

    Raises:
        LoadError: The client did not do what is measured.
    """
    mode: str = options["mode"]
    if mode not in _runs:
        _runs[mode] = _run_client(job, mode, options["patience"])
    run = _runs[mode]
    if "first" not in run.seen:
        raise LoadError(f"the client has sent nothing{_how_it_ended(run)}")
    return _FIGURES[options["wanted"]](run)


def _how_it_ended(run: _Run) -> str:
    ended = f"; it ended with status {run.status}" if run.is_ended else "; it did not end by itself"
    return f"{ended}; it wrote: {run.words}" if run.words else ended


def _run_client(job: Mapping[str, Any], mode: str, patience: float) -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen.json"
        is_stdio = any(SERVER in word for word in job["command"])
        fixed = module_command(FIXED, "stdio" if is_stdio else "http", "both", mode, str(seen))
        server: ServerProcess | None = None
        url = ""
        if not is_stdio:
            server = start_server(fixed, cores=job.get("cores"), variables=dict(os.environ))  # it is ours
        try:
            if server is not None:
                url = server.read_address()
            words = placed(job["command"], url, fixed)
            with tempfile.TemporaryFile() as log:
                return _wait_for(_started(words, job, log), log, server, seen, patience)
        finally:
            if server is not None:
                server.close()


def placed(command: Sequence[str], url: str, server: Sequence[str]) -> list[str]:
    """Return a client's command with the server's address, or the words of its command, where they belong."""
    words: list[str] = []
    for word in command:
        if word == SERVER:
            words += server
        else:
            words.append(word.replace(URL, url).replace(SERVER, shlex.join(server)))
    return words


def _started(words: Sequence[str], job: Mapping[str, Any], log: IO[bytes]) -> tuple[subprocess.Popen[bytes], int]:
    before = pinned(job.get("server_cores"))
    try:
        began = stamp()
        process = subprocess.Popen(
            words,
            cwd=job.get("cwd"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=job.get("variables"),
            process_group=0,
        )
    except OSError as error:
        raise LoadError(f"{words[0]} cannot be started: {error.strerror}") from error
    finally:
        pinned(before)
    return process, began


def _wait_for(
    started: tuple[subprocess.Popen[bytes], int],
    log: IO[bytes],
    server: ServerProcess | None,
    seen: Path,
    patience: float,
) -> _Run:
    """Wait until a client ends, or end it."""
    process, began = started
    end = began + int(patience * 1e9)
    pid, status, usage = 0, 0, None
    is_ended = True
    try:
        while not pid:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if not pid and stamp() > end and is_ended:
                is_ended = False
                end += int(TERMINATE_SECONDS * 1e9)
                signal_group(process.pid, signal.SIGTERM)
            elif not pid and stamp() > end:
                signal_group(process.pid, signal.SIGKILL)
            if not pid:
                time.sleep(LOOK_SECONDS)
    finally:
        process.returncode = os.waitstatus_to_exitcode(status) if pid else -9
        signal_group(process.pid, signal.SIGKILL)
    ended = stamp()
    if server is not None:
        server.close()  # it writes down what it has seen
    else:
        _wait_until_written(seen)
    log.seek(0)
    assert usage is not None
    return _Run(
        began=began,
        ended=ended,
        is_ended=is_ended,
        status=process.returncode,
        cpu=usage.ru_utime + usage.ru_stime,
        memory=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        seen=json.loads(seen.read_text()) if seen.exists() else {},
        words=log.read()[-LAST_WORDS:].decode(errors="replace").strip(),
    )


def _wait_until_written(seen: Path) -> None:
    """Wait a moment for a server over stdio that ends after its client."""
    for _ in range(200):
        if seen.exists():
            return
        time.sleep(LOOK_SECONDS)


# What a run says


def _sample(value: float, run: _Run, operations: int = 1, **facts: float) -> Sample:
    return Sample(value=value, operations=operations, seconds=(run.ended - run.began) / 1e9, facts=facts)


def _first_call(run: _Run) -> int:
    first: int | None = run.seen.get("first_call")
    if first is None:
        raise LoadError(f"the client has called no tool{_how_it_ended(run)}")
    return first


def _calls(run: _Run) -> Sample:
    took, count = run.seen.get("last_call", 0) - _first_call(run), run.seen["calls"]
    if count < 2 or not took:
        raise LoadError("the client has called a tool once, so nothing can be said of how fast it calls")
    return _sample((count - 1) / took * 1e9, run, count, in_flight=run.seen["in_flight"])


def _turnaround(run: _Run) -> Sample:
    pairs: list[tuple[int, int]] = run.seen["turnarounds"]
    all_of_them = [latency for latency, count in pairs for _ in range(count)]
    if not all_of_them:
        raise LoadError("the client has sent nothing after an answer")
    return _sample(all_of_them[len(all_of_them) // 2] / 1e3, run, len(all_of_them))


def _absorbed(run: _Run, scale: float, what: str) -> Sample:
    _first_call(run)
    pairs: list[tuple[int, int]] = run.seen["absorbed"]
    took = sum(nanoseconds for _, nanoseconds in pairs)
    amount = sum(amount for amount, _ in pairs)
    if not took or not amount:
        raise LoadError(what)
    return _sample(amount / took * 1e9 * scale, run, len(pairs))


def _given_up(run: _Run) -> Sample:
    asked: int | None = run.seen.get("asked")
    if asked is None:
        _first_call(run)
        raise LoadError("the client has waited for nothing")
    if "given_up" not in run.seen:
        raise LoadError("the client did not give up, and did not end either")
    at, how = run.seen["given_up"]
    if not run.is_ended and at > run.ended - int((TERMINATE_SECONDS + 1) * 1e9) and how != "a notification":
        raise LoadError("the client waited until it was ended")
    return _sample((at - asked) / 1e9, run, told=float(how == "a notification"))


_FIGURES: Final[Mapping[str, Callable[[_Run], Sample]]] = {
    "start": lambda run: _sample((run.seen["first"] - run.began) / 1e6, run),
    "ready": lambda run: _sample((_first_call(run) - run.began) / 1e6, run),
    "calls": _calls,
    "turnaround": _turnaround,
    "cpu": lambda run: _sample(run.cpu * 1e3, run, run.seen["messages"]),
    "memory": lambda run: _sample(run.memory / 2**20, run),
    "flood": lambda run: _absorbed(run, 1, "the client wants neither progress nor log messages"),
    "large": lambda run: _absorbed(run, 1e-6, "the client has taken no answer"),
    "given-up": _given_up,
}
