"""The clock of the tests: real time, without what a busy machine adds to it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, final

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

__all__ = ["STILL", "PatientClock", "pass_time", "run_patiently"]

STEP: Final = 0.01
"""Seconds that may go by while tasks run, from one look at the clock to the next."""

LATE: Final = 1e-6
"""Seconds by which a sleep is longer than was asked for, so that what is measured is never less, however rounded."""

STILL: Final = 0.005
"""Seconds without anything coming in after which all is received that was sent: it is in the kernel already."""


@final
class PatientClock(trio.abc.Clock):
    """Real time, but a sleep lasts as long as was asked for, and what runs takes no longer than `STEP`.

    When the machine gives the processor to others for a while, real time goes on: several deadlines pass in one
    moment, and what waited for them goes on in any order; every time that is measured has grown. No test is about
    that. By this clock deadlines pass one by one, in their order, and what is waited for in vain takes its time.

    What other processes do takes them real time, here no longer than until the next deadline.
    """

    def __init__(self) -> None:
        self._now = random.uniform(10_000, 200_000)  # unlike any other clock, which nobody should look at
        self._real = MockClock(rate=1)
        self._looked_at = 0.0
        self._asleep_until: float | None = None

    def start_clock(self) -> None:
        """Begin."""
        self._looked_at = self._real.current_time()

    def current_time(self) -> float:
        """Say what time it is."""
        before, self._looked_at = self._looked_at, self._real.current_time()
        passed = self._looked_at - before
        if self._asleep_until is None:
            self._now += min(passed, STEP)
        else:
            self._now = min(self._now + passed, self._asleep_until + LATE)
            self._asleep_until = None
        return self._now

    def jump(self, seconds: float) -> None:
        """Let so many seconds pass, in none."""
        self._now += seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Say how long the event loop may sleep, which it is about to do."""
        now = self.current_time()
        self._asleep_until = max(now, deadline)
        return self._asleep_until - now


async def pass_time(seconds: float) -> None:
    """Let so much time pass at once, when all tasks wait: what was sent to one of them before has been received.

    So a limit of time passes when a test means it to, also one of minutes, and not before. What other processes do
    takes them real time.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, PatientClock)
    await wait_all_tasks_blocked(STILL)
    clock.jump(seconds)


def run_patiently(
    main: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None,
    instruments: Sequence[trio.abc.Instrument],
) -> Any:
    """Run a test on the clock that it wants, or else on this one."""
    return trio.run(main, clock=clock or PatientClock(), instruments=instruments)
