"""docs/protocol.md says what the tests say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from places import ROOT


def test_the_table_is_current_and_has_no_hole(tmp_path: Path) -> None:
    fresh = tmp_path / "protocol.md"
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", f"--protocol-table={fresh}"]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode in {0, 5}, outcome.stdout[-5_000:] + outcome.stderr[-5_000:]
    current = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert fresh.read_text(encoding="utf-8") == current, "run `make protocol`"
