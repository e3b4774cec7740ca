"""Listening to changes: one task per listener that subscribes, and subscribes again after an interruption.

    modern era   a request stays open; what belongs to it names it; its answer ends it in an orderly way
    legacy era   resources are subscribed to one by one, and changes of the lists come unasked

Everything expected that ends the task is kept for whoever iterates, so the nursery around it fails for bugs only.

What a listener iterates over.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final, final

import trio

from .._core._changes import Change, ChangeQueue, Resynced, granted, ungranted
from .._core._reconnect import Backoff
from .._errors import ConnectionLost, Lagged, McpError
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery
from ..types import ServerCapabilities, SubscriptionFilter
from ._connection import Connection
from ._reconnecting import ConnectionKeeper
from ._resubscribe import RENEWAL, hold_subscription, is_final, jittered
from ._subscriptions import Subscription


@final
class Events(AsyncIterator[Change]):
    """The changes that `Client.listen` hears, in the order they came; one task iterates over them.

    A change that already waits to be taken is not added again. What has been heard is given out before the end.

    Raises:
        Lagged: More than ``max_events`` different changes were waiting, or they took more memory than
            `Limits.max_notification_bytes`, and listening was given up.
        ConnectionLost: The connection is gone for good.
        RequestError: The server refuses to go on, after an interruption.
        trio.ClosedResourceError: The block of `Client.listen` was left, or the client was closed.
        trio.BusyResourceError: Another task is waiting already.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._queue = ChangeQueue(max_events, max_bytes)
        self._acknowledged: SubscriptionFilter | None = None
        self._end: Callable[[], Exception] | None = None
        self._changed = LightParkingLot()
        self._is_waiting = False

    @property
    def acknowledged(self) -> SubscriptionFilter:
        """What the server has agreed to tell about, most recently. It may be less than was asked for."""
        assert self._acknowledged is not None, "known before the block begins"
        return self._acknowledged

    @property
    def waiting(self) -> int:
        """How many changes wait to be taken."""
        return len(self._queue)

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint()
        if self._is_waiting:
            raise trio.BusyResourceError("another task is waiting for these events already")
        while not self._queue:
            if self._end is not None:
                raise self._end()
            self._is_waiting = True
            try:
                await self._changed.park()
            finally:
                self._is_waiting = False
        return self._queue.pop()

    # What the listening task does.

    def acknowledge(self, acknowledged: SubscriptionFilter) -> None:
        """The server has said what will come."""
        self._acknowledged = acknowledged

    def push(self, change: Change) -> bool:
        """Let a change wait. Returns whether listening is still of use: it is not when there is no room."""
        if self._end is None and not self._queue.push(change):
            max_events = self._max_events
            self.end(lambda: Lagged(max_events))
        self._changed.unpark_all()
        return self._end is None

    def end(self, make_error: Callable[[], Exception] = StopAsyncIteration) -> None:
        """Nothing will come any more, for the first reason that is given."""
        if self._end is None:
            self._end = make_error
        self._changed.unpark_all()

    def close(self) -> None:
        """The block was left."""
        self._end = _left
        self._queue.clear()
        self._changed.unpark_all()


def _left() -> Exception:
    return trio.ClosedResourceError("the block of listen() was left")


_log: Final = Log("trio_mcp.client")


def what_to_listen_to(
    *,
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resources: Iterable[str],
) -> SubscriptionFilter:
    """Return what a listener wants.

    Raises:
        TypeError: `resources` is one text, and was meant to be several.
        ValueError: It is nothing.
    """
    if isinstance(resources, str):
        raise TypeError("resources takes several URIs in an iterable, not one string")
    wanted = SubscriptionFilter(
        tools_list_changed=tools_list_changed or None,
        prompts_list_changed=prompts_list_changed or None,
        resources_list_changed=resources_list_changed or None,
        resource_subscriptions=tuple(dict.fromkeys(resources)) or None,
    )
    if wanted == SubscriptionFilter():
        raise ValueError("there is nothing to listen to: name a list, or the URIs of resources")
    return wanted


@asynccontextmanager
async def open_events(
    keeper: ConnectionKeeper,
    wanted: SubscriptionFilter,
    max_events: int,
    limits: Limits,
    entering: AbstractContextManager[None],
) -> AsyncGenerator[Events]:
    """Listen for as long as the block runs; see `Client.listen`.

    Args:
        keeper: Has the connections.
        wanted: What to listen to.
        max_events: How many different changes may wait.
        limits: How long what this does of its own accord may take.
        entering: What is around the wait for the first acknowledgement.
    """
    events = Events(max_events, limits.max_notification_bytes)
    listener = _Listener(keeper, wanted, events, limits)
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(listener.run)
        try:
            with entering:
                await listener.wait_entered()
            yield events
        finally:
            events.close()
            nursery.cancel_scope.cancel(reason="the listener has left")


@final
class _Listener:
    """Keeps one listener subscribed, on one connection after another."""

    def __init__(
        self, keeper: ConnectionKeeper, wanted: SubscriptionFilter, events: Events, limits: Limits
    ) -> None:
        self._keeper = keeper
        self._wanted = wanted
        self._events = events
        self._limits = limits
        self._scope = trio.CancelScope()
        self._entered = trio.Event()
        self._refusal: Exception | None = None
        self._interruption: str | None = None  # what has happened since it was last acknowledged
        self._acknowledged_at: float | None = None
        self._connection: Connection | None = None

    async def wait_entered(self) -> None:
        """Wait until the server has agreed, and raise what it says if it does not."""
        await self._entered.wait()
        if self._refusal is not None:
            raise self._refusal

    async def run(self) -> None:
        """Listen until the server ends it, nothing more can be done, or this is cancelled."""
        try:
            with self._scope:
                await self._listen()
        except (McpError, trio.ClosedResourceError) as error:
            self._fail(error)
        else:
            self._events.end()
        finally:
            self._entered.set()

    def _fail(self, error: Exception) -> None:
        if self._entered.is_set():
            self._events.end(error.renewed if isinstance(error, ConnectionLost) else lambda: error)
        else:
            self._refusal = error

    async def _listen(self) -> None:
        backoff = Backoff(RENEWAL)
        may_retry = True
        pause = 0.0
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._acknowledged_at = None
            self._connection = None
            try:
                await self._keeper.connected()
                if pause:
                    await trio.sleep(pause)  # after the connection is back, or all clients would ask at once
                self._connection = await self._keeper.connected()
                await self._subscribe(self._connection)
            except McpError as error:
                failure = error
            else:
                return
            connection = self._connection
            if not self._entered.is_set():
                await self._expect_replacement(connection, failure, may_retry=may_retry)
                may_retry = False
                continue
            was_lost = connection is not None and (connection.end is not None or connection.is_voided_by(failure))
            if self._keeper.is_over or (is_final(failure) and not was_lost):
                raise failure
            self._interruption = str(failure)
            # A channel that is lost is the keeper's to count. A connection over it that is void is counted here,
            # too: asking for the next one makes it, and it may be void for what is asked here.
            is_of_channel = connection is not None and connection.peer.end is not None
            delay = RENEWAL.first_delay if is_of_channel else backoff.next_delay(self._lasted())
            if delay is None:
                raise failure
            _log.warning("listening was interrupted and goes on: %s", self._interruption)
            pause = jittered(delay)
            if not is_of_channel:
                await trio.sleep(pause)
                pause = 0.0

    async def _expect_replacement(
        self, connection: Connection | None, failure: McpError, *, may_retry: bool
    ) -> None:
        """Raise the failure of the first attempt, unless it may be made again, once; see `ConnectionKeeper`."""
        if connection is None or not may_retry or await self._keeper.replacement(connection, failure) is None:
            raise failure

    def _lasted(self) -> float:
        """How many seconds the subscription has been there; 0 if it never was."""
        return 0.0 if self._acknowledged_at is None else trio.current_time() - self._acknowledged_at

    async def _subscribe(self, connection: Connection) -> None:
        """Listen on a connection until the server ends it."""
        subscription = Subscription(self._wanted, self._hear, self._acknowledge)
        if connection.revision.is_modern:
            # The first time, how long it may take is for the deadlines around the block to say.
            grace = self._limits.listen_timeout if self._entered.is_set() else math.inf
            with connection.until_void():
                await hold_subscription(connection, subscription, grace)
                return
            raise connection.end or ConnectionLost("the connection has ended")
        await self._hold_resources(connection, subscription)

    async def _hold_resources(self, connection: Connection, subscription: Subscription) -> None:
        uris = tuple(self._wanted.resource_subscriptions or ())
        connection.subscriptions.add(subscription)
        try:
            try:
                await connection.resource_subscriptions.acquire(uris)
                subscription.is_acknowledged = True
                self._acknowledge(_declared(self._wanted, connection.capabilities))
                await connection.wait_over()
                end = connection.end
                raise trio.ClosedResourceError("this client was closed") if end is None else end.renewed()
            finally:
                connection.subscriptions.remove(subscription)
        finally:
            await connection.resource_subscriptions.release(uris)  # noqa: ASYNC102 - shields itself, and is bounded

    # Called while a message is being read.

    def _hear(self, change: Change) -> None:
        if not self._events.push(change):
            self._scope.cancel(reason="the listener was too slow")

    def _acknowledge(self, acknowledged: SubscriptionFilter) -> None:
        self._acknowledged_at = trio.current_time()
        self._events.acknowledge(acknowledged)
        missing = ungranted(self._wanted, acknowledged)
        if missing:
            _log.warning("the server does not tell about changes of: %.500s", ", ".join(missing))
        if self._interruption is not None and self._connection is not None:
            self._connection.subscriptions.distrust(self._wanted)
            self._hear(Resynced(self._interruption))
            self._interruption = None
        self._entered.set()


def _declared(wanted: SubscriptionFilter, capabilities: ServerCapabilities | None) -> SubscriptionFilter:
    """Return what a server of the legacy era has said it tells about."""
    can = capabilities or ServerCapabilities()
    return granted(
        wanted,
        tools=bool(can.tools and can.tools.list_changed),
        prompts=bool(can.prompts and can.prompts.list_changed),
        resources=bool(can.resources and can.resources.list_changed),
    )
