"""Connections of a proxy to the server that it stands before (upstream), each for one client of the proxy.

`Upstream` is one of them: a client's connection, restored by the client's own policy, whose requests and
notifications go on to the client of the proxy. `Upstreams` are all of a running proxy: how many there may be, who
shares one, when one ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, final

import attrs
import trio

from .._bindings._http_messages import OutboundMessage
from .._channel import Channel, Origin
from .._client._connection import MAX_DESCRIPTION_BYTES, ClientIdentity, Connection
from .._client._dispatch import NotificationHandlers, ServerMessages
from .._client._listen import Events, open_events
from .._client._questions import QuestionHandlers, Questions
from .._client._reconnecting import Connector, ReconnectingConnection
from .._client._subscriptions import Callbacks, Subscriptions, subscription_id
from .._codec._json import cost_of
from .._codec._jsonrpc import Notification, Request, RequestId
from .._core._account import Loan, Overdrawn, Pool
from .._core._cache import MarkedTools
from .._core._changes import (
    HANDLED_BY_CONNECTION,
    Change,
    ResourceUpdated,
    changes_in,
    granted_by,
    notification_of,
    read_change,
)
from .._core._lifecycle import LEVELS, Agreement
from .._errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SERVER_BUSY,
    ConnectionLost,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler, OnProgress, Progress
from .._peer._peer import Peer
from .._peer._send_queue import OnFrame
from .._revisions import PROGRESS_TOKEN_KEY, REFUSED, Revision, Side
from .._server._lifetimes import Background
from ..types import ClientCapabilities, LoggingLevel, SubscriptionFilter
from ._eras import passed_on, to_legacy_params, to_params, with_subscription

_log: Final = Log("trio_mcp.proxy")

IDLE_TIMEOUT: Final = 300.0
"""Seconds for which a connection that requests share is kept while none needs it; twice as long at most."""


class Ask(Protocol):
    """Asks a client a question of the server, and returns its answer as it came; `Exchange.ask` is one."""

    def __call__(
        self, method: str, params: Mapping[str, Any] | None, *, on_progress: OnProgress | None
    ) -> Awaitable[Mapping[str, Any]]: ...


@final
@attrs.frozen(eq=False)
class Caller:
    """The request of a client for which a request is forwarded: where what the server sends for it goes.

    Attributes:
        notify: Sends a notification that belongs to it.
        ask: Asks the client; `None` if it cannot carry a question.
        agreement: What holds for it.
        on_progress: Reports its progress; `None` if its client does not want that.
        release: Closes its connection, for so many seconds, if the transport can; see `ReleasableOrigin`.
    """

    notify: Callable[[str, Mapping[str, Any] | None], Awaitable[None]]
    ask: Ask | None
    agreement: Agreement
    on_progress: OnProgress | None
    release: Callable[[float | None], object] | None = None

    def takes(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Whether its client takes a notification: its revision has it, and a log message is severe enough.

        The level of a session is the server's to heed, that of a modern request (2026-07-28,
        server/utilities/logging) is looked at here: requests with others share the connection to the server.
        """
        if method in REFUSED[Side.SERVER][self.agreement.revision]:
            return False
        if method != "notifications/message" or not self.agreement.revision.is_modern:
            return True
        wanted, given = self.agreement.log_level, (params or {}).get("level")
        return wanted in LEVELS and (given not in LEVELS or LEVELS.index(given) >= LEVELS.index(wanted))


def reporting(
    report: Callable[[float, float | None, str | None], Awaitable[None]], meta: Mapping[str, Any]
) -> OnProgress | None:
    """Return what reports the progress of a forwarded request; `None` if its `_meta` does not ask for that."""

    async def report_as_it_came(progress: Progress) -> None:
        await report(progress.progress, progress.total, progress.message)

    return report_as_it_came if PROGRESS_TOKEN_KEY in meta else None


class SessionOfClient(Protocol):
    """The session of a client that an upstream connection belongs to."""

    peer: Peer | None
    ready: trio.Event

    @property
    def revision(self) -> Revision | None:
        """The revision that the client speaks."""
        ...


@final
@attrs.define(eq=False)
class SubscribedUris:
    """The resources that a session has subscribed to, within limits."""

    _sizes: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _bytes: int = attrs.field(default=0, init=False)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._sizes))

    def add(self, uri: str, limits: Limits) -> None:
        """Add one, unless it is there.

        Raises:
            RequestError: There are too many.
        """
        if uri in self._sizes:
            return
        size = len(uri.encode(errors="surrogatepass"))
        if len(self._sizes) >= limits.max_subscriptions:
            problem = f"this session has {len(self._sizes)} subscriptions already (max_subscriptions)"
        elif self._bytes + size > limits.max_subscription_bytes:
            problem = f"its URIs would exceed {limits.max_subscription_bytes} bytes (half of max_message_bytes)"
        else:
            self._sizes[uri] = size
            self._bytes += size
            return
        raise RequestError(SERVER_BUSY, f"uri: {problem}")

    def discard(self, uri: str) -> None:
        """Remove one, if it is there."""
        self._bytes -= self._sizes.pop(uri, 0)


@final
@attrs.frozen
class UpstreamOptions:
    """How the server behind a proxy is reached.

    Attributes:
        connector: Opens channels to it.
        limits: What each connection may cost.
        on_frame: Called with each message to it and from it.
    """

    connector: Connector
    limits: Limits
    on_frame: OnFrame | None


@final
@attrs.define(eq=False)
class Upstream:
    """A connection to the server for one client.

    Args:
        options: How the server is reached.
        identity: What the client has declared.
        session: The client's session of the legacy era; `None` for clients without one.
        background: Runs what restores the session after an interruption.

    Attributes:
        description: How the server has described itself, as it came; empty if it has not.
        uris: The resources that the client's session has subscribed to by hand.
        listening: The subscriptions of modern clients that were forwarded, by the id that they have here.
        users: How many requests use it.
    """

    _options: UpstreamOptions
    _identity: ClientIdentity
    _session: SessionOfClient | None
    _background: Background
    description: Mapping[str, Any] = attrs.field(factory=dict[str, Any], init=False)
    uris: SubscribedUris = attrs.field(factory=SubscribedUris, init=False)
    listening: dict[RequestId, Exchange] = attrs.field(factory=dict[RequestId, Exchange], init=False)
    users: int = attrs.field(default=0, init=False)
    has_ended: bool = attrs.field(default=False, init=False)
    _last_used: float = attrs.field(factory=trio.current_time, init=False)
    _loan: Loan = attrs.field(init=False)  # its place, given back when it has ended
    _callers: dict[RequestId, Caller] = attrs.field(factory=dict[RequestId, Caller], init=False)
    _reconnecting: ReconnectingConnection = attrs.field(init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def _limits(self) -> Limits:
        return self._options.limits

    def _messages(self) -> ServerMessages:
        questions = Questions(QuestionHandlers(), ClientCapabilities())
        subscriptions = Subscriptions(self._missed, Callbacks(), warn_of_unknown=False)
        return UpstreamMessages(questions, NotificationHandlers(), subscriptions, upstream=self)

    # How long it lasts.

    def begin(self, loan: Loan) -> None:
        """Begin to connect, in a place that was lent.

        Without one it is no cycle: what a client has declared would be kept until the garbage collector comes.
        """
        loan.hold()
        self._loan = loan
        identity = attrs.evolve(self._identity, on_description=self._described)
        self._reconnecting = ReconnectingConnection(
            self._options.connector,
            identity,
            self._limits,
            on_frame=self._options.on_frame,
            messages=self._messages,
            forget=self._missed,
            probe=self._identity.proposed is None,
        )
        self._background.start_own(self.run, name="a connection of a proxy")

    async def run(self) -> None:
        """Connect, and stay connected until it is closed, lost for good or cancelled."""
        try:
            await self._reconnecting.run(lambda: None)
        except McpError as error:
            _log.warning("a proxy cannot connect to its server: %s", error)
        finally:
            self.has_ended = True
            self._loan.give_back()
            self._ended.set()

    def close(self) -> None:
        """Close it soon. Never waits."""
        self.has_ended = True
        self._reconnecting.begin_closing()

    async def aclose(self) -> None:
        """Close it, within `Limits.goodbye_timeout` and what ending a process takes."""
        self.close()
        await self._ended.wait()

    async def wait_lost(self) -> str:
        """Wait until it is lost for good, and return why. If it is closed instead, this never returns."""
        await self._ended.wait()
        failure = self._reconnecting.failure
        if failure is None:
            await trio.sleep_forever()
            raise AssertionError("unreachable")
        return failure.reason

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Keep it for the body."""
        self._loan.hold()
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1
            self._last_used = trio.current_time()
            if not self.users and self._session is None:
                self._loan.rest()

    async def wait_idle(self, seconds: float) -> None:
        """Wait until it was not in use for so long, and at most twice as long; or has ended."""
        while not self._ended.is_set():
            now = trio.current_time()
            due = (now if self.users else self._last_used) + seconds
            if due <= now:
                break
            with trio.move_on_at(due):
                await self._ended.wait()
        await trio.lowlevel.checkpoint()

    async def connected(self) -> Connection:
        """Return the connection, waiting while it is being made or restored; see `ReconnectingConnection`."""
        return await self._reconnecting.connected()

    def _described(self, answer: Mapping[str, Any]) -> None:
        if cost_of(answer) > MAX_DESCRIPTION_BYTES:
            raise RemoteProtocolError(
                f"the server's description of itself takes more than {MAX_DESCRIPTION_BYTES} bytes in memory"
            )
        self.description = answer

    def _missed(self, change: Change | None) -> None:
        """There is another connection, or anything may have changed without a notification; see `Forget`."""
        if change is None and self._session is not None:
            self._background.start_own(self._restore, name="restoring a session behind a proxy")

    async def _restore(self) -> None:
        """Subscribe again to what the session has subscribed to, and report what it may have missed."""
        try:
            connection = await self.connected()
            if connection.revision.is_modern:
                return
            for uri in self.uris:
                try:
                    await connection.peer.request("resources/subscribe", {"uri": uri})
                except RequestError as error:
                    _log.warning("a resource could not be subscribed to again: %s", error)
            granted = granted_by(connection.capabilities)
            for change in [*changes_in(granted), *map(ResourceUpdated, self.uris)]:
                missed = notification_of(change)
                await self._notify_session(missed.method, missed.params)
        except (McpError, trio.ClosedResourceError) as error:
            _log.debug("the connection ended again: %s", error)

    # What is forwarded to the server.

    async def request(self, method: str, params: Mapping[str, Any] | None, caller: Caller) -> dict[str, Any]:
        """Send a request for a client, and wait for its result. Cancelled, it is cancelled at the server.

        Args:
            method: The method.
            params: The parameters, as they came from the client.
            caller: What it is sent for.

        Raises:
            RequestError: The era of the server has no such method.
            McpError: There is no result; see `LowLevelClient.request`.
            trio.ClosedResourceError: It was closed.
        """
        ids: list[RequestId] = []

        def begin(id: RequestId) -> None:
            ids.append(id)
            self._callers[id] = caller

        async def send(connection: Connection) -> dict[str, Any]:
            sent = to_params(method, params, caller.agreement, connection.revision)
            try:
                result = await connection.peer.request(method, sent, on_progress=caller.on_progress, on_id=begin)
            except RequestError:
                await connection.peer.wait_notified()  # noqa: ASYNC120 - who cancels this wants no error either
                raise
            # What the server has sent for it goes to the client before the answer, or could not any more.
            await connection.peer.wait_notified()
            return result

        try:
            return await self._reconnecting.ask(send)
        finally:
            for id in ids:
                if self._callers.get(id) is caller:
                    del self._callers[id]

    async def notify(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification of the client."""
        connection = await self.connected()
        connection.check(method)
        if not connection.revision.is_modern:
            params = to_legacy_params(params)
        await connection.peer.notify(method, params)

    async def set_log_level(self, level: LoggingLevel, meta: Mapping[str, object] | None = None) -> None:
        """Set the session's log level, on this connection and on those after it."""
        await self._reconnecting.set_log_level(level, meta)

    def needs_log_level(self, level: LoggingLevel) -> bool:
        """Whether the server must be asked for log messages of this severity."""
        asked = self._reconnecting.chosen_log_level
        return asked is None or LEVELS.index(level) < LEVELS.index(asked)

    def open_events(self, wanted: SubscriptionFilter) -> AbstractAsyncContextManager[Events]:
        """Listen to changes, on one connection after another; see `Client.listen`."""
        return open_events(
            self._reconnecting, wanted, self._limits.max_notifications, self._limits, nullcontext()
        )

    # What the server sends.

    def release(self, id: RequestId, retry_after: float | None) -> None:
        """The server has closed the connection of a request, to answer later: so does the proxy. Never waits."""
        caller = self._callers.get(id)
        if caller is not None and caller.release is not None:
            caller.release(retry_after)

    def _caller_of(self, origin: Origin | None, *, asks: bool = False) -> Caller | None:
        """Return the request that something of the server belongs to, as far as that can be known.

        Over HTTP the stream on which it came tells. Elsewhere messages of the server do not name the request for
        which they are sent; the latest one of this client is as good as any.
        """
        named = origin.asked if isinstance(origin, OutboundMessage) else ()
        callers = chain(
            (self._callers[id] for id in named if id in self._callers), reversed(self._callers.values())
        )
        return next((caller for caller in callers if caller.ask is not None or not asks), None)

    def forward_question(self, request: Request, origin: Origin | None) -> Handler | Answer:
        """Return what answers a request of the server: its client.

        Raises:
            RequestError: There is no client to ask.
        """
        if request.method == "ping" and self._session is None:
            return {}
        caller = None if request.method == "ping" else self._caller_of(origin, asks=True)
        return partial(self._forward, caller, self._ask_of(caller, request.method))

    def _ask_of(self, caller: Caller | None, method: str) -> Ask:
        """Return what asks the client, by one of its requests or else in its session.

        Raises:
            RequestError: It cannot be asked.
        """
        if caller is not None and caller.ask is not None:
            return caller.ask
        if self._session is not None:
            return partial(_ask_session, self._session)
        raise RequestError(INVALID_REQUEST, f"no request of the client is open that could carry {method:.60}")

    async def _forward(self, caller: Caller | None, ask: Ask, exchange: Exchange) -> Answer:
        """Ask the client. If the request that was to carry the question ends before, another one carries it."""
        while True:
            try:
                return await self._ask(ask, exchange)
            except LocalProtocolError as error:
                if caller is None or caller in self._callers.values():
                    raise RequestError(INTERNAL_ERROR, f"the client behind this proxy: {error}") from error
            await trio.lowlevel.checkpoint()
            caller = self._caller_of(None, asks=True)
            ask = self._ask_of(caller, exchange.request.method)

    async def _ask(self, ask: Ask, exchange: Exchange) -> Answer:
        request = exchange.request
        if self._session is not None and request.method != "ping":
            await self._session.ready.wait()
        try:
            on_progress = reporting(exchange.report, exchange.meta)
            return await ask(request.method, passed_on(request.params), on_progress=on_progress)
        except RequestError as error:
            raise RequestError(error.code, error.message, error.data) from error
        except (RemoteProtocolError, ConnectionLost, trio.ClosedResourceError) as error:
            raise RequestError(INTERNAL_ERROR, f"the client behind this proxy: {error}") from error

    async def forward_notification(self, notification: Notification, origin: Origin | None) -> None:
        """Send a notification of the server on to the client, unless it names a request: see `notified`."""
        method, params = notification.method, notification.params
        if method in HANDLED_BY_CONNECTION:
            return
        id = subscription_id(params or {})
        listening = None if id is None else self.listening.get(id)
        try:
            if listening is not None:
                await listening.notify(method, with_subscription(params, listening.request.id))
            elif id is not None:
                pass  # it belongs to a subscription of the proxy, which was brought to it when it was read
            elif read_change(notification) is not None or method == "notifications/elicitation/complete":
                await self._notify_session(method, params)
            else:
                await self._notify_caller(method, params, origin)
        except (LocalProtocolError, ConnectionLost, trio.ClosedResourceError) as error:
            _log.debug("%.60r could not be forwarded: %s", method, error)

    async def _notify_caller(self, method: str, params: Mapping[str, Any] | None, origin: Origin | None) -> None:
        caller = self._caller_of(origin)
        if caller is None:
            await self._notify_session(method, params)
        elif caller.takes(method, params):
            await caller.notify(method, params)

    async def _notify_session(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Send a notification that belongs to no request; clients without a session have none of those."""
        session = self._session
        if session is None or session.revision is None or self._reconnecting.agreed.revision.is_modern:
            return
        await session.ready.wait()
        if session.peer is not None and method not in REFUSED[Side.SERVER][session.revision]:
            await session.peer.notify(method, params)


async def _ask_session(
    session: SessionOfClient, method: str, params: Mapping[str, Any] | None, *, on_progress: OnProgress | None
) -> Mapping[str, Any]:
    if session.peer is None:
        raise trio.ClosedResourceError("the client has gone")
    return await session.peer.request(method, params, on_progress=on_progress)


@final
@attrs.define(eq=False)
class UpstreamMessages(ServerMessages):
    """Dispatches the messages of the server to the client of the proxy; during the handshake, as any client."""

    upstream: Upstream = attrs.field(kw_only=True)

    def opened(self, channel: Channel) -> None:
        """There is a channel: the client is let go when the server lets its request go."""
        channel.call_on_release(self.upstream.release)

    def route(self, request: Request, origin: Origin | None) -> Handler | Answer | None:
        """Find who answers a request of the server; see `Dispatcher.route`."""
        if self.revision is None or self.revision.is_modern:
            return super().route(request, origin)
        return self.upstream.forward_question(request, origin)

    def notification_key(self, notification: Notification) -> Hashable | None:
        """Return a key that is equal for notifications that report the same to the same subscription."""
        key = super().notification_key(notification)
        return None if key is None else (key, subscription_id(notification.params or {}))

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Forward a notification; see `Dispatcher.notified`."""
        await self.upstream.forward_notification(notification, origin)
        await trio.lowlevel.checkpoint()


# All of a running proxy.
#
# A client's session of the legacy era has an upstream connection of its own, for as long as it lasts: the
# server may keep a log level, subscriptions and whatever else for it, and asks *this* client, by its
# capabilities. Clients of the modern era have no session. Their requests share a connection if they come from
# the same client (the principal, the address, or the one connection that they have) with the same name and
# capabilities: what two of them would see of each other on it they could see anyway, and a legacy server that
# keeps something between calls finds its client again. That connection ends when it was not needed for
# `IDLE_TIMEOUT` seconds, or when another client needs its place. One for all clients would do for a
# modern server over HTTP, but not over a pipe, where nothing tells whose log message it is, nor for a legacy
# server.


class SharedKey(NamedTuple):
    """Which requests share a connection.

    Attributes:
        connection: The number of the connection on which they come, if that is one client's.
        client: The client that its place is lent to.
        is_modern: Whether they are of the modern era.
        declared: The client's name and capabilities, as JSON.
    """

    connection: int | None
    client: str
    is_modern: bool
    declared: bytes


@final
@attrs.define(eq=False)
class Upstreams:
    """The connections of a running proxy to its server.

    Args:
        options: How the server is reached.
        tools: Remembers which arguments of tools header fields carry over HTTP in the modern era.
        background: Runs them.
        places: Lends their places.
    """

    _options: UpstreamOptions
    tools: Final[MarkedTools]
    _background: Background
    _places: Pool
    _shared: dict[SharedKey, Upstream] = attrs.field(factory=dict[SharedKey, Upstream], init=False)

    @property
    def limits(self) -> Limits:
        """What each connection may cost, on either side."""
        return self._options.limits

    def begin(self, client: str, identity: ClientIdentity, session: SessionOfClient | None) -> Upstream:
        """Begin to connect for a client.

        Raises:
            RequestError: There is no place for another connection.
        """
        upstream = Upstream(self._options, identity, session, self._background)
        try:
            loan = self._places.lend(client, "upstreams", 1, upstream.close, own_gives_way=True)
        except Overdrawn as error:
            raise RequestError(SERVER_BUSY, f"no further connection to the server: {error}") from None
        upstream.begin(loan)
        return upstream

    def share(self, key: SharedKey, make_identity: Callable[[], ClientIdentity]) -> Upstream:
        """Return the connection that requests with the same key share. Use it at once, with `Upstream.in_use`.

        Raises:
            RequestError: There is no place for another connection.
        """
        upstream = self._shared.get(key)
        if upstream is None or upstream.has_ended:
            upstream = self.begin(key.client, make_identity(), None)
            self._shared[key] = upstream
            self._background.start_own(self._end_idle, key, upstream, name="an idle connection of a proxy")
        return upstream

    async def _end_idle(self, key: SharedKey, upstream: Upstream) -> None:
        """Close a shared connection when it was not used for a while."""
        try:
            await upstream.wait_idle(IDLE_TIMEOUT)
            upstream.close()
        finally:
            if self._shared.get(key) is upstream:
                del self._shared[key]

    def find(self, is_meant: Callable[[SharedKey], bool]) -> list[Upstream]:
        """Return the shared connections whose key is meant, those made first at first."""
        return [upstream for key, upstream in self._shared.items() if is_meant(key)]
