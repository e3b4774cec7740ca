"""The terminal sessions in the documents: what is typed is run, and prints what is written below it.

A session is a block of ``console`` with lines that begin with ``$ trio-mcp``; ``#`` begins a remark. The lines of
one block are typed at one shell, at the root of the project. A last line ``…`` stands for whatever follows.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from places import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the sessions are those of a POSIX shell")

PAGES: Final = ("README.md", "docs/command-line.md")
ENOUGH: Final = 120
"""Seconds in which every command has ended; machines that run tests are slow."""


def sessions(page: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the sessions of a page: what is typed, and what follows."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if "$ trio-mcp" not in block:
            continue
        typed = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
        yield list(zip(typed[1::2], typed[2::2], strict=True))


SESSIONS: Final = [(page, session) for page in PAGES for session in sessions(page)]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the environment of somebody who has installed the program and configured nothing."""
    program = tmp_path / "bin" / "trio-mcp"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trio_mcp "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    environment.pop("XDG_CONFIG_HOME", None)
    return environment


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
