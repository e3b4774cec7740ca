"""Requests that outlive their answer. Spec: 2025-11-25, basic/utilities/tasks, and no other revision."""

from collections.abc import Sequence
from typing import Final, final

from .._revisions import Revision
from ._fields import member, wire
from ._protocol import Cursor, MetaObject, RequestParams, Result, TaskStatus

_ONLY: Final = Revision.V2025_11_25


@final
@wire(since=_ONLY, until=_ONLY)
class TaskMetadata:
    """Requests that a request become a task.

    Attributes:
        ttl: For how many milliseconds from its creation the task should be kept.
    """

    ttl: int | None = None


@final
@wire(since=_ONLY, until=_ONLY)
class RelatedTaskMetadata:
    """Names in `_meta`, under ``io.modelcontextprotocol/related-task``, the task that a message belongs to."""

    task_id: str


@wire(since=_ONLY, until=_ONLY)
class Task:
    """A request that goes on after it was answered.

    Attributes:
        task_id: Identifies the task.
        status: Its status.
        status_message: Its status, for people.
        created_at: When it was created, as an ISO 8601 date and time.
        last_updated_at: When it last changed, as an ISO 8601 date and time.
        ttl: For how many milliseconds from its creation it is kept; `None` for ever. It is sent even then, but
            some peers leave out every ``null``, and this one with them.
        poll_interval: How many milliseconds to wait before asking again.
    """

    task_id: str
    status: TaskStatus
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl: int | None = member(default=None, always_sent=True)
    poll_interval: int | None = None


@final
@wire(since=_ONLY, until=_ONLY)
class TaskRequestParams(RequestParams):
    """Name a task: to look at it, to wait for its result, or to cancel it."""

    task_id: str


@final
@wire(since=_ONLY, until=_ONLY)
class CreateTaskResult(Result):
    """The answer to a request that became a task."""

    task: Task


@final
@wire(since=_ONLY, until=_ONLY)
class GetTaskResult(Task):
    """A task in its current state."""

    meta: MetaObject | None = None


@final
@wire(since=_ONLY, until=_ONLY)
class CancelTaskResult(Task):
    """A task after it was cancelled."""

    meta: MetaObject | None = None


@final
@wire(since=_ONLY, until=_ONLY)
class ListTasksResult(Result):
    """One page of the tasks of the requester.

    Attributes:
        next_cursor: The position of the next page; `None` if this is the last.
    """

    tasks: Sequence[Task]
    next_cursor: Cursor | None = None


@final
@wire(since=_ONLY, until=_ONLY)
class TaskStatusNotificationParams(Task):
    """A task whose status has changed."""

    meta: MetaObject | None = None
