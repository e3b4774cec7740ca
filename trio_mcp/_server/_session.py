"""One connection of a server: routes each request by its era, calls its handler, and writes the result.

Which handlers there are is the `Application`'s business; how messages travel is the peer's. Here is also the
handler of Python's `logging` that sends records to the client whose request is being served.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from .. import types
from .._channel import Origin, client_key_of
from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request, to_wire
from .._core._legacy_tasks import TASKS_REVISION
from .._core._lifecycle import Agreement, ServerLifecycle
from .._core._sealing import StateRefused
from .._core._tasks import TASKS
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import KIB, check_whole
from .._logs import Log
from .._peer._exchange import Answer, AtOnce, Exchange, Handler, LongLived, audit_refusal
from .._peer._peer import Peer
from .._printable import kind_shown
from .._revisions import BATCH_REVISION, INPUT_METHODS, SERVER_INFO_KEY, WITHOUT_HANDLER, Revision
from ..types import LoggingLevel
from ._application import Application
from ._asking import failed_by_client, features_of
from ._changes import SubscriptionLoans, Subscriptions
from ._context import Context, NotificationContext, Surroundings, client_of_request, exchange_of
from ._elicitation import URLElicitationRequired, result_for
from ._extensions import require_declared
from ._functions import MethodHandler, pass_throttle
from ._input_required import Asking, ExtensionResult, InputRequired, ask_in_session, input_request, require_for
from ._lifetimes import Background
from ._listing import Kept, read_params, refuse_many
from ._parking import Parking, Service
from ._permits import Throttle

# Python's `logging`, sent to the client whose request is being served. It configures no logger, and never waits.


_THRESHOLDS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL + 20, "emergency"),
    (logging.CRITICAL + 10, "alert"),
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO + 5, "notice"),
    (logging.INFO, "info"),
)
"""The lowest of Python's levels for each level of the protocol. Lower ones are debug."""

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""The attributes that every record has. All others were added with ``extra=``."""


_Serving: TypeAlias = tuple[Context[Any], trio.lowlevel.TrioToken]
"""The context of a request that is being served, and the Trio run that serves it."""

_serving: Final[ContextVar[_Serving | None]] = ContextVar("trio_mcp_request", default=None)


def current_client() -> tuple[str, bool]:
    """Return the client that the current task works for, and whether the server may have several.

    Tasks that serve no request count as one client, the only one.
    """
    serving = _serving.get()
    return ("", False) if serving is None else client_of_request(serving[0])


def current_exchange() -> Exchange | None:
    """Return the exchange that the current task works for."""
    serving = _serving.get()
    return None if serving is None else exchange_of(serving[0])


@final
class LogHandler(logging.Handler):
    """Sends what is logged while a request is served to the client that made it.

    Attach it to a logger of yours: ``logging.getLogger("orders").addHandler(trio_mcp.LogHandler())``. Records of
    a handler, of the functions it calls, and of threads or tasks it has started are sent to the client, if it
    wants messages of this severity. Outside a request nothing is sent. Logging never waits: a record for which
    there is no room is dropped and counted. Records of the library itself are not sent, and tracebacks are not
    either, unless you set a formatter that includes them.

    A record is sent as the text of its message, or, if it was logged with ``extra=…``, as an object of these
    fields and ``message``. A value that JSON does not have is sent as its `repr`. Python's levels become debug,
    info, notice (25), warning, error, critical, alert (60) and emergency (70).

    Args:
        level: The lowest of Python's levels that is handled; all by default.
        max_waiting: How many records from other threads may wait for Trio's thread.

    Spec: 2026-07-28, server/utilities/logging.
    """

    def __init__(self, level: int | str = logging.NOTSET, *, max_waiting: int = 1_000) -> None:
        super().__init__(level)
        check_whole("max_waiting", max_waiting)
        self._max_waiting = max_waiting
        self._count_lock = threading.Lock()
        self._waiting = 0
        self._dropped = 0
        self._is_emitting = False

    @property
    def dropped(self) -> int:
        """How many records that a client wanted were dropped, because there was no room for them."""
        return self._dropped

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the client whose request is being served; see `logging.Handler.emit`."""
        serving = _serving.get()
        if serving is None or f"{record.name}.".startswith("trio_mcp."):
            return
        context, run = serving
        level = _level_of(record)
        # The caller holds the handler's lock, so only this thread can enter again, by logging in what follows.
        if self._is_emitting or not context.wants_log(level):
            return
        self._is_emitting = True
        try:
            data = self._data(record)
            if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run:
                self._post(context, level, data, record.name)
            else:
                self._hand_over(serving, level, data, record.name)
        except Exception:
            self.handleError(record)
        finally:
            self._is_emitting = False

    def _data(self, record: logging.LogRecord) -> object:
        text = record.getMessage() if self.formatter is None else self.format(record)
        text = text.encode("utf-8", "backslashreplace").decode()  # names of files have halves of surrogate pairs
        extra = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        return {"message": text} | {name: _plain(value) for name, value in extra.items()} if extra else text

    def _post(self, context: Context[Any], level: LoggingLevel, data: object, logger: str) -> None:
        try:
            context.log_nowait(level, data, logger=logger)
        except (trio.WouldBlock, LocalProtocolError, ConnectionLost, trio.ClosedResourceError):
            self._count(dropped=1)

    def _hand_over(self, serving: _Serving, level: LoggingLevel, data: object, logger: str) -> None:
        """Give a record to Trio's thread. It arrives before anything this thread does with Trio afterwards."""
        if not self._take_place():
            return
        try:
            context, run = serving
            run.run_sync_soon(self._take_over, context, level, data, logger)
        except trio.RunFinishedError:
            self._count(waiting=-1, dropped=1)

    def _take_place(self) -> bool:
        with self._count_lock:
            has_place = self._waiting < self._max_waiting
            self._waiting += has_place
            self._dropped += not has_place
        return has_place

    def _take_over(self, context: Context[Any], level: LoggingLevel, data: object, logger: str) -> None:
        self._count(waiting=-1)
        self._post(context, level, data, logger)

    def _count(self, *, waiting: int = 0, dropped: int = 0) -> None:
        with self._count_lock:
            self._waiting += waiting
            self._dropped += dropped


def _level_of(record: logging.LogRecord) -> LoggingLevel:
    for threshold, level in _THRESHOLDS:
        if record.levelno >= threshold:
            return level
    return "debug"


def _plain(value: object) -> object:
    """Return the value if JSON has it, else its `repr`."""
    try:
        _json.encode(value)
    except Exception:
        # An object of the user's may raise anything when it is read; a log message is not worth a failure.
        return repr(value)
    return value


_log: Final = Log("trio_mcp.server")

_connections: Final = count(1)

_NO_RESULTS: Final = (list, tuple, str, int, float, types.Tool, types.Resource, types.Prompt, type(None))
"""What handlers of methods return by mistake: the part that they made, or nothing."""

_RESULTS: Final = {
    "tools/list": "ListToolsResult(tools=...)",
    "tools/call": "CallToolResult(content=...)",
    "resources/list": "ListResourcesResult(resources=...)",
    "resources/templates/list": "ListResourceTemplatesResult(resource_templates=...)",
    "resources/read": "ReadResourceResult(contents=...)",
    "prompts/list": "ListPromptsResult(prompts=...)",
    "prompts/get": "GetPromptResult(messages=...)",
}
"""What they should return."""


@final
@attrs.define(eq=False, weakref_slot=False)
class Responder:
    """Serves the requests of one connection with the server's handlers, and writes the results.

    Args:
        application: The server.
        parking: Holds handlers that wait for their clients' answers between two requests.
        surroundings: What the handlers have in common.
    """

    _application: Application
    _parking: Parking
    _surroundings: Surroundings[Any]
    _run: trio.lowlevel.TrioToken = attrs.field(init=False, factory=trio.lowlevel.current_trio_token)
    _throttle: Throttle | None = attrs.field(
        init=False, default=attrs.Factory(attrgetter("_application.throttle"), takes_self=True)
    )
    _signatures: dict[Revision, dict[str, Any]] | None = attrs.field(init=False, default=None)  # most have none

    def by(self, handler: MethodHandler, agreement: Agreement) -> Handler:
        """Return a function that serves an exchange with a handler."""
        throttle = self._throttle

        async def serve(exchange: Exchange) -> Answer:
            context = Context(agreement, exchange, self._surroundings)
            if throttle is not None:
                pass_throttle(throttle, context)
            _serving.set((context, self._run))  # for this task, and every task and thread that it starts
            params = exchange.request.params or {}
            is_modern = agreement.revision.is_modern
            try:
                if "inputResponses" in params:
                    refuse_many(params, "inputResponses")
                asking = self._asking(exchange.request.method, params, agreement) if is_modern else None
                if asking is not None:
                    result = await self._serve_parkable(handler, exchange, context, asking)
                elif "task" in params and self._becomes_task(context):
                    run = self._application.legacy_tasks.run(self._parking, context, partial(handler, params))
                    result = await run.serve(context)
                else:
                    result = await handler(params, context)
                if isinstance(result, InputRequired):
                    if is_modern:
                        result = self._input_required(result, exchange, agreement)
                    else:
                        result = await self._asked_in_session(result, handler, exchange, agreement, context)
            except URLElicitationRequired as error:
                await trio.lowlevel.checkpoint()
                result = result_for(error, features_of(agreement), context.method)
            except RequestError as error:
                if error.question is None:
                    if isinstance(error, StateRefused):
                        audit_refusal(exchange.request, exchange.origin, error, exchange.sink.transport)
                    raise
                # Its code is about the question, and would mean something else for this request.
                problem = f"the client refused {error.question}: {error.message}"
                raise RequestError(INTERNAL_ERROR, problem) from error
            except (RemoteProtocolError, ConnectionLost) as error:
                if not failed_by_client(error):
                    raise
                raise RequestError(INTERNAL_ERROR, str(error)) from error
            if result.__class__ is dict and not is_modern:
                return cast("dict[str, Any]", result)
            if isinstance(result, ExtensionResult):
                result = self._application.extensions.plain(result, agreement)
            try:
                return self.written(result, agreement.revision)
            except TypeError:
                method, returned = exchange.request.method, kind_shown(result)
                if not isinstance(result, _NO_RESULTS):
                    raise
                wanted = _RESULTS.get(method, "an object of trio_mcp.types")
                raise TypeError(
                    f"the handler of {method} returned {returned}; return {wanted} or plain JSON"
                ) from None

        return serve

    async def _serve_parkable(
        self, handler: MethodHandler, exchange: Exchange, context: Context[Any], asking: Asking
    ) -> object:
        params = exchange.request.params or {}
        brings = "inputResponses" in params or "requestState" in params
        return await self._parking.serve(
            exchange,
            context,
            lambda context: handler(params, context),
            (read_params(params, types.InputResponseRequestParams).input_responses or {}) if brings else {},
            client=client_key_of(exchange.origin, self._surroundings.client),
            asking=asking,
        )

    def _becomes_task(self, context: Context[Any]) -> bool:
        """Whether a request is a call that its client wants to be a task, in 2025-11-25."""
        application, params = self._application, exchange_of(context).request.params or {}
        return (
            context.revision is TASKS_REVISION
            and context.method == "tools/call"
            and params.get("task") is not None
            and "tools/call" not in application.custom
            and application.tools.can_be_task(params.get("name"))
        )

    def _asking(self, method: str, params: Mapping[str, Any], agreement: Agreement) -> Asking | None:
        """Return what happens to the handler of a request when it asks; `None` if it cannot ask."""
        if method not in INPUT_METHODS:
            return None
        is_retry = "requestState" in params or "inputResponses" in params
        if not is_retry and not agreement.client_capabilities:
            return None  # a client that has declared nothing cannot be asked
        asking = self._application.asking(method, params)
        return asking if is_retry or asking is not Asking.NEVER else None

    def _input_required(
        self, required: InputRequired, exchange: Exchange, agreement: Agreement
    ) -> types.InputRequiredResult:
        if exchange.request.method not in INPUT_METHODS:
            can = ", ".join(sorted(INPUT_METHODS))
            raise TypeError(
                f"the handler of {exchange.request.method} cannot return InputRequired; only {can} can"
            )
        client = features_of(agreement)
        for question in required.requests.values():
            require_for(client, input_request(question).params)
        return self._parking.input_required(required, exchange)

    async def _asked_in_session(
        self,
        result: object,
        handler: MethodHandler,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
    ) -> object:
        """Ask the questions of an `InputRequired` within the request, and call the handler again."""
        rounds = 0
        while isinstance(result, InputRequired):
            rounds += 1
            limit = self._application.limits.max_input_rounds
            if rounds > limit:
                problem = f"{exchange.request.method} asked for input more than {limit} times (max_input_rounds)"
                raise RequestError(INTERNAL_ERROR, problem)
            answers, state = await ask_in_session(result, exchange, agreement)
            context._resume(None, answers, state)
            result = await handler(exchange.request.params or {}, context)
        return result

    def can_list_tasks(self, origin: Origin | None) -> bool:
        """Whether a client can list its tasks; see `Tasks.can_list`."""
        found: bool = self._surroundings.get_tasks().can_list(origin, self._surroundings)
        return found

    def written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision."""
        if isinstance(result, Kept):
            if result.written is None:
                result.written = Encoded(_json.encode_answer(self.plain(result.result, revision)))
            return result.written
        return result if isinstance(result, Encoded) else self.plain(result, revision)

    def plain(self, result: Any, revision: Revision) -> dict[str, Any]:
        """Write a result as plain JSON; a modern one gets the server's name and version."""
        written: dict[str, Any]
        if result.__class__ is dict:
            written = result.copy()
        elif attrs.has(result.__class__) or not isinstance(result, Mapping):
            written = to_wire(result, revision)
        else:
            written = dict(cast("Mapping[str, Any]", result))
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            if meta.__class__ is dict:
                written["_meta"] = {**self._signature(revision), **meta}
            else:
                written["_meta"] = self._signature(revision)
        return written

    def _signature(self, revision: Revision) -> dict[str, Any]:
        """Return the members of a modern result's `_meta` that identify the server."""
        if self._signatures is None:
            self._signatures = {}
        signature = self._signatures.get(revision)
        if signature is None:
            signature = {SERVER_INFO_KEY: to_wire(self._application.info, revision)}
            self._signatures[revision] = signature
        return signature


def check_listener(params: Mapping[str, Any], agreement: Agreement) -> None:
    """Refuse to tell a client of tasks that has not declared that it knows any.

    Raises:
        RequestError: It wants to be told of some (ext-tasks, "Task Status Notifications").
    """
    wanted: Any = params.get("notifications")
    if is_object(wanted) and wanted.get("taskIds") is not None:
        require_declared(TASKS, agreement.client_capabilities, is_modern=True)


MAX_CLIENT_INFO_BYTES: Final = 64 * KIB
"""How large the capabilities and ``clientInfo`` of a legacy client may be, as JSON: they stay as it does."""


def check_client_info(params: Mapping[str, Any]) -> None:
    """Refuse a handshake that would take too much memory for as long as the connection lasts.

    Raises:
        RequestError: It would.
    """
    size = len(_json.encode([params.get("capabilities"), params.get("clientInfo")]))
    if size > MAX_CLIENT_INFO_BYTES:
        raise RequestError(
            INVALID_PARAMS,
            f"params: capabilities and clientInfo are {size} bytes; {MAX_CLIENT_INFO_BYTES} are allowed",
        )


class Session:
    """What every session does, whoever serves its requests: a server itself, or the one behind a proxy.

    Args:
        lifecycle: What the client and this side have agreed on.
        parking: The handlers that wait for the client's next request.
    """

    answers_unreadable = True
    answers_malformed = True

    def __init__(self, lifecycle: ServerLifecycle, parking: Parking) -> None:
        self._lifecycle = lifecycle
        self._parking = parking

    @property
    def revision(self) -> Revision | None:
        """The revision that the handshake agreed on; `None` without one."""
        session = self._lifecycle.session
        return None if session is None else session.revision

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        return self.revision is BATCH_REVISION

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the parked handler that a request would resume; see `Dispatcher`."""
        return self._parking.parked_canceller(request, origin)

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that may be merged; see `Dispatcher.notification_key`."""
        return notification.method if notification.method == "notifications/roots/list_changed" else None


@final
class ServerSession(Session):
    """Dispatches the messages of one client of a server.

    Args:
        application: The server.
        service: The running server this connection belongs to.
        background: Starts tasks that last as long as the connection.
        assumed: The agreement for requests of the legacy era without a handshake.
        client: The client that memory is lent to; by default the connection counts as a client by itself.
        keep: Called with how many bytes the session's subscriptions take; see `SubscriptionLoans`.

    Attributes:
        subscriptions: The changes that the client is notified of.
    """

    def __init__(
        self,
        application: Application,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        client: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> None:
        lifecycle = ServerLifecycle(application.revisions, assumed, application.extensions.refused)
        super().__init__(lifecycle, service.parking)
        self._application = application
        self._state = service.state
        client = f"connection {next(_connections)}" if client is None else client
        surroundings = Surroundings(
            service.state,
            client,
            application.find_tool,
            background,
            service.background,
            service.tasks_for_all,
            {} if assumed is None else None,
        )
        self._roots = surroundings.roots
        self._responder = Responder(application, service.parking, surroundings)
        self.subscriptions: Final[Subscriptions] = Subscriptions(
            application.changes,
            application.capabilities,
            application.limits,
            background,
            self._responder.written,
            SubscriptionLoans(service.account.bytes, client, keep),
            service.tasks_for_all,
        )

    def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AbstractAsyncContextManager[Peer]:
        """Open the connection that it dispatches, and notify its client of changes; see `Subscriptions`."""
        return self.subscriptions.connected(opening)

    # Requests.

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | AtOnce | Answer | None:
        """Decide how a request is served; see `Dispatcher.route`."""
        agreement = self._lifecycle.agree(request)
        if request.method in WITHOUT_HANDLER:
            answer = self._answer_without_handler(request, agreement, origin)
            if answer is not None:
                return answer
        handler = self._application.handler_for(request.method, agreement.revision)
        if handler is not None:
            return self._responder.by(handler, agreement)
        self._check_permits(request, origin)
        if request.method == "subscriptions/listen":
            check_listener(request.params or {}, agreement)
        decision = self.subscriptions.route(request, agreement.revision)
        if decision is None:
            raise RequestError(METHOD_NOT_FOUND, f"this server has no method {request.method}")
        if not isinstance(decision, AtOnce):
            return decision
        act = decision.serve

        def serve(asked: Request) -> Answer:
            if asked.params != request.params:  # middleware has made it one about another resource
                self._check_permits(asked, origin)
            return act(asked)

        return AtOnce(serve)

    def _check_permits(self, request: Request, origin: Origin | None) -> None:
        permits = self._application.permits(request.method, request.params or {})
        if not all(permit.allows(origin) for permit in permits):
            raise RequestError(INVALID_REQUEST, "this client may not subscribe to the resource")

    def take_back(self, request: Request) -> None:
        """Undo a request that was answered without a handler; see `Dispatcher.take_back`."""
        if request.method == "initialize":
            self._lifecycle.forget()

    # Notifications.

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Handle a notification of the client; see `Dispatcher.notified`."""
        agreement = self._lifecycle.agree_on_notification(notification)
        if agreement is not None and notification.method == "notifications/initialized":
            self.subscriptions.initialized()
        if notification.method == "notifications/roots/list_changed":
            self._roots.forget()
        method, find = notification.method, self._application.notification_handler_for
        handler = None if agreement is None else find(method, agreement.revision)
        if agreement is None or handler is None:
            _log.debug("ignored a notification %.200r", method)
            await trio.lowlevel.checkpoint()
        else:
            context = NotificationContext(agreement, notification, origin, self._state)
            await handler(notification.params or {}, context)

    # Requests that are answered without a handler.

    def _answer_without_handler(
        self, request: Request, agreement: Agreement, origin: Origin | None
    ) -> Answer | AtOnce | None:
        match request.method:
            case "initialize":
                return self._initialize(request, origin)
            case "ping":
                return {}
            case "server/discover":
                return self._discover(agreement)
            case "logging/setLevel":
                return AtOnce(self._set_log_level)
            case _:
                return None

    def _set_log_level(self, request: Request) -> Answer:
        asked = read_params(request.params or {}, types.SetLevelRequestParams)
        self._lifecycle.set_log_level(asked.level)
        return {}

    def _initialize(self, request: Request, origin: Origin | None) -> Answer:
        read_params(request.params or {}, types.InitializeRequestParams)
        check_client_info(request.params or {})
        revision = self._lifecycle.initialize(request).revision
        application = self._application
        capabilities = application.capabilities(revision)
        legacy = None if "tools/call" in application.custom else application.legacy_tasks
        if revision is TASKS_REVISION and legacy is not None:
            tasks = legacy.declared(can_list=self._responder.can_list_tasks(origin))
            capabilities = types.evolve(capabilities, tasks=tasks)
        self.subscriptions.declared(capabilities)
        result = types.InitializeResult(
            protocol_version=revision,
            capabilities=capabilities,
            server_info=application.info,
            instructions=application.instructions,
        )
        return to_wire(result, revision)

    def _discover(self, agreement: Agreement) -> Answer:
        hint = self._application.listing.hint_for("server/discover")
        result = types.DiscoverResult(
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(agreement.revision),
            instructions=self._application.instructions,
        )
        return self._responder.plain(result, agreement.revision)
