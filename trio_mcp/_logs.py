"""How every module of the package writes to the log: through a `Log`, which makes what others wrote fit for it.

Nothing is configured: the loggers are the program's, with no handler, filter or level of ours.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Final, final

from ._printable import printable_lines, shown

__all__ = ["Log"]

CALLER: Final = 3
"""How many frames above the one that looks for it the caller of one of the methods of `Log` is."""


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
    arguments.

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
        told = tuple(one if _is_plain_number(one) else _Shown(one) for one in args)
        error = (sys.exception() if exc_info else None) if isinstance(exc_info, bool) else exc_info
        info = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(logger.name, level, path, line, template, told, info, function)
        if error is not None:
            # Formatters take this for the traceback, and do not make their own.
            text = "".join(traceback.format_exception(error))
            record.exc_text = "    " + printable_lines(text.rstrip("\n"))
        logger.handle(record)


def _is_plain_number(value: object) -> bool:
    # Those of more than thousands of digits have no text in Python.
    return isinstance(value, float) or (isinstance(value, int) and -(2**64) < value < 2**64)
