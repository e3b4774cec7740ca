"""Tasks of servers of 2025-11-25, where the client says which call is to become one; the rest is in `_tasks`.

The client waits with ``tasks/result``, which is answered when the task is over. What the task asks meanwhile
comes as requests of the server, as from any call. The client looks at the task all the same, for whoever wants to
see it.

Spec: 2025-11-25, basic/utilities/tasks, which calls them experimental.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import attrs
import trio

from .._codec._json import is_object
from .._core._legacy_tasks import read_legacy_task
from .._core._tasks import TASK, TaskState
from .._errors import METHOD_NOT_FOUND, RequestError
from .._trio import open_hidden_nursery
from ..types import CallToolRequestParams, TaskMetadata, evolve
from ._connection import has_legacy_tasks
from ._low_level import Answered, LowLevelClient, ProgressTarget
from ._tasks import TaskFollower, ask_about, connected, follow_new, give_up_task, read_new, read_state

# Which calls are to become tasks.


def wants_task(client: LowLevelClient, support: str | None, error: RequestError | None = None) -> bool:
    """Whether a call is to become a task: not one of a tool that is not known to have any, unless it must be.

    Args:
        client: The client.
        support: What the tool's server has said of the tool, as far as that is known.
        error: How the server has refused the call that was none.

    Spec: 2025-11-25, basic/utilities/tasks, "Tool-Level Negotiation".
    """
    choice = client._settings.tasks
    if choice == "never" or not has_legacy_tasks(client._reconnecting.agreed):
        return False
    if error is not None:
        return error.code == METHOD_NOT_FOUND
    return support == "required" or (support == "optional" and choice == "always")


async def call_as_task(
    client: LowLevelClient,
    method: str,
    params: CallToolRequestParams,
    on_progress: ProgressTarget | None = None,
    *,
    hand_back: bool = False,
) -> Answered:
    """Send a call that is to become a task; see `LowLevelClient._call`.

    Cancelled, it waits for the answer, which is due at once, for `Limits.goodbye_timeout` at most, and cancels
    the task by its id: only if none comes is the call given up (2025-11-25, basic/utilities/cancellation).
    """
    timeout, wanted = client._settings.limits.goodbye_timeout, evolve(params, task=TaskMetadata())
    answered: Answered | None = None
    await trio.lowlevel.checkpoint_if_cancelled()
    with_answer = trio.CancelScope(shield=True)

    async def watch() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with_answer.deadline = trio.current_time() + timeout

    try:
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(watch)
            with with_answer:
                answered = await client._call(method, wanted, on_progress, hand_back=hand_back)
            nursery.cancel_scope.cancel(reason="the call was answered")
        await trio.lowlevel.checkpoint_if_cancelled()
        assert answered is not None  # or it was cancelled
    except BaseException:
        created = None if answered is None else _created_by(answered)
        if created is not None and isinstance(id := created.get("taskId"), str):
            await give_up_task(client, id)  # noqa: ASYNC102, ASYNC120 - shields itself, and is bounded
        raise
    return answered


def _created_by(answered: Answered) -> Mapping[str, Any] | None:
    """Return the task in the answer to a call that was to become one; `None` if it is none."""
    created = answered.result.get("task") if answered.params.get("task") is not None else None
    return created if is_object(created) and "content" not in answered.result else None


def is_task(answered: Answered) -> bool:
    """Whether a call was answered with a task, in either era, and with no extension's result."""
    if answered.result_type == TASK:
        return answered.result.get("resultType") == TASK
    return _created_by(answered) is not None


# Following them.


@final
@attrs.define(eq=False)
class LegacyTaskFollower(TaskFollower):
    """Follows one task of a server of 2025-11-25; see `TaskFollower`."""

    _outcome: dict[str, Any] | RequestError | None = attrs.field(default=None, init=False)
    _has_outcome: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def follow(self, on_state: Callable[[], object] = lambda: None) -> TaskState:
        """Wait until the task is over, and look at it meanwhile; see `TaskFollower.follow`.

        Raises:
            RequestError: The server does not know the task, or not any more.
            RemoteProtocolError: It cannot be read.
            Others: As `Client.request`.
        """
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(self._wait_for_outcome, name=f"waiting for task {self.state.id}")
            while not self.state.is_final:
                with trio.move_on_after(self.state.pause):
                    await self._has_outcome.wait()
                await self._look()
                on_state()
            nursery.cancel_scope.cancel(reason="the task is over")
        return self.state

    async def find_outcome(self) -> None:
        """Learn what has become of the task, if it is over already."""
        if self.state.is_final:
            await self._wait_for_outcome()
            self.state = self._with_outcome(self.state)

    async def _look(self) -> None:
        state = read_state("tasks/get", await self._get(), read_legacy_task, of=self.state.id)
        if state.is_final:
            await self._has_outcome.wait()
        self.state = self._with_outcome(state) if self._has_outcome.is_set() else state
        self._is_new = False

    async def _wait_for_outcome(self) -> None:
        try:
            self._outcome = await self._ask_in_spite("tasks/result", {})
        except RequestError as error:
            self._outcome = error.with_traceback(None)  # whose frames have this: a cycle
        self._has_outcome.set()

    def _with_outcome(self, state: TaskState) -> TaskState:
        outcome = self._outcome
        if not isinstance(outcome, RequestError):
            return attrs.evolve(state, status=state.status if state.is_final else "completed", result=outcome)
        if not state.is_final:
            raise outcome  # it is not about the task
        return attrs.evolve(state, error=outcome)


async def _follow_legacy(client: LowLevelClient, state: TaskState) -> LegacyTaskFollower:
    follower = LegacyTaskFollower(client, state, is_new=False)
    await follower.find_outcome()
    return follower


async def follower_of(client: LowLevelClient, answered: Answered) -> TaskFollower:
    """Return what follows the task that has answered a call; see `is_task`.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    created = _created_by(answered)
    if created is None:
        return await follow_new(client, answered.result)
    return await _follow_legacy(client, await read_new(client, created, read_legacy_task))


async def resume(client: LowLevelClient, id: str) -> TaskFollower:
    """Find a task by its id.

    Raises:
        RequestError: The server does not know it.
        LocalProtocolError: The revision in use has no tasks, or the server has declared none.
        RemoteProtocolError: What it answers cannot be read, or is about another task.
    """
    connection = await connected(client, "tasks/get")
    found = await ask_about(client, "tasks/get", {"taskId": id})
    if connection.revision.is_modern:
        return TaskFollower(client, read_state("tasks/get", found, of=id), is_new=False)
    return await _follow_legacy(client, read_state("tasks/get", found, read_legacy_task, of=id))
