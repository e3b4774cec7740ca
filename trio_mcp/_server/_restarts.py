"""Calls of tools that are run again when their process has died: what is kept of one, and its new run.

Which calls are, and when, is decided in `_tasks`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, cast, final

import attrs
import trio

from .. import types
from .._absent import ABSENT
from .._channel import client_key_of
from .._codec._jsonrpc import Request
from .._core._lifecycle import Agreement
from .._core._tasks import StoredTask, failed
from .._errors import INTERNAL_ERROR, RequestError
from .._logs import Log
from .._oauth._principal import Principal, as_principal
from .._peer._exchange import Exchange
from .._revisions import Revision
from ._context import Context, Surroundings, declared_in, exchange_of, origin_of
from ._functions import MethodHandler
from ._parking import HandlerRun, Service
from ._task_store import SharedTaskStore

_log: Final = Log("trio_mcp.server")

_OF_ITS_REQUEST: Final = frozenset({"inputResponses", "requestState"})


def call_of(context: Context[Any]) -> dict[str, Any]:
    """Return what it takes to run a call again, as plain JSON. No token, claim or header field is kept."""
    exchange = exchange_of(context)
    params = {
        name: value for name, value in (exchange.request.params or {}).items() if name not in _OF_ITS_REQUEST
    }
    origin = origin_of(context)
    principal = None if origin is None else as_principal(origin.principal)
    info = context._agreement.client_info
    return {
        "name": params.get("name"),
        "params": params,
        "revision": str(context.revision),
        "capabilities": dict(declared_in(context)),
        "clientInfo": None if info is None else dict(info),
        "principal": None
        if principal is None
        else {
            "subject": principal.subject,
            "issuer": principal.issuer,
            "client_id": principal.client_id,
            "scopes": sorted(principal.scopes),
        },
    }


@final
@attrs.frozen(eq=False)
class _Gone:
    """The origin of a call whose request came to another process."""

    principal: Principal | None


@final
class Restarts:
    """Prepares new runs of calls, in a running server.

    Args:
        service: The server.
        tools: Returns the tools whose calls it runs again.
        find_tool: Returns its tool of a name.
        handler_for: Returns its handler of a method.
    """

    def __init__(
        self,
        service: Service[Any],
        tools: Callable[[], Collection[str]],
        find_tool: Callable[[str], types.Tool],
        handler_for: Callable[[str, Revision], MethodHandler | None],
    ) -> None:
        self._service = service
        self._tools = tools
        self._find_tool = find_tool
        self._handler_for = handler_for

    async def claim(self, store: SharedTaskStore) -> tuple[StoredTask, HandlerRun, Context[Any]] | None:
        """Return a call that waits to be run again, a run of it that has not begun, and its context.

        Raises:
            RequestError: The store cannot be used now.
        """
        while (task := await store.claim(self._tools())) is not None:
            try:
                return task, *self._prepared(task)
            except Exception as error:
                # What others have written there, or another version of this library.
                _log.exception("a task cannot be run again")
                problem = RequestError(INTERNAL_ERROR, f"the task cannot be run again: {type(error).__name__}")
                await store.replace(attrs.evolve(task, call=None, **failed(problem)))
        return None

    def _prepared(self, task: StoredTask) -> tuple[HandlerRun, Context[Any]]:
        call = task.call or {}
        given = call.get("principal")
        principal = None if given is None else Principal(**given)
        revision = Revision(call["revision"])
        agreement = Agreement(revision, call["capabilities"], call["clientInfo"], None)
        service, params = self._service, call["params"]
        surroundings = Surroundings(
            service.state,
            "tasks that are run again",
            self._find_tool,
            service.background,
            service.background,
            service.get_tasks,
        )
        origin, request = _Gone(principal), Request(task.id, "tools/call", params)
        # What it sends goes nowhere until its run is a task, which is at once.
        exchange = Exchange(request, origin, trio.current_time(), cast("Any", None))
        context = Context(agreement, exchange, surroundings)
        handler = self._handler_for("tools/call", revision)
        assert handler is not None  # it has tools

        async def run(context: Context[Any]) -> object:
            return await handler(params, context)

        client = client_key_of(origin, surroundings.client)
        prepared = HandlerRun(service.parking, run, context, params, client, b"", None)
        context._resume(prepared, {}, ABSENT)
        return prepared, context
