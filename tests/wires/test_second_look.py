"""`second_look`: what fails once is run again, alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import TESTS

ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("n", range(COUNT))
def test_that_fails_once(n):
    mark = pathlib.Path(__file__).with_name(f"mark-{n}")
    if not mark.exists():
        mark.touch()
        assert n == -1, "a neighbour"
"""
ALWAYS = """
def test_that_fails():
    assert 1 == 2
"""


@pytest.mark.parametrize(
    ("tests", "status", "said"),
    [
        (
            ONCE.replace("COUNT", "2"),
            0,
            "unsteady: test_it.py::test_that_fails_once[1]: AssertionError: a neighbour",
        ),
        (ONCE.replace("COUNT", "4"), 1, "4 unsteady tests; at most 3 are taken"),
        (ONCE.replace("COUNT", "1") + ALWAYS, 1, "FAILED test_it.py::test_that_fails"),
    ],
    ids=["unsteady", "too many", "fails"],
)
def test_what_a_run_comes_to(tests: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    program = TESTS / "support" / "second_look.py"
    options = ["-q", "--rootdir", ".", "-c", "/dev/null", "-o", f"pythonpath={program.parent}"]
    done = subprocess.run(
        [sys.executable, program, *options, "--", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout
