"""Changes that a server notifies of, the filters of subscriptions, and the queue in which changes wait.

Decisions only: no I/O, no Trio, no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, TypeAlias, final

import attrs

from .._codec._jsonrpc import Notification
from ..types import SubscriptionFilter


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
        uri: The resource, or a part of a resource that was subscribed to.
    """

    uri: str


@final
@attrs.frozen
class Resynced:
    """Listening was interrupted and goes on: everything that was subscribed to may have changed. Fetch it again.

    Attributes:
        reason: What had interrupted it.
    """

    reason: str


Change: TypeAlias = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated | Resynced
"""What a listener receives."""

_LISTS: Final[Mapping[str, Change]] = {
    "notifications/tools/list_changed": ToolsListChanged(),
    "notifications/prompts/list_changed": PromptsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
}


def read_change(notification: Notification) -> Change | None:
    """Return the change in a notification, or `None` if it is about something else."""
    if notification.method == "notifications/resources/updated":
        uri = (notification.params or {}).get("uri")
        return ResourceUpdated(uri) if isinstance(uri, str) else None
    return _LISTS.get(notification.method)


def notification_of(change: Change, meta: Mapping[str, object]) -> Notification:
    """Return the notification of a change.

    Raises:
        StopIteration: It is `Resynced`, which has no notification.
    """
    ours: dict[str, object] = {"_meta": meta} if meta else {}
    if isinstance(change, ResourceUpdated):
        return Notification("notifications/resources/updated", {"uri": change.uri, **ours})
    return Notification(next(method for method, of in _LISTS.items() if of == change), ours)


def wants(wanted: SubscriptionFilter, change: Change) -> bool:
    """Whether a filter has the kind of a change, whichever resource it is about."""
    match change:
        case ToolsListChanged():
            return bool(wanted.tools_list_changed)
        case PromptsListChanged():
            return bool(wanted.prompts_list_changed)
        case ResourcesListChanged():
            return bool(wanted.resources_list_changed)
        case ResourceUpdated():
            return bool(wanted.resource_subscriptions)
        case Resynced():
            return True


def covers(uri: str, changed: str) -> bool:
    """Whether the changed URI is the resource, or a part of it."""
    if not changed.startswith(uri):
        return False
    return changed == uri or uri.endswith("/") or changed[len(uri)] in "/?#"


def changes_in(wanted: SubscriptionFilter) -> list[Change]:
    """Return every change that a filter names, for when all of them may have happened."""
    lists = [change for change in _LISTS.values() if wants(wanted, change)]
    return [*lists, *(ResourceUpdated(uri) for uri in wanted.resource_subscriptions or ())]


def granted(wanted: SubscriptionFilter, *, tools: bool, prompts: bool, resources: bool) -> SubscriptionFilter:
    """Return the filter that a server of the legacy era can serve, by the lists whose changes it declares.

    Its resources are all granted: they were subscribed to one by one, or the subscription has failed.
    """
    return SubscriptionFilter(
        tools_list_changed=(wanted.tools_list_changed and tools) or None,
        prompts_list_changed=(wanted.prompts_list_changed and prompts) or None,
        resources_list_changed=(wanted.resources_list_changed and resources) or None,
        resource_subscriptions=wanted.resource_subscriptions,
    )


def ungranted(wanted: SubscriptionFilter, acknowledged: SubscriptionFilter) -> list[str]:
    """Name what was wanted and was not acknowledged."""
    names = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
    missing = [name for name in names if getattr(wanted, name) and not getattr(acknowledged, name)]
    held = set(acknowledged.resource_subscriptions or ())
    return missing + [uri for uri in wanted.resource_subscriptions or () if uri not in held]


@final
class ChangeQueue:
    """Changes in order of arrival, each at most once.

    A repetition of a change that waits adds nothing: the listener fetches the current state when it takes the
    change. `Resynced` replaces everything that waits before it.

    Args:
        max_length: How many may wait.
        max_bytes: What they may take in memory, in bytes.
    """

    def __init__(self, max_length: int, max_bytes: int) -> None:
        self._max_length = max_length
        self._max_bytes = max_bytes
        self._bytes = 0
        self._changes: OrderedDict[Change, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._changes)

    def push(self, change: Change) -> bool:
        """Add a change. Return whether there was room for it; if not, nothing was added."""
        size = _weight(change)
        if isinstance(change, Resynced):
            self.clear()
        elif change in self._changes:
            return True
        elif len(self._changes) >= self._max_length or self._bytes + size > self._max_bytes:
            return False
        self._changes[change] = None
        self._bytes += size
        return True

    def pop(self) -> Change:
        """Take the oldest change.

        Raises:
            KeyError: The queue is empty.
        """
        change = self._changes.popitem(last=False)[0]
        self._bytes -= _weight(change)
        return change

    def clear(self) -> None:
        """Drop all changes."""
        self._changes.clear()
        self._bytes = 0


def _weight(change: Change) -> int:
    """Return what a change takes in memory at most, in bytes."""
    return 256 + (4 * len(change.uri) if isinstance(change, ResourceUpdated) else 0)
