"""Freed memory is returned to the system, where clients have had much of it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from inside_wire import json_module

# Blocks of a megabyte, of which every second one is freed: what bodies leave behind that others outlive.
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
    """Otherwise clients whose requests have ended take several times what the account has lent."""
    done = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80
