"""Tasks, the extension ``io.modelcontextprotocol/tasks``: what is kept of one, and how it is written and read.

The server and the client both decide by these functions. Decisions only: no I/O, no Trio, no clock; times are
arguments. How tasks run is in `_server/_tasks`, how they are followed in `_client/_tasks`.

Spec: ext-tasks, 2026-07-28; SEP-2663.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, final, get_args

import attrs

from .._codec._json import cost_of, is_object
from .._errors import INTERNAL_ERROR, RequestError
from .._revisions import CLIENT_CAPABILITIES_KEY
from ..types import TaskStatus

TASKS: Final = "io.modelcontextprotocol/tasks"
"""What the extension is called."""

TASK: Final = "task"
"""The type of a result that says that there is a task."""

TASK_METHODS: Final = frozenset({"tools/call"})
"""The requests that may be answered with a task ("Supported Methods")."""

METHODS_OF_TASKS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
)
"""What clients ask of a task, and the parameter that names it ("Streamable HTTP: Routing Headers")."""

NOTIFICATION: Final = "notifications/tasks"

FINAL_STATUSES: Final[frozenset[TaskStatus]] = frozenset(("completed", "failed", "cancelled"))
"""A task that has one of these does not change any more."""

_STATUSES: Final = get_args(TaskStatus)  # no set: what a server says may have no hash

MAX_STATUS_MESSAGE: Final = 1_000
"""Characters of a status message; the rest is cut off."""

TASK_BYTES: Final = 6 * 1024
"""What a task takes in memory beside request, questions and result, with the longest status message."""

SHORTEST_POLL: Final = 0.1
LONGEST_POLL: Final = 60.0
USUAL_POLL: Final = 1.0
"""Seconds between two looks of a client at a task: at least, at most, and if its server names none."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


# What a server keeps.


@final
@attrs.frozen(kw_only=True)
class StoredTask:
    """A task as a `TaskStore` keeps it: plain values, and plain JSON.

    Attributes:
        id: Its id, which nobody can guess.
        owner: The principal that it belongs to; `None` where nobody authenticates, and the id alone is the key.
        status: Its status.
        status_message: Its status, for people.
        created_at: When it was created, in seconds since 1970.
        updated_at: When it changed last, likewise.
        ttl: For how many seconds from its creation it is kept; `None` for as long as the server runs.
        poll: How many seconds a client should let pass between two looks at it.
        input_requests: Its questions that are open, by key.
        result: Its result, once it is completed.
        error: The error of JSON-RPC, once it has failed.
        call: What it takes to run it again if its process dies; `None` if it is not to be.
        runs: How often it was begun, not counting runs that ended with their server in an orderly way.
    """

    id: str
    owner: str | None
    status: TaskStatus = "working"
    status_message: str | None = None
    created_at: float
    updated_at: float
    ttl: float | None
    poll: float
    input_requests: Mapping[str, Any] = _NOTHING
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    call: Mapping[str, Any] | None = None
    runs: int = 1

    @property
    def is_final(self) -> bool:
        """Whether it does not change any more."""
        return self.status in FINAL_STATUSES

    def has_expired(self, now: float) -> bool:
        """Whether it need not be kept any longer, so many seconds after 1970."""
        return self.ttl is not None and now >= self.created_at + self.ttl


def written_task(task: StoredTask) -> dict[str, Any]:
    """Return a task in its current state, as ``tasks/get`` and notifications have it ("Task Status")."""
    written = created_task(task)
    if task.status == "input_required":
        written["inputRequests"] = dict(task.input_requests)
    elif task.status == "completed":
        written["result"] = task.result
    elif task.status == "failed":
        written["error"] = task.error
    return written


def created_task(task: StoredTask) -> dict[str, Any]:
    """Return the members of the answer to a request that has become a task ("Task Creation")."""
    written: dict[str, Any] = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": _written_time(task.created_at),
        "lastUpdatedAt": _written_time(task.updated_at),
        "ttlMs": None if task.ttl is None else _milliseconds(task.ttl),
        "pollIntervalMs": _milliseconds(task.poll),
    }
    if task.status_message is not None:
        written["statusMessage"] = task.status_message
    return written


def _written_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def weight_of_task(task: StoredTask) -> int:
    """Return what a task takes in memory that changes: its questions, its result, its error; in bytes."""
    kept = (task.input_requests, task.result, task.error)
    return TASK_BYTES + sum(cost_of(each) for each in kept if each)


def failed(error: RequestError) -> dict[str, Any]:
    """Return what changes of a task that fails."""
    return {
        "status": "failed",
        "status_message": shortened(error.message),
        "error": written_error(error),
        "result": None,
    }


MAX_RUNS: Final = 5
"""How often a task is begun whose processes die: perhaps it is what kills them."""

PROCESS_DIED: Final = "the process that ran the task ended before the task had"


def left_by_the_dead(task: StoredTask, now: float) -> StoredTask:
    """Return what becomes of a task that ran in a process which is gone: it fails, or waits to be run again."""
    kept: dict[str, Any] = {"updated_at": now, "input_requests": {}}
    if task.call is not None and task.runs < MAX_RUNS:
        return attrs.evolve(task, status="working", **kept)
    problem = PROCESS_DIED if task.call is None else f"{PROCESS_DIED}, {task.runs} times"
    return attrs.evolve(task, call=None, **kept, **failed(RequestError(INTERNAL_ERROR, problem)))


def status_of_progress(progress: float, total: float | None, message: str | None) -> str:
    """Return the status message for progress: what is being done, or else how much is done."""
    if message:
        return shortened(message)
    return f"{progress:g}" if total is None else f"{progress:g} of {total:g}"


def shortened(message: str) -> str:
    """Return a status message that is not too long."""
    return message if len(message) <= MAX_STATUS_MESSAGE else message[: MAX_STATUS_MESSAGE - 1] + "…"


def written_error(error: RequestError) -> dict[str, Any]:
    """Return the error of a task that has failed, as JSON-RPC writes it."""
    written: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        written["data"] = error.data
    return written


# What is declared.


def declares_tasks(capabilities: object) -> bool:
    """Whether a client has declared the extension, by its capabilities as plain JSON."""
    extensions = capabilities.get("extensions") if is_object(capabilities) else None
    settings = extensions.get(TASKS) if is_object(extensions) else None
    return settings is not None and settings is not False


def with_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's capabilities with the extension among them."""
    extensions = capabilities.get("extensions")
    return {**capabilities, "extensions": {**(extensions if is_object(extensions) else {}), TASKS: {}}}


def request_declares_tasks(params: Mapping[str, Any]) -> bool:
    """Whether the parameters of a request declare the extension."""
    meta = params.get("_meta")
    return is_object(meta) and declares_tasks(meta.get(CLIENT_CAPABILITIES_KEY))


def demands_tasks(data: object) -> bool:
    """Whether the data of an error -32021 say that a request would be served if it declared the extension."""
    return declares_tasks(data.get("requiredCapabilities")) if is_object(data) else False


# What a client sees.


@final
@attrs.frozen(kw_only=True)
class TaskState:
    """A task as its server has last described it.

    Attributes:
        id: Its id.
        status: Its status; ``completed``, ``failed`` and ``cancelled`` are final.
        status_message: Its status, for people.
        created_at: When it was created, as a date and time of ISO 8601.
        updated_at: When it changed last, likewise.
        ttl: For how many seconds from its creation the server keeps it; `None` if it names no limit.
        poll: How many seconds the server asks clients to wait between two looks at it; `None` if it does not.
        input_requests: Its questions that are open, by key, as plain JSON.
        result: Its result as plain JSON, once it is completed.
        error: Why it has failed, once it has.

    Spec: ext-tasks, "Tasks".
    """

    id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    updated_at: str
    ttl: float | None = None
    poll: float | None = None
    input_requests: Mapping[str, Any] = _NOTHING
    result: Mapping[str, Any] | None = None
    error: RequestError | None = attrs.field(default=None, eq=False)

    @property
    def is_final(self) -> bool:
        """Whether it does not change any more."""
        return self.status in FINAL_STATUSES

    @property
    def pause(self) -> float:
        """After how many seconds to look at it again, within bounds."""
        return min(max(USUAL_POLL if self.poll is None else self.poll, SHORTEST_POLL), LONGEST_POLL)


def read_task(written: Mapping[str, Any], *, is_new: bool = False) -> TaskState:
    """Read a task that a server describes.

    Args:
        written: The members of the result, or of the notification.
        is_new: Whether it answers the request that has become the task; then what it asks, and what has become
            of it, are read later.

    Raises:
        ValueError: It cannot be read; the message names the member.
    """
    status: Any = written.get("status")
    if status not in _STATUSES:
        raise ValueError(f"status: {status!r:.40} is none of {', '.join(sorted(_STATUSES))}")
    found: dict[str, Any] = {}
    if not is_new:
        if status == "input_required":
            found["input_requests"] = _read_object(written, "inputRequests")
        elif status == "completed":
            found["result"] = _read_object(written, "result")
        elif status == "failed":
            found["error"] = read_error(_read_object(written, "error"))
    message = written.get("statusMessage")
    if message is not None and not isinstance(message, str):
        raise ValueError("statusMessage: expected a string")
    return TaskState(
        id=_read_text(written, "taskId"),
        status=status,
        status_message=message,
        created_at=_read_text(written, "createdAt"),
        updated_at=_read_text(written, "lastUpdatedAt"),
        ttl=_read_seconds(written, "ttlMs"),
        poll=_read_seconds(written, "pollIntervalMs"),
        **found,
    )


def weight_of_state(state: TaskState | None) -> int:
    """Return what a task takes in memory as a client sees it, in bytes."""
    if state is None:
        return 0
    kept = (state.input_requests, state.result, None if state.error is None else state.error.data)
    texts = (state.id, state.status_message, state.error and state.error.message)
    return TASK_BYTES + sum(4 * len(text or "") for text in texts) + sum(cost_of(each) for each in kept if each)


def _read_text(written: Mapping[str, Any], name: str) -> str:
    text = written.get(name)
    if not isinstance(text, str) or not text:
        raise ValueError(f"{name}: expected a string")
    return text


def _read_object(written: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = written.get(name)
    if not is_object(value):
        raise ValueError(f"{name}: expected an object")
    return value


def _read_seconds(written: Mapping[str, Any], name: str) -> float | None:
    value = written.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{name}: expected a number of milliseconds")
    return value / 1000


def read_error(error: Mapping[str, Any]) -> RequestError:
    """Read an error of JSON-RPC.

    Raises:
        ValueError: It has no code, or no message.
    """
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
        raise ValueError("error: expected a code and a message")
    return RequestError(code, message, error.get("data"))
