"""What has changed in a server, and everybody who wants to be told.

One hub per server. It knows who wants what, and remembers for each of them what is still to be said. It says
nothing itself and knows no connection and no era: that is the business of those who receive.

What the client of one connection is told of changes, in either era. What has changed is the hub's business.

A session of the legacy era gets the list changes that were declared to it, and the resources it has subscribed
to, as notifications of the connection. In the modern era each ``subscriptions/listen`` gets what it asked for and
nothing else, as notifications of that request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from contextvars import Context as Variables
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from .. import types
from .._channel import Origin, holder_of
from .._codec import _json
from .._codec._convert import to_wire
from .._codec._json import weight_of
from .._codec._jsonrpc import Encoded, Request, RequestId, encode_notification
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
from .._peer._exchange import Answer, Exchange, LongLived
from .._peer._peer import Peer
from .._revisions import SUBSCRIPTION_ID_KEY, Revision
from .._trio import LightParkingLot
from ._lifetimes import Background
from ._listing import read_params

# How a change travels: whatever has changed calls the hub, synchronously. The hub notes the change with each
# receiver that wants it, where it merges with an equal one that is still to be said, and wakes the receiver. The
# receiver's own task says it, at the pace of its client. What is noted for a receiver is never more than what it
# wants, so a client that reads nothing costs a bounded amount of memory, and nobody any time. Notifications of
# the author's own travel the same way; they do not merge, so the oldest of them makes room.

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
"""What a server has lists of. Templates count as resources."""


@final
@attrs.frozen
class Change:
    """Something that clients can be told of. Equal changes say the same.

    Attributes:
        method: The notification that tells it.
        uri: The resource that has changed; `None` if it is a list.
    """

    method: str
    uri: str | None = None

    def params(self, meta: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the parameters of the notification."""
        params: dict[str, Any] = {} if meta is None else {"_meta": meta}
        if self.uri is not None:
            params["uri"] = self.uri
        return params or None


@final
@attrs.frozen(eq=False)
class Announcement:
    """A notification of the server's author to all sessions. No two of them are equal.

    Attributes:
        method: The notification.
        encoded: Its parameters.
        size: How many bytes it is as a message.
    """

    method: str
    encoded: Encoded | None
    size: int

    @classmethod
    def of(cls, method: str, encoded: Encoded | None) -> Announcement:
        """Return a notification with its size."""
        return cls(method, encoded, len(encode_notification(method, encoded)))


@final
class _Announcements:
    """Announcements that are still to be sent, within bounds: a new one costs the oldest."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._line: deque[Announcement] = deque()
        self._bytes = 0

    def add(self, one: Announcement) -> list[Announcement]:
        """Add one, and return those that had to make room."""
        limits, dropped = self._limits, list[Announcement]()
        self._line.append(one)
        self._bytes += one.size
        while len(self._line) > limits.max_announcements or (
            self._bytes > limits.max_announcement_bytes and len(self._line) > 1
        ):
            dropped.append(self.take())
        return dropped

    def take(self) -> Announcement:
        """Return the oldest, which is there no longer."""
        one = self._line.popleft()
        self._bytes -= one.size
        return one

    def __len__(self) -> int:
        return len(self._line)


LIST_CHANGES: Final[dict[ListKind, Change]] = {
    "tools": Change("notifications/tools/list_changed"),
    "prompts": Change("notifications/prompts/list_changed"),
    "resources": Change("notifications/resources/list_changed"),
}


def resource_change(uri: str) -> Change:
    """Return the change of one resource."""
    return Change("notifications/resources/updated", uri)


@final
class Receiver:
    """Somebody who is told of changes. Made by `ChangeHub.receiver`; of use only to tasks of its Trio run.

    Args:
        audience: Who is told in this run.
        wake: Called when there is something to say and there was nothing before. Must not wait.
    """

    def __init__(self, audience: _Audience, wake: Callable[[], object]) -> None:
        self._audience = audience
        self._wake = wake
        self._wanted: set[Change] = set()
        self._pending: dict[Change | Announcement, None] = {}
        self._announcements: _Announcements | None = None

    def want(self, change: Change) -> None:
        """Be told of this from now on; asking twice is asking once."""
        self._wanted.add(change)
        self._audience.add(change, self)

    def forget(self, change: Change) -> None:
        """Be told of this no longer, not even what is still to be said."""
        self._wanted.discard(change)
        self._pending.pop(change, None)
        self._audience.discard(change, self)

    def want_announcements(self) -> None:
        """Be sent the notifications of the server's author from now on."""
        self._audience.sessions[self] = None

    def announce(self, one: Announcement, limits: Limits) -> int:
        """Remember to send this, and return how many others are not sent for it."""
        if self._announcements is None:
            self._announcements = _Announcements(limits)
        dropped = self._announcements.add(one)
        for other in dropped:
            self._pending.pop(other, None)
        was_idle = not self._pending
        self._pending[one] = None
        if was_idle:
            self._wake()
        return len(dropped)

    def forget_all(self) -> None:
        """Be told of nothing any more."""
        self._audience.sessions.pop(self, None)
        for change in tuple(self._wanted):
            self.forget(change)

    def note(self, change: Change) -> None:
        """Remember to say this, once; what was first to be said is said first."""
        was_idle = not self._pending
        self._pending[change] = None
        if was_idle:
            self._wake()

    def take(self) -> Change | Announcement | None:
        """Return what is to be said next; it is not said again unless it happens again."""
        due = next(iter(self._pending), None)
        if due is not None:
            del self._pending[due]
        if isinstance(due, Announcement):
            assert self._announcements is not None
            self._announcements.take()  # they are pending in the same order
        return due


@final
class _Audience:
    """Who wants to be told what, in one Trio run.

    Attributes:
        receivers: How many there are.
        sessions: Those of them that are sent announcements.
        dropped: Announcements that were not sent to one of them.
    """

    def __init__(self, limits: Limits) -> None:
        self.receivers = 0
        self.sessions: dict[Receiver, None] = {}
        self.dropped = 0
        self._limits = limits
        self._lock = threading.Lock()
        self._from_threads = _Announcements(limits)
        self._who: dict[Change, dict[Receiver, None]] = {}

    def add(self, change: Change, receiver: Receiver) -> None:
        self._who.setdefault(change, {})[receiver] = None

    def discard(self, change: Change, receiver: Receiver) -> None:
        receivers = self._who.get(change)
        if receivers is not None:
            receivers.pop(receiver, None)
            if not receivers:
                del self._who[change]

    def tell(self, change: Change) -> None:
        for receiver in self._who.get(change, ()):
            receiver.note(change)

    def hand_over(self, one: Announcement) -> None:
        """Leave an announcement of another thread for `take_over`. From any thread."""
        with self._lock:
            self.dropped += len(self._from_threads.add(one))

    def take_over(self) -> None:
        """Send what other threads have left."""
        with self._lock:
            due = [self._from_threads.take() for _ in range(len(self._from_threads))]
        for one in due:
            self.announce(one)

    def announce(self, one: Announcement) -> None:
        for receiver in self.sessions:
            self.dropped += receiver.announce(one, self._limits)


@final
class ChangeHub:
    """Passes on what has changed in a server, to all its connections.

    A server may be served by several Trio runs at once, and changed from any thread. Each run has an audience of
    its own, which only its own tasks touch; from anywhere else the change is handed to the run.

    Args:
        limits: How many announcements may wait for a session.

    Attributes:
        knows: Tells whether there is a resource of this URI, where somebody knows; else every URI may be
            subscribed to.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = Limits() if limits is None else limits
        self._dropped = 0
        self.knows: Callable[[str], bool] | None = None
        self._audiences: dict[trio.lowlevel.TrioToken, _Audience] = {}
        self._lock = threading.RLock()  # held for a few instructions; a signal handler may come in between

    @property
    def receivers(self) -> int:
        """How many are listening, in all runs."""
        return sum(audience.receivers for audience in self._copy().values())

    @contextmanager
    def receiver(self, wake: Callable[[], object]) -> Generator[Receiver]:
        """Have a receiver for as long as the block runs, in a task of a Trio run.

        Args:
            wake: Called when there is something to say and there was nothing before. Must not wait.
        """
        token = trio.lowlevel.current_trio_token()
        with self._lock:
            audience = self._audiences.setdefault(token, _Audience(self._limits))
            audience.receivers += 1
        receiver = Receiver(audience, wake)
        try:
            yield receiver
        finally:
            receiver.forget_all()
            with self._lock:
                audience.receivers -= 1
                if not audience.receivers:
                    del self._audiences[token]
                    self._dropped += audience.dropped

    def list_changed(self, kind: ListKind) -> None:
        """Say that a list has changed. From any thread; never waits, and nothing happens while nobody is served.

        Raises:
            KeyError: There is no such list.
        """
        self._tell(LIST_CHANGES[kind])

    def resource_updated(self, uri: str) -> None:
        """Say that a resource has changed. From any thread; never waits."""
        self._tell(resource_change(uri))

    @property
    def dropped(self) -> int:
        """Announcements that were not sent to a session, because it did not read those before."""
        return self._dropped + sum(audience.dropped for audience in self._copy().values())

    def announce(self, one: Announcement) -> None:
        """Send a notification to all sessions. From any thread; never waits."""
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.announce(one)
            else:
                audience.hand_over(one)
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.take_over, idempotent=True)

    def _tell(self, change: Change) -> None:
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.tell(change)
            else:
                # Equal changes merge on this way, too. A run that is over has nobody to tell.
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.tell, change, idempotent=True)

    def _copy(self) -> dict[trio.lowlevel.TrioToken, _Audience]:
        with self._lock:
            return dict(self._audiences)


def _current_run() -> trio.lowlevel.TrioToken | None:
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


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

    def route(self, request: Request, revision: Revision) -> LongLived | Answer | None:
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
    ) -> LongLived:
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
        return LongLived(listening.serve, listening.end, places=1 + len(granted.resource_subscriptions or ()))

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
