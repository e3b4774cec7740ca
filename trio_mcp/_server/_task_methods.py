"""What clients ask of tasks: the methods of the extension ``io.modelcontextprotocol/tasks``.

Spec: ext-tasks, 2026-07-28, "Task Polling", "Task Update Requests", "Task Cancellation".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from .._codec._json import is_object
from .._core._tasks import TASK, TASKS, written_task
from .._errors import INVALID_PARAMS, RequestError
from .._revisions import MODERN
from ._context import Context
from ._extensions import ServerExtension
from ._listing import refuse_many
from ._sharing import taken_answers
from ._tasks import tasks_of


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
