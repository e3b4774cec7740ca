"""Subscriptions of clients of a proxy, where they are not requests that pass as they are.

    client  server
    legacy  legacy  its session's own; `Upstream` restores them
    modern  modern  ``subscriptions/listen`` passes, with the id of each side (`forward_listening`)
    legacy  modern  the proxy subscribes, and notifies the session (`FollowedChanges`)
    modern  legacy  the proxy subscribes, and notifies by the client's own request (`listen_for`)

Spec: 2026-07-28, basic/patterns/subscriptions; 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, final

import attrs
import trio

from .._client._connection import Connection
from .._client._listen import EndedByServer
from .._client._subscriptions import Subscription
from .._codec._jsonrpc import RequestId, to_wire
from .._core._changes import ACKNOWLEDGED, Change, Resynced, changes_in, granted_by, notification_of
from .._errors import RESOURCE_NOT_FOUND, McpError, RequestError
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Exchange
from .._revisions import SUBSCRIPTION_ID_KEY, Revision
from .._server._lifetimes import Background
from ..types import SubscriptionFilter
from ._eras import passed_on
from ._upstream import SessionOfClient, SubscribedUris, Upstream

_log: Final = Log("trio_mcp.proxy")


def _told_by(change: Change, wanted: SubscriptionFilter) -> list[Change]:
    """Return the changes to report for what a listener has received: after an interruption, all of them."""
    return changes_in(wanted) if isinstance(change, Resynced) else [change]


# A legacy client before a modern server.


@final
@attrs.define(eq=False)
class _Following:
    """A modern server's notifications of one resource, for a session of the legacy era."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    settled: trio.Event = attrs.field(factory=trio.Event)
    failure: Exception | None = None


@final
@attrs.define(eq=False)
class FollowedChanges:
    """The changes that a session of the legacy era is notified of by a modern server.

    Args:
        limits: How many resources it may subscribe to.
        background: Starts tasks that last as long as the session.
        session: The session.
    """

    _limits: Limits
    _background: Background
    _session: SessionOfClient
    _uris: SubscribedUris = attrs.field(factory=SubscribedUris, init=False)
    _following: dict[str, _Following] = attrs.field(factory=dict[str, _Following], init=False)

    def follow_lists(self, upstream: Upstream) -> None:
        """Notify the session of changes of lists, as its handshake has declared. Never waits."""
        self._background.start_own(self._follow_lists, upstream, name="changes of lists behind a proxy")

    async def _follow_lists(self, upstream: Upstream) -> None:
        try:
            connection = await upstream.connected()
            wanted = granted_by(connection.capabilities)
            if wanted != SubscriptionFilter():
                await self._notify_of(upstream, wanted)
        except (McpError, trio.ClosedResourceError) as error:
            _log.info("changes of lists are not forwarded any more: %s", error)

    async def _notify_of(
        self,
        upstream: Upstream,
        wanted: SubscriptionFilter,
        begun: Callable[[SubscriptionFilter], object] | None = None,
    ) -> None:
        async with upstream.open_events(wanted) as events:
            if begun is not None:
                begun(events.acknowledged)
            async for change in events:
                for one in _told_by(change, wanted):
                    notification = notification_of(one)
                    await self._session.ready.wait()
                    if self._session.peer is not None:
                        await self._session.peer.notify(notification.method, notification.params)

    async def follow(self, upstream: Upstream, uri: str) -> None:
        """Notify the session of changes of a resource from now on.

        Raises:
            RequestError: The server refuses it, or there are too many.
            McpError: The connection to the server was lost.
        """
        following = self._following.get(uri)
        if following is None:
            self._uris.add(uri, self._limits)
            following = self._following[uri] = _Following()
            self._background.start_own(
                self._follow_until_cancelled, upstream, uri, following, name="a resource behind a proxy"
            )
        await following.settled.wait()
        if following.failure is not None:
            raise following.failure

    def unfollow(self, uri: str) -> None:
        """Notify the session of changes of a resource no longer. Never waits."""
        following = self._following.get(uri)
        if following is not None:
            following.scope.cancel(reason="the client has unsubscribed")

    async def _follow_until_cancelled(self, upstream: Upstream, uri: str, following: _Following) -> None:
        def begun(acknowledged: SubscriptionFilter) -> None:
            if uri in (acknowledged.resource_subscriptions or ()):
                following.failure = None
                following.settled.set()
            else:
                following.scope.cancel(reason="the server does not notify of it")

        following.failure = RequestError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        try:
            with following.scope, upstream.in_use():
                await self._notify_of(upstream, SubscriptionFilter(resource_subscriptions=(uri,)), begun)
        except (McpError, trio.ClosedResourceError) as error:
            following.failure = error
        finally:
            del self._following[uri]
            self._uris.discard(uri)
            following.settled.set()


# Modern clients.


async def forward_listening(
    upstream: Upstream, connection: Connection, wanted: SubscriptionFilter, exchange: Exchange
) -> Mapping[str, Any]:
    """Forward a subscription. It ends with the connection, and its client may then subscribe again."""
    peer = connection.peer
    subscription = Subscription(wanted, lambda _: None, lambda _: None)

    def begin(id: RequestId) -> None:
        subscription.id = id
        subscription.end = lambda: peer.fail_request(id, EndedByServer("the server ended it"))
        connection.subscriptions.add(subscription)
        upstream.listening[id] = exchange

    params = passed_on(exchange.request.params)
    try:
        with connection.until_stale():
            result = await peer.request(exchange.request.method, params, on_id=begin)
            await peer.wait_notified()  # what belongs to it is sent before its end
            return result
        raise connection.end or trio.ClosedResourceError("the connection was closed")
    except EndedByServer:
        return {"resultType": "complete"}
    finally:
        connection.subscriptions.remove(subscription)
        if subscription.id is not None and upstream.listening.get(subscription.id) is exchange:
            del upstream.listening[subscription.id]


async def listen_for(upstream: Upstream, wanted: SubscriptionFilter, exchange: Exchange) -> None:
    """Listen to a legacy server for a modern client."""
    meta = {SUBSCRIPTION_ID_KEY: exchange.request.id}
    async with upstream.open_events(wanted) as events:
        granted = events.acknowledged
        acknowledged = {"_meta": meta, "notifications": to_wire(granted, max(Revision))}
        await exchange.notify(ACKNOWLEDGED, acknowledged)
        async for change in events:
            for one in _told_by(change, granted):
                notification = notification_of(one, meta)
                await exchange.notify(notification.method, notification.params)
