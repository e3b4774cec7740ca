"""Programs that are given so long and no longer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from bounded import run_bounded
from places import TESTS

BOUNDED = TESTS / "conformance" / "bounded.py"
ORPHAN = f"import subprocess; subprocess.Popen(({sys.executable!r}, '-c', 'import time; time.sleep(60)'))"


def bounded(seconds: float, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as the suite runs our client: reading until nobody can write any more."""
    command = (sys.executable, BOUNDED, str(seconds), sys.executable, "-c", program)
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_exit_status_is_the_programs(status: int) -> None:
    assert run_bounded(30, (sys.executable, "-c", f"raise SystemExit({status})")) == status


def test_a_program_that_was_killed_has_not_ended_well() -> None:
    """The suite takes it for one that has: Node.js knows no status of it."""
    done = bounded(30, "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 137
    assert "was ended by SIGKILL" in done.stderr


def test_what_takes_too_long_is_ended_with_all_it_has_started() -> None:
    """It holds the pipes open until then, and the suite waits for them."""
    done = bounded(1, f"{ORPHAN}; import time; time.sleep(60)")
    assert done.returncode == 124
    assert "did not end within 1.0 s" in done.stderr


def test_what_a_program_leaves_behind_is_ended_too() -> None:
    assert bounded(30, ORPHAN).returncode == 0
