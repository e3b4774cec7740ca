"""The tests that users are shown: they pass, find what they are for, and take no time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from places import ROOT
from pytest_runs import ON_TRIO, run_pytest

EXAMPLE: Final = ROOT / "examples" / "test_warehouse.py"


def test_the_example_passes_as_it_is_written() -> None:
    """By the command that it names."""
    assert "4 passed" in run_pytest(EXAMPLE, *ON_TRIO)


def test_the_tests_of_the_document_pass(tmp_path: Path) -> None:
    """With the fixtures that it shows, as they are printed."""
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    (tests,) = re.findall(r"^```python\n(# test_calculator\.py\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "test_calculator.py").write_text(tests, encoding="utf-8")
    assert "3 passed" in run_pytest(tmp_path)
