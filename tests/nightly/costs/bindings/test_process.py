"""`open_process`: real processes, on the real clock, under deadlines that are only met if nothing hangs."""

from __future__ import annotations

import signal
import sys

import pytest
from children import has_children
from shared.bindings_process import BRIEF, cancelled_block, program
from shared.bindings_process import _children_of_others as _children_of_others

if sys.platform != "linux":
    pytest.skip("watches processes through pidfds and /proc", allow_module_level=True)
BOUND = 2 * BRIEF.terminate_timeout + 1


async def test_cancelled_block_is_left_in_time() -> None:
    """The goodbye is shielded, but bounded."""
    process, seconds = await cancelled_block(program("stubborn.py"), BRIEF)
    assert seconds < BOUND
    assert process.exit_status == -signal.SIGKILL
    assert not has_children()
