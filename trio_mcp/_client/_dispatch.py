"""What the server sends of its own accord, questions and notifications, brought to the user's handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .._channel import Origin
from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._codec._jsonrpc import Notification, Request
from .._errors import METHOD_NOT_FOUND, RequestError
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler
from .._peer._peer import Peer
from .._revisions import BATCH_REVISION, LATEST_LEGACY, Revision
from ..types import LoggingMessageNotificationParams
from ._elicitation import OnElicitationComplete
from ._extension import ExtensionNotificationHandler
from ._questions import Questions
from ._subscriptions import Subscriptions

__all__ = ["NoticeHandlers", "OnLog", "OnNotification", "ServerMessages"]

_log: Final = Log("trio_mcp.client")

OnLog: TypeAlias = Callable[[LoggingMessageNotificationParams], object]
"""Called with each log message of the server; if it returns an awaitable, that is awaited."""

OnNotification: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Called with method and parameters of each notification that nothing else takes."""


@final
@attrs.frozen(kw_only=True)
class NoticeHandlers:
    """The user's handlers of notifications.

    Attributes:
        on_log: Who gets log messages.
        on_elicitation_complete: Who is told that a user is done at a URL.
        extensions: Who gets what extensions add, by method.
        on_notification: Who gets every other notification.
    """

    on_log: OnLog | None = None
    on_elicitation_complete: OnElicitationComplete | None = None
    extensions: Mapping[str, ExtensionNotificationHandler] = MappingProxyType({})
    on_notification: OnNotification | None = None


@final
class ServerMessages:
    """Dispatches what the server sends over one connection.

    Args:
        questions: Answers requests; in the legacy era only.
        handlers: Who gets notifications.
        subscriptions: Who listens to what on the connection.
    """

    answers_unreadable = False  # a client must not write what is no request or notification of its own

    def __init__(self, questions: Questions, handlers: NoticeHandlers, subscriptions: Subscriptions) -> None:
        self.subscriptions: Final = subscriptions
        self._questions = questions
        self._handlers = handlers
        self.revision: Revision | None = None
        """What is spoken, once that is agreed on."""
        self.peer: Peer | None = None
        """Over what, from then on."""

    @property
    def answers_malformed(self) -> bool:
        """Whether an error may be sent for a question that is none: a server of the legacy era waits for it."""
        return self.revision is not None and not self.revision.is_modern

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches, as far as that is settled."""
        return self.revision in {None, BATCH_REVISION}

    def route(self, request: Request, origin: Origin | None) -> Handler | Answer | None:
        """Find the handler of a request of the server; see `Dispatcher.route`."""
        del origin
        if self.revision is not None and self.revision.is_modern:
            # A modern server must not ask, and a modern client must not answer (2026-07-28, basic/patterns).
            _log.warning("ignored a request of the server, %s: %s has none", request.method, self.revision)
            return None
        if request.method == "ping":
            return {}
        if not self._questions.knows(request.method):
            _log.warning("refused a question of the server, %.60r: nobody answers it", request.method)
            raise RequestError(METHOD_NOT_FOUND, f"this client has no method {request.method}")
        return self._answer

    async def _answer(self, exchange: Exchange) -> Answer:
        request = exchange.request
        try:
            question = self._questions.prepare(request.method, request.params, self.revision or LATEST_LEGACY)
        except RequestError as error:
            _log.warning("refused a question of the server, %.60r: %s", request.method, error.message)
            raise
        if self.peer is None:
            return await question()
        with self.peer.clocks_stopped():
            return await question()

    def companion_of(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Say that no request goes on with anything."""
        del request, origin
        return None

    def take_back(self, request: Request) -> None:
        """Nothing that is answered on the spot changes anything; see `Dispatcher.take_back`."""

    def notice_key(self, notification: Notification) -> Hashable | None:
        """Tell which notifications say the same; see `Dispatcher.notice_key`."""
        if notification.method.endswith("/list_changed"):
            return notification.method
        if notification.method == "notifications/resources/updated":
            return notification.method, str((notification.params or {}).get("uri"))
        return None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Bring a notification to its handler; see `Dispatcher.notified`."""
        del origin
        callback = self.subscriptions.callback_for(notification)
        if callback is not None:
            outcome = callback()
        else:
            outcome = self._handle(notification.method, notification.params or {})
        if isinstance(outcome, Awaitable):
            await outcome
        await trio.lowlevel.checkpoint()

    def _handle(self, method: str, params: Mapping[str, Any]) -> object:
        """Call the handler there is, and return what it returns."""
        handlers = self._handlers
        if method == "notifications/message" and handlers.on_log is not None:
            try:
                message = from_wire(params, LoggingMessageNotificationParams)
            except InvalidData as error:
                _log.warning("ignored a log message of the server: %s", error)
                return None
            return handlers.on_log(message)
        if method == "notifications/elicitation/complete" and handlers.on_elicitation_complete is not None:
            id = params.get("elicitationId")
            if not isinstance(id, str) or not self._questions.elicitations.finish(id):
                # 2025-11-25, client/elicitation: what is unknown or told before must be ignored.
                _log.info("ignored the end of an elicitation that is not open: %.60r", id)
                return None
            return handlers.on_elicitation_complete(id)
        if method in handlers.extensions:
            return handlers.extensions[method](params)
        return None if handlers.on_notification is None else handlers.on_notification(method, params)
