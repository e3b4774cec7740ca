"""`Log`, through which every module of the package logs. It makes untrusted text printable.

Nothing is configured here but what a person asks for (`is_wire_shown`): the loggers are the program's, without a
handler, filter or level of ours. Records that repeat, as a peer can cause by sending one invalid message after
another, are counted and summed up.
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

from ._audit import hand_over
from ._printable import printable_lines, shown

WIRE: Final = "trio_mcp.wire"
"""The logger that shows each message of each connection, its secrets masked, if its own level is DEBUG."""

FIRST: Final = 20
"""The number of records of a kind that are written within `PERIOD` before they are summed up."""

PERIOD: Final = 60.0
"""The seconds after which the first records of a kind are written again."""

MAX_KINDS: Final = 1_000
"""The number of kinds that are counted. There are fewer in the package; exceptions of handlers add some."""

CALLER: Final = 3
"""The number of frames from `Log._write` up to the caller of a method of `Log`."""


@final
@attrs.define
class _Count:
    since: float
    seen: int = 0
    left_out: int = 0
    next_written: int = 2 * FIRST


@final
class Repetitions:
    """Decides which records are written: the first of each kind in a minute, then the 40th, the 80th and so on.

    So repetitions cost the log a few lines, which show how often they happened to a factor of two. Several
    threads can use it.

    Args:
        clock: Returns the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[Hashable, _Count] = {}
        self._lock = threading.RLock()  # a finaliser may log while something is counted

    def count(self, kind: Hashable) -> int | None:
        """Count a record.

        Returns:
            How many of its kind were left out since the last that was written; `None` if it is left out itself.
        """
        now = self._clock()
        with self._lock:
            count = self._counts.get(kind)
            if count is None:
                if len(self._counts) >= MAX_KINDS:
                    del self._counts[next(iter(self._counts))]
                count = self._counts[kind] = _Count(now)
            elif now - count.since >= PERIOD:
                count.since, count.seen, count.next_written = now, 0, 2 * FIRST
            count.seen += 1
            if FIRST < count.seen < count.next_written:
                count.left_out += 1
                return None
            if count.seen == count.next_written:
                count.next_written *= 2
            left_out, count.left_out = count.left_out, 0
            return left_out

    def forget(self) -> None:
        """Begin anew, as a test does."""
        with self._lock:
            self._counts.clear()


repetitions: Final = Repetitions()
"""Those of this process. A peer could get around counts for each connection by connecting again."""


@final
class _Shown:
    """An argument of a record that is printable in every format: ``%s``, ``%r``, ``%.200r``."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return shown(self._value, str)

    def __repr__(self) -> str:
        return shown(self._value)


@final
class Log:
    """Writes to a logger: the message as one printable line, and each line of a traceback indented.

    Untrusted text can forge no record and control no terminal if it is in the arguments, and the template is a
    constant. Repetitions are summed up, unless the logger's level is `logging.DEBUG`.

    Args:
        name: The logger's name, such as ``trio_mcp.http``.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, template: str, *args: object, exc_info: BaseException | bool = False) -> None:
        """Log details that help to find a problem."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, template, args, exc_info)

    def info(self, template: str, *args: object) -> None:
        """Log an event of normal operation."""
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, template, args)

    def warning(self, template: str, *args: object) -> None:
        """Log a problem that costs little."""
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
        """Log at a level that the caller chooses."""
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
        shown_args = tuple(arg if _is_plain_number(arg) else _Shown(arg) for arg in args)
        if not logger.isEnabledFor(logging.DEBUG):
            left_out = repetitions.count((path, line, type(error), _place(error)))
            if left_out is None:
                return
            if left_out:
                template += " (%d more like this were left out)"
                shown_args = *shown_args, left_out
        info = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(logger.name, level, path, line, template, shown_args, info, function)
        if error is not None:
            # Formatters use this text instead of formatting the traceback.
            text = "".join(traceback.format_exception(error))
            record.exc_text = "    " + printable_lines(text.rstrip("\n"))
        hand_over(logger, record)


def _place(error: BaseException | None) -> tuple[str, int] | None:
    """Return where an exception was raised: errors of different places are different kinds."""
    trace = None if error is None else error.__traceback__
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def _is_plain_number(value: object) -> bool:
    # Python refuses to format integers of thousands of digits.
    return isinstance(value, float) or (isinstance(value, int) and -(2**64) < value < 2**64)


def is_wire_shown(*, by_itself: bool) -> bool:
    """Return whether the logger `WIRE` shows messages.

    Args:
        by_itself: Whether to have it write to standard error, unless the program has given it a handler.
    """
    logger = logging.getLogger(WIRE)
    if by_itself and not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # the program's own handlers would write it once more
    return 0 < logger.level <= logging.DEBUG and logger.isEnabledFor(logging.DEBUG)


def is_info_shown() -> bool:
    """Return whether the program's log shows what this package tells at INFO."""
    return logging.getLogger("trio_mcp").isEnabledFor(logging.INFO)
