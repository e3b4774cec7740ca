"""One connection of a server: what era a request is of, and who serves it.

How a handler serves a request, in either era, and how what it returns is written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any, Final, Literal, cast, final

import trio

from .. import types
from .._channel import Origin, holder_of
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request
from .._core._lifecycle import Agreement, ServerLifecycle
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RemoteProtocolError, RequestError
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler, Standing
from .._revisions import BATCH_REVISION, INPUT_METHODS, SERVER_INFO_KEY, Revision
from ._application import Application, MethodHandler
from ._asking import Abilities, is_answered_wrongly, read_said
from ._changes import SubscriptionLoans, Subscriptions
from ._context import Context, NotificationContext, Surroundings
from ._elicitation import URLElicitationRequired, result_for
from ._input_required import Asking, ExtensionResult, InputRequired, answer_in_session, input_request, require_for
from ._lifetimes import Background
from ._listing import Kept, read_params, refuse_many
from ._log_handler import enter_request
from ._parking import Parking, Service


@final
class Answering:
    """Serves the requests of one connection with the server's handlers.

    Args:
        application: The server.
        parking: Handlers that wait for their clients between two requests.
        surroundings: Where handlers run.
        holder: In whose name what they keep is lent, where their requests do not say.
    """

    def __init__(
        self, application: Application, parking: Parking, surroundings: Surroundings[Any], holder: str
    ) -> None:
        self._application = application
        self._holder = holder
        self._parking = parking
        self._surroundings = surroundings
        self._run = trio.lowlevel.current_trio_token()
        self._signatures: dict[Revision, dict[str, Any]] = {}

    def by(self, handler: MethodHandler, agreement: Agreement) -> Handler:
        """Return what serves an exchange with a handler."""

        async def serve(exchange: Exchange) -> Answer:
            context = Context(exchange, agreement, self._surroundings)
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
                    result = await self._serve_who_may_ask(handler, exchange, agreement, context, asking)
                if isinstance(result, InputRequired):
                    if is_modern:
                        result = self._left_to_client(result, exchange, agreement)
                    else:
                        result = await self._asked_at_once(result, handler, exchange, agreement, context)
            except URLElicitationRequired as error:
                await trio.lowlevel.checkpoint()
                result = result_for(error, _abilities(agreement), context.method)
            except RequestError as error:
                if error.question is None:
                    raise
                # Its code is about the question, and would say something else about this request.
                problem = f"the client refused {error.question}: {error.message}"
                raise RequestError(INTERNAL_ERROR, problem) from error
            except RemoteProtocolError as error:
                if not is_answered_wrongly(error):
                    raise
                raise RequestError(INTERNAL_ERROR, str(error)) from error
            if result.__class__ is dict and not is_modern:
                return cast("dict[str, Any]", result)
            if isinstance(result, ExtensionResult):
                result = self._application.extension_result(result, agreement)
            return self.written(result, agreement.revision)

        return serve

    async def _serve_who_may_ask(
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
            holder=holder_of(exchange.origin, self._holder),
            replay=asking is Asking.REPLAY,
        )

    def _asking(self, method: str, params: Mapping[str, Any], agreement: Agreement) -> Asking | None:
        """Return what becomes of the handler of a request when it asks; `None` if that cannot happen."""
        if method not in INPUT_METHODS:
            return None
        is_again = "requestState" in params or "inputResponses" in params
        if not is_again and not agreement.client_capabilities:
            return None  # a client of which nothing can be asked
        asking = self._application.asking(method, params)
        return asking if is_again or asking is not Asking.NEVER else None

    def _left_to_client(
        self, required: InputRequired, exchange: Exchange, agreement: Agreement
    ) -> types.InputRequiredResult:
        if exchange.request.method not in INPUT_METHODS:
            raise TypeError(f"{exchange.request.method} cannot ask for input")
        for question in required.requests.values():
            require_for(_abilities(agreement), input_request(question).params)
        return self._parking.by_hand(required, exchange)

    async def _asked_at_once(
        self,
        result: object,
        handler: MethodHandler,
        exchange: Exchange,
        agreement: Agreement,
        context: Context[Any],
    ) -> object:
        """What a handler leaves to its client to bring again is asked here and now, in the legacy era."""
        rounds = 0
        while isinstance(result, InputRequired):
            rounds += 1
            limit = self._application.limits.max_input_rounds
            if rounds > limit:
                problem = f"{exchange.request.method} asked for input more than {limit} times (max_input_rounds)"
                raise RequestError(INTERNAL_ERROR, problem)
            context.resume(None, *await answer_in_session(result, exchange, agreement))
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
        """Write a result as plain JSON; a modern one says who has made it."""
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
        """Return what a modern result says of who has made it."""
        signature = self._signatures.get(revision)
        if signature is None:
            signature = {SERVER_INFO_KEY: to_wire(self._application.info, revision)}
            self._signatures[revision] = signature
        return signature


def _abilities(agreement: Agreement) -> Abilities:
    return Abilities(agreement.revision, read_said(agreement.client_capabilities, types.ClientCapabilities))


_log: Final = Log("trio_mcp.server")


_connections: Final = count(1)


@final
class ServerSession:
    """Dispatches what one client sends.

    Args:
        application: The server.
        service: The run of the server this is part of.
        background: Starts tasks that last as long as the connection.
        assumed: What holds for requests of the legacy era without a handshake.
        holder: In whose name what it keeps is lent; by default the connection is a client by itself.
        keep: Told how much is kept of what a session has subscribed to; see `SubscriptionLoans`.

    Attributes:
        subscriptions: What the client is told of changes.
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
        self._service = service
        self._background = background
        self._lifecycle = ServerLifecycle(application.revisions, assumed)
        holder = f"connection {next(_connections)}" if holder is None else holder
        self._holder = holder
        self._answering = Answering(application, service.parking, self, holder)
        self.subscriptions = Subscriptions(
            application.changes,
            application.capabilities,
            application.limits,
            background,
            self._answering.written,
            SubscriptionLoans(service.account.bytes, holder, keep),
        )

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        session = self._lifecycle.session
        return session is not None and session.revision is BATCH_REVISION

    # Where handlers run; see `Surroundings`.

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded."""
        return self._service.state

    @property
    def holder(self) -> str:
        """In whose name something is kept, where a request does not say."""
        return self._holder

    def find_tool(self, name: str) -> types.Tool:
        """Return one of the server's tools."""
        return self._application.find_tool(name)

    def background(self, until: Literal["session", "server"]) -> Background:
        """Return what starts tasks that last so long."""
        return self._background if until == "session" else self._service.background

    # Requests.

    def route(self, request: Request, origin: Origin | None) -> Handler | Standing | Answer | None:
        """Decide who serves a request; see `Dispatcher.route`."""
        del origin
        agreement = self._lifecycle.agree(request)
        answer = self._answer_on_the_spot(request, agreement)
        if answer is not None:
            return answer
        handler = self._application.handler_for(request.method)
        if handler is not None:
            return self._answering.by(handler, agreement)
        decision = self.subscriptions.route(request, agreement.revision)
        if decision is None:
            raise RequestError(METHOD_NOT_FOUND, f"this server has no method {request.method}")
        return decision

    def take_back(self, request: Request) -> None:
        """Forget what was answered on the spot; see `Dispatcher.take_back`."""
        if request.method == "initialize":
            self._lifecycle.forget()

    def companion_of(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Find the parked handler that a request would wake up; see `Dispatcher.companion_of`."""
        if request.params is None or "requestState" not in request.params:
            return None
        return self._service.parking.companion_of(request, origin)

    # Notifications.

    def notice_key(self, notification: Notification) -> Hashable | None:
        """Tell which notifications say the same; see `Dispatcher.notice_key`."""
        return notification.method if notification.method == "notifications/roots/list_changed" else None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Take a notification of the client; see `Dispatcher.notified`."""
        agreement = self._lifecycle.agree_on_notification(notification)
        if agreement is not None and notification.method == "notifications/initialized":
            self.subscriptions.initialized()
        handler = self._application.notification_handler_for(notification.method)
        if agreement is None or handler is None:
            _log.debug("ignored a notification %.200r", notification.method)
            await trio.lowlevel.checkpoint()
        else:
            context = NotificationContext(notification, origin, agreement, self.state)
            await handler(notification.params or {}, context)

    # What is answered on the spot.

    def _answer_on_the_spot(self, request: Request, agreement: Agreement) -> Answer | None:
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
        self._check_what_is_kept(request.params or {})
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

    def _check_what_is_kept(self, params: Mapping[str, Any]) -> None:
        """Refuse what would weigh on memory as long as the connection is there."""
        limit = self._application.limits.max_client_info_bytes
        size = len(_json.encode([params.get("capabilities"), params.get("clientInfo")]))
        if size > limit:
            raise RequestError(
                INVALID_PARAMS,
                f"params: capabilities and clientInfo are {size} bytes; max_client_info_bytes is {limit}",
            )

    def _discover(self, agreement: Agreement) -> Answer:
        hint = self._application.cache_hint("server/discover")
        result = types.DiscoverResult(
            ttl_ms=hint.ttl_ms,
            cache_scope=hint.scope,
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(),
            instructions=self._application.instructions,
        )
        return self._answering.plain(result, agreement.revision)

    def _set_log_level(self, request: Request) -> None:
        self._lifecycle.set_log_level(read_params(request.params or {}, types.SetLevelRequestParams).level)
