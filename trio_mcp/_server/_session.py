"""One connection of a server: what era a request is of, who serves it, and how its result is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn, Protocol, TypeAlias, TypeVar, cast, final

import trio

from .._channel import Origin
from .._codec import _json
from .._codec._convert import from_wire, to_wire
from .._codec._invalid import InvalidData
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request
from .._core._lifecycle import Agreement, ServerLifecycle
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from .._limits import Limits
from .._peer._exchange import Answer, Exchange, Handler
from .._peer._middleware import Message, Middleware, compose
from .._revisions import BATCH_REVISION, SERVER_INFO_KEY, Revision
from ..types import (
    ClientCapabilities,
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    InputRequiredResult,
    InputResponseRequestParams,
    ServerCapabilities,
    SetLevelRequestParams,
    Tool,
)
from ._asking import Abilities, read_said
from ._background import Background
from ._context import Context
from ._elicitation import URLElicitationRequired, result_for
from ._input_required import Asking, InputRequired, answer_in_session, input_request
from ._requirements import require_for
from ._service import Service

__all__ = ["INPUT_METHODS", "Application", "MethodHandler", "ServerSession", "read_params"]

INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The requests whose handlers may ask for input (2026-07-28, basic/patterns/mrtr, "Supported Requests")."""

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""


_T = TypeVar("_T")


class Application(Protocol):
    """What a session asks of the server it belongs to."""

    @property
    def info(self) -> Implementation:
        """What the server is."""
        ...

    @property
    def instructions(self) -> str | None:
        """How a model should use it."""
        ...

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions it speaks."""
        ...

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        ...

    def capabilities(self) -> ServerCapabilities:
        """Return what it can do."""
        ...

    @property
    def middleware(self) -> Sequence[Middleware]:
        """What every message of the client passes, outermost first."""
        ...

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method."""
        ...

    def asking(self, method: str, params: Mapping[str, Any]) -> Asking:
        """Return whether the handler of a request may ask the client, and what becomes of it then."""
        ...

    def find_tool(self, name: str) -> Tool:
        """Return one of its tools."""
        ...


@final
class ServerSession:
    """Dispatches what one client sends.

    Args:
        application: The server.
        service: The run of the server this is part of.
        background: Starts tasks that last as long as the connection.
    """

    answers_unreadable = True

    def __init__(self, application: Application, service: Service[Any], background: Background) -> None:
        self._application = application
        self._service = service
        self._background = background
        self._lifecycle = ServerLifecycle(application.revisions)
        self._on_the_spot: Final[Mapping[str, Callable[[Request, Agreement], Mapping[str, Any]]]] = {
            "initialize": self._initialize,
            "ping": _pong,
            "server/discover": self._discover,
            "logging/setLevel": self._set_log_level,
        }

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        session = self._lifecycle.session
        return session is not None and session.revision is BATCH_REVISION

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; see `Surroundings`."""
        return self._service.state

    def find_tool(self, name: str) -> Tool:
        """Return one of the server's tools; see `Surroundings`."""
        return self._application.find_tool(name)

    def background(self, until: Literal["session", "server"]) -> Background:
        """Return what starts tasks that last so long; see `Surroundings`."""
        return self._background if until == "session" else self._service.background

    def route(self, request: Request, origin: Origin | None) -> Handler | Answer | None:
        """Decide who serves a request; see `Dispatcher.route`."""
        del origin
        agreement = self._lifecycle.agree(request)
        answer_now = self._on_the_spot.get(request.method)
        middleware = self._application.middleware
        if answer_now is not None:
            # Decided here even if middleware is to see it: what follows on the wire may depend on it.
            answer = answer_now(request, agreement)
            return self._through(middleware, _giving(answer), request) if middleware else answer
        handler = self._application.handler_for(request.method)
        if handler is None:
            if middleware:
                return self._through(middleware, _missing, request)
            _missing_method(request.method)
        serve = self._served_by(handler, agreement)
        return self._through(middleware, serve, request) if middleware else serve

    def _served_by(self, handler: MethodHandler, agreement: Agreement) -> Handler:
        async def serve(exchange: Exchange) -> Answer:
            params = exchange.request.params or {}
            context = Context(exchange, agreement, self)
            try:
                if not agreement.revision.is_modern:
                    result = await self._serve_legacy(handler, exchange, agreement, context)
                elif self._may_ask(exchange, agreement) is Asking.NEVER:
                    result = await handler(params, context)
                else:
                    result = await self._serve_asking(handler, exchange, agreement, context)
            except URLElicitationRequired as error:
                await trio.lowlevel.checkpoint()
                result = result_for(error, _abilities(agreement), context.method)
            if isinstance(result, InputRequired):
                result = self._left_to_client(result, exchange, agreement)
            return self._written(result, agreement.revision)

        return serve

    def _may_ask(self, exchange: Exchange, agreement: Agreement) -> Asking:
        request = exchange.request
        if request.method not in INPUT_METHODS:
            return Asking.NEVER
        params = request.params or {}
        is_again = "requestState" in params or "inputResponses" in params
        if not is_again and not agreement.client_capabilities:
            return Asking.NEVER  # a client of which nothing can be asked
        asking = self._application.asking(request.method, params)
        return Asking.PARK if is_again and asking is Asking.NEVER else asking

    async def _serve_asking(
        self, handler: MethodHandler, exchange: Exchange, agreement: Agreement, context: Context[Any]
    ) -> object:
        params = exchange.request.params or {}
        answers = read_params(params, InputResponseRequestParams).input_responses or {}
        replay = self._application.asking(exchange.request.method, params) is Asking.REPLAY
        parking = self._service.parking
        return await parking.serve(
            exchange, agreement, context, lambda context: handler(params, context), answers, replay=replay
        )

    async def _serve_legacy(
        self, handler: MethodHandler, exchange: Exchange, agreement: Agreement, context: Context[Any]
    ) -> object:
        """Serve a request; what a handler leaves to its client to bring again is asked here and now."""
        params = exchange.request.params or {}
        result = await handler(params, context)
        rounds = 0
        while isinstance(result, InputRequired):
            rounds += 1
            if rounds > self._application.limits.max_input_rounds:
                raise RequestError(
                    INTERNAL_ERROR,
                    f"{exchange.request.method} asked for input more than {rounds - 1} times (max_input_rounds)",
                )
            context.resume(None, *await answer_in_session(result, exchange, agreement))
            result = await handler(params, context)
        return result

    def _left_to_client(
        self, required: InputRequired, exchange: Exchange, agreement: Agreement
    ) -> InputRequiredResult:
        if exchange.request.method not in INPUT_METHODS:
            raise TypeError(f"{exchange.request.method} cannot ask for input")
        for question in required.requests.values():
            require_for(_abilities(agreement), input_request(question).params)
        return self._service.parking.by_hand(required, exchange)

    def _through(self, middleware: Sequence[Middleware], serve: Handler, request: Request) -> Handler:
        """Return a handler that hands a request through the middleware first."""
        session = self._lifecycle.session

        async def serve_through(exchange: Exchange) -> Answer:
            async def innermost(message: Message) -> Mapping[str, Any]:
                if message.method != exchange.request.method:
                    raise TypeError("middleware must not change a request's method")
                exchange.request.params = None if message.params is None else dict(message.params)
                answer = await serve(exchange)
                return _json.decode(answer) if isinstance(answer, Encoded) else answer

            message = Message("received", exchange.request.method, exchange.request.params)
            try:
                answer = await compose(middleware, innermost)(message)
            except BaseException:
                if request.method == "initialize" and self._lifecycle.session is session:
                    self._lifecycle.forget()
                raise
            if answer is None:
                raise TypeError("middleware returned no result for a request")
            return answer

        return serve_through

    def notice_key(self, notification: Notification) -> Hashable | None:
        """Tell which notifications say the same; see `Dispatcher.notice_key`."""
        return notification.method if notification.method == "notifications/roots/list_changed" else None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Take a notification of the client; see `Dispatcher.notified`."""
        del origin
        middleware = self._application.middleware
        if not middleware:
            await self._notified(notification)
            return

        async def innermost(message: Message) -> None:
            await self._notified(
                Notification(message.method, None if message.params is None else dict(message.params))
            )

        message = Message("received", notification.method, notification.params, is_notification=True)
        await compose(middleware, innermost)(message)
        await trio.lowlevel.checkpoint()

    async def _notified(self, notification: Notification) -> None:
        """There is no notification that changes anything."""
        del notification
        await trio.lowlevel.checkpoint()

    def _initialize(self, request: Request, _: Agreement) -> Mapping[str, Any]:
        read_params(request.params or {}, InitializeRequestParams)
        revision = self._lifecycle.initialize(request).revision
        application = self._application
        result = InitializeResult(
            protocol_version=revision,
            capabilities=application.capabilities(),
            server_info=application.info,
            instructions=application.instructions,
        )
        return to_wire(result, revision)

    def _discover(self, _: Request, agreement: Agreement) -> Mapping[str, Any]:
        result = DiscoverResult(
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(),
            instructions=self._application.instructions,
        )
        return self._plain(result, agreement.revision)

    def _set_log_level(self, request: Request, _: Agreement) -> Mapping[str, Any]:
        self._lifecycle.set_log_level(read_params(request.params or {}, SetLevelRequestParams).level)
        return {}

    def _written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision."""
        return result if isinstance(result, Encoded) else self._plain(result, revision)

    def _plain(self, result: object, revision: Revision) -> dict[str, Any]:
        """Write a result as plain JSON; a modern one says who has made it."""
        is_plain = isinstance(result, Mapping)
        written = dict(cast("Mapping[str, Any]", result)) if is_plain else to_wire(result, revision)
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            info = to_wire(self._application.info, revision)
            written["_meta"] = {SERVER_INFO_KEY: info, **(meta if is_object(meta) else {})}
        return written


def _pong(_: Request, __: Agreement) -> Mapping[str, Any]:
    return {}


def _abilities(agreement: Agreement) -> Abilities:
    return Abilities(agreement.revision, read_said(agreement.client_capabilities, ClientCapabilities))


def _giving(answer: Mapping[str, Any]) -> Handler:
    async def give(_: Exchange) -> Answer:
        await trio.lowlevel.checkpoint()
        return answer

    return give


async def _missing(exchange: Exchange) -> Answer:
    await trio.lowlevel.checkpoint()
    _missing_method(exchange.request.method)


def _missing_method(method: str) -> NoReturn:
    raise RequestError(METHOD_NOT_FOUND, f"this server has no method {method}")


def read_params(params: Mapping[str, Any], kind: type[_T]) -> _T:
    """Read the parameters of a request.

    Raises:
        RequestError: They are not what the specification says they must be.
    """
    try:
        return from_wire(params, kind)
    except InvalidData as error:
        raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
