"""What the tests of login share in several layers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the browser of this machine be one that logs in at once."""
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} %s")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
