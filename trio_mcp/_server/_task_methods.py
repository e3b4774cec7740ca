"""Tools whose calls become tasks, and what clients ask of these: the extension ``io.modelcontextprotocol/tasks``.

Spec: ext-tasks, 2026-07-28, "Task Polling", "Task Update Requests", "Task Cancellation".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final, final

import attrs
import trio

from .._codec._json import is_object
from .._core._legacy_tasks import TASKS_REVISION
from .._core._tasks import TASK, TASKS, declares_tasks, written_task
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from .._limits import Limits, check_seconds
from .._revisions import MODERN, Revision
from ..types import TaskMetadata, Tool, ToolExecution, evolve
from ._context import Context, declared_in, exchange_of
from ._elicitation import URLElicitationRequired
from ._extensions import ServerExtension, require_declared
from ._functions import HandlerFunction
from ._input_required import Asking, InputRequired, ask_in_session
from ._listing import read_params, refuse_many
from ._parking import HandlerRun
from ._sharing import taken_answers
from ._tasks import TaskRules, tasks_of
from ._threads import Threads
from ._tools import RegisteredTool, ToolOptions


async def _get(params: Mapping[str, Any], context: Context[Any]) -> object:
    return written_task(await tasks_of(context).demand(params, context))


async def _update(params: Mapping[str, Any], context: Context[Any]) -> object:
    tasks = tasks_of(context)
    answers = params.get("inputResponses")
    if not is_object(answers):
        raise RequestError(INVALID_PARAMS, "invalid params: inputResponses: expected an object")
    refuse_many(params, "inputResponses")
    task = await tasks.demand(params, context)
    running = tasks.running(task)
    if running is not None:
        if running.answer(answers):
            await tasks.save(running)
    elif tasks.sharing is not None and not task.is_final:
        methods = {key: str(asked["method"]) for key, asked in task.input_requests.items()}
        taken = taken_answers(answers, methods)
        if taken:
            await tasks.sharing.store.send(task.id, {"answers": taken})
    return {}


async def _cancel(params: Mapping[str, Any], context: Context[Any]) -> object:
    tasks = tasks_of(context)
    task = await tasks.demand(params, context)
    running = tasks.running(task)
    if running is not None:
        running.cancel("tasks/cancel")
    elif tasks.sharing is not None and not task.is_final:
        await tasks.sharing.store.send(task.id, {"cancel": True})
    return {}


@cache
def tasks_extension() -> ServerExtension:
    """Return the extension, which a server has from the first tool on that is registered with ``task=``."""
    handlers = {"tasks/get": _get, "tasks/update": _update, "tasks/cancel": _cancel}
    return ServerExtension(TASKS, revisions=MODERN, request_handlers=handlers, result_types=[TASK])


# The tools.

MAX_TTL_MS: Final = 1_000_000_000_000
"""A longer time for which a client wants a task to be kept is this: 31 years, where its tool has no limit."""

USUAL_TTL: Final = 3_600.0
USUAL_POLL: Final = 1.0


def read_task_rules(options: ToolOptions) -> TaskRules | None:
    """Read how the calls of a tool become tasks; `None` if they do not.

    Raises:
        ValueError: An option is out of bounds, or says something of tasks where there are none.
    """
    choice = options.get("task", "never")
    if choice == "never":
        for option in ("ttl", "poll", "ask_first", "restartable"):
            if option in options:
                raise ValueError(f"{option} is about tasks: add task='optional', or leave it out")
        return None
    ttl = options.get("ttl", USUAL_TTL)
    if ttl is not None:
        check_seconds("ttl", ttl, may_be_zero=False, is_told=True)
    poll = check_seconds("poll", options.get("poll", USUAL_POLL), may_be_zero=False, is_told=True)
    asks_first = options.get("ask_first", False)
    return TaskRules(
        is_required=choice == "required",
        ttl=ttl,
        poll=poll,
        asks_first=asks_first,
        restartable=options.get("restartable", False),
    )


@final
@attrs.frozen(kw_only=True, eq=False)
class TaskTool(RegisteredTool):
    """A tool whose calls may become tasks.

    Attributes:
        rules: How they do.
        legacy_tool: What clients of 2025-11-25 see of it.
    """

    rules: TaskRules
    legacy_tool: Tool

    @property
    def can_be_task(self) -> bool:
        """Whether its calls may become tasks."""
        return True

    def seen_by(self, revision: Revision) -> Tool:
        """Return what a client of a revision sees."""
        return self.legacy_tool if revision is TASKS_REVISION else RegisteredTool.seen_by(self, revision)

    @property
    def is_restartable(self) -> bool:
        """Whether its calls are run again if their process dies."""
        return self.rules.restartable

    async def call(
        self, arguments: Mapping[str, Any], context: Context[Any], threads: Threads, limits: Limits
    ) -> object:
        """Call the function, in a task if the client knows tasks; see `RegisteredTool.call`.

        Raises:
            RequestError: The client must know tasks, and does not; or no more can be kept.
        """
        if not context.is_task:  # as one is that is run again
            run, rules = context._requester, self._rules_for(context)
            if rules is None or not isinstance(run, HandlerRun):
                if self.rules.is_required:
                    if not context.revision.is_modern:  # 2025-11-25, "Tool-Level Negotiation"
                        problem = f"{self.tool.name} is served as a task only: {context.revision} has no {TASKS}"
                        if context.revision is TASKS_REVISION:
                            problem = f"{self.tool.name} is served as a task only, and the request has no task"
                        raise RequestError(METHOD_NOT_FOUND, problem)
                    require_declared(TASKS, {}, is_modern=True)
                return await RegisteredTool.call(self, arguments, context, threads, limits)
            run.begin = partial(tasks_of(context).begin, context, run, rules, trio.Lock())
            if not rules.asks_first:
                await context.begin_task()
        for _ in range(limits.max_input_rounds + 1):
            try:
                result = await RegisteredTool.call(self, arguments, context, threads, limits)
            except URLElicitationRequired as error:
                if not context.is_task:
                    raise
                result = InputRequired({f"url-{n}": one for n, one in enumerate(error.elicitations, 1)})
            if not (isinstance(result, InputRequired) and context.is_task):
                return result
            agreement = context._agreement
            answers, state = await ask_in_session(result, exchange_of(context), agreement)
            context._resume(None, answers, state)
        problem = f"the task asked for input more than {limits.max_input_rounds} times (max_input_rounds)"
        raise RequestError(INTERNAL_ERROR, problem)

    def _rules_for(self, context: Context[Any]) -> TaskRules | None:
        """Return how a call becomes a task; `None` if it does not.

        In 2025-11-25 its client decides that, and for how long; then it is answered with nothing but a task.

        Raises:
            RequestError: What it says of the task is none.
        """
        if context.revision.is_modern:
            return self.rules if declares_tasks(declared_in(context)) else None
        asked = (exchange_of(context).request.params or {}).get("task")
        if asked is None or context.revision is not TASKS_REVISION:
            return None
        wanted = read_params(asked, TaskMetadata).ttl if is_object(asked) else 0
        ttl = self.rules.ttl
        if wanted is not None:
            if wanted <= 0:
                raise RequestError(INVALID_PARAMS, "invalid params: task.ttl: expected a positive number")
            seconds = min(wanted, MAX_TTL_MS) / 1000
            ttl = seconds if ttl is None else min(ttl, seconds)
        return attrs.evolve(self.rules, is_required=True, asks_first=False, ttl=ttl)


def task_tool(rules: TaskRules, **members: Any) -> RegisteredTool:
    """Return a tool whose calls may become tasks. They need a run of their own even if they ask nothing."""
    handler: HandlerFunction = members["handler"]
    if handler.asking is Asking.NEVER:
        members["handler"] = attrs.evolve(handler, asking=Asking.PARK)
    execution = ToolExecution(task_support="required" if rules.is_required else "optional")
    return TaskTool(**members, rules=rules, legacy_tool=evolve(members["older_tool"], execution=execution))
