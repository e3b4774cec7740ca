"""The terminal sessions in the documents: what is typed is run, and prints what is written below it.

A session is a block of ``console`` with lines that begin with ``$ trio-mcp``; ``#`` begins a remark. The lines of
one block are typed at one shell, at the root of the project. A last line ``…`` stands for whatever follows.
"""

from __future__ import annotations

import sys

import pytest
from shared.cli_documented_sessions import SESSIONS
from shared.cli_documented_sessions import shell as shell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the sessions are those of a POSIX shell")


def test_there_are_sessions() -> None:
    """A test that reads nothing proves nothing."""
    assert [page for page, _ in SESSIONS].count("README.md") == 1
    assert len(SESSIONS) >= 8
