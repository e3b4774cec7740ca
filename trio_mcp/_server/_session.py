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
from itertools import count
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from .. import types
from .._channel import Origin, holder_of
from .._codec import _json
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request, to_wire
from .._core._lifecycle import Agreement, ServerLifecycle
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
from .._limits import Limits, check_whole
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler, LongLived
from .._peer._peer import Peer
from .._revisions import BATCH_REVISION, INPUT_METHODS, SERVER_INFO_KEY, Revision
from ..types import LoggingLevel
from ._application import Application
from ._asking import features_of, is_unusable_answer
from ._changes import SubscriptionLoans, Subscriptions
from ._context import Context, NotificationContext, Surroundings, holder_of_request
from ._elicitation import URLElicitationRequired, result_for
from ._functions import MethodHandler
from ._input_required import Asking, ExtensionResult, InputRequired, ask_in_session, input_request, require_for
from ._lifetimes import Background
from ._listing import Kept, read_params, refuse_many
from ._parking import Parking, Service

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


def enter_request(context: Context[Any], run: trio.lowlevel.TrioToken) -> None:
    """Note that the current task, and every task and thread it starts, serves this request in this run."""
    _serving.set((context, run))


def current_holder() -> tuple[str, bool]:
    """Return the client that the current task works for, and whether the server may have several.

    Tasks that serve no request count as one client, the only one.
    """
    serving = _serving.get()
    return ("", False) if serving is None else holder_of_request(serving[0])


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
        if serving is None or _is_of_library(record.name):
            return
        context, run = serving
        level = _level_of(record)
        # The caller holds the handler's lock, so only this thread can enter again, by logging in what follows.
        if self._is_emitting or not context.wants_log(level):
            return
        self._is_emitting = True
        try:
            data = self._data(record)
            if _is_current(run):
                self._post(context, level, data, record.name)
            else:
                self._hand_over(serving, level, data, record.name)
        except Exception:
            self.handleError(record)
        finally:
            self._is_emitting = False

    def _data(self, record: logging.LogRecord) -> object:
        text = record.getMessage() if self.formatter is None else self.format(record)
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


def _is_of_library(name: str) -> bool:
    return name == "trio_mcp" or name.startswith("trio_mcp.")


def _is_current(run: trio.lowlevel.TrioToken) -> bool:
    return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is run


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
    _signatures: dict[Revision, dict[str, Any]] = attrs.field(init=False, factory=dict[Revision, dict[str, Any]])

    def by(self, handler: MethodHandler, agreement: Agreement) -> Handler:
        """Return a function that serves an exchange with a handler."""

        async def serve(exchange: Exchange) -> Answer:
            context = Context(agreement, exchange, self._surroundings)
            enter_request(context, self._run)
            params = exchange.request.params or {}
            is_modern = agreement.revision.is_modern
            try:
                if "inputResponses" in params:
                    refuse_many(params, "inputResponses")
                asking = self._asking(exchange.request.method, params, agreement) if is_modern else None
                if asking is None:
                    result = await handler(params, context)
                else:
                    result = await self._serve_parkable(handler, exchange, agreement, context, asking)
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
                    raise
                # Its code is about the question, and would mean something else for this request.
                problem = f"the client refused {error.question}: {error.message}"
                raise RequestError(INTERNAL_ERROR, problem) from error
            except RemoteProtocolError as error:
                if not is_unusable_answer(error):
                    raise
                raise RequestError(INTERNAL_ERROR, str(error)) from error
            if result.__class__ is dict and not is_modern:
                return cast("dict[str, Any]", result)
            if isinstance(result, ExtensionResult):
                result = self._application.extension_result(result, agreement)
            return self.written(result, agreement.revision)

        return serve

    async def _serve_parkable(
        self,
        handler: MethodHandler,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
        asking: Asking,
    ) -> object:
        params = exchange.request.params or {}
        return await self._parking.serve(
            exchange,
            agreement,
            context,
            lambda context: handler(params, context),
            read_params(params, types.InputResponseRequestParams).input_responses or {},
            holder=holder_of(exchange.origin, self._surroundings.holder),
            replay=asking is Asking.REPLAY,
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
            context.resume(None, *await ask_in_session(result, exchange, agreement))
            result = await handler(exchange.request.params or {}, context)
        return result  # noqa: ASYNC910 - not public

    def written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision."""
        if isinstance(result, Kept):
            if result.written is None:
                result.written = Encoded(_json.encode(self.plain(result.result, revision)))
            return result.written
        return result if isinstance(result, Encoded) else self.plain(result, revision)

    def plain(self, result: object, revision: Revision) -> dict[str, Any]:
        """Write a result as plain JSON; a modern one gets the server's name and version."""
        if result.__class__ is dict or isinstance(result, Mapping):
            written = dict(cast("Mapping[str, Any]", result))
        else:
            written = to_wire(result, revision)
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            if is_object(meta):
                written["_meta"] = {**self._signature(revision), **meta}
            else:
                written["_meta"] = self._signature(revision)
        return written

    def _signature(self, revision: Revision) -> dict[str, Any]:
        """Return the members of a modern result's `_meta` that identify the server."""
        signature = self._signatures.get(revision)
        if signature is None:
            signature = {SERVER_INFO_KEY: to_wire(self._application.info, revision)}
            self._signatures[revision] = signature
        return signature


def check_client_info(params: Mapping[str, Any], limits: Limits) -> None:
    """Refuse a handshake that would take too much memory for as long as the connection lasts.

    Raises:
        RequestError: It would.
    """
    size = len(_json.encode([params.get("capabilities"), params.get("clientInfo")]))
    if size > limits.max_client_info_bytes:
        raise RequestError(
            INVALID_PARAMS,
            f"params: capabilities and clientInfo are {size} bytes; "
            f"max_client_info_bytes is {limits.max_client_info_bytes}",
        )


@final
class ServerSession:
    """Dispatches the messages of one client.

    Args:
        application: The server.
        service: The running server this connection belongs to.
        background: Starts tasks that last as long as the connection.
        assumed: The agreement for requests of the legacy era without a handshake.
        holder: The client that memory is lent to; by default the connection counts as a client by itself.
        keep: Called with how many bytes the session's subscriptions take; see `SubscriptionLoans`.

    Attributes:
        subscriptions: The changes that the client is notified of.
    """

    answers_unreadable = True
    answers_malformed = True

    def __init__(
        self,
        application: Application,
        service: Service[Any],
        background: Background,
        assumed: Agreement | None = None,
        *,
        holder: str | None = None,
        keep: Callable[[int], object] | None = None,
    ) -> None:
        self._application = application
        self._parking = service.parking
        self._state = service.state
        self._lifecycle = ServerLifecycle(application.revisions, assumed)
        holder = f"connection {next(_connections)}" if holder is None else holder
        surroundings = Surroundings(service.state, holder, application.find_tool, background, service.background)
        self._responder = Responder(application, service.parking, surroundings)
        self.subscriptions: Final[Subscriptions] = Subscriptions(
            application.changes,
            application.capabilities,
            application.limits,
            background,
            self._responder.written,
            SubscriptionLoans(service.account.bytes, holder, keep),
        )

    def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AbstractAsyncContextManager[Peer]:
        """Open the connection that it dispatches, and notify its client of changes; see `Subscriptions`."""
        return self.subscriptions.connected(opening)

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        session = self._lifecycle.session
        return session is not None and session.revision is BATCH_REVISION

    # Requests.

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | Answer | None:
        """Decide how a request is served; see `Dispatcher.route`."""
        agreement = self._lifecycle.agree(request)
        answer = self._answer_without_handler(request, agreement)
        if answer is not None:
            return answer
        handler = self._application.handler_for(request.method)
        if handler is not None:
            return self._responder.by(handler, agreement)
        if not all(
            permit.allows(origin) for permit in self._application.permits(request.method, request.params or {})
        ):
            raise RequestError(INVALID_REQUEST, "this client may not subscribe to the resource")
        decision = self.subscriptions.route(request, agreement.revision)
        if decision is None:
            raise RequestError(METHOD_NOT_FOUND, f"this server has no method {request.method}")
        return decision

    def take_back(self, request: Request) -> None:
        """Undo a request that was answered without a handler; see `Dispatcher.take_back`."""
        if request.method == "initialize":
            self._lifecycle.forget()

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the parked handler that a request would resume; see `Dispatcher`."""
        if request.params is None or "requestState" not in request.params:
            return None
        return self._parking.parked_canceller(request, origin)

    # Notifications.

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that may be merged; see `Dispatcher.notification_key`."""
        return notification.method if notification.method == "notifications/roots/list_changed" else None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Handle a notification of the client; see `Dispatcher.notified`."""
        agreement = self._lifecycle.agree_on_notification(notification)
        if agreement is not None and notification.method == "notifications/initialized":
            self.subscriptions.initialized()
        handler = self._application.notification_handler_for(notification.method)
        if agreement is None or handler is None:
            _log.debug("ignored a notification %.200r", notification.method)
            await trio.lowlevel.checkpoint()
        else:
            context = NotificationContext(agreement, notification, origin, self._state)
            await handler(notification.params or {}, context)

    # Requests that are answered without a handler.

    def _answer_without_handler(self, request: Request, agreement: Agreement) -> Answer | None:
        match request.method:
            case "initialize":
                return self._initialize(request)
            case "ping":
                return {}
            case "server/discover":
                return self._discover(agreement)
            case "logging/setLevel":
                self._set_log_level(request)
                return {}
            case _:
                return None

    def _initialize(self, request: Request) -> Answer:
        read_params(request.params or {}, types.InitializeRequestParams)
        check_client_info(request.params or {}, self._application.limits)
        revision = self._lifecycle.initialize(request).revision
        application = self._application
        capabilities = application.capabilities()
        self.subscriptions.declared(capabilities)
        result = types.InitializeResult(
            protocol_version=revision,
            capabilities=capabilities,
            server_info=application.info,
            instructions=application.instructions,
        )
        return to_wire(result, revision)

    def _discover(self, agreement: Agreement) -> Answer:
        hint = self._application.cache_hint("server/discover")
        result = types.DiscoverResult(
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(),
            instructions=self._application.instructions,
        )
        return self._responder.plain(result, agreement.revision)

    def _set_log_level(self, request: Request) -> None:
        self._lifecycle.set_log_level(read_params(request.params or {}, types.SetLevelRequestParams).level)
