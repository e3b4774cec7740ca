"""One connection of a server: what era a request is of, who serves it, and how its result is written."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Protocol, TypeAlias, cast, final

import trio

from .._channel import Origin
from .._codec._convert import to_wire
from .._codec._json import is_object
from .._codec._jsonrpc import Encoded, Notification, Request
from .._core._lifecycle import Agreement, ServerLifecycle
from .._errors import METHOD_NOT_FOUND, RequestError
from .._limits import Limits
from .._peer._exchange import Answer, Exchange, Handler, Standing
from .._revisions import BATCH_REVISION, SERVER_INFO_KEY, Revision
from ..types import (
    DiscoverResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    ServerCapabilities,
    SetLevelRequestParams,
)
from ._changes import ChangeHub
from ._context import Context
from ._log_handler import enter_request
from ._notifications import NotificationContext, NotificationHandler
from ._params import read_params
from ._subscriptions import Subscriptions

__all__ = ["Application", "MethodHandler", "ServerSession"]

_log: Final = logging.getLogger("trio_mcp.server")

MethodHandler: TypeAlias = Callable[[Mapping[str, Any], Context[Any]], Awaitable[object]]
"""Serves a method: its parameters as plain JSON in; a wire object, plain JSON, or bytes of JSON out."""


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
    def changes(self) -> ChangeHub:
        """What has changed, and who wants to know."""
        ...

    def handler_for(self, method: str) -> MethodHandler | None:
        """Return who serves a method."""
        ...

    def notification_handler_for(self, method: str) -> NotificationHandler | None:
        """Return who handles the notifications of a method."""
        ...


@final
class ServerSession:
    """Dispatches what one client sends.

    Args:
        application: The server.
        state: What the server's lifespan yielded.

    Attributes:
        subscriptions: What the client is told of changes.
    """

    answers_unreadable = True

    def __init__(self, application: Application, state: object) -> None:
        self._application = application
        self._state = state
        self._lifecycle = ServerLifecycle(application.revisions)
        self.subscriptions = Subscriptions(
            application.changes, application.capabilities, application.limits, self._written
        )
        self._on_the_spot: Final[Mapping[str, Callable[[Request, Agreement], Answer]]] = {
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

    def route(self, request: Request, origin: Origin | None) -> Handler | Standing | Answer | None:
        """Decide who serves a request; see `Dispatcher.route`."""
        del origin
        agreement = self._lifecycle.agree(request)
        answer_now = self._on_the_spot.get(request.method)
        if answer_now is not None:
            return answer_now(request, agreement)
        handler = self._application.handler_for(request.method)
        if handler is None:
            decision = self.subscriptions.route(request, agreement.revision)
            if decision is None:
                raise RequestError(METHOD_NOT_FOUND, f"this server has no method {request.method}")
            return decision

        async def serve(exchange: Exchange) -> Answer:
            context = Context(exchange, agreement, self._state)
            enter_request(context)
            result = await handler(exchange.request.params or {}, context)
            return self._written(result, agreement.revision)

        return serve

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
            context = NotificationContext(notification, origin, agreement, self._state)
            await handler(notification.params or {}, context)

    def _initialize(self, request: Request, _: Agreement) -> Answer:
        read_params(request.params or {}, InitializeRequestParams)
        revision = self._lifecycle.initialize(request).revision
        application = self._application
        capabilities = application.capabilities()
        self.subscriptions.declared(capabilities)
        result = InitializeResult(
            protocol_version=revision,
            capabilities=capabilities,
            server_info=application.info,
            instructions=application.instructions,
        )
        return to_wire(result, revision)

    def _discover(self, _: Request, agreement: Agreement) -> Answer:
        result = DiscoverResult(
            supported_versions=self._lifecycle.supported_versions,
            capabilities=self._application.capabilities(),
            instructions=self._application.instructions,
        )
        return self._written(result, agreement.revision)

    def _set_log_level(self, request: Request, _: Agreement) -> Answer:
        self._lifecycle.set_log_level(read_params(request.params or {}, SetLevelRequestParams).level)
        return {}

    def _written(self, result: object, revision: Revision) -> Answer:
        """Write a result for the client's revision; a modern one says who has made it."""
        if isinstance(result, Encoded):
            return result
        is_plain = isinstance(result, Mapping)
        written = dict(cast("Mapping[str, Any]", result)) if is_plain else to_wire(result, revision)
        if revision.is_modern:
            written.setdefault("resultType", "complete")
            meta: Any = written.get("_meta")
            info = to_wire(self._application.info, revision)
            written["_meta"] = {SERVER_INFO_KEY: info, **(meta if is_object(meta) else {})}
        return written


def _pong(_: Request, __: Agreement) -> Answer:
    return {}
