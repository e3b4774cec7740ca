"""One program, played and judged: its log, and what is wrong with it, also if it crashes or does not end."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, cast

import attrs

from .checker import check
from .judged import Violation
from .play import play
from .program import Program

PATIENCE: Final = 60.0
"""Seconds of processor time that a program may take, and of real time that it may do nothing at all."""

TICK: Final = 1.0
"""Seconds of real time between two looks at that."""

NOTHING: Final = 0.001
"""Seconds of processor time that are as good as none between two looks."""


class DoesNotEnd(BaseException):
    """A program did not end."""


@contextmanager
def bounded() -> Generator[None]:
    """End the body when it has worked, or has waited for what does not come, for too long.

    Real time alone says nothing: a program that takes 50 ms takes minutes where the machine has no time for it, or
    sleeps. So what counts is processor time; and, for what waits for a thread or a socket, looks one after another
    between which nothing was done. A process that gets no time does not look either.
    """
    last = PATIENCE
    idle = 0.0

    def look(_number: int, _frame: FrameType | None) -> None:
        nonlocal last, idle
        left, _ = signal.getitimer(signal.ITIMER_PROF)
        idle = idle + TICK if last - left < NOTHING else 0.0
        last = left
        if idle >= PATIENCE:
            raise DoesNotEnd(f"has done nothing for {PATIENCE:g} s")

    def end(_number: int, _frame: FrameType | None) -> None:
        raise DoesNotEnd(f"not over after {PATIENCE:g} s of processor time")

    before = signal.signal(signal.SIGALRM, look), signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])


@attrs.frozen
class Verdict:
    """What came of a program.

    Attributes:
        program: The program.
        violations: What is wrong.
        events: Its log.
    """

    program: Program
    violations: tuple[Violation, ...]
    events: list[dict[str, Any]] = attrs.field(repr=False)

    @property
    def rule(self) -> str:
        """The first rule that was broken."""
        return self.violations[0].rule


def judge(program: Program) -> Verdict:
    """Play a program, and judge its log."""
    try:
        with bounded():
            events = play(program)
    except DoesNotEnd as error:
        return Verdict(program, (Violation("it-ends", 0, str(error)),), [])
    except BaseException as error:  # what comes out of a run is a verdict as well  # noqa: ASYNC103 - outside of Trio
        if isinstance(error, KeyboardInterrupt):
            raise
        return Verdict(program, (Violation("it-does-not-crash", 0, _shown(error)),), [])  # noqa: ASYNC104
    return Verdict(program, tuple(check(events)), events)


def sign(violation: Violation) -> str:
    """Return what violations that are alike have in common: the rule, and the words without numbers."""
    return f"{violation.rule}: {re.sub(r'[0-9][0-9.]*', '#', violation.text)[:60]}"


def breaks_like(violation: Violation) -> Callable[[Program], bool]:
    """Return a function that says whether a program breaks a promise in the same way."""
    wanted = sign(violation)
    return lambda program: any(sign(each) == wanted for each in judge(program).violations)


def _shown(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return f"{group.message}: {', '.join(map(_shown, group.exceptions))}"
    return repr(error)
