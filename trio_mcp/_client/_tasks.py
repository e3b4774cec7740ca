"""Tasks of a server: followed until they are over, their questions answered, cancelled if nobody waits.

`TaskFollower` looks at one task again and again. A call waits in `finish_task` for the task that its server has
made of it; `ClientTask` is for those who want to see it. How a task is read is in `_core/_tasks`.

Spec: ext-tasks, 2026-07-28, "Task Polling", "Task Update Requests", "Task Cancellation".
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, NoReturn, final

import attrs
import trio

from .._core._legacy_tasks import TASKS_REVISION
from .._core._reconnect import Backoff, RestartPolicy
from .._core._tasks import TaskState, demands_tasks, read_task
from .._errors import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    SERVER_BUSY,
    ConnectionLost,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
    TaskCancelled,
)
from .._logs import Log
from .._peer._call import current_clock
from .._trio import LightParkingLot, open_hidden_nursery
from ..types import CallToolResult, RequestParams, evolve
from ._connection import Connection, can_cancel_tasks, has_legacy_tasks, tasks_declared
from ._low_level import Answered, LowLevelClient, read_result

_log: Final = Log("trio_mcp.client")

MAX_QUESTIONS: Final = 1_000
"""How many questions of one task are answered; their keys are remembered as long as it is followed."""

LOOKING_AGAIN: Final = RestartPolicy(max_restarts=6, first_delay=0.5, max_delay=10.0)
"""The pauses before a server is asked again that could not be reached, or was busy."""

_GATEWAY_ERRORS: Final = frozenset({502, 503, 504})


@attrs.define(eq=False)
class TaskFollower:
    """Follows one task of a server; `LegacyTaskFollower` those of 2025-11-25.

    Args:
        client: The client.
        state: The task, as the server has described it.
        is_new: Whether that was the answer to the request; what the task asks is then known later.

    Attributes:
        state: The task as it was seen last.
    """

    _client: LowLevelClient
    state: TaskState
    _is_new: bool = attrs.field(alias="is_new", kw_only=True)
    _is_unknown: bool = attrs.field(default=False, init=False)
    _is_given_up: bool = attrs.field(default=False, init=False)
    # Hashes of the keys of questions, because they may be as long as a message.
    _seen: set[int] = attrs.field(factory=set[int], init=False)
    _answering: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope], init=False)
    _refused: dict[str, RequestError] = attrs.field(factory=dict[str, RequestError], init=False)

    async def follow(self, on_state: Callable[[], object] = lambda: None) -> TaskState:
        """Look at the task until it is over, and let the client's handlers answer each of its questions, once.

        Args:
            on_state: Called after each look.

        Raises:
            RequestError: The server does not know the task, or not any more.
            RemoteProtocolError: It cannot be read, or asks too much.
            Others: Whatever a handler raises, and as `Client.request`.
        """
        turns = trio.Semaphore(self._client._settings.limits.max_inbound_requests)
        async with open_hidden_nursery() as nursery:
            if self._is_new:
                if not self.state.is_final:
                    await self._sleep(self.state.pause)
                await self._look()
                on_state()
            while not self.state.is_final:
                for key, request in self._new_questions():
                    nursery.start_soon(self._answer, key, request, turns, name=f"answering task {self.state.id}")
                await self._sleep(self.state.pause)
                await self._look()
                on_state()
            nursery.cancel_scope.cancel(reason="the task is over")
        return self.state

    async def _look(self) -> None:
        self.state = read_state("tasks/get", await self._get(), of=self.state.id)
        self._is_new = False

    async def _get(self) -> dict[str, Any]:
        try:
            result = await self._ask_in_spite("tasks/get", {})
        except RequestError as error:
            self._is_unknown = error.code == INVALID_PARAMS
            raise
        clock = current_clock()
        if clock is not None:
            clock.push()  # the server has answered, so it is not silent
        return result

    # Its questions.

    def _new_questions(self) -> list[tuple[str, Any]]:
        """Return the questions that are open and were not before; stop answering those that are not any more."""
        asked = self.state.input_requests
        for key, scope in self._answering.items():
            if key not in asked:
                scope.cancel(reason="the question is not open any more")
        for key, refusal in self._refused.items():
            if key in asked:
                raise refusal
        new = [(key, request) for key, request in asked.items() if hash(key) not in self._seen]
        self._seen.update(hash(key) for key, _ in new)
        if len(self._seen) > MAX_QUESTIONS:
            raise RemoteProtocolError(f"tasks/get: the task asks more than {MAX_QUESTIONS} questions")
        return new

    async def _answer(self, key: str, request: object, turns: trio.Semaphore) -> None:
        client = self._client
        with trio.CancelScope() as scope:  # noqa: ASYNC912 - to stop a handler
            self._answering[key] = scope
            try:
                async with turns:
                    answers = await client._rounds.answer("tasks/get", {key: request}, client.revision)
                await self._ask_in_spite("tasks/update", {"inputResponses": answers})
            except RequestError as error:
                if error.question is not None or error.code != INVALID_PARAMS:
                    raise
                self._refused[key] = error  # the task may be over; if the next look finds it open, this counts
            finally:
                del self._answering[key]

    # Requests.

    async def give_up(self) -> None:
        """Cancel the task, once, unless it is over: nobody waits for it any more.

        Shielded, for `Limits.goodbye_timeout` at most. What goes wrong is logged.
        """
        if self._is_given_up or self._is_unknown or self.state.is_final:
            return
        self._is_given_up = True
        await give_up_task(self._client, self.state.id)

    async def cancel(self) -> None:
        """Ask the server to cancel the task. It may end in another way before."""
        self._is_given_up = True
        await self.ask("tasks/cancel", {})

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request about the task; see `Client.request`."""
        return await ask_about(self._client, method, {**params, "taskId": self.state.id})

    async def _ask_in_spite(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send one that may be repeated, and repeat it if that may help: the task goes on meanwhile."""
        backoff = Backoff(LOOKING_AGAIN)
        while True:
            try:
                return await self.ask(method, params)
            except (ConnectionLost, RequestError) as error:
                delay = backoff.next_delay(0) if self._may_pass(method, error) else None
                if delay is None:
                    raise
                wait = error.retry_after if isinstance(error, RequestError) else None
                _log.info("task %.60s is asked for again: %s", self.state.id, error)
            await self._sleep(max(delay, min(wait or 0.0, LOOKING_AGAIN.max_delay)))

    async def _sleep(self, seconds: float) -> None:
        with self._client._reconnecting.cancelled_when_over():
            await trio.sleep(seconds)

    def _may_pass(self, method: str, error: ConnectionLost | RequestError) -> bool:
        if isinstance(error, ConnectionLost):
            return not self._client._reconnecting.is_over
        if isinstance(error, HttpStatusError):
            return error.status in _GATEWAY_ERRORS
        return error.code == SERVER_BUSY and method != "tasks/result"  # of which it is what the task has come to


async def ask_about(client: LowLevelClient, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request about a task. One that declares the extension, whatever other requests do, where that is.

    Raises:
        ConnectionLost: The server came back with a revision that has no tasks.
        Others: As `Client.request`.
    """
    # A result is there when the task is over: `request_timeout` is not for the task.
    with nullcontext() if method == "tasks/result" else client._timeout(method):
        return await client._reconnecting.ask(partial(_send, method, params))


def _send(method: str, params: Mapping[str, Any], connection: Connection) -> Awaitable[dict[str, Any]]:
    if connection.revision.is_modern:
        params = {**params, "_meta": tasks_declared(connection)}
    elif not has_legacy_tasks(connection):
        raise ConnectionLost(f"{method}: the server speaks {connection.revision}, which has no such tasks")
    return connection.peer.request(method, connection.with_meta(params))


async def give_up_task(client: LowLevelClient, id: str) -> None:
    """Cancel a task for which nobody waits; see `TaskFollower.give_up`."""
    timeout, reconnecting = client._settings.limits.goodbye_timeout, client._reconnecting
    if not can_cancel_tasks(reconnecting.agreed):
        _log.info("task %.60s is not cancelled: its server has not declared that it can be", id)
        return
    with trio.move_on_after(timeout, shield=True) as scope:  # noqa: ASYNC912 - a request is one
        try:
            if reconnecting.is_over:  # the client is being closed, and holds the connection open for this
                await _send("tasks/cancel", {"taskId": id}, reconnecting.agreed)
            else:
                await ask_about(client, "tasks/cancel", {"taskId": id})
        except (McpError, trio.ClosedResourceError, trio.TooSlowError) as error:
            _log.info("task %.60s could not be cancelled: %s", id, error)
    if scope.cancelled_caught:
        _log.info("task %.60s could not be cancelled within %g s", id, timeout)


async def read_new(
    client: LowLevelClient, created: Mapping[str, Any], read: Callable[..., TaskState] = read_task
) -> TaskState:
    """Read the task that has answered a call. One that cannot be read is cancelled, by its id.

    Raises:
        RemoteProtocolError: It cannot be read.
    """
    try:
        return read_state("tools/call", created, read, is_new=True)
    except RemoteProtocolError:
        id = created.get("taskId")
        if isinstance(id, str) and id:
            await give_up_task(client, id)  # noqa: ASYNC120 - shields itself
        raise


async def follow_new(client: LowLevelClient, result: Mapping[str, Any]) -> TaskFollower:
    """Return what follows the task that has answered a call; see `read_new`."""
    return TaskFollower(client, await read_new(client, result), is_new=True)


def declaring(client: LowLevelClient, params: Any) -> Any:
    """Return the parameters of a call, which declares the extension with them."""
    given: RequestParams = params
    return evolve(params, meta={**(given.meta or {}), **tasks_declared(client._reconnecting.agreed)})


def may_declare(client: LowLevelClient, error: RequestError) -> bool:
    """Whether a call that was refused would be served if it declared the extension, and may do so."""
    return (
        error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        and demands_tasks(error.data)
        and client._settings.tasks == "required"
        and client.revision.is_modern
    )


def read_state(
    method: str,
    result: Mapping[str, Any],
    read: Callable[..., TaskState] = read_task,
    *,
    is_new: bool = False,
    of: str | None = None,
) -> TaskState:
    """Read a task; see `read_task`.

    Args:
        method: What was asked.
        result: The answer.
        read: Reads it, `read_task` or `read_legacy_task`.
        is_new: Whether it answers the request that has become the task.
        of: Which task was asked for; `None` for any.

    Raises:
        RemoteProtocolError: It cannot be read, or is another.
    """
    try:
        state = read(result, is_new=is_new)
    except ValueError as error:
        raise RemoteProtocolError(f"{method}: {error}") from error
    if of is not None and state.id != of:
        raise RemoteProtocolError(f"{method}: the answer is about another task, {state.id!r:.60}")
    return state


def result_of(state: TaskState) -> Mapping[str, Any]:
    """Return the result of a task that is over.

    Raises:
        RequestError: It has failed.
        TaskCancelled: It was cancelled.
        RemoteProtocolError: The result is none of a call.
    """
    if state.status == "cancelled":
        raise TaskCancelled(state.id, state.status_message)
    if state.error is not None:
        raise copy.copy(state.error).with_traceback(None)
    result = state.result or {}
    if result.get("resultType", "complete") != "complete":
        raise RemoteProtocolError(f"tasks/get: the result is of an unknown type: {result['resultType']!r:.60}")
    return result


async def finish_task(follower: TaskFollower, answered: Answered) -> Answered:
    """Wait for the task that a server has made of a call, and return its result as the answer to that.

    If that fails, or is cancelled, the task is cancelled, once.

    Raises:
        RequestError: The task has failed, or its server does not know it any more.
        TaskCancelled: It was cancelled elsewhere.
        Others: As `TaskFollower.follow`.
    """
    reconnecting = follower._client._reconnecting
    with reconnecting.held_open():
        try:
            with reconnecting.cancelled_when_over():
                state = await follower.follow()
        except BaseException:
            await follower.give_up()  # noqa: ASYNC102 - shields itself, and is bounded
            raise
    return attrs.evolve(answered, result=dict(result_of(state)), result_type="complete")


# For those who want to see it.


@final
class TaskUpdates(AsyncIterator[TaskState]):
    """The states of a task, from the present one to the last; those that nobody has taken in time are left out.

    Raises:
        Others: As `ClientTask.result`, but for what the task itself has come to.
    """

    def __init__(self, task: ClientTask) -> None:
        self._task = task
        self._seen = -1

    def __iter__(self) -> NoReturn:
        raise TypeError("updates() waits for a task: write 'async for state in task.updates()'")

    def __await__(self) -> NoReturn:
        raise TypeError("what updates() returns is not awaited: write 'async for state in task.updates()'")

    async def __anext__(self) -> TaskState:
        await trio.lowlevel.checkpoint()
        state, self._seen = await self._task._next_state(self._seen)
        return state


@final
@attrs.define(eq=False, repr=False)
class ClientTask:
    """A task that `Client.start_task` has started, or `Client.resume_task` has found.

    While the block lasts, the client looks at it as often as the server wants to be asked, and its handlers
    answer what the task asks. At the end of the block a task that is not over is cancelled, unless it was
    detached.
    """

    _client: LowLevelClient
    _follower: TaskFollower | None
    _result: CallToolResult | None
    _tool: str | None
    _held: ExitStack
    _version: int = attrs.field(default=0, init=False)
    _changed: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _failure: Exception | None = attrs.field(default=None, init=False)
    _is_left: bool = attrs.field(default=False, init=False)
    is_detached: bool = attrs.field(default=False, init=False)

    @property
    def id(self) -> str | None:
        """The id, by which another client can resume it; `None` if the server has answered the call at once."""
        return None if self._follower is None else self._follower.state.id

    @property
    def state(self) -> TaskState | None:
        """The task as it was seen last; `None` if the server has answered the call at once."""
        return None if self._follower is None else self._follower.state

    @property
    def is_over(self) -> bool:
        """Whether there is a result, or will never be any."""
        return self._follower is None or self._follower.state.is_final

    async def result(self) -> CallToolResult:
        """Wait until the task is over, and return its result, also one that is an error of the tool.

        If this is cancelled, the task goes on.

        Raises:
            RequestError: The task has failed, with this error; or the server does not know it any more.
            TaskCancelled: It was cancelled.
            RemoteProtocolError: It cannot be read, or breaks the output schema that the tool had when this client
                listed it.
            trio.ClosedResourceError: The block was left.
            Others: Whatever a handler of this client raises, and as `Client.request`.
        """
        await trio.lowlevel.checkpoint()
        while not self.is_over:
            self._check()
            await self._changed.park()
        if self._result is None:
            assert self._follower is not None
            result = read_result("tools/call", result_of(self._follower.state), CallToolResult)
            if self._tool is not None:
                self._client._caches.outputs.check(self._tool, result)
            self._result = result
        return self._result

    def updates(self) -> TaskUpdates:
        """Iterate over its states: ``async for state in task.updates()``; the last one is final."""
        return TaskUpdates(self)

    async def cancel(self) -> None:
        """Ask the server to cancel it, unless it is over. It may end in another way before; `result` says how.

        Raises:
            RequestError: The server does not know it any more.
        """
        if self._follower is None or self.is_over:
            await trio.lowlevel.checkpoint()
        else:
            await self._follower.cancel()

    def detach(self) -> str | None:
        """Let it go on after the block; returns its id, for `Client.resume_task`."""
        self.is_detached = True
        return self.id

    # For the block.

    async def _follow(self) -> None:
        follower = self._follower
        assert follower is not None
        try:
            with self._client._reconnecting.cancelled_when_over():
                await follower.follow(self._note)
        except Exception as error:
            self._failure = error
            self._changed.unpark_all()
        if isinstance(self._failure, trio.ClosedResourceError) and not self.is_detached:
            await follower.give_up()  # now: the block may last
        self._held.close()  # not if this is cancelled: then the task is given up at the end of the block

    def _note(self) -> None:
        self._version += 1
        self._changed.unpark_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_left:
            detached = f"; resume_task({self.id!r}) goes on with it" if self.is_detached else ""
            raise trio.ClosedResourceError(f"the block of this task was left{detached}")

    async def _next_state(self, seen: int) -> tuple[TaskState, int]:
        if self._follower is None:
            raise StopAsyncIteration
        while seen == self._version:
            if self.is_over:
                raise StopAsyncIteration
            self._check()
            await self._changed.park()
        return self._follower.state, self._version

    def _leave(self) -> None:
        self._is_left = True
        self._changed.unpark_all()


@asynccontextmanager
async def open_task(
    client: LowLevelClient, start: Callable[[], Awaitable[TaskFollower | CallToolResult]], tool: str | None
) -> AsyncGenerator[ClientTask]:
    """Start a task or find one, and follow it while the block runs; see `ClientTask`.

    Args:
        client: The client.
        start: Starts it; returns the result if there is one at once.
        tool: The tool, if it is known.
    """
    begun = await start()
    follower = begun if isinstance(begun, TaskFollower) else None
    with ExitStack() as held:
        task = ClientTask(client, follower, None if isinstance(begun, TaskFollower) else begun, tool, held)
        try:
            async with open_hidden_nursery() as nursery:
                if follower is not None:
                    held.enter_context(client._reconnecting.held_open())
                    nursery.start_soon(task._follow)
                try:
                    yield task
                finally:
                    task._leave()
                    nursery.cancel_scope.cancel(reason="the block was left")
        finally:
            if follower is not None and not task.is_detached:
                await follower.give_up()  # noqa: ASYNC102 - shields itself, and is bounded


async def connected(client: LowLevelClient, method: str) -> Connection:
    """Return the connection in use, whose revision has tasks.

    Raises:
        LocalProtocolError: It has none.
        Others: As `Client.request`.
    """
    with client._timeout(method):
        connection = await client._reconnecting.connected()
    if not (connection.revision.is_modern or has_legacy_tasks(connection)):
        if connection.revision is TASKS_REVISION:
            raise LocalProtocolError("the server has declared no tasks, which it has to in 2025-11-25")
        raise LocalProtocolError(f"{connection.revision}, which the server speaks, has no such tasks")
    return connection
