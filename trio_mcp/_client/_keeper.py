"""Keeps a client connected: opens, agrees, stays, notices the end, and opens again if that was asked for."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, final

import trio

from .._core._restart import Backoff
from .._errors import ConnectionLost, McpError
from .._limits import Limits
from .._peer._middleware import Middleware
from .._peer._peer import OnFrame, open_peer
from ..types import LoggingLevel
from ._callbacks import attend_callbacks
from ._connection import ClientIdentity, Connection, negotiate
from ._connectors import Connector
from ._dispatch import ServerMessages
from ._subscriptions import Callbacks, Forget

__all__ = ["ConnectionKeeper"]

_log: Final = logging.getLogger("trio_mcp.client")


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
        self._is_agreeing = False
        self._agreed: Connection | None = None
        self._agreed_at: float | None = None
        self._failure: ConnectionLost | None = None
        self._changed = trio.lowlevel.ParkingLot()
        self._leaving = False
        self._departure = trio.CancelScope()
        self._closed = trio.Event()

    @property
    def agreed(self) -> Connection:
        """The connection that was agreed on last; it may be gone."""
        assert self._agreed is not None, "asked before there was any"
        return self._agreed

    async def connected(self) -> Connection:
        """Return the connection, waiting while it is being restored. Does not checkpoint if it is there.

        Raises:
            ConnectionLost: It is gone and will not be restored.
            trio.ClosedResourceError: It was closed.
        """
        while True:
            if self._leaving:
                raise trio.ClosedResourceError("this client was closed")
            if self._failure is not None:
                raise self._failure.renewed()
            if self._agreed is not None and self._agreed.peer.end is None:
                return self._agreed
            await self._changed.park()

    async def set_log_level(self, level: LoggingLevel, meta: Mapping[str, object] | None) -> None:
        """Ask for log messages on this connection and on every one after it."""
        connection = await self.connected()
        await connection.set_log_level(level, meta)
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
                    on_notice=messages.subscriptions.overhear,
                    middleware=self._middleware,
                ) as peer,
            ):
                self._is_agreeing = True
                connection = await negotiate(peer, self._identity, limits, probe=self._probe)
                self._is_agreeing = False
                messages.revision = connection.revision
                connection.begin(messages.subscriptions, limits)
                if self._log_level is not None:
                    await connection.set_log_level(self._log_level)
                opening.deadline = math.inf
                is_renewal = self._agreed is not None
                if is_renewal:
                    self._forget(None)  # what has changed meanwhile, nobody has heard
                self._agreed = connection
                self._agreed_at = trio.current_time()
                self._changed.unpark_all()
                if started is not None:
                    started()
                with self._until_departure():  # from here on leaving is polite
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(
                            partial(attend_callbacks, connection, self._callbacks, limits, is_renewal=is_renewal)
                        )
                        await peer.wait_input_ended()
                        nursery.cancel_scope.cancel(reason="the connection has ended")
                if peer.end is not None:
                    end = peer.end
                    if self._backoff is None:
                        self._give_up(end)
        if opening.cancelled_caught and not self._leaving:
            raise ConnectionLost(f"no agreement within {limits.connect_timeout:g} s (connect_timeout)")
        return end
