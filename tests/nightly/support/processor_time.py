"""What work costs, in comparison: how long something takes says more about the machine than about the code."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

__all__ = ["costs_of"]


def costs_of(*works: Callable[[], object], times: int = 5) -> list[float]:
    """Return the least processor time that each takes, in seconds; by turns, so that what disturbs one disturbs all.

    What there was before is not looked at for garbage meanwhile: that takes time by all that other tests have made.
    """
    best = [float("inf")] * len(works)
    for _ in range(times):
        for number, work in enumerate(works):
            gc.freeze()
            try:
                begin = time.thread_time()
                work()
                best[number] = min(best[number], time.thread_time() - begin)
            finally:
                gc.unfreeze()
    return best
