"""`open_process`: real processes, on the real clock, under deadlines that are only met if nothing hangs."""

from __future__ import annotations

import sys

import pytest
import trio
from children import has_children
from inside_transports import open_process
from shared.bindings_process import LONG
from shared.bindings_process import _children_of_others as _children_of_others

from trio_mcp import StdioServerParameters

if sys.platform != "linux":
    pytest.skip("watches processes through pidfds and /proc", allow_module_level=True)


async def test_nothing_is_started_under_cancellation() -> None:
    """An `open_process` that raises `Cancelled` leaves no process."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_process(StdioServerParameters("cat"), LONG):
            pytest.fail("it started")
    assert scope.cancelled_caught
    assert not has_children()
