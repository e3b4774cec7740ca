"""What the tests of what connecting says share in several layers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio
from patient_clock import pass_time

from trio_mcp import (
    Limits,
    StdioServerParameters,
    open_client,
)

LIMITS = Limits(connect_timeout=20, terminate_timeout=0.2)


def program(*lines: str, **options: Any) -> StdioServerParameters:
    """Return a server that is written in Python."""
    return StdioServerParameters(sys.executable, ["-c", "\n".join(lines)], inherit_env=True, **options)


def without_pid(text: str) -> str:
    return re.sub(r"\(pid \d+\)", "(pid PID)", text)


async def said_by(target: Any, kind: type[Exception], when: Callable[[], bool] | None = None) -> str:
    """Return what connecting to a server says that fails.

    Args:
        target: The server.
        kind: The error.
        when: Whether it has done what it does, and is silent from then on: `connect_timeout` passes at once.
    """

    async def pass_the_time(when: Callable[[], bool]) -> None:
        while not when():
            await trio.sleep(0.01)
        for _ in range(2):
            await pass_time(LIMITS.connect_timeout / 2)

    async with trio.open_nursery() as nursery:
        if when is not None:
            nursery.start_soon(pass_the_time, when)
        with pytest.raises(kind) as caught:
            async with open_client(target, limits=LIMITS):
                raise AssertionError
        nursery.cancel_scope.cancel()
    return without_pid(str(caught.value))
