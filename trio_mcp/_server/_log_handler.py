"""Sends what Python's `logging` records to the client whose request is being served.

It configures no logger, and never waits.
"""

from __future__ import annotations

import logging
import threading
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, final

import trio

from .._codec import _json
from .._errors import ConnectionLost, LocalProtocolError
from .._limits import check_whole
from ..types import LoggingLevel
from ._context import Context, holder_of_request

_THRESHOLDS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL + 20, "emergency"),
    (logging.CRITICAL + 10, "alert"),
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO + 5, "notice"),
    (logging.INFO, "info"),
)
"""The lowest of Python's levels for each level of the protocol. Lower ones are debug."""

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""The attributes that every record has. All others were added with ``extra=``."""


_Serving: TypeAlias = tuple[Context[Any], trio.lowlevel.TrioToken]
"""The context of a request that is being served, and the Trio run that serves it."""

_serving: Final[ContextVar[_Serving | None]] = ContextVar("trio_mcp_request", default=None)


def enter_request(context: Context[Any], run: trio.lowlevel.TrioToken) -> None:
    """Note that the current task, and every task and thread it starts, serves this request in this run."""
    _serving.set((context, run))


def current_holder() -> tuple[str, bool]:
    """Return the client that the current task works for, and whether the server may have several.

    Tasks that serve no request count as one client, the only one.
    """
    serving = _serving.get()
    return ("", False) if serving is None else holder_of_request(serving[0])


@final
class LogHandler(logging.Handler):
    """Sends what is logged while a request is served to the client that made it.

    Attach it to a logger of yours: ``logging.getLogger("orders").addHandler(trio_mcp.LogHandler())``. Records of
    a handler, of the functions it calls, and of threads or tasks it has started are sent to the client, if it
    wants messages of this severity. Outside a request nothing is sent. Logging never waits: a record for which
    there is no room is dropped and counted. Records of the library itself are not sent, and tracebacks are not
    either, unless you set a formatter that includes them.

    A record is sent as the text of its message, or, if it was logged with ``extra=…``, as an object of these
    fields and ``message``. A value that JSON does not have is sent as its `repr`. Python's levels become debug,
    info, notice (25), warning, error, critical, alert (60) and emergency (70).

    Args:
        level: The lowest of Python's levels that is handled; all by default.
        max_waiting: How many records from other threads may wait for Trio's thread.

    Spec: 2026-07-28, server/utilities/logging.
    """

    def __init__(self, level: int | str = logging.NOTSET, *, max_waiting: int = 1_000) -> None:
        super().__init__(level)
        check_whole("max_waiting", max_waiting)
        self._max_waiting = max_waiting
        self._count_lock = threading.Lock()
        self._waiting = 0
        self._dropped = 0
        self._is_emitting = False

    @property
    def dropped(self) -> int:
        """How many records that a client wanted were dropped, because there was no room for them."""
        return self._dropped

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the client whose request is being served; see `logging.Handler.emit`."""
        serving = _serving.get()
        if serving is None or _is_of_library(record.name):
            return
        context, run = serving
        level = _level_of(record)
        # The caller holds the handler's lock, so only this thread can enter again, by logging in what follows.
        if self._is_emitting or not context.wants_log(level):
            return
        self._is_emitting = True
        try:
            data = self._data(record)
            if _is_current(run):
                self._post(context, level, data, record.name)
            else:
                self._hand_over(serving, level, data, record.name)
        except Exception:
            self.handleError(record)
        finally:
            self._is_emitting = False

    def _data(self, record: logging.LogRecord) -> object:
        text = record.getMessage() if self.formatter is None else self.format(record)
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        return {"message": text} | {name: _plain(value) for name, value in extra.items()} if extra else text

    def _post(self, context: Context[Any], level: LoggingLevel, data: object, logger: str) -> None:
        try:
            context.log_nowait(level, data, logger=logger)
        except (trio.WouldBlock, LocalProtocolError, ConnectionLost, trio.ClosedResourceError):
            self._count(dropped=1)

    def _hand_over(self, serving: _Serving, level: LoggingLevel, data: object, logger: str) -> None:
        """Give a record to Trio's thread. It arrives before anything this thread does with Trio afterwards."""
        if not self._take_place():
            return
        try:
            context, run = serving
            run.run_sync_soon(self._take_over, context, level, data, logger)
        except trio.RunFinishedError:
            self._count(waiting=-1, dropped=1)

    def _take_place(self) -> bool:
        with self._count_lock:
            has_place = self._waiting < self._max_waiting
            self._waiting += has_place
            self._dropped += not has_place
        return has_place

    def _take_over(self, context: Context[Any], level: LoggingLevel, data: object, logger: str) -> None:
        self._count(waiting=-1)
        self._post(context, level, data, logger)

    def _count(self, *, waiting: int = 0, dropped: int = 0) -> None:
        with self._count_lock:
            self._waiting += waiting
            self._dropped += dropped


def _level_of(record: logging.LogRecord) -> LoggingLevel:
    for threshold, level in _THRESHOLDS:
        if record.levelno >= threshold:
            return level
    return "debug"


def _is_of_library(name: str) -> bool:
    return name == "trio_mcp" or name.startswith("trio_mcp.")


def _is_current(run: trio.lowlevel.TrioToken) -> bool:
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run


def _plain(value: object) -> object:
    """Return the value if JSON has it, else its `repr`."""
    try:
        _json.encode(value)
    except Exception:
        # An object of the user's may raise anything when it is read; a log message is not worth a failure.
        return repr(value)
    return value
