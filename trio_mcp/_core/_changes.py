"""What a listener is told: changes, which of them it wants, and the queue in which they wait for it.

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
        uri: The resource, or a part of one that is listened to.
    """

    uri: str


@final
@attrs.frozen
class Resynced:
    """Listening was interrupted and goes on: anything that is listened to may have changed. Fetch it again.

    Attributes:
        reason: What had happened.
    """

    reason: str


Change: TypeAlias = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated | Resynced
"""What a listener is told."""

_LISTS: Final[Mapping[str, Change]] = {
    "notifications/tools/list_changed": ToolsListChanged(),
    "notifications/prompts/list_changed": PromptsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
}


def read_change(notification: Notification) -> Change | None:
    """Return the change that a notification tells of, or `None` if it tells of none."""
    if notification.method == "notifications/resources/updated":
        uri = (notification.params or {}).get("uri")
        return ResourceUpdated(uri) if isinstance(uri, str) else None
    return _LISTS.get(notification.method)


def notification_of(change: Change, meta: Mapping[str, object]) -> Notification:
    """Return the notification that tells of a change.

    Raises:
        StopIteration: It is `Resynced`, which is told to listeners only.
    """
    ours: dict[str, object] = {"_meta": meta} if meta else {}
    if isinstance(change, ResourceUpdated):
        return Notification("notifications/resources/updated", {"uri": change.uri, **ours})
    return Notification(next(method for method, told in _LISTS.items() if told == change), ours)


def wants(wanted: SubscriptionFilter, change: Change) -> bool:
    """Whether a change is of a kind that was asked for, whichever resource it is about."""
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
    """Whether what has changed is the resource, or a part of it."""
    if not changed.startswith(uri):
        return False
    return changed == uri or uri.endswith("/") or changed[len(uri)] in "/?#"


def changes_in(wanted: SubscriptionFilter) -> list[Change]:
    """Return every change that is listened to, for when all of them may have happened."""
    lists = [change for change in _LISTS.values() if wants(wanted, change)]
    return [*lists, *(ResourceUpdated(uri) for uri in wanted.resource_subscriptions or ())]


def granted(wanted: SubscriptionFilter, *, tools: bool, prompts: bool, resources: bool) -> SubscriptionFilter:
    """Return what will come of what was wanted, given which lists a server of the legacy era tells about.

    Its resources have been subscribed to one by one, or there is nothing to return.
    """
    return SubscriptionFilter(
        tools_list_changed=(wanted.tools_list_changed and tools) or None,
        prompts_list_changed=(wanted.prompts_list_changed and prompts) or None,
        resources_list_changed=(wanted.resources_list_changed and resources) or None,
        resource_subscriptions=wanted.resource_subscriptions,
    )


def ungranted(wanted: SubscriptionFilter, acknowledged: SubscriptionFilter) -> list[str]:
    """Name what was wanted and will not come."""
    names = ("tools_list_changed", "prompts_list_changed", "resources_list_changed")
    missing = [name for name in names if getattr(wanted, name) and not getattr(acknowledged, name)]
    held = set(acknowledged.resource_subscriptions or ())
    return missing + [uri for uri in wanted.resource_subscriptions or () if uri not in held]


@final
class ChangeQueue:
    """Changes in the order they came, each at most once.

    A change that waits already says all that its repetition would say: whoever takes it looks at how things are
    then. `Resynced` says everything that waits before it.

    Args:
        max_length: How many may wait.
        max_bytes: What they may take in memory.
    """

    def __init__(self, max_length: int, max_bytes: int) -> None:
        self._max_length = max_length
        self._max_bytes = max_bytes
        self._bytes = 0
        self._changes: OrderedDict[Change, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._changes)

    def push(self, change: Change) -> bool:
        """Add a change. Returns whether there was room for it; if not, nothing was added."""
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
            KeyError: There is none.
        """
        change = self._changes.popitem(last=False)[0]
        self._bytes -= _weight(change)
        return change

    def clear(self) -> None:
        """Throw everything away."""
        self._changes.clear()
        self._bytes = 0


def _weight(change: Change) -> int:
    """Return what a change takes in memory at most."""
    return 256 + (4 * len(change.uri) if isinstance(change, ResourceUpdated) else 0)
