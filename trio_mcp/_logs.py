"""How every module of the package writes to the log: through a `Log`, which makes what others wrote fit for it.

Nothing is configured: the loggers are the program's, with no handler, filter or level of ours. What is logged
again and again, as somebody can make it who sends one useless message after another, is counted and summed up.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable
from typing import Final, final

import attrs

from ._printable import printable_lines, shown

FIRST: Final = 20
"""How many records of a kind are written within `PERIOD` before they are summed up."""

PERIOD: Final = 60.0
"""After how many seconds the first records of a kind are written again."""

MAX_KINDS: Final = 1_000
"""How many kinds are counted. There are fewer in the package; exceptions of handlers add some."""

CALLER: Final = 3
"""How many frames above the one that looks for it the caller of one of the methods of `Log` is."""


@final
@attrs.define
class _Count:
    since: float
    seen: int = 0
    left_out: int = 0
    next_told: int = 2 * FIRST


@final
class Repetitions:
    """Decides which records are written: the first of each kind in a minute, then the 40th, the 80th and so on.

    So what somebody repeats costs the log a few lines, and how often it happened can be read there to a factor of
    two. Can be used by several threads.

    Args:
        clock: Tells the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[Hashable, _Count] = {}
        self._lock = threading.RLock()  # a finaliser may log while something is counted

    def count(self, kind: Hashable) -> int | None:
        """Count a record.

        Returns:
            How many of its kind were left out since the last that was written; `None` if it is left out, too.
        """
        now = self._clock()
        with self._lock:
            count = self._counts.get(kind)
            if count is None:
                if len(self._counts) >= MAX_KINDS:
                    del self._counts[next(iter(self._counts))]
                count = self._counts[kind] = _Count(now)
            elif now - count.since >= PERIOD:
                count.since, count.seen, count.next_told = now, 0, 2 * FIRST
            count.seen += 1
            if FIRST < count.seen < count.next_told:
                count.left_out += 1
                return None
            if count.seen == count.next_told:
                count.next_told *= 2
            left_out, count.left_out = count.left_out, 0
            return left_out

    def forget(self) -> None:
        """Begin anew, as a test does."""
        with self._lock:
            self._counts.clear()


repetitions: Final = Repetitions()
"""Those of this process: a limit for each connection would be one for everybody who connects again."""


@final
class _Shown:
    """An argument of a record, printable however it is formatted: ``%s``, ``%r``, ``%.200r``."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return shown(self._value, str)

    def __repr__(self) -> str:
        return shown(self._value)


@final
class Log:
    """Writes to a logger: the message one printable line, and each line of a traceback indented.

    What others wrote forges no record and moves no terminal, if the template is a constant and they are in the
    arguments. Repetitions are summed up, unless the logger's level is `logging.DEBUG`: then all is wanted.

    Args:
        name: The logger's name, such as ``trio_mcp.http``.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, template: str, *args: object, exc_info: BaseException | bool = False) -> None:
        """Log what helps to find out what happened."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, template, args, exc_info)

    def info(self, template: str, *args: object) -> None:
        """Log what is worth knowing."""
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, template, args)

    def warning(self, template: str, *args: object) -> None:
        """Log what should not have happened, and costs little."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, template, args)

    def error(self, template: str, *args: object, exc_info: BaseException | bool = False) -> None:
        """Log a failure."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, template, args, exc_info)

    def exception(self, template: str, *args: object) -> None:
        """Log a failure with the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, template, args, exc_info=True)

    def log(self, level: int, template: str, *args: object) -> None:
        """Log at a level that depends."""
        if self._logger.isEnabledFor(level):
            self._write(level, template, args)

    def _write(
        self,
        level: int,
        template: str,
        args: tuple[object, ...],
        exc_info: BaseException | bool = False,  # noqa: FBT001, FBT002 - as `logging` has it
    ) -> None:
        logger = self._logger
        path, line, function, _ = logger.findCaller(stacklevel=CALLER)
        error = (sys.exception() if exc_info else None) if isinstance(exc_info, bool) else exc_info
        told = tuple(one if _is_plain_number(one) else _Shown(one) for one in args)
        if not logger.isEnabledFor(logging.DEBUG):
            left_out = repetitions.count((path, line, type(error), _place(error)))
            if left_out is None:
                return
            if left_out:
                template += " (%d more like this were left out)"
                told = *told, left_out
        info = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(logger.name, level, path, line, template, told, info, function)
        if error is not None:
            # Formatters take this for the traceback, and do not make their own.
            text = "".join(traceback.format_exception(error))
            record.exc_text = "    " + printable_lines(text.rstrip("\n"))
        logger.handle(record)


def _place(error: BaseException | None) -> tuple[str, int] | None:
    """Return where an exception was raised: different mistakes are different kinds."""
    trace = None if error is None else error.__traceback__
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def _is_plain_number(value: object) -> bool:
    # Those of more than thousands of digits have no text in Python.
    return isinstance(value, float) or (isinstance(value, int) and -(2**64) < value < 2**64)
