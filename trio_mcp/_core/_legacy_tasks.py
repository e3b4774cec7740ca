"""The tasks of 2025-11-25, another face of those in `_tasks`: how a kept task is written there, and read.

Decisions only: no I/O, no Trio, no clock. Which face a task has is part of its id, so that every store keeps it.

Spec: 2025-11-25, basic/utilities/tasks, which calls them experimental.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .._codec._json import is_array, is_object
from .._errors import INTERNAL_ERROR, RequestError
from .._revisions import Revision
from ._tasks import StoredTask, TaskState, created_task, read_task, shortened

TASKS_REVISION: Final = Revision.V2025_11_25
"""The only revision with these tasks."""

RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""The key of `_meta` under which a message names its task ("Related Task Metadata")."""

STATUS: Final = "notifications/tasks/status"

_MARK: Final = "2025-"
"""With what follows the tag in the id of a task that was begun in this face."""

_NAMES: Final = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}


def marked_id(tag: str, random: str) -> str:
    """Return the id of a task that begins in this face."""
    return f"{tag}{_MARK}{random}"


def is_marked(id: str) -> bool:
    """Whether a task has begun in this face; those of the extension have only a tag and hexadecimal digits."""
    return _MARK in id


# What a server writes.


def written_legacy_task(task: StoredTask) -> dict[str, Any]:
    """Return a task in its current state ("Task")."""
    written = {_NAMES.get(name, name): value for name, value in created_task(task).items()}
    result = task.result
    if task.status == "completed" and result is not None and result.get("isError") is True:
        written["status"] = "failed"  # "Task Execution Errors": also where the tool itself says so
        written["statusMessage"] = shortened(_text_of(result))
    return written


def _text_of(result: Mapping[str, Any]) -> str:
    blocks: object = result.get("content")
    texts = [block.get("text") for block in blocks if is_object(block)] if is_array(blocks) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or "the tool has failed"


def outcome_of(task: StoredTask) -> dict[str, Any]:
    """Return the result of a task that is over, as its request would have been answered, and its id with it.

    Raises:
        RequestError: It has failed, with this error; or it was cancelled.
    """
    if task.error is not None:
        raise RequestError(task.error["code"], task.error["message"], task.error.get("data"))
    if task.result is None:
        raise RequestError(INTERNAL_ERROR, "the task was cancelled, and has no result")
    return with_related_task(task.result, task.id)


def with_related_task(message: Mapping[str, Any] | None, id: str) -> dict[str, Any]:
    """Return parameters or a result that name the task to which they belong."""
    given = message or {}
    meta: Any = given.get("_meta")
    return {**given, "_meta": {**(meta if is_object(meta) else {}), RELATED_TASK: {"taskId": id}}}


# What a client reads.


def read_legacy_task(written: Mapping[str, Any], *, is_new: bool = False) -> TaskState:
    """Read a task that a server describes; what it asks, and what has become of it, come in other ways.

    Raises:
        ValueError: It cannot be read; the message names the member.
    """
    del is_new
    others = {name: value for name, value in written.items() if name not in _NAMES}
    return read_task({**others, **{name: written.get(old) for name, old in _NAMES.items()}}, is_new=True)
