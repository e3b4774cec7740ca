"""The changes that a server notifies its clients of: what they are, who gets which, and a queue of them.

The server and the client both decide by these functions. Also which notifications a server may send by hand.
Decisions only: no I/O, no Trio, no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from .._codec._jsonrpc import Notification
from .._errors import LocalProtocolError
from .._revisions import METHODS, Revision, Side
from ..types import ServerCapabilities, SubscriptionFilter
from ._tasks import NOTIFICATION, TaskState, read_task, weight_of_state

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
"""What a server has lists of. Resource templates count as resources."""


@final
@attrs.frozen
class ToolsListChanged:
    """The list of tools has changed."""


@final
@attrs.frozen
class PromptsListChanged:
    """The list of prompts has changed."""


@final
@attrs.frozen
class ResourcesListChanged:
    """The list of resources, or of resource templates, has changed."""


@final
@attrs.frozen
class ResourceUpdated:
    """A resource has changed.

    Attributes:
        uri: The resource, or a part of one that is subscribed to.
    """

    uri: str


@final
@attrs.frozen
class TaskUpdated:
    """A task has changed. Two of one task are equal: the later one takes the place of one that waits.

    Attributes:
        id: The task's id.
        state: The task as it is; `None` where that is looked up later.
    """

    id: str
    state: TaskState | None = attrs.field(default=None, eq=False)


@final
@attrs.frozen
class Resynced:
    """Listening was interrupted and has resumed: anything that is listened to may have changed. Fetch it again.

    Attributes:
        reason: What interrupted it.
    """

    reason: str


Change: TypeAlias = (
    ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated | TaskUpdated | Resynced
)
"""What a listener receives. A server sends all of them but `Resynced`, which is the client's own."""

LIST_CHANGES: Final[Mapping[ListKind, Change]] = MappingProxyType(
    {"tools": ToolsListChanged(), "prompts": PromptsListChanged(), "resources": ResourcesListChanged()}
)

KINDS: Final[Mapping[Change, ListKind]] = {change: kind for kind, change in LIST_CHANGES.items()}

_ALL_LISTS: Final = SubscriptionFilter(
    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
)

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"
_METHODS: Final = {change: f"notifications/{kind}/list_changed" for change, kind in KINDS.items()}
_MEMBERS: Final = {change: f"{kind}_list_changed" for change, kind in KINDS.items()}
"""The members of a `SubscriptionFilter` that ask for the changes of lists."""
_BY_METHOD: Final = {method: change for change, method in _METHODS.items()}


def read_change(notification: Notification) -> Change | None:
    """Return the change that a notification reports, or `None` if it reports none."""
    if notification.method == _UPDATED:
        uri = (notification.params or {}).get("uri")
        return ResourceUpdated(uri) if isinstance(uri, str) else None
    if notification.method == NOTIFICATION:
        try:
            state = read_task(notification.params or {})
        except ValueError:
            return None
        return TaskUpdated(state.id, state)
    return _BY_METHOD.get(notification.method)


def notification_of(change: Change, meta: Mapping[str, object] | None = None) -> Notification:
    """Return the notification that reports a change.

    Raises:
        KeyError: It is `Resynced`, which no notification reports, or of a task, which is described by one.
    """
    params: dict[str, Any] = {"_meta": meta} if meta else {}
    if isinstance(change, ResourceUpdated):
        params["uri"] = change.uri
        return Notification(_UPDATED, params)
    return Notification(_METHODS[change], params or None)


def wants(wanted: SubscriptionFilter, change: Change) -> bool:
    """Whether a change is of a kind that was asked for, whichever resource it is about."""
    if isinstance(change, ResourceUpdated):
        return bool(wanted.resource_subscriptions)
    if isinstance(change, TaskUpdated):
        return change.id in (wanted.task_ids or ())
    return isinstance(change, Resynced) or bool(getattr(wanted, _MEMBERS[change]))


def covers(uri: str, changed: str) -> bool:
    """Whether the changed URI is the resource itself, or a part of it."""
    if not changed.startswith(uri):
        return False
    return changed == uri or uri.endswith("/") or changed[len(uri)] in "/?#"


def changes_in(wanted: SubscriptionFilter) -> list[Change]:
    """Return every change that a filter asks for."""
    lists = [change for change in LIST_CHANGES.values() if wants(wanted, change)]
    uris, ids = wanted.resource_subscriptions or (), wanted.task_ids or ()
    return [*lists, *map(ResourceUpdated, uris), *map(TaskUpdated, ids)]


def granted_by(
    capabilities: ServerCapabilities | None, wanted: SubscriptionFilter = _ALL_LISTS
) -> SubscriptionFilter:
    """Return a filter without the lists whose changes these capabilities do not declare; the rest is kept."""
    can = capabilities or ServerCapabilities()
    lists: dict[str, bool | None] = {
        member: (getattr(wanted, member) and getattr(getattr(can, kind), "list_changed", None)) or None
        for kind, member in zip(KINDS.values(), _MEMBERS.values(), strict=True)
    }
    return SubscriptionFilter(
        **lists, resource_subscriptions=wanted.resource_subscriptions, task_ids=wanted.task_ids
    )


def is_nothing(granted: SubscriptionFilter) -> bool:
    """Return whether a server notifies of no change at all."""
    lists = any(getattr(granted, name) for name in _MEMBERS.values())
    return not (lists or granted.resource_subscriptions or granted.task_ids)


def ungranted(wanted: SubscriptionFilter, acknowledged: SubscriptionFilter) -> list[str]:
    """Return the names of the lists, the URIs, and the ids, that were asked for and not acknowledged."""
    missing = [name for name in _MEMBERS.values() if getattr(wanted, name) and not getattr(acknowledged, name)]
    missing += set(wanted.resource_subscriptions or ()).difference(acknowledged.resource_subscriptions or ())
    lost = set(wanted.task_ids or ()).difference(acknowledged.task_ids or ())
    return [*missing, *(f"the task {id}, which it does not have" for id in lost)]


@final
@attrs.define(eq=False)
class ChangeQueue:
    """Changes in the order they came, each at most once.

    A repetition of a change that waits adds nothing: the listener looks at the current state when it takes the
    change; that of a task is part of the change, and replaces the one before. `Resynced` replaces everything that
    waits before it.

    Args:
        max_length: How many may wait.
        max_bytes: How much memory they may take.
    """

    max_length: int
    _max_bytes: int
    _bytes: int = attrs.field(default=0, init=False)
    _changes: OrderedDict[Change, Change] = attrs.field(factory=OrderedDict[Change, Change], init=False)

    def __len__(self) -> int:
        return len(self._changes)

    def push(self, change: Change) -> bool:
        """Add a change. Returns whether there was room for it; if not, nothing was added."""
        size = _weight(change)
        if isinstance(change, Resynced):
            self.clear()
        elif change in self._changes:
            size -= _weight(self._changes[change])
        elif len(self._changes) >= self.max_length:
            return False
        if self._bytes + size > self._max_bytes:
            return False
        self._changes[change] = change
        self._bytes += size
        return True

    def pop(self) -> Change:
        """Take the oldest change.

        Raises:
            KeyError: There is none.
        """
        change = self._changes.popitem(last=False)[1]
        self._bytes -= _weight(change)
        return change

    def clear(self) -> None:
        """Discard everything."""
        self._changes.clear()
        self._bytes = 0


def _weight(change: Change) -> int:
    """Return how much memory a change takes at most, in bytes."""
    if isinstance(change, TaskUpdated):
        return 256 + weight_of_state(change.state)
    return 256 + (4 * len(change.uri) if isinstance(change, ResourceUpdated) else 0)


# Notifications that are sent and handled by hand.


HANDLED_BY_CONNECTION: Final = frozenset({"notifications/cancelled", "notifications/progress"})
"""Notifications that name a request, by an id or a token that means it on one connection alone."""

_SENT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "notifications/cancelled": "the connection sends it when a request is cancelled",
        "notifications/progress": "use Context.progress or Context.report_progress, which know the token",
        "notifications/message": "use Context.log, which obeys the level that the client has set",
        "notifications/tools/list_changed": "use Server.list_changed, which knows the subscribers",
        "notifications/prompts/list_changed": "use Server.list_changed, which knows the subscribers",
        "notifications/resources/list_changed": "use Server.list_changed, which knows the subscribers",
        "notifications/resources/updated": "use Server.resource_updated, which knows the subscribers",
        ACKNOWLEDGED: "the server sends it when a client subscribes",
        "notifications/elicitation/complete": "use Context.elicitation_complete",
    }
)
"""Notifications that the library sends by itself, and what to do instead of sending them by hand."""


def check_notification_method(method: str) -> None:
    """Check that a handler for notifications of this method could ever be called.

    Raises:
        ValueError: The connection handles them, or clients never send them.
    """
    if method in HANDLED_BY_CONNECTION:
        raise ValueError(f"{method} is handled by the connection itself; it can have no other handler")
    rule = METHODS.get(method)
    if rule is not None and not any(rule.allows(Side.CLIENT, revision) for revision in Revision):
        raise ValueError(f"{method} is never sent by a client")


def check_own_notification(method: str, revision: Revision) -> None:
    """Check that a server may send a notification of this method by hand.

    Raises:
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says what to do.
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
        ValueError: The library sends it, and keeps the protocol's rules about it; the error says what to do.
        LocalProtocolError: The method is one of the protocol.
    """
    if method in _SENT_BY:
        raise ValueError(f"{method} cannot be sent by hand: {_SENT_BY[method]}")
    if method in METHODS:
        raise LocalProtocolError(
            f"{method} is a method of the protocol, and cannot be sent to all sessions; send one of your own"
        )
