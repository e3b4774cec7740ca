"""What lives in this process: how many bytes, and objects of the library by their class."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import Counter
from typing import Any, Final, cast

__all__ = ["in_use", "lent", "objects_of_ours"]

OURS: Final = "trio_mcp."


def objects_of_ours() -> Counter[str]:
    """Return how many objects of the library's the garbage collector knows, after it has collected, by class.

    Those that were there when a program began to serve do not count: see `run_until_signal`.
    """
    gc.collect()
    found = Counter[str]()
    for each in gc.get_objects():
        kind = cast("Any", type(each))
        module = str(kind.__module__)  # a class that is written in C may have something else there
        if module.startswith(OURS):
            found[f"{module.removeprefix(OURS)}.{kind.__qualname__}"] += 1
    return found


def lent(server: Any) -> Counter[str]:
    """Return what a server has lent in all its runs, by unit, and to how many."""
    found = Counter[str]()
    for run in server.statistics():
        for unit, pool in run.items():
            found[unit] += pool.lent
            found[f"{unit} clients"] += pool.clients
    return found


class MallInfo(ctypes.Structure):
    """What glibc says of its allocator; see mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


BLOCK: Final = 64
"""What a block of Python's own allocator weighs, about."""


def in_use() -> int:
    """Return what lives in this process, in bytes, about. What the allocators have and nobody uses does not count."""
    gc.collect()
    blocks = sys.getallocatedblocks() * BLOCK
    try:
        tell = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):  # another C library
        return blocks
    tell.restype = MallInfo
    told: Any = tell()
    return blocks + int(told.uordblks) + int(told.hblkhd)
