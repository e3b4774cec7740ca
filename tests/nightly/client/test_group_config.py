"""Configurations of servers: what is read from them, and what is said about what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inside_client import read_config

from trio_mcp import (
    ConfigError,
)

ENVIRONMENT = {"TOKEN": "secret", "HOME": "/home/x", "EMPTY": ""}


async def read(config: Any) -> dict[str, Any]:
    return {name: entry.target for name, entry in (await read_config(config, ENVIRONMENT)).items()}


async def problems_of(config: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        await read(config)
    return caught.value.problems


async def test_a_hundred_thousand_problems_are_told_in_part(tmp_path: Path) -> None:
    """A megabyte of them, each with the long name of its server, would have been gigabytes of text."""
    path = tmp_path / "mcp.json"
    wrong = {"command": "x", "args": [1] * 100_000}
    path.write_text(json.dumps({"mcpServers": {"n" * 500_000: wrong}}), encoding="utf-8")
    told = await problems_of(str(path))
    assert len(told) == 101
    assert told[-1] == "and 99900 more"
    assert all(len(each) < 400 for each in told)
