"""What a module keeps, told from what everything else in the process does meanwhile."""

from __future__ import annotations

import sys
import tracemalloc

__all__ = ["kept_by"]


def kept_by(kind: type) -> int:
    """Return how many bytes the module of a class has allocated and not let go, since `tracemalloc.start()`."""
    only = tracemalloc.Filter(inclusive=True, filename_pattern=str(sys.modules[kind.__module__].__file__))
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([only]).traces)
