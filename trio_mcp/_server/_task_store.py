"""Where a server keeps its tasks: what a store must do, and the one in memory. Who uses it is in `_tasks`."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import attrs
import trio

from .._core._tasks import StoredTask


class TaskStore(Protocol):
    """Keeps the tasks of a server, whole, by their ids. What one of its methods raises fails what needs it.

    Each running server replaces and removes only what it has added itself, one call at a time for each task.

    Spec: ext-tasks, "Task Creation": a task is kept before anybody is told its id.
    """

    async def add(self, task: StoredTask) -> None:
        """Keep a new task; returns when any process that uses the store would find it."""
        ...

    async def find(self, id: str) -> StoredTask | None:
        """Return the task of this id; `None` if there is none."""
        ...

    async def replace(self, task: StoredTask) -> None:
        """Keep a task in place of what was kept under its id."""
        ...

    async def remove(self, id: str) -> None:
        """Keep the task of this id no longer, if there is one."""
        ...


@final
@attrs.frozen
class TaskMessage:
    """What another process has to tell the one that runs a task.

    Attributes:
        number: Its number; later ones have greater numbers.
        id: The task.
        content: What it says: plain JSON.
    """

    number: int
    id: str
    content: Mapping[str, Any]


@runtime_checkable
class SharedTaskStore(TaskStore, Protocol):
    """A `TaskStore` that several processes use at the same time, and that outlives them.

    It knows which process runs a task, and whether that is still there: a task is run by the process that has
    added or claimed it, until it is kept with a final status. One whose process is gone has failed, or waits to
    be run again if it has a `StoredTask.call`: whoever looks at it first finds it so.
    """

    async def send(self, id: str, content: Mapping[str, Any]) -> None:
        """Keep a message for the process that runs a task, or will; for a task that has ended, do nothing."""
        ...

    async def receive(self) -> Sequence[TaskMessage]:
        """Return messages for tasks that this process runs, the oldest first, again until they are done.

        A store that may take a process for dead that is not says so here, once that is back: with the content
        ``{"lost": True}``, and a number below 0. The handler is then cancelled, and nothing is kept of its end.
        """
        ...

    async def done(self, numbers: Collection[int]) -> None:
        """Keep these messages no longer."""
        ...

    async def versions(self, ids: Collection[str]) -> Mapping[str, int]:
        """Return for each of these tasks that is there a number that is another one when it has changed."""
        ...

    async def claim(self, tools: Collection[str]) -> StoredTask | None:
        """Return a call of one of these tools that waits to be run again, which this process runs from now on."""
        ...

    async def release(self, task: StoredTask) -> None:
        """Keep a task of this process, which does not run it any more, until it is claimed."""
        ...


@final
class MemoryTaskStore:
    """Keeps tasks in memory, until they expire or this object is gone: what a server has that is given none."""

    def __init__(self) -> None:
        self._tasks: dict[str, StoredTask] = {}
        self._due: list[tuple[float, str]] = []  # a heap: a server that has ended removes nothing any more

    def __len__(self) -> int:
        return len(self._tasks)

    async def add(self, task: StoredTask) -> None:
        """Keep a new task; see `TaskStore.add`."""
        await trio.lowlevel.checkpoint()
        self._tasks[task.id] = task
        if task.ttl is not None:
            heapq.heappush(self._due, (task.created_at + task.ttl, task.id))
        while self._due and self._due[0][0] <= task.created_at:
            self._tasks.pop(heapq.heappop(self._due)[1], None)

    async def find(self, id: str) -> StoredTask | None:
        """Return a task; see `TaskStore.find`."""
        await trio.lowlevel.checkpoint()
        return self._tasks.get(id)

    async def replace(self, task: StoredTask) -> None:
        """Replace a task; see `TaskStore.replace`."""
        await trio.lowlevel.checkpoint()
        self._tasks[task.id] = task

    async def remove(self, id: str) -> None:
        """Remove a task; see `TaskStore.remove`."""
        await trio.lowlevel.checkpoint()
        self._tasks.pop(id, None)

    def _owned_by(self, owner: str | None) -> list[StoredTask]:
        """Return all tasks of somebody, for clients of 2025-11-25, which can list them."""
        return [task for task in self._tasks.values() if task.owner == owner]
