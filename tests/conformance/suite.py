"""The official conformance suite: which scenarios it has, and playing one of them against our server or our client."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "nightly" / "interop"))

from environments import CONFORMANCE, node
from scoring import Result, Run, Side, Status, read_checks

HERE: Final = Path(__file__).parent
LISTED: Final = re.compile(r"  - (?P<scenario>\S+) \[(?P<revisions>[^]]+)]")
EXTENSION: Final = "extension"
"""What the suite says instead of revisions of scenarios that belong to an extension."""

BOTH: Final = ("2025-11-25", "2026-07-28")
OUR_EXTENSIONS: Final = {"auth/": BOTH, "sep-2640-": BOTH, "tasks-": ("2026-07-28",)}
"""How the names begin of the scenarios of those extensions that are built, and in which revisions they are played."""

# Each bound is shorter than the next, so that whatever hangs is ended by what knows most about it.
CLIENT_SECONDS: Final = 60
PLAYING_SECONDS: Final = 90
"""How long the suite lets a scenario take."""
SUITE_SECONDS: Final = 180
SERVER_SECONDS: Final = 60
"""How long our server may take to begin, and to end."""

LOOK_SECONDS: Final = 0.02
"""How often it is looked whether it has begun."""


class ServerProblemError(Exception):
    """Our server did not begin, or did not end."""


def suite_command(*arguments: str | Path) -> tuple[str | Path, ...]:
    """Return the command line of the suite."""
    CONFORMANCE.require()
    return (node(), CONFORMANCE.package("@modelcontextprotocol/conformance") / "dist" / "index.js", *arguments)


def list_runs(side: Side) -> list[Run]:
    """Ask the suite for every scenario of what is built, once for each revision that it is meant for."""
    listed = subprocess.run(suite_command("list", f"--{side}"), capture_output=True, text=True, check=True)
    return read_list(side, listed.stdout)


def read_list(side: Side, text: str) -> list[Run]:
    """Read what the suite lists. What belongs to an extension that is not built is left out.

    Raises:
        ValueError: It is no list, or none that can be read.
    """
    runs: list[Run] = []
    for line in text.splitlines():
        if line.startswith("  "):
            match = LISTED.fullmatch(line)
            if match is None:
                raise ValueError(f"the suite lists what cannot be read: {line!r}")
            revisions: Sequence[str] = match["revisions"].split(",")
            if match["revisions"] == EXTENSION:
                name = match["scenario"]
                revisions = next((of for prefix, of in OUR_EXTENSIONS.items() if name.startswith(prefix)), ())
            runs += (Run(side, revision, match["scenario"]) for revision in revisions)
    if not runs:
        raise ValueError(f"the suite lists no scenario for a {side}")
    return sorted(runs)


@contextmanager
def open_server(http: str, *, through_proxy: bool = False) -> Generator[tuple[str, Path]]:
    """Run our server while the body runs.

    Args:
        http: What speaks HTTP, as `Server.run` calls it.
        through_proxy: Whether our proxy stands before it, in a process of its own.

    Yields:
        The URL, and the file with what the process there says.

    Raises:
        ServerProblemError: A process did not begin, or did not end when it was told to.
    """
    with _running(sys.executable, HERE / "server.py", "--port", "0", "--http", http) as (url, log):
        if not through_proxy:
            yield url, log
            return
        with _running(sys.executable, "-m", "trio_mcp", "bridge", "http://localhost:0/mcp", url) as before:
            yield before


@contextmanager
def _running(*command: str | Path) -> Generator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "log.txt")
        with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
            try:
                yield _wait_url(process, log), log
                process.terminate()
                status = process.wait(SERVER_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise ServerProblemError(f"the server did not end within {SERVER_SECONDS} s") from error
            finally:
                process.kill()
        if status != 0:
            raise ServerProblemError(f"the server ended with status {status}:\n{log.read_text()}")


def _wait_url(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(int(SERVER_SECONDS / LOOK_SECONDS)):
        if process.poll() is not None:
            break
        match = re.search(r"serving at http://\S+:(\d+)/mcp", log.read_text())
        if match is not None:
            # By this name, because the suite tries who else may be let in only where it sees a local one.
            return f"http://localhost:{match[1]}/mcp"
        time.sleep(LOOK_SECONDS)
    raise ServerProblemError(f"the server did not begin within {SERVER_SECONDS} s:\n{log.read_text()}")


def play_server(run: Run, url: str, log: Path) -> Result:
    """Play a scenario against our server."""
    said = log.stat().st_size
    result = _play(run, "--url", url)
    with log.open() as file:
        file.seek(said)
        return Result(run, result.checks, result.problem, f"{result.output}{file.read()}")


def play_client(run: Run) -> Result:
    """Play a scenario against our client."""
    command = (sys.executable, HERE / "bounded.py", CLIENT_SECONDS, sys.executable, HERE / "client.py")
    return _play(run, "--command", shlex.join(map(str, command)))


def _play(run: Run, *target: str) -> Result:
    with tempfile.TemporaryDirectory() as directory:
        command = suite_command(
            *(run.side, *target, "--scenario", run.scenario, "--spec-version", run.revision),
            *("--timeout", str(PLAYING_SECONDS * 1000), "--output-dir", directory),
            "--force",  # the suite knows no revisions of extensions
        )
        try:
            played = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=SUITE_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return Result(run, (), f"the suite did not end within {SUITE_SECONDS} s")
        return read_result(run, played.returncode, Path(directory), played.stderr)


def read_result(run: Run, status: int, directory: Path, output: str) -> Result:
    """Find out what has become of a run.

    Args:
        run: The run.
        status: The exit status of the suite.
        directory: Where it has put what it found.
        output: What it has said.
    """
    found = list(directory.rglob("checks.json"))
    if len(found) != 1:
        # A scenario that is not meant for the revision, or broke down, leaves nothing behind.
        return Result(run, (), f"the suite wrote no checks, and ended with status {status}", output)
    checks = read_checks(found[0].read_text())
    said = "".join(file.read_text() for file in sorted(found[0].parent.glob("std*.txt")))
    problem = None
    if status != 0 and not any(check.status in {Status.FAILURE, Status.WARNING} for check in checks):
        # What the suite says of the client is in the output, but not in the checks.
        problem = f"the suite ended with status {status}, though no check failed: the client did not end well"
    return Result(run, checks, problem, said)
