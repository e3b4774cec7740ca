"""What clients of 2025-11-25 ask of tasks: the methods of that revision, over the tasks that `_tasks` runs.

How a task is written for them is in `_core/_legacy_tasks`. A question of a task is asked while its client waits
for the result, as a request of the server that belongs to that wait: over HTTP it goes into the stream of it.

Spec: 2025-11-25, basic/utilities/tasks, which calls them experimental.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, nullcontext
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .. import types
from .._absent import ABSENT
from .._channel import client_key_of
from .._codec._json import InvalidData
from .._codec._jsonrpc import from_wire
from .._core._changes import TaskUpdated
from .._core._legacy_tasks import (
    STATUS,
    TASKS_REVISION,
    outcome_of,
    with_related_task,
    written_legacy_task,
)
from .._core._tasks import StoredTask, written_error
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RemoteProtocolError, RequestError
from .._revisions import Revision
from .._trio import LightParkingLot, open_hidden_nursery
from ._asking import features_of
from ._changes import ChangeHub
from ._context import Context, exchange_of, origin_of
from ._functions import MethodHandler
from ._input_required import input_types, require_for
from ._listing import Entry, Listing
from ._parking import BoundHandler, HandlerRun, Parking
from ._tasks import Tasks, tasks_of
from ._tools import RegisteredTool

TASKS_PER_PAGE: Final = 100
"""How many tasks a page has if the server's author has not said how long pages are."""

_Wait: TypeAlias = Callable[[], Awaitable[None]]


@final
class LegacyTasks:
    """The methods of 2025-11-25 for tasks.

    Args:
        hub: Reports that tasks have changed.
        listing: Cuts lists into pages.
    """

    def __init__(self, hub: ChangeHub, listing: Listing) -> None:
        self._hub = hub
        self._listing = listing
        self._handlers: Mapping[str, MethodHandler] = {
            "tasks/get": _get,
            "tasks/result": self._result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
        }

    def handler_for(self, method: str, revision: Revision) -> MethodHandler | None:
        """Return the handler of a method; `None` if it is none of these, or another revision's."""
        return self._handlers.get(method) if revision is TASKS_REVISION else None

    def check(self, tool: RegisteredTool, context: Context[Any]) -> None:
        """Check that a tool's calls can be tasks, for a call that is to be one ("Tool-Level Negotiation").

        Raises:
            RequestError: They cannot.
        """
        if context.revision is TASKS_REVISION and not tool.can_be_task:
            raise RequestError(METHOD_NOT_FOUND, f"calls of {tool.tool.name} cannot be tasks: leave out task")

    def run(self, parking: Parking, context: Context[Any], handler: BoundHandler) -> HandlerRun:
        """Begin a run of the handler of a call, which makes itself a task. It is never parked.

        Args:
            parking: Runs it.
            context: The context of the call.
            handler: The handler.
        """
        request = exchange_of(context).request
        client = client_key_of(origin_of(context), context._surroundings.client)
        run = HandlerRun(parking, handler, context, request.params or {}, client, b"", None)
        context._resume(run, {}, ABSENT)
        parking.background.start_own(run.run, name=f"handler of {request.method}")
        return run

    def declared(self, *, can_list: bool) -> types.ServerTasksCapability:
        """Return what is declared to a client ("Server Capabilities")."""
        requests = types.ServerTaskRequests(tools=types.ToolTaskRequests(call={}))
        return types.ServerTasksCapability(list={} if can_list else None, cancel={}, requests=requests)

    async def _list(self, params: Mapping[str, Any], context: Context[Any]) -> dict[str, Any]:
        tasks = tasks_of(context)
        await trio.lowlevel.checkpoint()
        if not tasks.can_list(origin_of(context), context._surroundings):
            raise RequestError(METHOD_NOT_FOUND, "this client cannot list tasks: tasks.list was not declared")
        # Numbered by when they were begun, so that a cursor is good although its task is gone.
        entries = [Entry(int(task.created_at * 1e6), task.id, task) for task in tasks.listed(context)]
        page, members = self._listing.page("tasks/list", params, entries, at_most=TASKS_PER_PAGE)
        listed: dict[str, Any] = {"tasks": [written_legacy_task(task) for task in page]}
        next_cursor = members["next_cursor"]
        return listed if next_cursor is None else {**listed, "nextCursor": next_cursor}

    async def _cancel(self, params: Mapping[str, Any], context: Context[Any]) -> dict[str, Any]:
        tasks = tasks_of(context)
        task = await tasks.demand(params, context)
        running = None if task.is_final else tasks.running(task)
        if running is not None:
            running.withdraw()
            await tasks.save(running)
            return written_legacy_task(running.record)
        if not task.is_final and tasks.sharing is not None:
            async with self._watched(tasks, task.id) as wait:
                await tasks.sharing.store.send(task.id, {"withdraw": True})
                while not (task := await tasks.demand(params, context)).is_final:
                    await wait()
            if task.status == "cancelled":
                return written_legacy_task(task)
        status = written_legacy_task(task)["status"]
        raise RequestError(INVALID_PARAMS, f"the task cannot be cancelled any more: it is {status}")

    async def _result(self, params: Mapping[str, Any], context: Context[Any]) -> dict[str, Any]:
        tasks = tasks_of(context)
        task = await tasks.demand(params, context)
        if not task.is_final:
            async with self._watched(tasks, task.id) as wait:
                with closing(_Waiting(tasks, task, context)) as waiting:
                    task = await waiting.follow(wait)
        return outcome_of(task)

    @asynccontextmanager
    async def _watched(self, tasks: Tasks, id: str) -> AsyncGenerator[_Wait]:
        """Yield what waits until a task has changed, since it was called last or the block was entered."""
        wakeup, sharing = LightParkingLot(), tasks.sharing
        with (
            self._hub.receiver(wakeup.unpark_all) as receiver,
            nullcontext() if sharing is None else sharing.listening([id]),
        ):
            if sharing is not None:
                await sharing.begin_listening([id])
            receiver.subscribe(TaskUpdated(id))

            async def wait() -> None:
                await trio.lowlevel.checkpoint()
                while receiver.take() is None:
                    await wakeup.park()

            yield wait


async def _get(params: Mapping[str, Any], context: Context[Any]) -> dict[str, Any]:
    return written_legacy_task(await tasks_of(context).demand(params, context))


@final
@attrs.define(eq=False)
class _Waiting:
    """One ``tasks/result`` of a task that is not over: its client is asked what the task asks.

    Of several that wait for the same task in one process, one is asked each question; if it leaves, another one.

    Attributes:
        task: The task as it was seen last.
    """

    _tasks: Tasks
    task: StoredTask
    _context: Context[Any]
    # Those that are being asked, or were answered and are not known to be closed.
    _scopes: dict[str, trio.CancelScope] = attrs.field(factory=dict[str, trio.CancelScope], init=False)

    async def follow(self, wait: _Wait) -> StoredTask:
        """Wait until the task is over, and tell its client of changes meanwhile ("Task Notifications").

        Raises:
            RequestError: It has expired.
        """
        exchange, seen = exchange_of(self._context), written_legacy_task(self.task)
        async with open_hidden_nursery() as nursery:
            while not (await self._look()).is_final:
                self._ask_all(nursery)
                written = written_legacy_task(self.task)
                if written != seen:
                    seen = written
                    await exchange.notify(STATUS, seen)
                await wait()
            nursery.cancel_scope.cancel(reason="the task is over")
        return self.task

    async def _look(self) -> StoredTask:
        self.task = await self._tasks.demand({"taskId": self.task.id}, self._context)
        return self.task

    def _ask_all(self, nursery: trio.Nursery) -> None:
        """Ask what is open and was not asked, and take back what is not open any more."""
        asked = self.task.input_requests
        for key in [key for key in self._scopes if key not in asked]:
            self._scopes[key].cancel(reason="the question is not open any more")
            self._release(key)
        for key, request in asked.items():
            claim = (self.task.id, key)
            if claim not in self._tasks.asked and self._can_answer(request):
                self._tasks.asked.add(claim)
                self._scopes[key] = scope = trio.CancelScope()
                nursery.start_soon(self._ask, key, request, scope, name=f"asking for task {self.task.id}")

    def _release(self, key: str) -> None:
        del self._scopes[key]
        self._tasks.asked.discard((self.task.id, key))

    def close(self) -> None:
        """Let another one be asked what was not answered here."""
        if self._scopes:
            for key in tuple(self._scopes):
                self._release(key)
            self._tasks.changed(self.task.id)

    def _can_answer(self, request: Mapping[str, Any]) -> bool:
        """Whether the client has declared that it answers such questions; those of its author it may."""
        kinds = input_types().get(request["method"])
        if kinds is None:
            return True
        try:
            params = from_wire(request.get("params") or {}, attrs.fields(kinds[0]).params.type)
            require_for(features_of(self._context._agreement), params)
        except (RequestError, InvalidData):
            return False
        return True

    async def _ask(self, key: str, request: Mapping[str, Any], scope: trio.CancelScope) -> None:
        with scope:
            answer = await self._answer(request["method"], request.get("params"))
            tasks, task = self._tasks, await self._look()
            running = tasks.running(task)
            if running is not None:
                if running.settle({key: answer}):
                    await tasks.save(running)
            elif tasks.sharing is not None and not task.is_final:
                await tasks.sharing.store.send(task.id, {"settled": {key: answer}})

    async def _answer(self, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        exchange = exchange_of(self._context)
        try:
            return {"result": await exchange.ask(method, with_related_task(params, self.task.id))}
        except RequestError as error:
            return {"error": written_error(error)}
        except RemoteProtocolError as error:
            return {"error": written_error(RequestError(INTERNAL_ERROR, str(error)))}
