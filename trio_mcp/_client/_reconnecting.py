"""Keeps a client connected: opens, agrees, stays, notices the end, and opens again if that was asked for.

    the channel is lost      everything that waits fails; it is opened again, if the connector says so
    the agreement is void    the channel stays, and what is under way on it; another agreement is made

One task does all of it, so that however many notice an end, it is made good once. The others ask for the
connection and wait.

What a client can be opened on, and how each becomes a channel, once or again.
"""

from __future__ import annotations

import copy
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, final, runtime_checkable

import attrs
import trio

from .._bindings._http_messages import HttpServerParameters
from .._bindings._memory import memory_channel_pair
from .._bindings._stdio_client import StdioServerParameters, open_stdio_server
from .._channel import Channel
from .._core._reconnect import Backoff, RestartPolicy
from .._errors import ConnectionLost, McpError, RequestError, SessionLost
from .._limits import Limits
from .._logs import Log
from .._peer._middleware import Middleware
from .._peer._peer import Peer, open_peer
from .._peer._send_queue import OnFrame
from .._trio import LightParkingLot, open_hidden_nursery
from ..types import DiscoverResult, LoggingLevel
from ._connection import ClientIdentity, Connection, negotiate, settle_era
from ._dispatch import ServerMessages
from ._resubscribe import RENEWAL, CallbackAttendance
from ._subscriptions import Callbacks, Forget


@runtime_checkable
class ServesChannels(Protocol):
    """A server in this process: it serves whoever is at the other end of a channel."""

    async def serve_channel(
        self, channel: Channel, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve the client at the other end until it goes."""
        ...


Target: TypeAlias = str | HttpServerParameters | StdioServerParameters | ServesChannels | Channel
"""What `open_client` opens; a string is the URL of a server."""


class Connector(Protocol):
    """Opens a channel to one server."""

    @property
    def restart(self) -> RestartPolicy | None:
        """Whether and how often to open again when the connection is lost."""
        ...

    @property
    def survives_probe(self) -> bool:
        """Whether a server that a probe has ended can be had again."""
        ...

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        """Open a channel, and close it on leaving."""
        ...


@final
class _StdioConnector:
    """Starts a server process, as often as it takes."""

    survives_probe = True

    def __init__(self, parameters: StdioServerParameters) -> None:
        self._parameters = parameters

    @property
    def restart(self) -> RestartPolicy | None:
        return self._parameters.restart

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        return open_stdio_server(self._parameters, limits)


@final
class _HttpConnector:
    """Reaches a server at a URL, which nobody has to start."""

    survives_probe = False

    def __init__(self, parameters: HttpServerParameters) -> None:
        self._parameters = parameters

    @property
    def restart(self) -> RestartPolicy | None:
        return self._parameters.restart

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Channel]:
        # Not above: clients of other servers, and servers, start sooner without HTTP.
        from .._bindings._http_client import open_streamable_http

        return open_streamable_http(self._parameters, limits)


@final
class _InProcessConnector:
    """Runs a server in this process, for this client alone."""

    restart = None
    survives_probe = True

    def __init__(self, server: ServesChannels) -> None:
        self._server = server

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits  # the server has its own
        ours, theirs = memory_channel_pair()
        async with open_hidden_nursery() as nursery:
            await nursery.start(self._server.serve_channel, theirs)
            try:
                yield ours
            finally:
                with trio.CancelScope(shield=True):
                    await ours.aclose()  # the server sees the end of its input, drains and returns


@final
class _ChannelConnector:
    """Uses a channel that somebody else made, once."""

    restart = None
    survives_probe = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @asynccontextmanager
    async def open(self, limits: Limits) -> AsyncGenerator[Channel]:
        del limits  # whoever made the channel gave it some
        try:
            yield self._channel
        finally:
            with trio.move_on_after(0, shield=True):
                await self._channel.aclose()


def connector_for(target: Target) -> Connector:
    """Return what opens channels to the target.

    Raises:
        TypeError: It is nothing a client can be opened on.
        ValueError: It is a string, and not a URL that can be opened.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if isinstance(target, HttpServerParameters):
        return _HttpConnector(target)
    if isinstance(target, StdioServerParameters):
        return _StdioConnector(target)
    if isinstance(target, Channel):
        return _ChannelConnector(target)
    if isinstance(target, ServesChannels):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        return _InProcessConnector(target)
    raise TypeError(
        "a client is opened on a URL, HttpServerParameters, StdioServerParameters, a Server or a Channel, "
        f"not on {type(target).__name__}"
    )


def identity_of(target: object) -> Hashable:
    """Return what makes two targets the same server, so that what one says can be taken for what the other says.

    A server at a URL is that URL, a process what it is started with. A server in this process is itself, and so
    is what is at the other end of a channel.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if isinstance(target, HttpServerParameters):
        return target.url, _Itself(target.app)
    if isinstance(target, StdioServerParameters):
        return target
    return _Itself(target) if isinstance(target, (Channel, ServesChannels)) else None


@final
@attrs.frozen(eq=False)
class _Itself:
    """An object that need not be hashable; kept, so that no other gets its id."""

    it: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def connector_for_http_sse(target: Target) -> Connector:
    """Return what opens channels over HTTP+SSE to the target.

    Raises:
        ValueError: It is not at a URL.
    """
    if isinstance(target, str):
        target = HttpServerParameters(target)
    if not isinstance(target, HttpServerParameters):
        raise ValueError(f'era="sse" is for servers at a URL, not for {type(target).__name__}')
    return _HttpConnector(attrs.evolve(target, transport="sse"))


_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")


@final
class ConnectionKeeper:
    """One connection after another to the same server.

    One task runs `run`; it owns each connection while that lasts. Any task may ask for the connection, or close.

    Args:
        connector: Opens a channel to the server.
        identity: What this side says, and speaks.
        limits: How long connecting may take, and what a connection may cost.
        messages: Makes what takes the server's own messages, afresh for each connection.
        on_frame: Called with each message in either direction.
        middleware: What every request and notification goes through.
        known: What the server is known to be, so that it need not be asked.
        callbacks: Called when something changes.
        forget: Called with `None` when anything may have changed.
    """

    def __init__(
        self,
        connector: Connector,
        identity: ClientIdentity,
        limits: Limits,
        *,
        messages: Callable[[], ServerMessages],
        on_frame: OnFrame | None,
        callbacks: Callbacks,
        forget: Forget,
        middleware: Sequence[Middleware] = (),
        known: DiscoverResult | None = None,
    ) -> None:
        self._callbacks = callbacks
        self._forget = forget
        self._connector = connector
        self._identity = identity
        self._limits = limits
        self._messages = messages
        self._on_frame = on_frame
        self._middleware = middleware
        self._backoff = None if connector.restart is None else Backoff(connector.restart)
        self._log_level: LoggingLevel | None = None
        self._probe = True
        self._known = known
        self._agreements = 0
        self._wanted = trio.Event()
        self._renewal_failures = 0
        self._renewal_failure: McpError | None = None
        self._is_agreeing = False
        self._agreed: Connection | None = None
        self._agreed_at: float | None = None
        self._failure: ConnectionLost | None = None
        self._changed = LightParkingLot()
        self._leaving = False
        self._departure = trio.CancelScope()
        self._closed = trio.Event()
        self._between_requests: set[trio.CancelScope] = set()

    @property
    def limits(self) -> Limits:
        """How long connecting and leaving may take, and what a connection may cost."""
        return self._limits

    @property
    def agreed(self) -> Connection:
        """The connection that was agreed on last; it may be gone."""
        assert self._agreed is not None, "asked before there was any"
        return self._agreed

    @property
    def is_over(self) -> bool:
        """Whether there will be no connection any more."""
        return self._leaving or self._failure is not None

    async def connected(self) -> Connection:
        """Return the connection, waiting while it is being restored. Does not checkpoint if it is there.

        Raises:
            ConnectionLost: It is gone and will not be restored.
            McpError: There was no new agreement with the server. The next one who asks makes the next attempt.
            trio.ClosedResourceError: It was closed.
        """
        failures = self._renewal_failures
        while True:
            if self.is_over:
                raise self._why_over()
            if self._agreed is not None and self._agreed.end is None:
                return self._agreed
            if self._renewal_failure is not None and self._renewal_failures > failures:
                raise _renewed(self._renewal_failure)
            self._wanted.set()
            await self._changed.park()

    def _why_over(self) -> Exception:
        if self._leaving or self._failure is None:
            return trio.ClosedResourceError("this client was closed")
        return self._failure.renewed()

    @contextmanager
    def while_kept(self) -> Generator[None]:
        """Do what a call does between two requests, such as asking the user, while there are connections.

        Raises:
            ConnectionLost: There will be none any more. What the block did was cancelled.
            trio.ClosedResourceError: The client was closed, likewise.
        """
        if self.is_over:
            raise self._why_over()
        with trio.CancelScope() as scope:
            self._between_requests.add(scope)
            try:
                yield
            finally:
                self._between_requests.discard(scope)
        if scope.cancelled_caught:
            raise self._why_over()

    def _end_what_is_between_requests(self) -> None:
        for scope in tuple(self._between_requests):
            scope.cancel(reason="there will be no connection any more")

    async def ask(self, make: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Make a request, and once again if the server has refused it unseen because of the connection.

        Args:
            make: Makes it, on the connection it is given.

        Raises:
            SessionLost: The server has lost the session, and did not begin or keep another one.
            Others: As `connected`, and what `make` raises.
        """
        connection = await self.connected()
        try:
            result = await make(connection)
            connection.is_assumed = False
            return result
        except RequestError as error:
            refusal = error
        again = await self.replacement(connection, refusal)
        if again is None:
            raise refusal
        try:
            return await make(again)
        except RequestError as error:
            again.is_voided_by(error)  # the next one who asks begins with another connection
            raise

    async def replacement(self, connection: Connection, refusal: McpError) -> Connection | None:
        """Return the connection on which a request that was refused may be made again; `None` if it may not.

        Args:
            connection: The one on which it was refused.
            refusal: How.
        """
        if not connection.is_voided_by(refusal):
            return None
        try:
            again = await self.connected()
        except McpError as failure:
            raise refusal from failure
        # The server still is what it was taken for. So the refusal was meant, and the request may have been seen.
        if not isinstance(refusal, SessionLost) and again.revision is connection.revision:
            return None
        return again

    async def set_log_level(self, level: LoggingLevel, meta: Mapping[str, object] | None) -> None:
        """Ask for log messages on this connection and on every one after it."""
        await self.ask(lambda connection: connection.set_log_level(level, meta))
        self._log_level = level  # not before: a server that refuses it would refuse every new connection, too

    async def run(self, started: Callable[[], object]) -> None:
        """Connect, and stay connected until `aclose`, cancellation, or an end that nothing can be done about.

        Args:
            started: Called when there is a connection for the first time.

        Raises:
            ConnectionLost: There was none to begin with, and why.
            ProtocolError: The two sides found no common ground.
            RequestError: The server refused the handshake.
        """
        try:
            end = await self._connect_first(started)
            while not self._leaving and await self._pause(end):
                end = await self._connect_again()
        finally:
            self._give_up(ConnectionLost("this client has ended"))
            self._closed.set()

    async def aclose(self) -> None:
        """Say goodbye and release everything. Bounded; cancelled, it happens all the same."""
        self._leaving = True
        self._departure.cancel(reason="the client was closed")
        self._end_what_is_between_requests()
        self._changed.unpark_all()
        await self._closed.wait()

    async def _connect_first(self, started: Callable[[], object]) -> ConnectionLost:
        deadline = trio.current_time() + self._limits.connect_timeout
        try:
            return await self._hold(started, deadline)
        except ConnectionLost:
            # Some servers exit when the first request is not `initialize`. They get a second chance, without the
            # question that killed them, but no more time.
            has_legacy = any(not revision.is_modern for revision in self._identity.revisions)
            if self._leaving or not (self._is_agreeing and self._connector.survives_probe and has_legacy):
                raise
            if trio.current_time() >= deadline:
                raise
        self._probe = False
        return await self._hold(started, deadline)

    async def _connect_again(self) -> ConnectionLost:
        try:
            return await self._hold(None, trio.current_time() + self._limits.connect_timeout)
        except ConnectionLost as end:
            return end
        except McpError as error:
            refusal = ConnectionLost(f"the connection could not be restored: {error}")
            refusal.__cause__ = error
            return refusal

    async def _pause(self, end: ConnectionLost) -> bool:
        """Wait before the next attempt. Returns whether there is to be one."""
        lasted = 0.0 if self._agreed_at is None else trio.current_time() - self._agreed_at
        delay = None if self._backoff is None else self._backoff.next_delay(lasted)
        if delay is None:
            self._give_up(end)
            return False
        _log.warning("%s; it is started again in %g s", end.reason, delay)
        with self._until_departure():
            await trio.sleep(delay)
        return not self._leaving

    def _give_up(self, why: ConnectionLost) -> None:
        """There will be no connection any more."""
        if self._failure is None:
            self._failure = why
        self._end_what_is_between_requests()
        self._changed.unpark_all()

    @contextmanager
    def _until_departure(self, deadline: float = math.inf) -> Generator[trio.CancelScope]:
        """A scope that ends when the client is closed."""
        outer = self._departure
        with trio.CancelScope(deadline=deadline) as scope:
            self._departure = scope
            try:
                if self._leaving:
                    scope.cancel(reason="the client was closed")
                yield scope
            finally:
                self._departure = outer

    async def _hold(self, started: Callable[[], object] | None, deadline: float) -> ConnectionLost:
        """Open one connection, agree with the server, and stay until it ends. Returns why it ended.

        Args:
            started: Called when there is agreement.
            deadline: When there must be, on Trio's clock.

        Raises:
            McpError: There was no agreement.
        """
        self._is_agreeing = False
        self._agreed_at = None
        limits = self._limits
        end = ConnectionLost("this client was closed")
        with self._until_departure(deadline) as opening:
            messages = self._messages()
            async with (
                self._connector.open(limits) as channel,
                open_peer(
                    channel,
                    messages,
                    limits,
                    on_frame=self._on_frame,
                    on_notification_read=messages.subscriptions.overhear,
                    on_failure=self._hear_failure,
                    middleware=self._middleware,
                ) as peer,
            ):
                self._is_agreeing = True
                connection = await self._agree(peer, messages, probe=self._probe, known=self._known)
                self._is_agreeing = False
                opening.deadline = math.inf
                self._show(connection)
                if started is not None:
                    started()
                with self._until_departure():  # from here on leaving is polite
                    await self._stay(connection, messages)
                if peer.end is not None:
                    end = peer.end
                    if self._backoff is None:
                        self._give_up(end)
        if opening.cancelled_caught and not self._leaving:
            raise ConnectionLost(f"no agreement within {limits.connect_timeout:g} s (connect_timeout)")
        return end

    async def _agree(
        self, peer: Peer, messages: ServerMessages, *, probe: bool, known: DiscoverResult | None = None
    ) -> Connection:
        """Agree with the server, and let it know what it was told before.

        Raises:
            McpError: There was no agreement.
        """
        connection = await negotiate(peer, self._identity, self._limits, probe=probe, known=known)
        if not connection.is_assumed:
            connection.check_size(self._limits.max_remembered_bytes // 4)
        messages.revision, messages.peer = connection.revision, peer
        connection.begin(messages.subscriptions, self._limits)
        if self._log_level is not None:
            await connection.set_log_level(self._log_level)
        return connection

    def _show(self, connection: Connection) -> None:
        """Let everybody have the connection from now on."""
        if self._agreed is not None:
            self._forget(None)  # what has changed meanwhile, nobody has heard
        self._agreed = connection
        self._agreed_at = trio.current_time()
        self._wanted = trio.Event()
        self._changed.unpark_all()

    async def _stay(self, connection: Connection, messages: ServerMessages) -> None:
        """See to the connection, and to those that follow it on its channel, until that ends."""
        is_renewal = self._agreements > 0
        attendance = CallbackAttendance(self._callbacks, self._limits)
        backoff = Backoff(RENEWAL)
        while True:
            self._agreements += 1
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(partial(attendance.attend, connection, is_renewal=is_renewal))
                if not connection.is_certain:
                    nursery.start_soon(settle_era, connection, self._identity, self._limits)
                await connection.wait_over()
                nursery.cancel_scope.cancel(reason="the connection has ended")
            if connection.peer.end is not None or connection.end is None:
                return
            again = await self._agree_again(connection, messages, backoff)
            if again is None:
                return
            connection = again
            self._show(connection)
            is_renewal = True

    async def _agree_again(
        self, void: Connection, messages: ServerMessages, backoff: Backoff
    ) -> Connection | None:
        """Make another agreement over the same channel; returns `None` once that has ended.

        Whoever waits learns why an attempt has failed. The next one is made when somebody asks for the
        connection; a few are made without that, because callbacks do not ask. An agreement that was void at once
        is no success: without being asked, the next one is made after a pause that grows.
        """
        peer = void.peer
        self._known = None  # whatever it was, it is out of date
        _log.info("%s; agreeing with the server again", void.end)
        timeout = self._limits.connect_timeout
        lasted = 0.0 if self._agreed_at is None else trio.current_time() - self._agreed_at
        delay = backoff.next_delay(lasted)
        while True:
            with trio.move_on_after(math.inf if delay is None else delay):
                await self._wait_wanted(peer)
            if peer.end is not None:
                return None
            self._wanted = trio.Event()
            failure: McpError = ConnectionLost(f"no agreement within {timeout:g} s (connect_timeout)")
            with trio.move_on_after(timeout):  # noqa: ASYNC912 - agreeing waits for the server
                try:
                    probe = void.revision.is_modern or not void.is_certain
                    return await self._agree(peer, messages, probe=probe)
                except McpError as error:
                    failure = error
            self._renewal_failure = failure
            self._renewal_failures += 1
            self._changed.unpark_all()
            _log.warning("there is no new agreement with the server: %s", failure)
            self._wanted = trio.Event()
            delay = backoff.next_delay(0)

    async def _wait_wanted(self, peer: Peer) -> None:
        """Wait until somebody asks for the connection, or there can be none."""
        async with open_hidden_nursery() as nursery:

            async def wait_ended() -> None:
                await peer.wait_input_ended()
                nursery.cancel_scope.cancel(reason="the channel has ended")

            nursery.start_soon(wait_ended)
            await self._wanted.wait()
            nursery.cancel_scope.cancel(reason="the connection is wanted")

    def _hear_failure(self, failure: McpError) -> None:
        """The channel says that something has failed that nobody waits for."""
        agreed = self._agreed
        if agreed is None or agreed.end is not None or not agreed.is_voided_by(failure):
            _log.debug("the channel says: %s", failure)


def _renewed(error: McpError) -> McpError:
    """Return an equal error without traceback; one failure is told to many tasks."""
    return error.renewed() if isinstance(error, ConnectionLost) else copy.copy(error).with_traceback(None)
