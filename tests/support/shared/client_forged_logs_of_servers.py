"""What the tests of forged logs of servers share in several layers."""

from __future__ import annotations

import logging
from typing import Final

import pytest

NASTY: Final = "x\n2026-01-01 INFO root: all is well\r\x1b[2J\x9b2J\x00\u2028\u202e"


def check_text(text: str) -> None:
    """Nothing of it moves a terminal, and no line but the first begins at the margin."""
    first, *others = text.split("\n")
    assert first.isprintable(), text
    for line in others:
        assert line.startswith("    "), text
        assert line.isprintable(), text


def check_log(caplog: pytest.LogCaptureFixture, at_least: int) -> None:
    records = [record for record in caplog.records if record.name.startswith("trio_mcp")]
    assert len(records) >= at_least, "nothing was logged, so nothing is shown"
    formatter = logging.Formatter("%(levelname)s:%(message)s")
    for record in records:
        assert record.getMessage().isprintable()
        check_text(formatter.format(record))
