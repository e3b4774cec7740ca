"""The changes that a server notifies its clients of: what they are, who gets which, and a queue of them.

The server and the client both decide by these functions. Decisions only: no I/O, no Trio, no clock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final

import attrs

from .._codec._jsonrpc import Notification
from ..types import ServerCapabilities, SubscriptionFilter

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
class Resynced:
    """Listening was interrupted and has resumed: anything that is listened to may have changed. Fetch it again.

    Attributes:
        reason: What interrupted it.
    """

    reason: str


Change: TypeAlias = ToolsListChanged | PromptsListChanged | ResourcesListChanged | ResourceUpdated | Resynced
"""What a listener receives. A server sends all of them but `Resynced`, which is the client's own."""

LIST_CHANGES: Final[Mapping[ListKind, Change]] = MappingProxyType(
    {
        "tools": ToolsListChanged(),
        "prompts": PromptsListChanged(),
        "resources": ResourcesListChanged(),
    }
)

KINDS: Final = {change: kind for kind, change in LIST_CHANGES.items()}

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
    return _BY_METHOD.get(notification.method)


def notification_of(change: Change, meta: Mapping[str, object] | None = None) -> Notification:
    """Return the notification that reports a change.

    Raises:
        KeyError: It is `Resynced`, which no notification reports.
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
    return isinstance(change, Resynced) or bool(getattr(wanted, _MEMBERS[change]))


def covers(uri: str, changed: str) -> bool:
    """Whether the changed URI is the resource itself, or a part of it."""
    if not changed.startswith(uri):
        return False
    return changed == uri or uri.endswith("/") or changed[len(uri)] in "/?#"


def changes_in(wanted: SubscriptionFilter) -> list[Change]:
    """Return every change that a filter asks for."""
    lists = [change for change in LIST_CHANGES.values() if wants(wanted, change)]
    return [*lists, *(ResourceUpdated(uri) for uri in wanted.resource_subscriptions or ())]


def granted_by(capabilities: ServerCapabilities | None, wanted: SubscriptionFilter) -> SubscriptionFilter:
    """Return a filter without the lists whose changes these capabilities do not declare. URIs are kept."""
    can = capabilities or ServerCapabilities()
    lists: dict[str, bool | None] = {
        member: (getattr(wanted, member) and getattr(getattr(can, kind), "list_changed", None)) or None
        for kind, member in zip(KINDS.values(), _MEMBERS.values(), strict=True)
    }
    return SubscriptionFilter(**lists, resource_subscriptions=wanted.resource_subscriptions)


def ungranted(wanted: SubscriptionFilter, acknowledged: SubscriptionFilter) -> list[str]:
    """Return the names of the lists, and the URIs, that were asked for and not acknowledged."""
    missing = [name for name in _MEMBERS.values() if getattr(wanted, name) and not getattr(acknowledged, name)]
    held = set(acknowledged.resource_subscriptions or ())
    return missing + [uri for uri in wanted.resource_subscriptions or () if uri not in held]


@final
@attrs.define(eq=False)
class ChangeQueue:
    """Changes in the order they came, each at most once.

    A repetition of a change that waits adds nothing: the listener looks at the current state when it takes the
    change. `Resynced` replaces everything that waits before it.

    Args:
        max_length: How many may wait.
        max_bytes: How much memory they may take.
    """

    max_length: int
    _max_bytes: int
    _bytes: int = attrs.field(default=0, init=False)
    _changes: OrderedDict[Change, None] = attrs.field(factory=OrderedDict[Change, None], init=False)

    def __len__(self) -> int:
        return len(self._changes)

    def push(self, change: Change) -> bool:
        """Add a change. Returns whether there was room for it; if not, nothing was added."""
        size = _weight(change)
        if isinstance(change, Resynced):
            self.clear()
        elif change in self._changes:
            return True
        elif len(self._changes) >= self.max_length or self._bytes + size > self._max_bytes:
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
        """Discard everything."""
        self._changes.clear()
        self._bytes = 0


def _weight(change: Change) -> int:
    """Return how much memory a change takes at most, in bytes."""
    return 256 + (4 * len(change.uri) if isinstance(change, ResourceUpdated) else 0)
