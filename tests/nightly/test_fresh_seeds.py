"""Tests that do something by chance say by which, also when they pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import TESTS


def last_words(*arguments: str, **environment: str) -> list[str]:
    """Run two tests that draw by chance, and return what was said of it."""
    chosen = [str(TESTS / "nightly" / "fuzz" / "test_fuzz.py"), "-k", "fresh and (cursors or sse)"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *arguments],
        env={**os.environ, **environment},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall("^by chance: (.*)$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_a_run_that_passes_says_by_which_chance(processes: str) -> None:
    """All of its processes have one."""
    (line,) = last_words(processes, FRESH_SEED="4711")
    assert line == "FRESH_SEED=4711 pytest tests/nightly/fuzz -k fresh"


def test_each_run_has_another_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is told one; and so have the processes of one run together."""
    for name in ("FRESH_SEED", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    lines = [last_words("-n2"), last_words("-n2"), last_words("-n0")]
    assert [len(each) for each in lines] == [1, 1, 1]
    assert len({each[0] for each in lines}) == 3
