"""What a client remembers of its server is bounded in memory, however much the server says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio
from places import MEASURED
from unmeasured import unmeasured

import trio_mcp

MEMORY = 400_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory that holds, and /proc")
async def test_a_client_lives_through_hundreds_of_large_schemas() -> None:
    """300 of 200 kB took two megabytes each, decoded and compiled; 400 MB more than it begins with are enough."""
    program = MEASURED / "hostile_lists.py"
    root = Path(trio_mcp.__file__).parent.parent
    with trio.fail_after(240):
        done = await trio.run_process(
            [sys.executable, str(program), str(MEMORY)],
            capture_stdout=True,
            env={**unmeasured(), "PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        )
    assert done.stdout == b"alive\n"
