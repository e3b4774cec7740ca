"""Who listens to what on one connection of a client, and the sorting of what the server says to them.

The table is read while a notification is being read, before anything behind it: what a listener was told when its
subscription ends is what the server said before that. Nothing here waits, and nothing here starts a task.

Which resources a connection of the legacy era is subscribed to, on behalf of how many listeners.

Spec: 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._codec._convert import from_wire, to_wire
from .._codec._json import is_object
from .._codec._jsonrpc import InvalidData, Notification, RequestId, read_id
from .._core._changes import (
    Change,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    Resynced,
    ToolsListChanged,
    changes_in,
    covers,
    notification_of,
    read_change,
    wants,
)
from .._errors import METHOD_NOT_FOUND, McpError, RequestError
from .._logs import Log
from .._peer._peer import Peer
from .._revisions import SUBSCRIPTION_ID_KEY, Revision
from .._trio import open_hidden_nursery
from ..types import (
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotificationParams,
    UnsubscribeRequestParams,
)

_log: Final = Log("trio_mcp.client")

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"

Forget = Callable[[Change | None], object]
"""Called with each change that makes what is known outdated; with `None`, everything may be."""


@final
@attrs.define(eq=False)
class Subscription:
    """What one listener listens to on one connection.

    Attributes:
        wanted: What was asked for.
        hear: Called with each change. It must not wait.
        acknowledge: Called once, with what will come.
        end: Called when the server says that it has ended the subscription without answering.
        id: In the modern era, the id of the request that made it.
        is_acknowledged: Whether anything may come yet.
    """

    wanted: SubscriptionFilter
    hear: Callable[[Change], object]
    acknowledge: Callable[[SubscriptionFilter], object]
    end: Callable[[], object] = lambda: None
    id: RequestId | None = None
    is_acknowledged: bool = False


@final
@attrs.frozen(kw_only=True)
class Callbacks:
    """What a user wants called when something changes; what returns an awaitable is awaited.

    Attributes:
        tools: For a change of the list of tools.
        prompts: For a change of the list of prompts.
        resources: For a change of the list of resources.
        resource: For a change of a resource, with its URI.
    """

    tools: Callable[[], object] | None = None
    prompts: Callable[[], object] | None = None
    resources: Callable[[], object] | None = None
    resource: Callable[[str], object] | None = None


def change_callback(callbacks: Callbacks, change: Change) -> Callable[[], object] | None:
    """Return what is to be called for a change."""
    match change:
        case ToolsListChanged():
            return callbacks.tools
        case PromptsListChanged():
            return callbacks.prompts
        case ResourcesListChanged():
            return callbacks.resources
        case ResourceUpdated(uri=uri):
            return None if callbacks.resource is None else partial(callbacks.resource, uri)
        case Resynced():
            return None


@final
class Subscriptions:
    """The subscriptions of one connection.

    Args:
        forget: Told of every change, whoever listens to it.
        callbacks: What the user wants called.
        warn_of_strays: Whether notifications that belong to no subscription are remarkable. They are not if
            somebody takes all notifications, who may have subscribed by hand.
    """

    def __init__(self, forget: Forget, callbacks: Callbacks, *, warn_of_strays: bool = True) -> None:
        self._forget = forget
        self._callbacks = callbacks
        self._warn_of_strays = warn_of_strays
        self._peer: Peer | None = None
        self._is_modern = False
        self._for_callbacks: RequestId | None = None
        self._warned: set[str] = set()
        self._by_id: dict[RequestId, Subscription] = {}
        self._legacy: dict[Subscription, None] = {}

    def begin(self, peer: Peer, revision: Revision) -> None:
        """Say which connection it is, once it is agreed on what is spoken there."""
        self._peer = peer
        self._is_modern = revision.is_modern

    def add(self, subscription: Subscription) -> None:
        """Let a subscription hear what comes from now on."""
        if subscription.id is None:
            self._legacy[subscription] = None
        else:
            self._by_id[subscription.id] = subscription

    def remove(self, subscription: Subscription) -> None:
        """Nobody listens to the subscription any more."""
        self._legacy.pop(subscription, None)
        if subscription.id is not None:
            self._by_id.pop(subscription.id, None)

    def distrust(self, wanted: SubscriptionFilter) -> None:
        """Everything that is listened to may have changed unheard; of resources the callback is told so."""
        for change in changes_in(wanted):
            self._forget(change)
            if isinstance(change, ResourceUpdated):
                self._tell_callback(change)

    def tell_callbacks(self, changes: Iterable[Change], id: RequestId | None) -> None:
        """Let the callbacks know of changes that may have happened, in line with what the server says.

        Args:
            changes: The changes.
            id: The subscription of the callbacks, in the modern era.
        """
        self._for_callbacks = id
        for change in changes:
            self._tell_callback(change)

    def _tell_callback(self, change: Change) -> None:
        if change_callback(self._callbacks, change) is not None and self._peer is not None:
            meta = {} if self._for_callbacks is None else {SUBSCRIPTION_ID_KEY: self._for_callbacks}
            self._peer.deliver(notification_of(change, meta))

    def callback_for(self, notification: Notification) -> Callable[[], object] | None:
        """Return what the user wants called for a notification, or `None` if it is not for a callback.

        In the modern era a change of a list concerns the subscription it names and no other, and the callbacks
        have one of their own.
        """
        change = read_change(notification)
        if change is None:
            return None
        if self._is_modern and not isinstance(change, ResourceUpdated):
            id = subscription_id(notification.params or {})
            if id is None or id != self._for_callbacks:
                return None
        return change_callback(self._callbacks, change)

    def overhear(self, notification: Notification) -> None:
        """Bring what a notification says to those it concerns; see `OnNotificationRead`."""
        is_modern = self._is_modern
        if is_modern and notification.method == _ACKNOWLEDGED:
            self._acknowledge(notification.params or {})
        elif is_modern and notification.method == _CANCELLED:
            id = read_id((notification.params or {}).get("requestId"))
            if id is not None and id in self._by_id:
                self._by_id[id].end()
        else:
            change = read_change(notification)
            if change is None:
                return
            self._forget(change)
            if is_modern:
                self._bring(change, notification)
            else:
                self._broadcast(change)

    def _acknowledge(self, params: Mapping[str, Any]) -> None:
        subscription = self._find(params)
        if subscription is None:
            self._warn("the acknowledgement of a subscription that does not exist")
        elif subscription.is_acknowledged:
            self._warn("a second acknowledgement of a subscription")
        else:
            try:
                acknowledgement = from_wire(params, SubscriptionsAcknowledgedNotificationParams)
            except InvalidData as error:
                self._warn(f"an acknowledgement that cannot be read ({error})")
            else:
                subscription.is_acknowledged = True
                subscription.acknowledge(acknowledgement.notifications)

    def _bring(self, change: Change, notification: Notification) -> None:
        """Bring a change to the one subscription that it names (2026-07-28, basic/patterns/subscriptions)."""
        subscription = self._find(notification.params or {})
        if subscription is None:
            if self._warn_of_strays:
                self._warn(f"{notification.method} for a subscription that does not exist")
        elif not subscription.is_acknowledged:
            self._warn(f"{notification.method} before the subscription was acknowledged")
        elif not wants(subscription.wanted, change):
            self._warn(f"{notification.method}, which was not asked for")
        else:
            subscription.hear(change)

    def _broadcast(self, change: Change) -> None:
        """Bring a change to all who want it. In the legacy era it names nobody."""
        for subscription in tuple(self._legacy):
            if not (subscription.is_acknowledged and wants(subscription.wanted, change)):
                continue
            uris = subscription.wanted.resource_subscriptions or ()
            if not isinstance(change, ResourceUpdated) or any(covers(uri, change.uri) for uri in uris):
                subscription.hear(change)

    def _find(self, params: Mapping[str, Any]) -> Subscription | None:
        id = subscription_id(params)
        return None if id is None else self._by_id.get(id)

    def _warn(self, what: str) -> None:
        """Say once per connection what was ignored; a server that does it once does it again."""
        if what not in self._warned and len(self._warned) < 20:
            self._warned.add(what)
            _log.warning("ignored %s; the server is not told, and this is not said again", what)


def subscription_id(params: Mapping[str, Any]) -> RequestId | None:
    """Return the id of the subscription that a notification or a result says it belongs to."""
    meta = params.get("_meta")
    return read_id(meta.get(SUBSCRIPTION_ID_KEY)) if is_object(meta) else None


_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"


@final
@attrs.define(eq=False)
class _Held:
    """One resource.

    A request that is given up leaves open what the server thinks, so there are two answers: nobody relies on a
    subscription that the server has not confirmed, and whatever it may think is taken back in the end.

    Attributes:
        count: How many listeners want it.
        users: How many listeners have not given it back entirely; the last one forgets the resource.
        is_subscribed: Whether the server has said that we are subscribed, and was not asked to end it since.
        may_be_subscribed: Whether the server may think that we are.
        turn: Held while the server is being asked, so that it is asked in order.
    """

    count: int = 0
    users: int = 0
    is_subscribed: bool = False
    may_be_subscribed: bool = False
    turn: trio.Lock = attrs.field(factory=trio.Lock)


@final
class ResourceSubscriptions:
    """Subscribes to a resource when the first listener comes and unsubscribes when the last has gone.

    Args:
        peer: The connection.
        revision: What is spoken there.
        is_declared: Whether the server has said that it lets clients do so. It is asked all the same: many
            servers let them and do not say so, and one that does not can answer for itself.
        goodbye_timeout: How many seconds unsubscribing may take.
    """

    def __init__(self, peer: Peer, revision: Revision, *, is_declared: bool, goodbye_timeout: float) -> None:
        self._peer = peer
        self._revision = revision
        self._is_declared = is_declared
        self._goodbye_timeout = goodbye_timeout
        self._held: dict[str, _Held] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._held)

    def forget(self) -> None:
        """The server knows nothing of the connection any more. It is not told that something is unwanted."""
        self._is_over = True

    async def acquire(self, uris: Sequence[str]) -> None:
        """Subscribe to resources. Whatever comes of it, `release` has to follow.

        Raises:
            RequestError: The server refuses it.
            ConnectionLost: The connection ended first.
        """
        for uri in uris:
            held = self._held.setdefault(uri, _Held())
            held.count += 1
            held.users += 1
        errors = await _for_each(uris, self._subscribe)
        if errors:
            raise errors[0]

    async def release(self, uris: Sequence[str]) -> None:
        """Give back what `acquire` was called for.

        Cancelled or not, the server is told of what nobody wants any more, within the goodbye's timeout.
        """
        unwanted: list[str] = []
        for uri in uris:
            held = self._held[uri]
            held.count -= 1
            if not held.count:
                unwanted.append(uri)
        try:
            with trio.move_on_after(self._goodbye_timeout, shield=True):
                for error in await _for_each(unwanted, self._unsubscribe):
                    _log.debug("could not unsubscribe: %s", error)
        finally:
            for uri in uris:
                held = self._held[uri]
                held.users -= 1
                if not held.users:
                    del self._held[uri]

    async def _subscribe(self, uri: str) -> None:
        held = self._held[uri]
        async with held.turn:
            if held.is_subscribed:
                return

            def begin(_: RequestId) -> None:
                held.may_be_subscribed = True

            params = to_wire(SubscribeRequestParams(uri=uri), self._revision)
            try:
                await self._peer.request(_SUBSCRIBE, params, on_id=begin)
            except RequestError as error:
                held.may_be_subscribed = False
                if error.code == METHOD_NOT_FOUND and not self._is_declared:
                    what = f"this server does not let clients subscribe to resources: {error.message}"
                    raise RequestError(METHOD_NOT_FOUND, what, error.data) from error
                raise
            held.is_subscribed = True

    async def _unsubscribe(self, uri: str) -> None:
        held = self._held[uri]
        async with held.turn:
            # Another listener may have come while this one waited for its turn.
            if held.may_be_subscribed and not held.count and not self._is_over:
                held.is_subscribed = False
                params = to_wire(UnsubscribeRequestParams(uri=uri), self._revision)
                await self._peer.request(_UNSUBSCRIBE, params)
                held.may_be_subscribed = False


async def _for_each(uris: Sequence[str], act: Callable[[str], Awaitable[None]]) -> list[Exception]:
    """Act on all at once, and return what went wrong."""
    errors: list[Exception] = []

    async def one(uri: str) -> None:
        try:
            await act(uri)
        except (McpError, trio.ClosedResourceError) as error:
            errors.append(error)

    async with open_hidden_nursery() as nursery:
        for uri in uris:
            nursery.start_soon(one, uri)
    return errors
