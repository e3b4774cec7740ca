"""What the tests of documented sessions share in several layers."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from places import ROOT

PAGES: Final = ("README.md", "docs/command-line.md")


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
