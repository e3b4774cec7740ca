"""What handlers of a client's notifications are called with. Who calls them is the session's business."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, final

from typing_extensions import TypeVar

from .._channel import Origin
from .._codec._json import is_object
from .._codec._jsonrpc import Notification
from .._core._lifecycle import Agreement
from .._errors import LocalProtocolError
from .._revisions import METHODS, Revision, Side
from ..types import ClientCapabilities, Implementation
from ._params import read_params

__all__ = [
    "NotificationContext",
    "NotificationHandler",
    "check_announcement",
    "check_notification_method",
    "check_own_notification",
]

StateT = TypeVar("StateT", default=Any)

_OURS: Final = frozenset({"notifications/cancelled", "notifications/progress"})

_SENT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "notifications/cancelled": "the connection sends it when a request is given up",
        "notifications/progress": "use Context.progress or Context.report_progress, which know the token",
        "notifications/message": "use Context.log, which heeds the level that the client wants",
        "notifications/tools/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/prompts/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/resources/list_changed": "use Server.list_changed, which knows who wants to be told",
        "notifications/resources/updated": "use Server.resource_updated, which knows who wants to be told",
        "notifications/subscriptions/acknowledged": "the server sends it when somebody subscribes",
        "notifications/elicitation/complete": "use Context.elicitation_complete",
    }
)
"""What the library sends of a server by itself, and who does."""


@final
class NotificationContext(Generic[StateT]):
    """A notification of a client being handled. Nobody waits for it, so there is nothing to answer."""

    def __init__(
        self, notification: Notification, origin: Origin | None, agreement: Agreement, state: StateT
    ) -> None:
        self._notification = notification
        self._origin = origin
        self._agreement = agreement
        self._state = state

    @property
    def state(self) -> StateT:
        """What the server's lifespan yielded; `None` if it has none."""
        return self._state

    @property
    def revision(self) -> Revision:
        """The revision by which the notification is read: the session's, or the newest if there is no session."""
        return self._agreement.revision

    @property
    def method(self) -> str:
        """The notification's method."""
        return self._notification.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """The notification's `_meta`."""
        meta = (self._notification.params or {}).get("_meta")
        return meta if is_object(meta) else {}

    @property
    def client_info(self) -> Implementation | None:
        """What the client says it is, if it says so. Nobody has checked it."""
        info = self._agreement.client_info
        return None if info is None else read_params(info, Implementation)

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client says it can do; nothing in the modern era, where only requests say it."""
        return read_params(self._agreement.client_capabilities, ClientCapabilities)

    @property
    def principal(self) -> str | None:
        """Who the client is, where the transport authenticates; equal strings are equal clients."""
        return None if self._origin is None else self._origin.principal


NotificationHandler: TypeAlias = Callable[[Mapping[str, Any], NotificationContext[Any]], Awaitable[object]]
"""Handles a notification: its parameters as plain JSON, and what is known about where it came from."""


def check_notification_method(method: str) -> None:
    """Check that a handler for notifications of this method could ever be called.

    Raises:
        ValueError: The connection itself handles them, or a client never sends them.
    """
    if method in _OURS:
        raise ValueError(f"{method} is handled by the connection itself")
    rule = METHODS.get(method)
    if rule is not None and not any(rule.allows(Side.CLIENT, revision) for revision in Revision):
        raise ValueError(f"{method} is never sent by a client")


def check_own_notification(method: str, revision: Revision) -> None:
    """Check that a server may send a notification of this method by hand.

    Raises:
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says how.
        LocalProtocolError: The method is one of the protocol that a server of the revision does not send.
    """
    if method in _SENT_BY:
        raise ValueError(f"{method} cannot be sent by hand: {_SENT_BY[method]}")
    rule = METHODS.get(method)
    if rule is not None and not (method.startswith("notifications/") and rule.allows(Side.SERVER, revision)):
        raise LocalProtocolError(f"a server of {revision} has no notification {method}")


def check_announcement(method: str) -> None:
    """Check that a server may send all its sessions a notification of this method by hand.

    Raises:
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says how.
        LocalProtocolError: The method is one of the protocol, which belongs to a request.
    """
    if method in _SENT_BY:
        raise ValueError(f"{method} cannot be sent by hand: {_SENT_BY[method]}")
    if method in METHODS:
        raise LocalProtocolError(f"{method} is a method of the protocol, and nothing to announce")
