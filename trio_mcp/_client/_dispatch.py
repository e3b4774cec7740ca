"""What the server sends of its own accord, questions and notifications, brought to the user's handlers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, TypeAlias, final

import trio

from .._channel import Origin
from .._codec._convert import from_wire
from .._codec._invalid import InvalidData
from .._codec._jsonrpc import Notification, Request
from .._errors import METHOD_NOT_FOUND, RequestError
from .._peer._exchange import Answer, Exchange, Handler
from .._revisions import BATCH_REVISION, Revision
from ..types import LoggingMessageNotificationParams
from ._subscriptions import Subscriptions

__all__ = ["OnLog", "OnNotification", "RequestHandler", "ServerMessages"]

_log: Final = logging.getLogger("trio_mcp.client")

OnLog: TypeAlias = Callable[[LoggingMessageNotificationParams], object]
"""Called with each log message of the server; if it returns an awaitable, that is awaited."""

OnNotification: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Called with method and parameters of each notification that nothing else takes."""

RequestHandler: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers a request of the server: parameters in, result out, both as plain JSON."""


@final
class ServerMessages:
    """Dispatches what the server sends over one connection.

    Args:
        handlers: Who answers which request; in the legacy era only.
        on_log: Who gets log messages.
        on_notification: Who gets every other notification.
        subscriptions: Who listens to what on the connection.
    """

    answers_unreadable = False  # a client must not write what is no request or notification of its own

    def __init__(
        self,
        handlers: Mapping[str, RequestHandler],
        on_log: OnLog | None,
        on_notification: OnNotification | None,
        subscriptions: Subscriptions,
    ) -> None:
        self.subscriptions: Final = subscriptions
        self._handlers = handlers
        self._on_log = on_log
        self._on_notification = on_notification
        self.revision: Revision | None = None
        """What is spoken, once that is agreed on."""

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
        handler = self._handlers.get(request.method)
        if handler is None:
            raise RequestError(METHOD_NOT_FOUND, f"this client has no method {request.method}")

        async def serve(exchange: Exchange) -> Answer:
            return await handler(exchange.request.params or {})

        return serve

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
        params = notification.params or {}
        outcome: object = None
        callback = self.subscriptions.callback_for(notification)
        if callback is not None:
            outcome = callback()
        elif notification.method == "notifications/message" and self._on_log is not None:
            try:
                message = from_wire(params, LoggingMessageNotificationParams)
            except InvalidData as error:
                _log.warning("ignored a log message of the server: %s", error)
            else:
                outcome = self._on_log(message)
        elif self._on_notification is not None:
            outcome = self._on_notification(notification.method, params)
        if isinstance(outcome, Awaitable):
            await outcome
        await trio.lowlevel.checkpoint()
