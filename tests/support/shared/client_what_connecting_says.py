"""What the tests of what connecting says share in several layers."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
import trio

from trio_mcp import (
    Limits,
    StdioServerParameters,
    open_client,
)

SOON = Limits(connect_timeout=1.5, discover_timeout=0.2, terminate_timeout=0.2)


def program(*lines: str, **options: Any) -> StdioServerParameters:
    """Return a server that is written in Python."""
    return StdioServerParameters(sys.executable, ["-c", "\n".join(lines)], inherit_env=True, **options)


def without_pid(text: str) -> str:
    return re.sub(r"\(pid \d+\)", "(pid PID)", text)


async def said_by(target: Any, kind: type[Exception], limits: Limits = SOON) -> str:
    """Return what connecting to a server says that fails."""
    with trio.fail_after(30), pytest.raises(kind) as caught:
        async with open_client(target, limits=limits):
            raise AssertionError
    return without_pid(str(caught.value))
