"""The terminal sessions in the documents: what is typed is run, and prints what is written below it.

A session is a block of ``console`` with lines that begin with ``$ trio-mcp``; ``#`` begins a remark. The lines of
one block are typed at one shell, at the root of the project. A last line ``…`` stands for whatever follows.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest
from places import ROOT
from shared.cli_documented_sessions import SESSIONS
from shared.cli_documented_sessions import shell as shell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the sessions are those of a POSIX shell")
ENOUGH: Final = 280
"""Seconds in which every command has ended; machines that run tests are slow."""


@pytest.mark.parametrize(("page", "session"), SESSIONS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_session_goes_as_it_is_written(
    page: str, session: list[tuple[str, str]], shell: dict[str, str]
) -> None:
    """To the letter. Standard error is a part of what is seen."""
    for command, expected in session:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=ROOT,
            env=shell,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=ENOUGH,
            check=False,
        )
        shown = done.stdout.replace(sys.executable, "python").replace(str(ROOT), "…").replace(shell["HOME"], "~")
        if expected.endswith("…\n"):
            assert shown.startswith(expected.removesuffix("…\n")), command
        else:
            assert shown == expected, command
