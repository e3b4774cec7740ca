"""What processes tell each other of tasks through a store that they share: answers, cancellations, changes.

One task looks into the store, while there is anything to look for: tasks that run here, or whose changes somebody
wants to hear of. How tasks run is in `_tasks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar, final

import trio

from .. import types
from .._codec._json import is_object
from .._errors import RequestError
from .._logs import Log
from ._input_required import check_answers
from ._lifetimes import Background
from ._listing import read_params
from ._task_store import SharedTaskStore

_log: Final = Log("trio_mcp.server")

LOOK_SECONDS: Final = 0.2
"""After how long this process looks again for what others have written."""


class _RunningTask(Protocol):
    is_unsaved: bool
    has_ended: bool
    is_lost: bool

    @property
    def id(self) -> str: ...
    def cancel(self, reason: str) -> None: ...
    def withdraw(self) -> None: ...
    def answer(self, answers: Mapping[str, Any]) -> bool: ...
    def settle(self, answers: Mapping[str, Any]) -> bool: ...


_TaskT = TypeVar("_TaskT", bound=_RunningTask)


@final
class Sharing:
    """Looks into a store for what other processes have written, for the tasks of a running server.

    Args:
        store: The store.
        background: Runs the task that looks.
        running: The tasks that run here, by id. Those that were saved at last, and have ended, are taken out.
        own: All tasks of this server, by id: it tells of their changes by itself.
        save: Writes a task to the store.
        changed: Called with the id of a task that has changed. Must not wait.
    """

    def __init__(
        self,
        store: SharedTaskStore,
        background: Background,
        running: dict[str, _TaskT],
        own: Mapping[str, object],
        save: Callable[[_TaskT], Awaitable[None]],
        changed: Callable[[str], object],
    ) -> None:
        self.store: Final = store
        self._background = background
        self._running: dict[str, Any] = running
        self._own = own
        self._save: Callable[[Any], Awaitable[None]] = save
        self._changed = changed
        self._listened = Counter[str]()
        self._versions: dict[str, int | None] = {}
        self._is_looking = False

    def look(self) -> None:
        """Look from now on, as long as there is anything to look for. Never waits."""
        if not self._is_looking:
            self._is_looking = True
            self._background.start_own(self._look, name="looking at a store of tasks")

    async def _look(self) -> None:
        try:
            while self._running or self._listened:
                await trio.sleep(LOOK_SECONDS)
                try:
                    await self._look_once()
                except Exception:
                    # The boundary of one look: a file that is locked now can be read later.
                    _log.exception("what other processes have to tell of tasks could not be read")
        finally:
            self._is_looking = False

    async def _look_once(self) -> None:
        if self._running:
            # They are for tasks of this process; for those of another server in it, that one looks itself.
            messages = [each for each in await self.store.receive() if each.id in self._running]
            for message in messages:
                task = self._running.get(message.id)
                if task is not None:
                    self._take(task, message.content)
            if messages:
                # If this fails, they come again: then no such question is open, and cancelling is done.
                await self.store.done([each.number for each in messages])
        others = self._listened.keys() - self._own.keys()
        if others:
            await self._note_versions(others)
        for task in [task for task in self._running.values() if task.is_unsaved]:
            try:
                await self._save(task)
            except Exception:
                _log.exception("a task could not be written to its store, which is tried again")
                continue
            if task.has_ended:
                self._running.pop(task.id, None)

    def _take(self, task: _RunningTask, content: Mapping[str, Any]) -> None:
        if content.get("lost"):
            task.is_lost = True
            self._running.pop(task.id, None)  # how it is now, the store says
            task.cancel("this process was taken for dead")
            return
        if content.get("cancel"):
            task.cancel("tasks/cancel")
        if content.get("withdraw") and not task.has_ended:
            task.withdraw()
            task.is_unsaved = True
        for answers, take in ((content.get("settled"), task.settle), (content.get("answers"), task.answer)):
            if is_object(answers):
                try:
                    task.is_unsaved = take(answers) or task.is_unsaved
                except (RequestError, ValueError):
                    _log.exception("another process has sent an answer that is none")

    # Changes.

    @contextmanager
    def listening(self, ids: Collection[str]) -> Generator[None]:
        """Tell of changes of these tasks while the block runs, also of those that run in another process."""
        self._listened.update(ids)
        self.look()
        try:
            yield
        finally:
            for id in ids:
                self._listened[id] -= 1
                if not self._listened[id]:
                    del self._listened[id]
                    self._versions.pop(id, None)

    async def begin_listening(self, ids: Collection[str]) -> None:
        """Note how these tasks are before their listener looks at them. Call it within `listening`.

        Raises:
            RequestError: The store cannot be used now.
        """
        await self._note_versions(ids)

    async def _note_versions(self, ids: Collection[str]) -> None:
        versions = await self.store.versions(ids)
        for id in ids:
            if id in self._listened:
                version = versions.get(id)
                if self._versions.get(id, version) != version:
                    self._changed(id)
                self._versions[id] = version


# Answers.


def taken_answers(answers: Mapping[str, Any], asked: Mapping[str, str]) -> dict[str, Any]:
    """Return the answers to what is asked now: the method of each question, by its key.

    Raises:
        RequestError: An answer is none to its question. Then none of them counts.
    """
    taken = {key: given for key, given in answers.items() if key in asked}
    read = read_params({"inputResponses": taken}, types.InputResponseRequestParams).input_responses or {}
    check_answers(read, asked)
    return taken
