"""What the client of one connection is told of changes, in either era. What has changed is the hub's business.

A session of the legacy era gets the list changes that were declared to it, and the resources it has subscribed
to, as notifications of the connection. In the modern era each ``subscriptions/listen`` gets what it asked for and
nothing else, as notifications of that request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from contextvars import Context as Variables
from typing import Any, Final, final

import trio

from .. import types
from .._channel import Origin, holder_of
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._cost import weight_of
from .._codec._jsonrpc import Request, RequestId
from .._core._account import Loan, Overdrawn, Pool
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    SERVER_BUSY,
    ConnectionLost,
    LocalProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._parking_lot import LightParkingLot
from .._peer._exchange import Answer, Exchange, Standing
from .._peer._peer import Peer
from .._revisions import SUBSCRIPTION_ID_KEY, Revision
from ._background import Background
from ._changes import LIST_CHANGES, Announcement, Change, ChangeHub, Receiver, resource_change
from ._params import read_params

__all__ = ["KeptForConnection", "Subscriptions"]

_log: Final = Log("trio_mcp.server")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

SUBSCRIPTION_BYTES: Final = 1024
"""What it takes to remember that somebody wants to be told of a resource, beside its URI."""

CHARACTER_BYTES: Final = 4
"""What a byte of a URI in UTF-8 takes in memory at most."""

LISTENING_BYTES: Final = 8 * 1024
"""What a ``subscriptions/listen`` takes that names no resource: its task, its stream."""


@final
class KeptForConnection:
    """In whose name the subscriptions of one connection are kept.

    Args:
        pool: Lends bytes.
        holder: Who it is, where a message does not say.
        keep: Told how much is kept of what a session of the legacy era has subscribed to, and raises `Overdrawn`.
            By default that is lent as something that cannot be taken back: nothing would tell the client.
    """

    __slots__ = ("_keep", "_loan", "_pool", "holder")  # every session has one

    def __init__(self, pool: Pool, holder: str, keep: Callable[[int], object] | None = None) -> None:
        self.holder: Final = holder
        self._pool = pool
        self._keep = keep
        self._loan: Loan | None = None

    def keep(self, amount: int) -> None:
        """Keep so many bytes for the session.

        Raises:
            Overdrawn: There is no room for them.
        """
        if self._keep is not None:
            self._keep(amount)
        elif self._loan is not None:
            self._loan.change(amount)
        else:
            self._loan = self._pool.lend(self.holder, "subscriptions", amount)

    def lend(self, origin: Origin | None, amount: int, give_way: Callable[[], object]) -> Loan:
        """Lend bytes to one request.

        Raises:
            Overdrawn: There is no room for them.
        """
        holder = holder_of(origin, self.holder)
        return self._pool.lend(holder, "subscriptions", amount, give_way, own_gives_way=True)

    def close(self) -> None:
        """The connection is over."""
        if self._loan is not None:
            self._loan.give_back()


@final
class Subscriptions:
    """The subscriptions of one connection.

    Args:
        hub: Says what changes.
        capabilities: Returns what the server can do, as it stands.
        limits: How many subscriptions there may be.
        background: Where changes are told, for as long as the connection.
        written: Writes a result for a revision.
        kept: What lends the memory that it takes.
    """

    def __init__(
        self,
        hub: ChangeHub,
        capabilities: Callable[[], types.ServerCapabilities],
        limits: Limits,
        background: Background,
        written: Callable[[object, Revision], Answer],
        kept: KeptForConnection,
    ) -> None:
        self._hub = hub
        self._kept = kept
        self._background = background
        self._capabilities = capabilities
        self._limits = limits
        self._written = written
        self._declared: tuple[Change, ...] = ()
        self._uris: dict[str, int] = {}
        self._uri_bytes = 0
        self._receiver: Receiver | None = None
        self._peer: Peer | None = None
        self._is_telling = False

    # What the connection says.

    @asynccontextmanager
    async def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AsyncGenerator[Peer]:
        """Open a connection, and tell its session of changes for as long as the body runs.

        An exception of the body comes out as itself. Leaving is the checkpoint.

        Args:
            opening: Opens the connection.
        """
        # There is a receiver before the first message is read, so that no change falls between the two.
        with closing(self._kept), self._hub.receiver(self._wake) as self._receiver:
            async with opening as peer:
                self._peer = peer
                self._wake()
                try:
                    yield peer
                finally:
                    self._peer = None

    def declared(self, capabilities: types.ServerCapabilities) -> None:
        """The handshake has declared this to the client; what was not declared is not sent."""
        self._declared = _list_changes(capabilities)

    def initialized(self) -> None:
        """The client is ready: from now on it is told when lists change.

        Spec: 2025-11-25, basic/lifecycle, "Initialization": nothing but pings and logging before.
        """
        if self._receiver is not None:
            for change in self._declared:
                self._receiver.want(change)
            self._receiver.want_announcements()

    def route(self, request: Request, revision: Revision) -> Standing | Answer | None:
        """Decide who serves a request; nobody, if it is not about subscriptions, or not of what the server has.

        Raises:
            RequestError: The request is refused.
        """
        params = request.params or {}
        if request.method == "subscriptions/listen":
            return self._listen(request, read_params(params, types.SubscriptionsListenRequestParams), revision)
        resources = self._capabilities().resources
        if self._receiver is None or resources is None or not resources.subscribe:
            return None
        if request.method == "resources/subscribe":
            return self._subscribe(self._receiver, read_params(params, types.SubscribeRequestParams).uri)
        if request.method == "resources/unsubscribe":
            return self._unsubscribe(self._receiver, read_params(params, types.UnsubscribeRequestParams).uri)
        return None

    # The legacy era.

    def _subscribe(self, receiver: Receiver, uri: str) -> Answer:
        if uri in self._uris:
            return {}
        if not self._knows(uri):
            raise RequestError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        limits, size = self._limits, len(uri.encode(errors="surrogatepass"))
        if len(self._uris) >= limits.max_subscriptions:
            raise RequestError(
                SERVER_BUSY,
                f"uri: subscribed to {len(self._uris)} resources already (max_subscriptions)",
            )
        if self._uri_bytes + size > limits.max_subscription_bytes:
            raise RequestError(
                SERVER_BUSY,
                f"uri: with it those that are subscribed to would exceed {limits.max_subscription_bytes} bytes "
                "(max_subscription_bytes)",
            )
        try:
            self._kept.keep(self._weight(1, size))
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"uri: there is no room to remember it: {error}") from None
        self._uris[uri] = size
        self._uri_bytes += size
        receiver.want(resource_change(uri))
        return {}

    def _unsubscribe(self, receiver: Receiver, uri: str) -> Answer:
        if uri in self._uris:
            self._uri_bytes -= self._uris.pop(uri)
            self._kept.keep(self._weight(0, 0))
            receiver.forget(resource_change(uri))
        return {}

    def _weight(self, more: int, size: int) -> int:
        """Return what it takes to remember what is subscribed to, and so many more URIs of so many bytes."""
        return SUBSCRIPTION_BYTES * (len(self._uris) + more) + CHARACTER_BYTES * (self._uri_bytes + size)

    def _wake(self) -> None:
        """There is something to say; start saying it, unless that has begun or the connection has not."""
        if self._peer is not None and not self._is_telling:
            self._is_telling = True
            # Changes are noted by whatever task makes them, whose context variables are its own.
            Variables().run(self._background.start_soon, self._tell, self._peer)

    async def _tell(self, peer: Peer) -> None:
        """Say what is to be said, as fast as the client takes it."""
        assert self._receiver is not None
        # Changes that come together are said together, and those that are equal are one.
        await trio.lowlevel.checkpoint()
        try:
            while (due := self._receiver.take()) is not None:
                try:
                    if isinstance(due, Announcement):
                        await peer.notify(due.method, due.encoded)
                    else:
                        await _say(peer.notify, due, None)
                except (ConnectionLost, trio.ClosedResourceError):
                    raise
                except Exception:
                    # The boundary of one notification: middleware that fails costs none of those behind it.
                    _log.exception("a notification could not be sent")
        except (ConnectionLost, trio.ClosedResourceError):
            pass  # whoever serves the connection learns of its end from the connection
        finally:
            self._is_telling = False

    # The modern era.

    def _listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams, revision: Revision
    ) -> Standing:
        wanted = params.notifications
        count, limit = len(wanted.resource_subscriptions or ()), self._limits.max_subscriptions
        if count >= limit:
            raise RequestError(
                INVALID_PARAMS,
                f"invalid params: notifications.resourceSubscriptions names {count} resources; with the request "
                f"itself that is {count + 1} subscriptions, and max_subscriptions is {limit}",
            )
        granted = self._granted(wanted)
        # All that came with it is kept, decoded, and each URI once more for the hub.
        weight = LISTENING_BYTES + weight_of(_json.encode(request.params)) + SUBSCRIPTION_BYTES * count
        listening = _Listening(request.id, revision, granted, self._hub, self._written, self._kept, weight)
        return Standing(listening.serve, listening.end, places=1 + len(granted.resource_subscriptions or ()))

    def _granted(self, wanted: types.SubscriptionFilter) -> types.SubscriptionFilter:
        """Return the part of what is wanted that the server has; the rest is left out of it."""
        capabilities = self._capabilities()
        told = _list_changes(capabilities)
        uris: tuple[str, ...] | None = None
        if capabilities.resources is not None and capabilities.resources.subscribe:
            asked = wanted.resource_subscriptions
            uris = None if asked is None else tuple(uri for uri in dict.fromkeys(asked) if self._knows(uri))
        return types.SubscriptionFilter(
            tools_list_changed=(wanted.tools_list_changed and LIST_CHANGES["tools"] in told) or None,
            prompts_list_changed=(wanted.prompts_list_changed and LIST_CHANGES["prompts"] in told) or None,
            resources_list_changed=(wanted.resources_list_changed and LIST_CHANGES["resources"] in told) or None,
            resource_subscriptions=uris,
        )

    def _knows(self, uri: str) -> bool:
        if self._hub.knows is None:
            return True
        try:
            return self._hub.knows(uri)
        except Exception as error:
            # The boundary of one request, although no handler has been started yet.
            _log.exception("whether there is a resource %.200r could not be found out", uri)
            raise RequestError(INTERNAL_ERROR, "internal error") from error


@final
class _Listening:
    """One ``subscriptions/listen``.

    Spec: 2026-07-28, basic/patterns/subscriptions.
    """

    def __init__(
        self,
        id: RequestId,
        revision: Revision,
        granted: types.SubscriptionFilter,
        hub: ChangeHub,
        written: Callable[[object, Revision], Answer],
        kept: KeptForConnection,
        weight: int,
    ) -> None:
        self._kept = kept
        self._weight = weight
        self._meta: Final[dict[str, Any]] = {SUBSCRIPTION_ID_KEY: id}
        self._revision = revision
        self._granted = granted
        self._hub = hub
        self._written = written
        self._something = LightParkingLot()
        self._ended = False

    def end(self) -> None:
        """Say what is still to be said, and then that this was all."""
        self._ended = True
        self._something.unpark_all()

    def _give_way(self) -> None:
        _log.info("a subscription gives way to others, and is ended in good order")
        self.end()

    async def serve(self, exchange: Exchange) -> Answer:
        try:
            loan = self._kept.lend(exchange.origin, self._weight, self._give_way)
        except Overdrawn as error:
            problem = f"there is no room for a subscription that takes {self._weight} bytes: {error}"
            raise RequestError(SERVER_BUSY, problem) from None
        with loan:
            return await self._serve(exchange)

    async def _serve(self, exchange: Exchange) -> Answer:
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
            meta=self._meta, notifications=self._granted
        )
        with self._hub.receiver(self._something.unpark_all) as receiver:
            for change in _changes_in(self._granted):
                receiver.want(change)
            # What changes from here on waits until this is said.
            await exchange.notify(ACKNOWLEDGED, to_wire(acknowledged, self._revision))
            while (due := receiver.take()) is not None or not self._ended:
                if due is None:
                    await self._something.park()
                elif not isinstance(due, Announcement):  # which none of these wants
                    await _say(exchange.notify, due, self._meta)
        return self._written(types.SubscriptionsListenResult(meta=self._meta), self._revision)


async def _say(
    notify: Callable[[str, dict[str, Any] | None], Awaitable[None]], change: Change, meta: dict[str, Any] | None
) -> None:
    try:
        await notify(change.method, change.params(meta))
    except LocalProtocolError as error:
        # Its URI was short enough to be asked for, and is too long with what belongs around it here.
        _log.warning("a change cannot be told: %s", error)
        await trio.lowlevel.checkpoint()


def _list_changes(capabilities: types.ServerCapabilities) -> tuple[Change, ...]:
    """Return the list changes that these capabilities promise."""
    declared = {
        "tools": capabilities.tools,
        "prompts": capabilities.prompts,
        "resources": capabilities.resources,
    }
    return tuple(
        change
        for kind, change in LIST_CHANGES.items()
        if (capability := declared[kind]) is not None and capability.list_changed
    )


def _changes_in(granted: types.SubscriptionFilter) -> tuple[Change, ...]:
    lists = {
        "tools": granted.tools_list_changed,
        "prompts": granted.prompts_list_changed,
        "resources": granted.resources_list_changed,
    }
    return (
        *(change for kind, change in LIST_CHANGES.items() if lists[kind]),
        *(resource_change(uri) for uri in granted.resource_subscriptions or ()),
    )
