"""``bridge``: any server behind any listener, through processes of their own."""

from __future__ import annotations

import pytest
from commands import Run


def test_what_cannot_be_bridged_is_said(subtests: pytest.Subtests, run: Run) -> None:
    """With the status for a command line that is not as it must be."""
    rows: list[list[str]] = [
        ["carrier-pigeon", "https://example.com/mcp"],
        ["http://127.0.0.1/mcp", "https://example.com/mcp"],
        ["https://127.0.0.1:0/mcp", "https://example.com/mcp"],
        ["tcp://127.0.0.1:1/path", "https://example.com/mcp"],
        ["tcp://127.0.0.1:x", "https://example.com/mcp"],
        ["tcp://\udcff:0", "https://example.com/mcp"],
        ["stdio", "nothing.py"],
        ["stdio", "ftp://example.com"],
        ["stdio"],
    ]
    for words in rows:
        with subtests.test(words=words):
            done = run("bridge", *words)
            assert (done.status, done.out) == (2, "")
            assert done.err


def test_the_help_says_which_is_which(run: Run) -> None:
    """Nobody remembers."""
    done = run("bridge", "--help")
    assert "FROM is where clients come in" in done.out
    assert "TO is one of" in done.out
