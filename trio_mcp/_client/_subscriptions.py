"""Which subscriptions a notification belongs to, and which resources a legacy connection is subscribed to.

`Subscriptions.dispatch` runs while a notification is being read, before anything behind it is: when a
subscription ends, its listener has received what the server sent before. Nothing in `Subscriptions` waits or
starts a task.

Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .. import types
from .._codec._json import InvalidData, is_object
from .._codec._jsonrpc import Notification, RequestId, from_wire, read_id, to_wire
from .._core._changes import (
    ACKNOWLEDGED,
    KINDS,
    Change,
    ResourceUpdated,
    Resynced,
    TaskUpdated,
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

_log: Final = Log("trio_mcp.client")

_CANCELLED: Final = "notifications/cancelled"

MAX_GIVEN_UP: Final = 64
"""How many ids of subscriptions that were given up are kept: what was sent before may still come."""

Forget = Callable[[Change | None], object]
"""Called with each change that outdates cached results; with `None`, all of them may be outdated."""


@final
@attrs.define(eq=False)
class Subscription:
    """What one listener listens to on one connection.

    Attributes:
        wanted: What was asked for.
        hear: Called with each change. It must not wait.
        acknowledge: Called once, with what the server will notify.
        end: Called when the server cancels the subscription instead of answering it.
        id: In the modern era, the id of the request that made it.
        is_acknowledged: Whether notifications may come yet.
    """

    wanted: types.SubscriptionFilter
    hear: Callable[[Change], object]
    acknowledge: Callable[[types.SubscriptionFilter], object]
    end: Callable[[], object] = lambda: None
    id: RequestId | None = None
    is_acknowledged: bool = False


@final
@attrs.frozen(kw_only=True)
class Callbacks:
    """The user's callbacks for changes; a returned awaitable is awaited.

    Attributes:
        tools: Called when the list of tools changes.
        prompts: Called when the list of prompts changes.
        resources: Called when the list of resources changes.
        resource: Called when a resource changes, with its URI.
    """

    tools: Callable[[], object] | None = None
    prompts: Callable[[], object] | None = None
    resources: Callable[[], object] | None = None
    resource: Callable[[str], object] | None = None

    @property
    def wanted(self) -> types.SubscriptionFilter:
        """The changes of lists that there are callbacks for."""
        return types.SubscriptionFilter(
            tools_list_changed=self.tools is not None or None,
            prompts_list_changed=self.prompts is not None or None,
            resources_list_changed=self.resources is not None or None,
        )

    def find(self, change: Change) -> Callable[[], object] | None:
        """Return the callback for a change, ready to be called."""
        if isinstance(change, ResourceUpdated):
            return None if self.resource is None else partial(self.resource, change.uri)
        return None if isinstance(change, (TaskUpdated, Resynced)) else getattr(self, KINDS[change])


@final
@attrs.define(eq=False)
class Subscriptions:
    """The subscriptions of one connection.

    Args:
        forget: Called with every change.
        callbacks: The user's callbacks.
        warn_of_unknown: Whether to log notifications that belong to no subscription. They are expected where the
            user handles all notifications, and may have subscribed by hand.
    """

    _forget: Forget
    _callbacks: Callbacks
    _warn_of_unknown: bool = attrs.field(alias="warn_of_unknown", default=True, kw_only=True)
    _peer: Peer | None = attrs.field(default=None, init=False)
    _is_modern: bool = attrs.field(default=False, init=False)
    _for_callbacks: RequestId | None = attrs.field(default=None, init=False)
    _warned: set[str] = attrs.field(factory=set[str], init=False)
    _by_id: dict[RequestId, Subscription] = attrs.field(factory=dict[RequestId, Subscription], init=False)
    _legacy: dict[Subscription, None] = attrs.field(factory=dict[Subscription, None], init=False)
    _given_up: dict[RequestId, None] = attrs.field(factory=dict[RequestId, None], init=False)  # oldest first

    def begin(self, peer: Peer, revision: Revision) -> None:
        """Set the connection, once a revision has been agreed on."""
        self._peer = peer
        self._is_modern = revision.is_modern

    def add(self, subscription: Subscription) -> None:
        """Bring notifications to a subscription from now on."""
        if subscription.id is None:
            self._legacy[subscription] = None
        else:
            self._by_id[subscription.id] = subscription

    def remove(self, subscription: Subscription) -> None:
        """Bring nothing to a subscription any more."""
        self._legacy.pop(subscription, None)
        if subscription.id is not None:
            self._by_id.pop(subscription.id, None)

    def give_up(self, id: RequestId) -> None:
        """Ignore what still comes for a subscription, because the server was not the one who has ended it."""
        if len(self._given_up) == MAX_GIVEN_UP:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[id] = None

    def report_missed(self, wanted: types.SubscriptionFilter) -> None:
        """Drop cached results whose changes may have been missed, and call the callback for those resources."""
        for change in changes_in(wanted):
            self._forget(change)
            if isinstance(change, ResourceUpdated):
                self._notify_callback(change)

    def report_interruption(self, reason: str) -> None:
        """Let everything be fetched again: what the server has notified in the legacy era may have been lost."""
        self._forget(None)
        for subscription in tuple(self._legacy):
            if subscription.is_acknowledged:
                subscription.hear(Resynced(reason))
        self.notify_callbacks(changes_in(self._callbacks.wanted), None)

    def notify_callbacks(self, changes: Iterable[Change], id: RequestId | None) -> None:
        """Notify callbacks of changes that may have been missed, in line with the server's notifications.

        Cached results whose changes these are are dropped.

        Args:
            changes: The changes.
            id: The subscription of the callbacks, in the modern era.
        """
        self._for_callbacks = id
        for change in changes:
            self._forget(change)
            self._notify_callback(change)

    def _notify_callback(self, change: Change) -> None:
        if self._callbacks.find(change) is not None and self._peer is not None:
            meta = {} if self._for_callbacks is None else {SUBSCRIPTION_ID_KEY: self._for_callbacks}
            self._peer.deliver(notification_of(change, meta))

    def callback_for(self, notification: Notification) -> Callable[[], object] | None:
        """Return the callback for a notification, or `None` if there is none.

        In the modern era a change of a list belongs to the subscription it names and no other, and the callbacks
        have their own.
        """
        change = read_change(notification)
        if change is None:
            return None
        if self._is_modern and not isinstance(change, ResourceUpdated):
            id = subscription_id(notification.params or {})
            if id is None or id != self._for_callbacks:
                return None
        return self._callbacks.find(change)

    def dispatch(self, notification: Notification) -> None:
        """Bring a notification to its subscriptions, and outdate cached results; see `OnNotificationRead`."""
        is_modern = self._is_modern
        if is_modern and notification.method == ACKNOWLEDGED:
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
            self._warn_of_stray(params, "the acknowledgement of a subscription that does not exist")
        elif subscription.is_acknowledged:
            self._warn("a second acknowledgement of a subscription")
        else:
            try:
                acknowledgement = from_wire(params, types.SubscriptionsAcknowledgedNotificationParams)
            except InvalidData as error:
                self._warn(f"an acknowledgement that cannot be read ({error})")
            else:
                subscription.is_acknowledged = True
                subscription.acknowledge(acknowledgement.notifications)

    def _bring(self, change: Change, notification: Notification) -> None:
        """Bring a change to the one subscription that it names (2026-07-28, basic/patterns/subscriptions)."""
        subscription = self._find(notification.params or {})
        if subscription is None:
            if self._warn_of_unknown:
                self._warn_of_stray(
                    notification.params or {}, f"{notification.method} for a subscription that does not exist"
                )
        elif not subscription.is_acknowledged:
            self._warn(f"{notification.method} before the subscription was acknowledged")
        elif not wants(subscription.wanted, change):
            self._warn(f"{notification.method}, which was not asked for")
        else:
            subscription.hear(change)

    def _broadcast(self, change: Change) -> None:
        """Bring a change to all that want it: in the legacy era it names no subscription."""
        for subscription in tuple(self._legacy):
            if not (subscription.is_acknowledged and wants(subscription.wanted, change)):
                continue
            uris = subscription.wanted.resource_subscriptions or ()
            if not isinstance(change, ResourceUpdated) or any(covers(uri, change.uri) for uri in uris):
                subscription.hear(change)

    def _find(self, params: Mapping[str, Any]) -> Subscription | None:
        id = subscription_id(params)
        return None if id is None else self._by_id.get(id)

    def _warn_of_stray(self, params: Mapping[str, Any], what: str) -> None:
        """Log what belongs to no subscription, unless it may have been sent before that was given up."""
        id = subscription_id(params)
        if id is None or id not in self._given_up:
            self._warn(what)

    def _warn(self, what: str) -> None:
        """Log each kind of ignored message once per connection."""
        if what not in self._warned and len(self._warned) < 20:
            self._warned.add(what)
            _log.warning("ignored %s; the next ones like it are not logged", what)


def subscription_id(params: Mapping[str, Any]) -> RequestId | None:
    """Return the id of the subscription that a notification or a result belongs to."""
    meta = params.get("_meta")
    return read_id(meta.get(SUBSCRIPTION_ID_KEY)) if is_object(meta) else None


_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"


@final
@attrs.define(eq=False)
class _Held:
    """One resource.

    After a cancelled request it is open whether the server has subscribed us. So no listener relies on a
    subscription that the server has not confirmed, and one that it may have made is ended when the last
    listener leaves.

    Attributes:
        count: How many listeners want it.
        users: How many listeners have not released it entirely; the last one forgets the resource.
        is_subscribed: Whether the server has confirmed the subscription, and was not asked to end it since.
        may_be_subscribed: Whether the server may have subscribed us.
        turn: Held while the server is being asked, so that it is asked in order.
    """

    count: int = 0
    users: int = 0
    is_subscribed: bool = False
    may_be_subscribed: bool = False
    turn: trio.Lock = attrs.field(factory=trio.Lock)


@final
@attrs.define(eq=False)
class ResourceSubscriptions:
    """Subscribes to a resource when the first listener comes and unsubscribes when the last one leaves.

    Args:
        peer: The connection.
        revision: The revision that is spoken.
        is_declared: Whether the server declares subscriptions to resources. It is asked all the same: many
            servers have them and do not declare it.
        goodbye_timeout: How many seconds unsubscribing may take.
    """

    _peer: Peer
    _revision: Revision
    _is_declared: bool = attrs.field(alias="is_declared", kw_only=True)
    _goodbye_timeout: float = attrs.field(alias="goodbye_timeout", kw_only=True)
    _held: dict[str, _Held] = attrs.field(factory=dict[str, _Held], init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._held)

    def forget(self) -> None:
        """Send nothing more: the server does not know the connection any more."""
        self._is_over = True

    async def acquire(self, uris: Sequence[str]) -> None:
        """Subscribe to resources. `release` must follow, also after an error.

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
        """Undo `acquire`.

        Unsubscribes from what no listener wants any more, also if cancelled, within the ``goodbye_timeout``.
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

            params = to_wire(types.SubscribeRequestParams(uri=uri), self._revision)
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
                params = to_wire(types.UnsubscribeRequestParams(uri=uri), self._revision)
                await self._peer.request(_UNSUBSCRIBE, params)
                held.may_be_subscribed = False


async def _for_each(uris: Sequence[str], act: Callable[[str], Awaitable[None]]) -> list[Exception]:
    """Act on all at once, and return the errors."""
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
