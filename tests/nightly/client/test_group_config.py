"""Configurations of servers: what is read from them, and what is said about what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path

from inside_client import read_config


async def test_a_hundred_thousand_problems_are_told_in_part(tmp_path: Path) -> None:
    """A megabyte of them, each with the long name of its server, would have been gigabytes of text."""
    path = tmp_path / "mcp.json"
    wrong = {"command": "x", "args": [1] * 100_000}
    path.write_text(json.dumps({"mcpServers": {"n" * 500_000: wrong}}), encoding="utf-8")
    (entry,) = (await read_config(path, {})).values()
    assert entry.error is not None
    told = entry.error.problems
    assert len(told) == 101
    assert told[-1] == "and 99900 more"
    assert all(len(each) < 400 for each in told)
