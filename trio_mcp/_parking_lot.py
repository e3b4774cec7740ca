"""Where tasks wait for each other, for objects of which there are thousands."""

from __future__ import annotations

from collections import OrderedDict
from typing import final

import trio

__all__ = ["LightParkingLot"]


@final
class LightParkingLot:
    """Trio's parking lot in a fraction of the memory and the time, as long as hardly anybody waits there.

    It has no `repark` and nothing to count with, and `KeyboardInterrupt` may come while tasks are woken: it ends
    them all then.
    """

    __slots__ = ("_parked",)

    def __init__(self) -> None:
        # Mostly nobody, else mostly one task, and seldom several in the order in which they came.
        self._parked: trio.lowlevel.Task | OrderedDict[trio.lowlevel.Task, None] | None = None

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return self._parked is not None

    async def park(self, *, is_first: bool = False) -> None:
        """Wait to be woken; cancelled, as if this had not been called.

        Args:
            is_first: Whether to be woken before all others who wait: for a task that was woken for nothing.
        """
        task, parked = trio.lowlevel.current_task(), self._parked
        if parked is None:
            self._parked = task
        elif isinstance(parked, OrderedDict):
            parked[task] = None
            if is_first:
                parked.move_to_end(task, last=False)
        elif is_first:
            self._parked = OrderedDict.fromkeys((task, parked))
        else:
            self._parked = OrderedDict.fromkeys((parked, task))

        def leave(_: object) -> trio.lowlevel.Abort:
            self._take_out(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    def _take_out(self, task: trio.lowlevel.Task) -> None:
        parked = self._parked
        if isinstance(parked, OrderedDict):
            del parked[task]
            if parked:
                return
        self._parked = None

    def unpark(self) -> bool:
        """Wake who has waited longest. Returns whether anybody has. Never waits."""
        parked = self._parked
        if parked is None:
            return False
        task = next(iter(parked)) if isinstance(parked, OrderedDict) else parked
        self._take_out(task)
        trio.lowlevel.reschedule(task)
        return True

    def unpark_all(self) -> None:
        """Wake everybody who waits. Never waits."""
        parked, self._parked = self._parked, None
        if isinstance(parked, OrderedDict):
            for task in parked:
                trio.lowlevel.reschedule(task)
        elif parked is not None:
            trio.lowlevel.reschedule(parked)
