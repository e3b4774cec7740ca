"""What the tests of stdio server share in several layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import PROGRAMS
from raw import RawServer, modern, raw_server

WITNESS = PROGRAMS / "witness.py"


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary"
    path.touch()
    return path


def witness(diary: Path, seconds: float = 30, **limits: float) -> Any:
    limits = {"drain_timeout": 1, **limits}
    return raw_server(WITNESS, env={"DIARY": str(diary), "LIMITS": json.dumps(limits)}, seconds=seconds)


def call(id: object, tool: str, **arguments: object) -> dict[str, Any]:
    return modern(id, "tools/call", name=tool, arguments=arguments)


async def discover(server: RawServer) -> None:
    await server.send(modern("d", "server/discover"))
    assert (await server.receive())["id"] == "d"
