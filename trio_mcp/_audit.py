"""Records for other programs: one for each request that is served, one for each refusal.

They go to two loggers, ``trio_mcp.access`` and ``trio_mcp.audit``, at level INFO, if a program has given the
logger that level itself: one whose other logs are at INFO has not asked for a record of each request. The fields
are attributes of the `logging.LogRecord`, as those passed as `extra` are, so a formatter for JSON writes them;
the message says the same to people, in one line. Each record has all fields of its kind, `None` where nothing is
known.

No repetition is summed up here, as `_logs` does: who audits wants each. Each record is bounded instead.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, final

from ._printable import printable

ACCESS: Final = logging.getLogger("trio_mcp.access")
AUDIT: Final = logging.getLogger("trio_mcp.audit")

MAX_FIELD: Final = 200
"""The longest text in a field, in characters; what is longer ends with an ellipsis."""

SERVED: Final[ContextVar[str | None]] = ContextVar("trio_mcp_served", default=None)
"""The name of the server that a task works for, from what accepts connections to what runs a handler.

It is set where a server begins to run, where a connection of it does, and for each request of an ASGI host, whose
tasks are its own. The connections of clients set it back.
"""

Detail: TypeAlias = str | int | float | None
"""The value of a field."""

_PLAIN: Final = re.compile(r"[^\s\"=]+")


def is_wanted(logger: logging.Logger) -> bool:
    """Return whether a program wants the records of `ACCESS` or `AUDIT`: it has set the level of that logger."""
    return 0 < logger.level <= logging.INFO and logger.isEnabledFor(logging.INFO)


_failures: Final = logging.Handler()


def hand_over(logger: logging.Logger, record: logging.LogRecord) -> None:
    """Give a record to the handlers of its logger.

    One that raises costs its record, and not what the record is about: strangers can cause records. As `logging`
    does with what handlers cannot write, it is shown on standard error if ``logging.raiseExceptions`` is set.
    """
    try:
        logger.handle(record)
    except Exception:
        _failures.handleError(record)


@final
class _Line:
    """The fields as one line, made if a handler wants it: ``method=tools/call target="two words" code=4``."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Detail]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return " ".join(f"{name}={_worded(value)}" for name, value in self._fields.items() if value is not None)

    def __repr__(self) -> str:
        return str(self)


def _worded(value: Detail) -> str:
    # A name with blanks could look like further fields.
    if not isinstance(value, str):
        return f"{value:.6f}" if isinstance(value, float) else str(value)
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)


@final
class Records:
    """Writes records to one logger.

    Most of what Python notes of a record is the same for all that one thread writes: process, thread, place in
    the code. It is found out once, as it would take longer than anything else here, unless the program has a
    class of its own for records. So each thread needs an object of its own.

    Args:
        logger: `ACCESS` or `AUDIT`, for which the caller asks `is_wanted`.
    """

    __slots__ = ("_logger", "_same")

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._same: dict[str, Any] | None = None

    def write(self, fields: dict[str, Detail]) -> None:
        """Write a record with these fields. Texts in them become printable, and are cut at `MAX_FIELD`.

        Args:
            fields: The fields. None may have a name that each `logging.LogRecord` has, such as ``args``.
        """
        for name, value in fields.items():
            if isinstance(value, str):
                fields[name] = printable(value, MAX_FIELD)
        logger, same = self._logger, self._same
        if same is None or logging.getLogRecordFactory() is not logging.LogRecord:
            record = logger.makeRecord(logger.name, logging.INFO, __file__, 0, "%s", (), None, "write")
            self._same = dict(record.__dict__)
        else:
            record = logging.LogRecord.__new__(logging.LogRecord)
            now = time.time()
            record.__dict__.update(same)
            record.created, record.msecs = now, float(int(now % 1 * 1_000))
            record.relativeCreated += (now - same["created"]) * 1_000
        record.args = (_Line(fields),)
        record.__dict__.update(fields)  # as with `extra`, which would look at each name
        hand_over(logger, record)


def audit(
    event: str,
    reason: str | None = None,
    *,
    outcome: str = "refused",
    status: int | None = None,
    code: int | None = None,
    limit: str | None = None,
    method: str | None = None,
    target: str | None = None,
    server: str | None = None,
    transport: str | None = None,
    client: str | None = None,
    principal: str | None = None,
    **details: Detail,
) -> None:
    """Write one record under ``trio_mcp.audit``, if a program wants them. Never waits, and never raises.

    Everything may come from a stranger except `event`, `outcome` and `limit`. A secret belongs into none of them.

    Args:
        event: What kind of thing this is about: ``"http"``, ``"connection"``, ``"request"``, ``"ask"``.
        reason: Why, in words: usually the text of the error that the other side gets.
        outcome: What was decided: ``"refused"``, or a word that this event has instead, such as ``"allowed"``.
        status: The HTTP status of the answer.
        code: The JSON-RPC error code of the answer.
        limit: The name of the limit or setting that decided.
        method: The method of JSON-RPC, or for the event ``"http"`` that of HTTP.
        target: What it was about: the path, or the name of a tool or prompt, or a URI.
        server: The name of the server: on a client the one that asks; by default our own (`SERVED`).
        transport: Over what it came: ``"stdio"``, ``"http"``, ``"websocket"`` and so on.
        client: The address of the other side.
        principal: Who the other side is.
        details: What only this event has. It is left out of other records, so no fixed format can name it.
    """
    if is_wanted(AUDIT):
        fields: dict[str, Detail] = {
            "event": event,
            "outcome": outcome,
            "reason": reason,
            "status": status,
            "code": code,
            "limit": limit,
            "method": method,
            "target": target,
            "server": SERVED.get() if server is None else server,
            "transport": transport,
            "client": client,
            "principal": principal,
        }
        Records(AUDIT).write(fields | details)
