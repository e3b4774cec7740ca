"""Processes that serve together begin, die, are replaced and end. Real processes, real time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio
from http_raw import call_tool
from worker_group import ENOUGH, gone, open_group, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux shows them"),
]


async def test_a_worker_that_hangs_is_not_left(tmp_path: Path) -> None:
    """It does not notice that its supervisor was killed; a thread of it does."""
    async with open_group(tmp_path) as group, group.each() as ((one, a), (other, _)):
        noted = tmp_path / "block"
        with trio.move_on_after(ENOUGH):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.send, call_tool("block", path=str(noted)))
                await wait_until(noted.exists)
                group.process.kill()
                await wait_until(lambda: gone(other))
                assert not gone(one)
                nursery.cancel_scope.cancel()
        await wait_until(lambda: gone(one))
