"""Notifies clients of changes: the server's hub, which knows who has subscribed to what, and its connections.

In the legacy era a session gets the list changes that were declared to it, and the resources it has subscribed
to, as notifications of the connection. In the modern era each ``subscriptions/listen`` gets what it asked for and
nothing else, as notifications of that request. What a change is, and which are granted, is decided in
`_core._changes`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from contextvars import Context as Variables
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .. import types
from .._channel import Origin, client_key_of, owner_of
from .._codec import _json
from .._codec._json import weight_of
from .._codec._jsonrpc import Encoded, Request, to_wire
from .._core._account import Loan, Overdrawn, Pool
from .._core._changes import (
    ACKNOWLEDGED,
    KINDS,
    LIST_CHANGES,
    Change,
    ListKind,
    ResourceUpdated,
    TaskUpdated,
    changes_in,
    granted_by,
    notification_of,
)
from .._core._tasks import NOTIFICATION, StoredTask, written_task
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    SERVER_BUSY,
    ConnectionLost,
    LocalProtocolError,
    RequestError,
)
from .._limits import MIB, Limits
from .._logs import Log
from .._peer._exchange import Answer, AtOnce, Exchange, LongLived
from .._peer._peer import Peer
from .._revisions import LATEST, SUBSCRIPTION_ID_KEY, Revision
from .._trio import LightParkingLot
from ._lifetimes import Background
from ._listing import check_asked_uri, read_params

_log: Final = Log("trio_mcp.server")

MAX_ANNOUNCEMENT_BYTES: Final = MIB
"""What the announcements that wait for one session may weigh together: there may be ten thousand sessions."""

SUBSCRIPTION_BYTES: Final = 1024
"""What a subscription to a resource takes in memory, beside its URI."""

CHARACTER_BYTES: Final = 4
"""What a byte of a URI in UTF-8 takes in memory at most."""

LISTENING_BYTES: Final = 8 * 1024
"""What a ``subscriptions/listen`` takes that names no resource: its task, its stream."""

# How a change travels: the author calls the hub, synchronously and from any thread. The hub adds the change to
# the pending ones of each receiver that has subscribed to it, and wakes the receiver. The receiver's own task
# sends it, at the pace of its client.
#
# What is kept true: equal changes merge while they are pending, so what is pending for a receiver is never more
# than what it has subscribed to. A client that reads nothing therefore costs a bounded amount of memory, and
# delays neither the author nor other clients. Announcements travel the same way; they do not merge, so that each
# receiver has a bounded queue of them, in which a new one drops the oldest.


@final
@attrs.frozen(eq=False)
class Announcement:
    """A notification that the server's author sends to all sessions. No two of them are equal.

    Attributes:
        method: The notification's method.
        encoded: Its parameters.
        size: The size of the whole message in bytes.
    """

    method: str
    encoded: Encoded | None
    size: int


@final
class _AnnouncementQueue:
    """Announcements that are still to be sent, within limits: a new one drops the oldest."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._queue: deque[Announcement] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, announcement: Announcement) -> list[Announcement]:
        """Add one, and return those that were dropped for it."""
        limits, dropped = self._limits, list[Announcement]()
        self._queue.append(announcement)
        self._bytes += announcement.size
        while len(self._queue) > limits.max_notifications or (
            self._bytes > MAX_ANNOUNCEMENT_BYTES and len(self._queue) > 1
        ):
            dropped.append(self.pop())
        return dropped

    def pop(self) -> Announcement:
        """Remove the oldest, and return it."""
        announcement = self._queue.popleft()
        self._bytes -= announcement.size
        return announcement


@final
class Receiver:
    """The pending changes of one subscriber. Made by `ChangeHub.receiver`; only for tasks of its Trio run.

    Args:
        audience: The receivers of this run.
        wake: Called when something is pending and nothing was before. Must not wait.
    """

    def __init__(self, audience: _Audience, wake: Callable[[], object]) -> None:
        self._audience = audience
        self._wake = wake
        self._subscribed: set[Change] = set()
        self.pending: dict[Change | Announcement, None] = {}
        self._announcements: _AnnouncementQueue | None = None

    def subscribe(self, change: Change) -> None:
        """Receive this change from now on. Subscribing twice is the same as once."""
        self._subscribed.add(change)
        self._audience.add(change, self)

    def unsubscribe(self, change: Change) -> None:
        """Receive this change no longer; it is dropped if it is pending."""
        self._subscribed.discard(change)
        self.pending.pop(change, None)
        self._audience.discard(change, self)

    def subscribe_to_announcements(self) -> None:
        """Receive announcements from now on."""
        self._audience.sessions[self] = None

    def unsubscribe_all(self) -> None:
        """Receive nothing any more."""
        self._audience.sessions.pop(self, None)
        for change in tuple(self._subscribed):
            self.unsubscribe(change)

    def add(self, item: Change | Announcement) -> None:
        """Add to what is pending, unless an equal change is; the oldest is sent first."""
        was_idle = not self.pending
        self.pending[item] = None
        if was_idle:
            self._wake()

    def announce(self, announcement: Announcement, limits: Limits) -> int:
        """Add an announcement, and return how many others were dropped for it."""
        if self._announcements is None:
            self._announcements = _AnnouncementQueue(limits)
        dropped = self._announcements.add(announcement)
        for other in dropped:
            self.pending.pop(other, None)
        self.add(announcement)
        return len(dropped)

    def take(self) -> Change | Announcement | None:
        """Remove the oldest pending item, and return it; `None` if nothing is pending."""
        oldest = next(iter(self.pending), None)
        if oldest is not None:
            del self.pending[oldest]
        if isinstance(oldest, Announcement):
            assert self._announcements is not None
            self._announcements.pop()  # they are pending in the same order
        return oldest


@final
class _Audience:
    """The receivers of one Trio run.

    Attributes:
        receivers: How many there are.
        sessions: Those of them that receive announcements.
        dropped: How many times an announcement was dropped for one of them.
    """

    def __init__(self, limits: Limits) -> None:
        self.receivers = 0
        self.sessions: dict[Receiver, None] = {}
        self.dropped = 0
        self._limits = limits
        self._lock = threading.Lock()
        self._from_threads = _AnnouncementQueue(limits)
        self._subscribers: dict[Change, dict[Receiver, None]] = {}

    def add(self, change: Change, receiver: Receiver) -> None:
        self._subscribers.setdefault(change, {})[receiver] = None

    def discard(self, change: Change, receiver: Receiver) -> None:
        receivers = self._subscribers.get(change)
        if receivers is not None:
            receivers.pop(receiver, None)
            if not receivers:
                del self._subscribers[change]

    def notify(self, change: Change) -> None:
        for receiver in self._subscribers.get(change, ()):
            receiver.add(change)

    def announce(self, announcement: Announcement) -> None:
        for receiver in self.sessions:
            self.dropped += receiver.announce(announcement, self._limits)

    def announce_from_thread(self, announcement: Announcement) -> None:
        """Queue an announcement for `announce_queued`. Callable from any thread."""
        with self._lock:
            self.dropped += len(self._from_threads.add(announcement))

    def announce_queued(self) -> None:
        """Send what other threads have queued."""
        with self._lock:
            queued = [self._from_threads.pop() for _ in range(len(self._from_threads))]
        for announcement in queued:
            self.announce(announcement)


@final
class ChangeHub:
    """Passes the changes of a server on to all its connections.

    A server may be served by several Trio runs at once, and changed from any thread. Each run has its own
    audience, which only its tasks touch; from anywhere else the change is handed to the run.

    Args:
        limits: How many announcements may wait for a session.

    Attributes:
        knows: Returns whether there is a resource of this URI. `None` if that is not known: then every URI may be
            subscribed to.
        relay: Called with everything that is reported, in the same thread, where other processes serve the same
            server. Must not wait.
        forget: Forgets what is kept of a list that has changed in another process.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = Limits() if limits is None else limits
        self._dropped = 0
        self.knows: Callable[[str], bool] | None = None
        self.relay: Callable[[Change | Announcement], object] | None = None
        self.forget: Callable[[ListKind], object] = lambda _: None
        self._audiences: dict[trio.lowlevel.TrioToken, _Audience] = {}
        self._lock = threading.RLock()  # held for a few instructions; a signal handler may come in between

    @property
    def receivers(self) -> int:
        """How many receivers there are, in all runs."""
        return sum(audience.receivers for audience in self._copy().values())

    @property
    def dropped(self) -> int:
        """How many times an announcement was dropped for a session that did not read those before it."""
        return self._dropped + sum(audience.dropped for audience in self._copy().values())

    @contextmanager
    def receiver(self, wake: Callable[[], object]) -> Generator[Receiver]:
        """Have a receiver for as long as the block runs, in a task of a Trio run.

        Args:
            wake: Called when something is pending and nothing was before. Must not wait.
        """
        token = trio.lowlevel.current_trio_token()
        with self._lock:
            audience = self._audiences.setdefault(token, _Audience(self._limits))
            audience.receivers += 1
        receiver = Receiver(audience, wake)
        try:
            yield receiver
        finally:
            receiver.unsubscribe_all()
            with self._lock:
                audience.receivers -= 1
                if not audience.receivers:
                    del self._audiences[token]
                    self._dropped += audience.dropped

    def list_changed(self, kind: ListKind) -> None:
        """Report that a list has changed. From any thread; never waits, and does nothing while nothing is served.

        Raises:
            KeyError: There is no such list.
        """
        self._notify(LIST_CHANGES[kind])

    def resource_updated(self, uri: str) -> None:
        """Report that a resource has changed. From any thread; never waits."""
        self._notify(ResourceUpdated(uri))

    def task_changed(self, id: str) -> None:
        """Report that a task has changed. From any thread; never waits."""
        self._notify(TaskUpdated(id))

    def announce(self, announcement: Announcement) -> None:
        """Send a notification to all sessions. From any thread; never waits."""
        if self.relay is not None:
            self.relay(announcement)
        self._announce(announcement)

    def _notify(self, change: Change) -> None:
        if self.relay is not None:
            self.relay(change)
        self._tell(change)

    def heard(self, item: Change | Announcement) -> None:
        """Tell the clients of this process what was reported in another one."""
        if isinstance(item, Announcement):
            self._announce(item)
        else:
            if item in KINDS:
                self.forget(KINDS[item])
            self._tell(item)

    def _announce(self, announcement: Announcement) -> None:
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.announce(announcement)
            else:
                audience.announce_from_thread(announcement)
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.announce_queued, idempotent=True)

    def _tell(self, change: Change) -> None:
        here = _current_run()
        for token, audience in self._copy().items():
            if token is here:
                audience.notify(change)
            else:
                # Equal changes merge on this way, too. A run that has ended has no receivers.
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(audience.notify, change, idempotent=True)

    def _copy(self) -> dict[trio.lowlevel.TrioToken, _Audience]:
        with self._lock:
            return dict(self._audiences)


def _current_run() -> trio.lowlevel.TrioToken | None:
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


# The subscriptions of one connection.


@final
@attrs.define(eq=False, weakref_slot=False)
class SubscriptionLoans:
    """Lends the memory that the subscriptions of one connection take.

    Attributes:
        pool: Lends bytes.
        client: Which client they are lent to, where a message has no origin.
        report: Called with how many bytes a session of the legacy era keeps in all, and raises `Overdrawn` if
            there is no room. By default they are lent from the pool.
    """

    pool: Pool
    client: str
    report: Callable[[int], object] | None = None
    _loan: Loan | None = attrs.field(init=False, default=None)

    def keep(self, amount: int) -> None:
        """Keep so many bytes in all for the session.

        Raises:
            Overdrawn: There is no room for them.
        """
        if self.report is not None:
            self.report(amount)
        elif self._loan is not None:
            self._loan.change(amount)
        else:
            self._loan = self.pool.lend(self.client, "subscriptions", amount)

    def lend(self, origin: Origin | None, amount: int) -> Loan:
        """Lend bytes to one request.

        Raises:
            Overdrawn: There is no room for them.
        """
        return self.pool.lend(client_key_of(origin, self.client), "subscriptions", amount)

    def close(self) -> None:
        """The connection has ended."""
        if self._loan is not None:
            self._loan.give_back()


@final
@attrs.define(eq=False, weakref_slot=False)
class Subscriptions:
    """The subscriptions of one connection.

    Args:
        hub: Reports the changes.
        capabilities: Returns the server's capabilities at this moment, for a revision.
        limits: How many subscriptions there may be.
        background: Runs the task that sends changes, for as long as the connection lasts.
        written: Writes a result for a revision.
        loans: Lends the memory that subscriptions take.
        get_tasks: Returns the tasks of the running server; see `Service`.
    """

    _hub: ChangeHub
    _capabilities: Callable[[Revision], types.ServerCapabilities]
    _limits: Limits
    _background: Background
    _written: Callable[[object, Revision], Answer]
    _loans: SubscriptionLoans
    _get_tasks: Callable[[], Any] = lambda: None
    _declared: tuple[Change, ...] = attrs.field(init=False, default=())
    _uris: dict[str, int] = attrs.field(init=False, factory=dict[str, int])
    _uri_bytes: int = attrs.field(init=False, default=0)
    _receiver: Receiver | None = attrs.field(init=False, default=None)
    _peer: Peer | None = attrs.field(init=False, default=None)
    _is_sending: bool = attrs.field(init=False, default=False)

    @asynccontextmanager
    async def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AsyncGenerator[Peer]:
        """Open a connection, and notify its session of changes for as long as the body runs.

        An exception of the body comes out as itself. Leaving is the checkpoint.

        Args:
            opening: Opens the connection.
        """
        # There is a receiver before the first message is read, so that no change falls between the two.
        with closing(self._loans), self._hub.receiver(self._wake) as self._receiver:
            async with opening as peer:
                self._peer = peer
                self._wake()
                try:
                    yield peer
                finally:
                    self._peer = None

    def declared(self, capabilities: types.ServerCapabilities) -> None:
        """Note what the handshake has declared to the client: other list changes are not sent."""
        self._declared = tuple(changes_in(granted_by(capabilities)))

    def initialized(self) -> None:
        """The client is ready: from now on it is notified when lists change.

        Spec: 2025-11-25, basic/lifecycle, "Initialization": nothing but pings and logging before.
        """
        if self._receiver is not None:
            for change in self._declared:
                self._receiver.subscribe(change)
            self._receiver.subscribe_to_announcements()

    def route(self, request: Request, revision: Revision) -> LongLived | AtOnce | None:
        """Serve a request about subscriptions; `None` if it is another, or the server has not declared them.

        Raises:
            RequestError: The request is refused.
        """
        if request.method == "subscriptions/listen":
            wanted = read_params(request.params or {}, types.SubscriptionsListenRequestParams)
            return self._listen(request, wanted, revision)
        resources = self._capabilities(LATEST).resources
        if self._receiver is None or resources is None or not resources.subscribe:
            return None
        if request.method == "resources/subscribe":
            return AtOnce(partial(self._subscribe, self._receiver))
        if request.method == "resources/unsubscribe":
            return AtOnce(partial(self._unsubscribe, self._receiver))
        return None

    def _knows(self, uri: str) -> bool:
        if self._hub.knows is None:
            return True
        try:
            if self._hub.knows(uri):
                return True
        except Exception as error:
            # The boundary of one request, although no handler has been started yet.
            _log.exception("the check whether there is a resource %.200r failed", uri)
            raise RequestError(INTERNAL_ERROR, "internal error") from error
        check_asked_uri(uri)
        return False

    # The legacy era.

    def _subscribe(self, receiver: Receiver, request: Request) -> Answer:
        uri = read_params(request.params or {}, types.SubscribeRequestParams).uri
        if uri in self._uris:
            return {}
        if not self._knows(uri):
            raise RequestError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        limits, size = self._limits, len(uri.encode(errors="surrogatepass"))
        if len(self._uris) >= limits.max_subscriptions:
            raise RequestError(
                SERVER_BUSY, f"uri: this session has {len(self._uris)} subscriptions already (max_subscriptions)"
            )
        if self._uri_bytes + size > limits.max_subscription_bytes:
            raise RequestError(
                SERVER_BUSY,
                f"uri: with it the URIs that this session has subscribed to would exceed "
                f"{limits.max_subscription_bytes} bytes (half of max_message_bytes)",
            )
        try:
            self._loans.keep(self._weight(1, size))
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"uri: there is no memory for a subscription: {error}") from None
        self._uris[uri] = size
        self._uri_bytes += size
        receiver.subscribe(ResourceUpdated(uri))
        return {}

    def _unsubscribe(self, receiver: Receiver, request: Request) -> Answer:
        uri = read_params(request.params or {}, types.UnsubscribeRequestParams).uri
        if uri in self._uris:
            self._uri_bytes -= self._uris.pop(uri)
            self._loans.keep(self._weight(0, 0))
            receiver.unsubscribe(ResourceUpdated(uri))
        return {}

    def _weight(self, more: int, size: int) -> int:
        """Return what the subscriptions take in memory, with so many more URIs of so many bytes."""
        return SUBSCRIPTION_BYTES * (len(self._uris) + more) + CHARACTER_BYTES * (self._uri_bytes + size)

    def _wake(self) -> None:
        """Start to send what is pending, unless that has started already or the connection is not open."""
        if self._peer is not None and not self._is_sending:
            self._is_sending = True
            # Changes are reported by any task, whose context variables must not get here.
            Variables().run(self._background.start_soon, self._send_pending, self._peer)

    async def _send_pending(self, peer: Peer) -> None:
        """Send what is pending, as fast as the client takes it."""
        assert self._receiver is not None
        # Changes that come together are sent together, and those that are equal are one.
        await trio.lowlevel.checkpoint()
        try:
            while (item := self._receiver.take()) is not None:
                try:
                    if isinstance(item, Announcement):
                        await peer.notify(item.method, item.encoded)
                    else:
                        await _send(peer.notify, item, None)
                except (ConnectionLost, trio.ClosedResourceError):
                    raise
                except Exception:
                    # The boundary of one notification: middleware that fails costs none of those behind it.
                    _log.exception("a notification could not be sent")
        except (ConnectionLost, trio.ClosedResourceError):
            pass  # the task that serves the connection learns of its end from the connection
        finally:
            self._is_sending = False

    # The modern era.

    def _listen(
        self, request: Request, params: types.SubscriptionsListenRequestParams, revision: Revision
    ) -> LongLived:
        wanted = params.notifications
        tasks, limit = len(wanted.task_ids or ()), self._limits.max_subscriptions
        count = len(wanted.resource_subscriptions or ()) + tasks
        if count >= limit:
            named = f"resourceSubscriptions names {count - tasks} resources"
            if tasks:
                named += f" and taskIds {tasks} tasks"
            raise RequestError(
                INVALID_PARAMS,
                f"invalid params: notifications.{named}; with the request "
                f"itself that is {count + 1} subscriptions, and max_subscriptions is {limit}",
            )
        granted = self._granted(wanted)
        # All its parameters are kept, decoded, and the hub keeps each URI once more.
        weight = LISTENING_BYTES + weight_of(_json.encode(request.params)) + SUBSCRIPTION_BYTES * count
        meta = {SUBSCRIPTION_ID_KEY: request.id}
        listening = _Listening(
            meta, revision, granted, self._hub, self._written, self._loans, weight, self._get_tasks
        )
        places = 1 + len(granted.resource_subscriptions or ()) + len(granted.task_ids or ())
        return LongLived(listening.serve, listening.end, places=places)

    def _granted(self, wanted: types.SubscriptionFilter) -> types.SubscriptionFilter:
        """Return the part of a filter that this server notifies of."""
        capabilities = self._capabilities(LATEST)
        uris = wanted.resource_subscriptions
        if capabilities.resources is None or not capabilities.resources.subscribe:
            uris = None
        elif uris is not None:
            uris = tuple(uri for uri in dict.fromkeys(uris) if self._knows(uri))
        return types.evolve(granted_by(capabilities, wanted), resource_subscriptions=uris)


@final
@attrs.define(eq=False, weakref_slot=False)
class _Listening:
    """One ``subscriptions/listen``.

    Spec: 2026-07-28, basic/patterns/subscriptions.
    """

    _meta: dict[str, Any]
    _revision: Revision
    _granted: types.SubscriptionFilter
    _hub: ChangeHub
    _written: Callable[[object, Revision], Answer]
    _loans: SubscriptionLoans
    _weight: int
    _get_tasks: Callable[[], Any]
    _wakeup: LightParkingLot = attrs.field(init=False, factory=LightParkingLot)
    _ended: bool = attrs.field(init=False, default=False)

    def end(self) -> None:
        """Send what is pending, and then the result."""
        self._ended = True
        self._wakeup.unpark_all()

    async def serve(self, exchange: Exchange) -> Answer:
        try:
            loan = self._loans.lend(exchange.origin, self._weight)
        except Overdrawn as error:
            problem = f"there is no room for a subscription that takes {self._weight} bytes: {error}"
            raise error.marked(RequestError(SERVER_BUSY, problem)) from None
        with loan:
            return await self._serve(exchange)

    async def _serve(self, exchange: Exchange) -> Answer:
        granted = self._granted
        if granted.task_ids:
            own = [
                id for id in dict.fromkeys(granted.task_ids) if await self._find_task(id, exchange) is not None
            ]
            granted = types.evolve(granted, task_ids=own or None)
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(meta=self._meta, notifications=granted)
        ids = granted.task_ids or ()
        sharing = self._get_tasks().sharing if ids else None  # for what changes in other processes
        with (
            self._hub.receiver(self._wakeup.unpark_all) as receiver,
            nullcontext() if sharing is None else sharing.listening(ids),
        ):
            if sharing is not None:
                await sharing.begin_listening(ids)
            for change in changes_in(granted):
                receiver.subscribe(change)
                if isinstance(change, TaskUpdated):
                    receiver.add(change)  # it may have changed, for the last time, since its client has seen it
            tell = partial(exchange.notify, checkpoints=False)  # a pass for each of thousands costs as much again
            # What changes from here on waits until this is sent.
            await exchange.notify(ACKNOWLEDGED, to_wire(acknowledged, self._revision))
            while (item := receiver.take()) is not None or not self._ended:
                if item is None:
                    await self._wakeup.park()
                elif isinstance(item, TaskUpdated):
                    task = await self._find_task(item.id, exchange)
                    if task is not None:
                        await exchange.notify(NOTIFICATION, {**written_task(task), "_meta": self._meta})
                elif not isinstance(item, Announcement):  # which is sent to sessions only
                    await _send(tell, item, self._meta)
                    if receiver.pending:
                        await trio.lowlevel.checkpoint()
        return self._written(types.SubscriptionsListenResult(meta=self._meta), self._revision)

    async def _find_task(self, id: str, exchange: Exchange) -> StoredTask | None:
        found: StoredTask | None = await self._get_tasks().find(id, owner_of(exchange.origin))
        return found


async def _send(
    notify: Callable[[str, Any], Awaitable[None]], change: Change, meta: Mapping[str, object] | None
) -> None:
    notification = notification_of(change, meta)
    try:
        await notify(notification.method, notification.params)
    except LocalProtocolError as error:
        # The URI fitted into the client's request, and does not fit into this message.
        _log.warning("a change is not sent to a client: %s", error)
        await trio.lowlevel.checkpoint()
