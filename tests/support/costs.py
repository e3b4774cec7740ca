"""What work costs, in comparison: how long something takes says more about the machine than about the code."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["calls_of", "costs_of", "steps_of"]


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


def steps_of(work: Callable[[], object]) -> int:
    """Return how many instructions of Python work takes, in all functions that it calls; what is in C does not count."""
    count = 0

    def look(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def calls_of(work: Callable[[], object], function: Any) -> int:
    """Return how often work calls a function."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is function.__code__

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
