"""Python's logging, for the client whose request is being served. Configures nothing, and never waits."""

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
from ._context import Context, holder_served

_THRESHOLDS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL + 20, "emergency"),
    (logging.CRITICAL + 10, "alert"),
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO + 5, "notice"),
    (logging.INFO, "info"),
)
"""From which of Python's levels on a record is of which of the protocol's. What is below all is for debugging."""

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every record has. Everything else was added with ``extra=``."""


_Serving: TypeAlias = tuple[Context[Any], trio.lowlevel.TrioToken]
"""A request that is being served, and the run of Trio that it is served in."""

_serving: Final[ContextVar[_Serving | None]] = ContextVar("trio_mcp_request", default=None)


def enter_request(context: Context[Any], run: trio.lowlevel.TrioToken) -> None:
    """The current task, which is of this run, serves this request from now on; so does whatever it starts."""
    _serving.set((context, run))


def current_holder() -> tuple[str, bool]:
    """Return for which client the current task works, and whether that is one of many.

    All tasks that work for none are one, which has the server to itself.
    """
    serving = _serving.get()
    return ("", False) if serving is None else holder_served(serving[0])


@final
class LogHandler(logging.Handler):
    """Sends what is logged while a request is served to the client that made it.

    Attach it to a logger of yours: ``logging.getLogger("orders").addHandler(trio_mcp.LogHandler())``. What is
    logged by a handler, by what it calls, or by a thread or a task it has started goes to the client, if the
    client wants messages of this severity. Outside a request nothing happens. Logging never waits: what there is
    no room for is dropped and counted. What the library itself logs is not for clients, and neither is a
    traceback; set a formatter if yours are.

    A record is sent as the text of its message, or, if it was logged with ``extra=…``, as an object of these
    fields and ``message``. What has no form in JSON is sent as its `repr`. Python's levels become debug, info,
    notice (25), warning, error, critical, alert (60) and emergency (70).

    Args:
        level: The least severe records that are handled at all.
        max_waiting: How many records from other threads may wait to be taken over by Trio's.

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
        """How many records a client wanted, and there was no room for."""
        return self._dropped

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the client whose request is being served; see `logging.Handler.emit`."""
        serving = _serving.get()
        if serving is None or _is_ours(record.name):
            return
        context, run = serving
        level = _level_of(record)
        # Only this thread can come here again while it is here: the caller holds the handler's lock.
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
        """Give a record to Trio's thread. It comes there before whatever this thread does next with Trio."""
        if not self._has_turn():
            return
        try:
            context, run = serving
            run.run_sync_soon(self._take_over, context, level, data, logger)
        except trio.RunFinishedError:
            self._count(waiting=-1, dropped=1)

    def _has_turn(self) -> bool:
        with self._count_lock:
            has_turn = self._waiting < self._max_waiting
            self._waiting += has_turn
            self._dropped += not has_turn
        return has_turn

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


def _is_ours(name: str) -> bool:
    return name == "trio_mcp" or name.startswith("trio_mcp.")


def _is_current(run: trio.lowlevel.TrioToken) -> bool:
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run


def _plain(value: object) -> object:
    """Return the value if it can be sent, else what it looks like."""
    try:
        _json.encode(value)
    except Exception:
        # Whatever an object of the user's does when it is looked at, a log message is not worth a failure.
        return repr(value)
    return value
