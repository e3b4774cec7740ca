"""Every target of the fuzzers: what was kept of them, and a few fresh inputs.

`make fuzz` runs the same for as long as one likes.
"""

from __future__ import annotations

from functools import partial

import pytest
from costs import steps_of
from fuzzing import LARGEST_PIECE
from processor_time import costs_of
from targets import TARGETS

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # says joserfc of what anybody may send


# Time against size.

SIZE = 512
TIMES = 8
SLACK = 3_000
"""Instructions that do not count: what is made once, or for the first problems only."""

SHORT = 2e-3
"""Seconds. What takes less for the larger size is not looked at: it says nothing."""


@pytest.mark.parametrize("name", TARGETS)
def test_work_grows_with_the_size_of_what_is_read(name: str) -> None:
    """For twice the size, about twice the instructions of Python; and of time, which counts the rest, no more either."""
    of = TARGETS[name]
    LARGEST_PIECE.set(1)  # the context is the test's
    for before, unit, behind in of.hard:

        def reading(size: int, b: bytes = before, u: bytes = unit, e: bytes = behind) -> bytes:
            return b + u * (size // len(u)) + e

        what = f"{name}: {before + unit + behind!r}"
        small, large = reading(SIZE), reading(2 * SIZE)
        of.attempt(small)  # what is made once is made now
        of.attempt(large)
        once, twice = steps_of(partial(of.attempt, small)), steps_of(partial(of.attempt, large))
        assert twice <= 2.3 * once + SLACK, f"{what}: {once} steps, and {twice} for twice the size"
        small, large = reading(4 * SIZE), reading(4 * TIMES * SIZE)
        seconds = costs_of(partial(of.attempt, small), partial(of.attempt, large), times=1)
        if seconds[1] > SHORT and seconds[1] > 2 * TIMES * seconds[0]:
            seconds = costs_of(partial(of.attempt, small), partial(of.attempt, large))
            assert seconds[1] <= max(SHORT, 2 * TIMES * seconds[0]), (
                f"{what}: {seconds} for {TIMES} times the size"
            )
