"""A connection to one server that is made again after it has ended.

    the channel ends           pending calls fail; the connector opens another channel, if its policy allows that
    the agreement is stale     the channel stays, with the calls pending on it, and another agreement is made
    over it

One task does both (`ReconnectingConnection.run`), so a loss that many tasks notice is repaired once; the others
wait for the connection. Opening channels belongs to connectors (`_open`), agreeing to `_connection`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from threading import get_ident
from typing import Any, Final, TypeAlias, TypeVar, final

import attrs
import trio

from .._audit import SERVED
from .._channel import Channel
from .._core._reconnect import Backoff, RestartPolicy
from .._errors import ConnectionLost, McpError, RemoteProtocolError, RequestError, SessionLost
from .._limits import Limits
from .._logs import Log
from .._peer._call import answer_time, move_on_after_answer_time
from .._peer._middleware import Middleware
from .._peer._peer import Peer, open_peer
from .._peer._send_queue import Hooks, OnFrame
from .._trio import LightParkingLot, check_thread, open_hidden_nursery
from ..types import DiscoverResult, LoggingLevel
from ._connection import ClientIdentity, Connection, late_tasks_canceller, negotiate, settle_era
from ._dispatch import ServerMessages
from ._subscriptions import Forget

_log: Final = Log("trio_mcp.client")

_T = TypeVar("_T")

RESUBSCRIBE: Final = RestartPolicy(max_restarts=8, first_delay=0.1, max_delay=10.0, lasting=30.0)
"""How often a subscription or an agreement that ends while its channel lives is made again by itself."""


@final
@attrs.frozen(kw_only=True)
class Connector:
    """How channels to one server are opened.

    Attributes:
        open: Opens a channel within limits, and closes it on leaving.
        restart: Whether and how often to open another channel when the connection is lost; `None` for never.
        survives_probe: Whether another channel can be opened if the server exits at the first
            ``server/discover``.
        name: The server, for the error if no channel is opened in time.
    """

    open: Callable[[Limits], AbstractAsyncContextManager[Channel]]
    restart: RestartPolicy | None = None
    survives_probe: bool = False
    name: str = "the server"


WhileConnected: TypeAlias = Callable[["ReconnectingConnection"], Awaitable[None]]
"""Runs beside each channel."""


@final
@attrs.define(eq=False)
class ReconnectingConnection:
    """One connection after another to the same server.

    One task runs `run`, which owns each connection. Any task may wait for the connection, call on it, or close.

    Args:
        connector: Opens channels to the server.
        identity: What this client declares, and the revisions it speaks.
        limits: How many seconds connecting may take, and what a connection may cost.
        messages: Makes the dispatcher of the server's own messages, one for each channel.
        forget: Called with `None` after a reconnect, when anything cached may be outdated.
        on_frame: Called with each message in either direction.
        middleware: What every request and notification goes through, the first outermost.
        known: What `Client.discover` returned earlier; it replaces the first ``server/discover``.
        probe: Whether ``server/discover`` is sent first if both eras are spoken; if not, ``initialize`` is.
        while_connected: Runs beside each channel until that ends. It gets this object.
        log_level: Which log messages are asked for at each agreement, unless `set_log_level` asks for others.
        max_silence: Seconds after which a request fails of which nothing was heard.
        on_connection: Called with `None` at each agreement, and with the reason when the connection has ended and
            another one is to be opened, or an attempt to open that has failed.

    Attributes:
        is_reconnected: Whether there was a channel before the present one.
        interrupted_at: When it was logged last that listening was interrupted.
        chosen_log_level: What `set_log_level` has asked for; `None` if it was not called.
        closed: Set when `run` has ended.
    """

    _connector: Connector
    _identity: ClientIdentity
    limits: Final[Limits]
    _messages: Callable[[], ServerMessages] = attrs.field(alias="messages", kw_only=True)
    _forget: Forget = attrs.field(alias="forget", kw_only=True)
    _on_frame: OnFrame | None = attrs.field(alias="on_frame", default=None, kw_only=True)
    _middleware: Sequence[Middleware] = attrs.field(alias="middleware", default=(), kw_only=True)
    _known: DiscoverResult | None = attrs.field(alias="known", default=None, kw_only=True)
    _probe: bool = attrs.field(alias="probe", default=True, kw_only=True)
    _while_connected: WhileConnected | None = attrs.field(alias="while_connected", default=None, kw_only=True)
    _on_connection: Callable[[ConnectionLost | None], object] | None = attrs.field(
        alias="on_connection", default=None, kw_only=True
    )
    _usual_log_level: LoggingLevel | None = attrs.field(alias="log_level", default=None, kw_only=True)
    _max_silence: float = attrs.field(alias="max_silence", default=math.inf, kw_only=True)
    is_reconnected: bool = attrs.field(default=False, init=False)
    interrupted_at: float = attrs.field(default=-math.inf, init=False)
    chosen_log_level: LoggingLevel | None = attrs.field(default=None, init=False)

    _backoff: Backoff | None = attrs.field(init=False)
    _is_agreeing: bool = attrs.field(default=False, init=False)
    _agreed: Connection | None = attrs.field(default=None, init=False)
    # That of the connection, and of earlier ones whose calls are answered and not yet done with.
    _peers: list[Peer] = attrs.field(factory=list[Peer], init=False)
    _agreed_at: float | None = attrs.field(default=None, init=False)
    # Set by a task that waits for the connection: another agreement is then made without a pause.
    _wanted: trio.Event = attrs.field(factory=trio.Event, init=False)
    _agreement_failures: int = attrs.field(default=0, init=False)
    _agreement_failure: McpError | None = attrs.field(default=None, init=False)
    # There is a connection, an attempt has failed, or there will be no connection any more.
    _changed: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _failure: McpError | None = attrs.field(default=None, init=False)
    _is_closing: bool = attrs.field(default=False, init=False)
    _until_closing: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    closed: trio.Event = attrs.field(factory=trio.Event, init=False)
    # How many callers cancel their tasks at the server before the connection is closed.
    _holding: int = attrs.field(default=0, init=False)
    _between_requests: set[trio.CancelScope] = attrs.field(factory=set[trio.CancelScope], init=False)
    _thread: int = attrs.field(factory=get_ident, init=False)
    # Called with each result that no call waits for, while there is a connection.
    _cancel_late: Callable[[Mapping[str, Any]], object] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        restart = self._connector.restart
        self._backoff = None if restart is None else Backoff(restart)

    @property
    def agreed(self) -> Connection:
        """The connection that was agreed on last; it may have ended."""
        assert self._agreed is not None, "used before the client was connected"
        return self._agreed

    @property
    def is_over(self) -> bool:
        """Whether there will be no connection any more."""
        return self._is_closing or self._failure is not None

    @property
    def failure(self) -> ConnectionLost | None:
        """Why it was lost for good; `None` if there can be one, never was one, or the client was closed."""
        lost = self._failure
        return lost if isinstance(lost, ConnectionLost) and not self._is_closing else None

    @property
    def channel_end(self) -> ConnectionLost | None:
        """Why the channel of the last agreement has ended; `None` if it has not. Calls fail later than this."""
        return None if self._agreed is None else self._agreed.peer.end

    # For the calls.

    def _usable(self) -> Connection | None:
        """Return the connection if it can be used at once; every call of a client comes by here."""
        if get_ident() != self._thread:
            self.check_thread()
        agreed = self._agreed
        if agreed is None or agreed.end is not None or self._is_closing or self._failure is not None:
            return None
        return agreed

    async def connected(self, *, asks: bool = True) -> Connection:
        """Return the connection, waiting while it is being restored. Does not checkpoint if it is usable.

        Args:
            asks: Whether another agreement is to be made for this caller, if one is missing; otherwise this waits
                until one has been made for other reasons.

        Raises:
            ConnectionLost: It is lost and will not be restored.
            McpError: It could not be made. Or there was no new agreement with the server, and the next caller
                starts the next attempt.
            trio.ClosedResourceError: It was closed.
        """
        failures = self._agreement_failures
        while True:
            if self.is_over:
                raise self._why_over()
            connection = self._usable()
            if connection is not None:
                return connection
            if asks:
                if self._agreement_failure is not None and self._agreement_failures > failures:
                    raise _renewed(self._agreement_failure)
                self._wanted.set()
            await self._changed.park()

    def _why_over(self) -> Exception:
        if self._is_closing or self._failure is None:
            return trio.ClosedResourceError("this client was closed")
        return _renewed(self._failure)

    async def ask(self, send: Callable[[Connection], Awaitable[_T]]) -> _T:
        """Send a request, and once more if the server refused it unseen because of the connection.

        Args:
            send: Sends it on the given connection. A plain function that returns the coroutine of
                `Sender.request` spares each call a coroutine.

        Raises:
            SessionLost: The server has lost the session, and did not begin or keep another one.
            Others: As `connected`, and what `send` raises.
        """
        connection = self._usable() or await self.connected()
        try:
            result = await send(connection)
            connection.is_assumed = False
            return result
        except RequestError as error:
            refusals = [error]
        again = await self.replacement(connection, refusals[0])
        if again is None:
            raise refusals.pop()  # its frames have this one: kept in it, it would be a cycle
        refusals.clear()
        try:
            return await send(again)
        except RequestError as error:
            again.ends_with(error)  # the next call begins with another connection
            raise

    async def replacement(self, connection: Connection, refusal: McpError) -> Connection | None:
        """Return the connection on which a refused request may be made again; `None` if it may not.

        Args:
            connection: The one on which it was refused.
            refusal: How.
        """
        if not connection.ends_with(refusal):
            return None
        try:
            again = await self.connected()
        except McpError as failure:
            refusal.__cause__ = _renewed(failure)  # the other was raised while the refusal was handled: a cycle
            return None
        # With the same revision and no lost session the server meant the refusal, and may have seen the request.
        if not isinstance(refusal, SessionLost) and again.revision is connection.revision:
            return None
        return again

    @contextmanager
    def cancelled_when_over(self) -> Generator[None]:
        """Cancel what a call does between two requests, such as asking the user, once no connection can follow.

        Raises:
            ConnectionLost: There will be no connection any more. The block was cancelled.
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

    @contextmanager
    def held_open(self) -> Generator[None]:
        """Let closing wait until the block is left, for `Limits.goodbye_timeout` at most."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
            if self._is_closing and not self._holding:
                self._until_closing.cancel(reason="the client was closed")

    async def set_log_level(self, level: LoggingLevel, meta: Mapping[str, object] | None) -> None:
        """Ask for log messages on this connection and on every one after it."""
        await self.ask(lambda connection: connection.set_log_level(level, meta))
        # Not before: a server that refuses it would refuse every new connection, too.
        self.chosen_log_level = level

    # The one task.

    async def run(self, started: Callable[[], object]) -> None:
        """Connect, and stay connected until `aclose`, cancellation, or an end after which nothing is restored.

        Args:
            started: Called at the first agreement.

        Raises:
            ConnectionLost: The first connection failed, and why.
            ProtocolError: The two sides speak no common revision.
            RequestError: The server refused the handshake.
        """
        SERVED.set(None)
        try:
            end = await self._connect_first(started)
            while not self._is_closing and await self._pause(end):
                end = await self._connect_again()
        except McpError as error:
            self._give_up(_renewed(error))
            raise
        finally:
            self._give_up(ConnectionLost("this client has ended"))
            self.closed.set()

    def check_thread(self) -> None:
        """Check that this is the thread of the client; see there."""
        check_thread(self._thread, "this client", "client.call_tool")

    async def finish_notifications(self) -> None:
        """Wait until handlers have taken what was received; see `Peer.finish_notifications`."""
        self.check_thread()
        if self._agreed is not None:
            await self._agreed.peer.finish_notifications()

    async def aclose(self) -> None:
        """Close the connection and release everything. Bounded; it goes on if its caller is cancelled."""
        self.begin_closing()
        await self.closed.wait()

    def begin_closing(self) -> None:
        """Close as `aclose` does, and let `run` return once it is done. Does not wait."""
        self.check_thread()
        if self._is_closing:
            return  # once more would cancel what closing is waiting for
        self._is_closing = True
        for peer in self._peers:
            if peer.end is not None:
                peer.cut_callbacks()
        if self._holding:
            self._until_closing.deadline = trio.current_time() + self.limits.goodbye_timeout
        else:
            self._until_closing.cancel(reason="the client was closed")
        self._wake_waiting()

    async def _connect_first(self, started: Callable[[], object]) -> ConnectionLost:
        deadline = trio.current_time() + self.limits.connect_timeout
        try:
            return await self._hold(started, deadline)
        except ConnectionLost as lost:
            if isinstance(lost.__cause__, RemoteProtocolError):
                raise  # it speaks another protocol, or has ended before it read anything: so in any era
            # Some servers exit when the first request is not `initialize`. They are started once more and not
            # asked `server/discover`, within the same time.
            has_legacy = any(not revision.is_modern for revision in self._identity.revisions)
            if self._is_closing or not (self._is_agreeing and self._connector.survives_probe and has_legacy):
                raise
            if trio.current_time() >= deadline:
                raise
        self._probe = False
        return await self._hold(started, deadline)

    async def _connect_again(self) -> ConnectionLost:
        try:
            return await self._hold(None, trio.current_time() + self.limits.connect_timeout)
        except ConnectionLost as end:
            return end
        except McpError as error:
            refusal = ConnectionLost(f"the connection could not be restored: {error}")
            refusal.__cause__ = error
            return refusal

    async def _pause(self, end: ConnectionLost) -> bool:
        """Wait before the next attempt. Returns whether there is to be one."""
        delay = None if self._backoff is None else self._backoff.next_delay(self._lasted())
        if delay is None:
            self._give_up(end)
            return False
        _log.warning("%s; connecting again in %g s", end.reason, delay)
        self._report(end)
        with self._cancelled_by_closing():
            await trio.sleep(delay)
        return not self._is_closing

    def _lasted(self) -> float:
        """Return how many seconds the last agreement has held; 0 if there was none."""
        return 0.0 if self._agreed_at is None else trio.current_time() - self._agreed_at

    def _give_up(self, why: McpError) -> None:
        """There will be no connection any more."""
        if self._failure is None:
            self._failure = why
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        for scope in tuple(self._between_requests):
            scope.cancel(reason="there will be no connection any more")
        self._changed.unpark_all()

    @contextmanager
    def _cancelled_by_closing(self, deadline: float = math.inf) -> Generator[trio.CancelScope]:
        """Cancel the block when the client is closed."""
        outer = self._until_closing
        with trio.CancelScope(deadline=deadline) as scope:
            self._until_closing = scope
            try:
                if self._is_closing:
                    scope.cancel(reason="the client was closed")
                yield scope
            finally:
                self._until_closing = outer

    async def _hold(self, started: Callable[[], object] | None, deadline: float) -> ConnectionLost:
        """Open one channel, agree with the server, and stay until the channel ends. Returns why it ended.

        Args:
            started: Called at the agreement.
            deadline: When there must be one, on Trio's clock.

        Raises:
            McpError: There was no agreement.
        """
        self._is_agreeing = False
        self._agreed_at = None
        limits = self.limits
        end = ConnectionLost("this client was closed")
        name, unusable, silence = self._connector.name, None, ""
        with self._cancelled_by_closing(deadline) as opening, answer_time(opening, is_told=True) as clock:
            messages = self._messages()
            async with (
                self._connector.open(limits) as channel,
                open_peer(
                    channel,
                    messages,
                    limits,
                    hooks=Hooks(
                        on_frame=self._on_frame,
                        on_notification_read=messages.subscriptions.dispatch,
                        on_failure=self._on_channel_failure,
                        on_stray=self._on_stray,
                    ),
                    middleware=self._middleware,
                    max_silence=self._max_silence,
                ) as peer,
            ):
                self._is_agreeing = True
                messages.opened(channel)
                name = channel.description
                try:
                    connection = await self._agree(peer, messages, probe=self._probe, known=self._known)
                finally:
                    unusable, silence = peer.unusable, channel.explain_silence()
                self._is_agreeing = False
                clock.end()
                opening.deadline = math.inf
                self.is_reconnected = self._agreed is not None
                self._use(connection)
                if started is not None:
                    started()
                with self._cancelled_by_closing():  # from here on the peer is closed in an orderly way
                    await self._stay(connection, messages)
                if peer.end is not None:
                    end = peer.end
                    if self._backoff is None:
                        self._give_up(end)
                    self._report(end)  # now: closing the channel may wait for a process to exit
                    with self._cancelled_by_closing():
                        await peer.finish_notifications()
        if opening.cancelled_caught and not self._is_closing:
            raise _late(name, limits, unusable, silence)
        return end

    async def _agree(
        self, peer: Peer, messages: ServerMessages, *, probe: bool, known: DiscoverResult | None = None
    ) -> Connection:
        """Agree with the server, and set the log level that was asked for on an earlier connection.

        Raises:
            McpError: There was no agreement.
        """
        connection = await negotiate(peer, self._identity, self.limits, probe=probe, known=known)
        if not connection.is_assumed:
            connection.check_size()
        messages.revision, messages.peer = connection.revision, peer
        connection.begin(messages.subscriptions, self.limits)
        if self.chosen_log_level is not None:
            await connection.set_log_level(self.chosen_log_level)
        elif self._usual_log_level is not None:
            await self._ask_for_log(connection, self._usual_log_level)
        return connection

    async def _ask_for_log(self, connection: Connection, level: LoggingLevel) -> None:
        """Ask a server for its log that declares to have one. Nobody has asked for it by a call: it may fail."""
        if connection.capabilities is None or connection.capabilities.logging is None:
            return
        # One that does not answer works without. Asking is a cancel point in any case.
        with trio.move_on_after(self.limits.discover_timeout) as scope:  # noqa: ASYNC912
            try:
                await connection.set_log_level(level)
            except (RequestError, RemoteProtocolError) as error:
                _log.info("the server was asked for its log (%s), and refuses: %s", level, error)
        if scope.cancelled_caught:
            _log.warning("the server was asked for its log (%s), and does not answer", level)

    def _use(self, connection: Connection) -> None:
        """Use the connection for all calls from now on."""
        if self._agreed is not None:
            self._forget(None)  # changes since the last connection were not notified
        used = connection.peer
        self._peers = [peer for peer in self._peers if peer.is_waited_for and peer is not used] + [used]
        self._agreed = connection
        self._agreed_at = trio.current_time()
        self._wanted = trio.Event()
        self._changed.unpark_all()
        self._report(None)

    def _report(self, end: ConnectionLost | None) -> None:
        if self._on_connection is not None:
            self._on_connection(end)

    async def _stay(self, connection: Connection, messages: ServerMessages) -> None:
        """Serve the connection, and those that follow it on its channel, until that ends."""
        backoff = Backoff(RESUBSCRIBE)
        async with open_hidden_nursery() as nursery:
            try:
                if self._while_connected is not None:
                    nursery.start_soon(self._while_connected, self)
                following: Connection | None = connection
                while following is not None:
                    connection = following
                    self._cancel_late = late_tasks_canceller(connection, nursery, self.limits.goodbye_timeout)
                    if not connection.is_certain:
                        nursery.start_soon(settle_era, connection, self._identity, self.limits)
                    await connection.wait_over()
                    following = await self._agree_again(connection, messages, backoff)
                nursery.cancel_scope.cancel(reason="the channel has ended")
            finally:
                self._cancel_late = None  # before the nursery ends: nothing starts in it any more

    async def _agree_again(
        self, stale: Connection, messages: ServerMessages, backoff: Backoff
    ) -> Connection | None:
        """Make another agreement over the same channel; returns `None` once that has ended.

        Tasks that wait get the error of an attempt that fails, and the next task that wants the connection starts
        the next one. A few are made without that, because a server may have something to ask or to notify. An
        agreement that was stale at once is no success: the pause before the next one grows, unless a task wants
        it.
        """
        if stale.peer.end is not None or stale.end is None:
            return None
        peer = stale.peer
        self._known = None  # it is out of date
        _log.info("%s; agreeing with the server again", stale.end)
        timeout = self.limits.connect_timeout
        delay = backoff.next_delay(self._lasted())
        while True:
            with trio.move_on_after(math.inf if delay is None else delay):
                await self._wait_wanted(peer)
            if peer.end is not None:
                return None
            self._wanted = trio.Event()
            failure: McpError = _late(peer.description, self.limits, peer.unusable)
            with move_on_after_answer_time(timeout, is_told=True):
                try:
                    probe = stale.revision.is_modern or not stale.is_certain
                    connection = await self._agree(peer, messages, probe=probe)
                except McpError as error:
                    failure = error
                else:
                    self._use(connection)
                    return connection
            self._agreement_failure = failure
            self._agreement_failures += 1
            self._changed.unpark_all()
            _log.warning("no new agreement with the server: %s", failure)
            self._wanted = trio.Event()
            delay = backoff.next_delay(0)

    async def _wait_wanted(self, peer: Peer) -> None:
        """Wait until a task wants the connection, or there can be none."""
        async with open_hidden_nursery() as nursery:

            async def wait_ended() -> None:
                await peer.wait_input_ended()
                nursery.cancel_scope.cancel(reason="the channel has ended")

            nursery.start_soon(wait_ended)
            await self._wanted.wait()
            nursery.cancel_scope.cancel(reason="the connection is wanted")

    def _on_stray(self, result: Mapping[str, Any]) -> None:
        """Handle a result that no call waits for."""
        if self._cancel_late is not None:
            self._cancel_late(result)

    def _on_channel_failure(self, failure: McpError) -> None:
        """Handle a failure that the channel reports and no call waits for."""
        agreed = self._agreed
        if agreed is None or agreed.end is not None or agreed.ends_with(failure):
            return
        _log.debug("the channel reports: %s", failure)
        if isinstance(failure, ConnectionLost):
            agreed.subscriptions.report_interruption(failure.reason)


def _late(name: str, limits: Limits, unusable: str | None, silence: str = "") -> ConnectionLost:
    """Return the error for a server that has not agreed in time.

    Args:
        name: The server.
        limits: How long it had.
        unusable: What it has sent that was no message.
        silence: What its channel says if it has sent nothing; see `Channel.explain_silence`.
    """
    late = f"{name} has not agreed on a revision within {limits.connect_timeout:g} s (connect_timeout); "
    if unusable is None:
        return ConnectionLost(f"{late}{silence}if it only needs longer, pass limits=Limits(connect_timeout=...)")
    return ConnectionLost(late + (f"it{unusable.removeprefix(name)}" if unusable.startswith(name) else unusable))


def _renewed(error: McpError) -> McpError:
    """Return an equal error without traceback: many tasks raise the same failure."""
    return error.renewed() if isinstance(error, ConnectionLost) else copy.copy(error).with_traceback(None)
