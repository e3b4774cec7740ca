"""One connection of a server: what era a request is of, and who serves it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from itertools import count
from typing import Any, Final, Literal, final

import trio

from .. import types
from .._channel import Origin
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._jsonrpc import Notification, Request
from .._core._lifecycle import Agreement, ServerLifecycle
from .._errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from .._logs import Log
from .._peer._exchange import Answer, Handler, Standing
from .._revisions import BATCH_REVISION
from ._answering import Answering
from ._application import Application
from ._background import Background
from ._notifications import NotificationContext
from ._params import read_params
from ._service import Service
from ._subscriptions import KeptForConnection, Subscriptions

__all__ = ["ServerSession"]

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
        keep: Told how much is kept of what a session has subscribed to; see `KeptForConnection`.

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
            KeptForConnection(service.account.bytes, holder, keep),
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
