"""One end of a connection by itself, without a server or a client above it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, final

from inside_peer import Answer, Exchange, Handler, LongLived
from inside_wire import Request

from trio_mcp import Notification, Origin, RequestError

__all__ = ["Handlers", "cancelled", "note", "request"]


@final
class Handlers:
    """A dispatcher that knows a handler for each method, and keeps the notifications it is told.

    Args:
        handlers: By method. Something that is no function is the answer itself, or a `LongLived`.
        on_notification_read: Called with each notification.

    Attributes:
        heard: The methods of the notifications that were handled, or begun to be.
    """

    accepts_batches = True
    answers_unreadable = True
    answers_malformed = True

    def __init__(
        self,
        handlers: Mapping[str, Callable[[Exchange], Awaitable[Answer]] | LongLived | Answer] | None = None,
        on_notification_read: Callable[[Notification], Awaitable[object]] | None = None,
    ) -> None:
        self._handlers = handlers or {}
        self._on_notice = on_notification_read
        self.heard: list[str] = []

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | Answer | None:
        """Return the handler."""
        handler = self._handlers.get(request.method)
        if handler is None:
            raise RequestError(-32601, "no such method")
        return handler

    def parked_canceller(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Say that no request goes on with anything."""
        return None

    def take_back(self, request: Request) -> None:
        """Nothing is kept."""

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Say that each notification is news."""
        return None

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Handle a notification."""
        self.heard.append(notification.method)
        if self._on_notice is not None:
            await self._on_notice(notification)


def request(id: int | str, method: str, timeout_ms: int | None = None, **params: object) -> dict[str, Any]:
    """Return a request, perhaps with the time that its caller grants it."""
    if timeout_ms is not None:
        params["_meta"] = {"trio-mcp/timeoutMs": timeout_ms}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def note(method: str, **params: object) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancelled(id: int | str) -> dict[str, Any]:
    """Return the notification that gives a request up."""
    return note("notifications/cancelled", requestId=id)
