"""Freed memory is returned to the system, where clients have had much of it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext

import pytest
from inside_core import Sealer
from inside_server import lifetimes_module, open_service
from inside_wire import json_module
from trio.testing import wait_all_tasks_blocked

from trio_mcp import Limits

# Blocks of a megabyte, of which every second one is freed: what bodies that gave way to others leave behind.
FRAGMENTED = """
import sys
from trio_mcp._codec import _json

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

_json.decode(b"[" + b"1," * 100_000 + b"1]")  # from now on such blocks come from the heap
blocks = [bytearray(b"x" * 1_000_000) for _ in range(200)]
del blocks[::2]
before = resident()
_json.return_freed_memory()
print(before - resident())
"""


@pytest.mark.skipif(
    json_module._malloc_trim() is None, reason="glibc's allocator alone keeps pieces in the middle of its heap"
)
def test_memory_that_was_freed_in_pieces_goes_back_to_the_system() -> None:
    """Otherwise clients that are made to give way take several times what the account has lent."""
    done = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80


async def test_a_server_returns_memory_once_for_all_that_gives_way_in_one_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And in the next one: what was lent is not freed before."""
    returned = 0

    def note() -> None:
        nonlocal returned
        returned += 1

    monkeypatch.setattr(lifetimes_module, "return_freed_memory", note)
    async with open_service("library", nullcontext(), Sealer(), Limits(max_kept_bytes=1_000)) as service:
        small = service.account.bytes.lend("somebody", "bodies", 200)
        small.give_back()
        loans = [service.account.bytes.lend("somebody", "bodies", 10) for _ in range(45)]
        for loan in loans:
            loan.give_back()
        assert returned == 0
        await wait_all_tasks_blocked()
        assert returned == 1
        again = service.account.bytes.lend("somebody", "bodies", 450)
        again.give_back()
    assert returned == 1  # the server has ended before
    again = service.account.bytes.lend("somebody", "bodies", 450)
    again.give_back()  # harmless
