"""docs/transports.md says what runs over which transport, and there is no hole without a reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from places import ROOT

PAGE = ROOT / "docs" / "transports.md"


def test_the_matrix_is_current_and_has_no_hole(tmp_path: Path) -> None:
    """The numbers of the table are those of the scenarios that are collected here."""
    fresh = Path(shutil.copy(PAGE, tmp_path))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        f"--matrix-table={fresh}",
        "tests/memory/matrix",
    ]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode in {0, 5}, outcome.stdout[-5_000:] + outcome.stderr[-5_000:]
    assert fresh.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8"), "run `make matrix`"
