"""Run tests, and what has failed once more, alone: ``python tests/support/second_look.py OPTIONS -- TESTS``.

Tests with processes and sockets may fail for what else the machine does. What passes when it is run again by itself, when
all else is done, is unsteady: it is named in a table at the end, with its first failure. More than `MOST` of them, and
whatever fails twice, are a failure of the run. An unsteady test is mended, or moved to tests/nightly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

__all__ = ["main"]

MOST: Final = 3
_FILE: Final = "SECOND_LOOK"
"""The variable of the environment that names the file for the failures of a run."""


class _Failures:
    """What has failed in a run, with the last line of why."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure: of a test, or of what it needs."""
        if report.failed:
            lines = [line for line in report.longreprtext.splitlines() if line.startswith("E  ")]
            self._failed.setdefault(report.nodeid, lines[0][1:].strip() if lines else "")

    def pytest_sessionfinish(self) -> None:
        """Write them down."""
        self._path.write_text(json.dumps(self._failed), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Take part in a run that this program has started, but not in its workers."""
    if (path := os.environ.get(_FILE)) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(Path(path)))


def _run(options: list[str], failed: Path) -> tuple[int, dict[str, str]]:
    failed.write_text("{}", encoding="utf-8")
    environment = {**os.environ, _FILE: str(failed)}
    command = [sys.executable, "-m", "pytest", "-p", "second_look", *options]
    status = subprocess.run(command, env=environment, check=False).returncode
    return status, json.loads(failed.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Run pytest with these options on these tests, and then on what has failed; return the exit status."""
    end = arguments.index("--")
    options, tests = arguments[:end], arguments[end + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        failures = Path(folder, "failed")
        status, failed = _run([*options, "--numprocesses=auto", "--dist=worksteal", *tests], failures)
        if status != pytest.ExitCode.TESTS_FAILED or not failed:
            return status
        print(f"\nA second look at what has failed: {len(failed)}", flush=True)
        status, again = _run([*options, *failed], failures)
    unsteady = {test: why for test, why in failed.items() if test not in again}
    for test, why in unsteady.items():
        print(f"unsteady: {test}: {why}")
    if len(unsteady) > MOST:
        print(f"{len(unsteady)} unsteady tests; at most {MOST} are taken")
        return 1
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
