"""How tasks and messages are written by stores that outlive their process, and read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from .._codec import _json
from .._codec._json import is_object
from .._core._tasks import StoredTask
from .._logs import Log

_log: Final = Log("trio_mcp.server")

ROW_BYTES: Final = 200
"""What a row takes beside its data."""

SMALL_BYTES: Final = 4 * 1024
"""A task that has ended, and is not larger, is kept even if the store is full: it may say that the store is."""

MAX_WAITING: Final = 100
"""How many messages wait for one task."""

_NUMBER: Final = (int, float)
_NOTHING: Final = type(None)
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "id": (str,),
    "owner": (str, _NOTHING),
    "status": (str,),
    "status_message": (str, _NOTHING),
    "created_at": _NUMBER,
    "updated_at": _NUMBER,
    "ttl": (*_NUMBER, _NOTHING),
    "poll": _NUMBER,
    "input_requests": (dict,),
    "result": (dict, _NOTHING),
    "error": (dict, _NOTHING),
    "call": (dict, _NOTHING),
    "runs": (int,),
}


def written_row(task: StoredTask) -> bytes:
    """Write a task."""
    members = attrs.asdict(task, recurse=False)
    return _json.encode_answer({**members, "input_requests": dict(task.input_requests)})


def expiry_of(task: StoredTask, max_age: float) -> float | None:
    """Return when a task expires, in seconds since 1970; `None` for one that lasts as long as it runs."""
    if task.is_final and task.ttl is None:
        return task.updated_at + max_age
    return None if task.ttl is None else task.created_at + task.ttl


def tool_of(task: StoredTask) -> str | None:
    """Return the tool by which a task is run again if its process dies; `None` for one that is not."""
    return None if task.is_final or task.call is None else task.call.get("name")


def released(task: StoredTask) -> StoredTask:
    """Return a task that is left to be claimed: this run of it does not count."""
    return attrs.evolve(task, status="working", input_requests={}, runs=max(task.runs - 1, 0))


def read_content(data: object) -> Mapping[str, Any]:
    """Read an object of JSON; empty if it is none."""
    try:
        value = _json.decode(data) if isinstance(data, bytes) else None
    except ValueError:
        value = None
    return value if is_object(value) else {}


def read_row(id: str, data: object) -> StoredTask | None:
    """Read a task; `None` if what others have written there is none."""
    members = read_content(data)
    if not all(isinstance(members.get(name), kinds) for name, kinds in _KINDS.items()) or members["id"] != id:
        _log.warning("the store of tasks has one that cannot be read: %.100s", id)
        return None
    return StoredTask(**{name: members[name] for name in _KINDS})
