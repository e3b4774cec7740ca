"""Ctrl+C at a moment of the test's choice, for programs that ``trio.run`` runs."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Final

import pytest
import trio
import trio.testing

__all__ = ["interrupted"]

TOO_LATE: Final = 1_000


def interrupted(main: Callable[[], Awaitable[object]], *, at: float, unstick: Callable[[], object]) -> float:
    """Run a program, press Ctrl+C, and return when the program has ended.

    Args:
        main: The program.
        at: After how many seconds.
        unstick: Lets it end after all, when it is far too late.
    """

    @trio.lowlevel.enable_ki_protection  # so it is the main task that is interrupted
    async def interrupt() -> None:
        await trio.sleep(at)
        signal.raise_signal(signal.SIGINT)
        await trio.sleep(TOO_LATE)
        unstick()

    async def watched() -> None:
        trio.lowlevel.spawn_system_task(interrupt)
        try:
            await main()
        finally:
            ended.append(trio.current_time())

    ended: list[float] = []
    with pytest.raises(KeyboardInterrupt):
        trio.run(watched, clock=trio.testing.MockClock(autojump_threshold=0))
    return ended[0]
