"""What work costs in steps and calls, which is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["calls_of", "steps_of"]


def steps_of(work: Callable[[], object]) -> int:
    """Return how many instructions of Python work takes, in all functions that it calls; what is in C does not count."""
    count = 0
    if sys.version_info >= (3, 12):  # whose tracing leaves out what a function does before it is known

        def note(_code: object, _offset: int) -> None:
            nonlocal count
            count += 1

        watch = sys.monitoring
        watch.use_tool_id(watch.OPTIMIZER_ID, "costs")
        watch.register_callback(watch.OPTIMIZER_ID, watch.events.INSTRUCTION, note)
        watch.set_events(watch.OPTIMIZER_ID, watch.events.INSTRUCTION)
        try:
            work()
        finally:
            watch.set_events(watch.OPTIMIZER_ID, 0)
            watch.free_tool_id(watch.OPTIMIZER_ID)
        return count

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
