"""Listening to changes: subscriptions that are held on one connection after another.

    modern era   one request stays open; its notifications name it, and its result ends it in an orderly way
    legacy era   resources are subscribed to one by one; changes of lists are notified without a subscription

`_Listener.hold` is the only loop that subscribes again. `Client.listen` and the callbacks for changes are its two
listeners. Which subscription a notification belongs to is found in `_subscriptions`. At the end is what says what
to write where the block of a listener, or of a client, is used as something else.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import wraps
from threading import get_ident
from types import TracebackType
from typing import ClassVar, Final, NoReturn, ParamSpec, TypeVar, final

import attrs
import trio

from .._codec._jsonrpc import RequestId
from .._core._changes import Change, ChangeQueue, Resynced, changes_in, granted_by, is_nothing, ungranted
from .._core._reconnect import Backoff
from .._errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    AuthorizationFailed,
    ConnectionLost,
    Lagged,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import Limits, check_given
from .._logs import Log
from .._trio import LightParkingLot, check_thread, check_trio_runs, open_hidden_nursery
from ..types import ServerCapabilities, SubscriptionFilter, SubscriptionsListenRequestParams, evolve
from ._connection import Connection, tasks_declared
from ._reconnecting import RESUBSCRIBE, ReconnectingConnection
from ._subscriptions import Subscription, subscription_id

_P = ParamSpec("_P")
_T = TypeVar("_T")

_log: Final = Log("trio_mcp.client")

_LISTEN: Final = "subscriptions/listen"

_AGAIN: Final = attrs.evolve(RESUBSCRIBE, max_restarts=sys.maxsize, max_delay=30.0)
"""How a subscription that was acknowledged once is made again: for as long as its client lives."""

ONE_INTERRUPTION: Final = 5.0
"""Within how many seconds interruptions of the listeners of one connection are one, for the log."""


# What a listener iterates over.


class ChangeIterator(AsyncIterator[_T]):
    """Iterates, in one task, over what listening tasks push. Why it has ended is raised after the last."""

    def __init__(self) -> None:
        self._end: Callable[[], Exception] | None = None
        self._changed = LightParkingLot()
        self._is_waiting = False
        self._thread = get_ident()

    async def __anext__(self) -> _T:
        check_thread(self._thread, "this subscription", "events.__anext__")
        await trio.lowlevel.checkpoint()
        if self._is_waiting:
            raise trio.BusyResourceError("another task is waiting for these events already")
        while (oldest := self._pop()) is None:
            if self._end is not None:
                raise self._end()
            self._is_waiting = True
            try:
                await self._changed.park()
            finally:
                self._is_waiting = False
        return oldest

    def _pop(self) -> _T | None:
        """Take the oldest; return `None` if nothing is waiting."""
        raise NotImplementedError

    # For the listening tasks.

    def _finish(self, make_error: Callable[[], Exception]) -> None:
        """End the iteration after what is waiting; the first reason given is raised."""
        if self._end is None:
            self._end = make_error
        self._changed.unpark_all()

    def _leave(self) -> None:
        """The block was left."""
        self._end = lambda: trio.ClosedResourceError("the block of listen() was left")
        self._changed.unpark_all()


@final
class Events(ChangeIterator[Change]):
    """The changes that `Client.listen` receives, in their order; one task iterates over them.

    A change that is already waiting is not added again. Received changes are returned before the end is raised.

    Raises:
        Lagged: More than ``max_events`` different changes were waiting, or they took more memory than
            `Limits.max_message_bytes`, and the subscription was ended.
        ConnectionLost: The connection is lost for good.
        RequestError: The server refuses to go on, after an interruption.
        trio.ClosedResourceError: The block of `Client.listen` was left, or the client was closed.
        trio.BusyResourceError: Another task is waiting already.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        super().__init__()
        self._queue = ChangeQueue(max_events, max_bytes)
        self._acknowledged: SubscriptionFilter | None = None

    @property
    def acknowledged(self) -> SubscriptionFilter:
        """What the server has most recently agreed to notify. It may be less than was asked for."""
        assert self._acknowledged is not None, "known before the block begins"
        return self._acknowledged

    @property
    def waiting(self) -> int:
        """How many changes wait to be taken."""
        return len(self._queue)

    def _pop(self) -> Change | None:
        return self._queue.pop() if self._queue else None

    # For the listening task.

    def _acknowledge(self, acknowledged: SubscriptionFilter) -> None:
        """Set what the server has agreed to notify."""
        self._acknowledged = acknowledged

    def _push(self, change: Change) -> bool:
        """Add a change. Returns whether listening can go on; if there is no room, this ends it."""
        if self._end is None and not self._queue.push(change):
            self._finish(lambda: Lagged(self._queue.max_length))
        self._changed.unpark_all()
        return self._end is None

    def _leave(self) -> None:
        """The block was left."""
        self._queue.clear()
        super()._leave()


# What is wanted, and declared.


def what_to_listen_to(
    *,
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resources: Iterable[str],
    tasks: Iterable[str] = (),
) -> SubscriptionFilter:
    """Return what a listener wants.

    Raises:
        TypeError: `resources` or `tasks` is one string.
        ValueError: It wants nothing.
    """
    check_given(what_to_listen_to, locals())
    if isinstance(resources, str):
        raise TypeError(f"resources must be an iterable of URIs, not the string {resources!r:.60}")
    if isinstance(tasks, str):
        raise TypeError(f"tasks must be an iterable of ids, not the string {tasks!r:.60}")
    wanted = SubscriptionFilter(
        tools_list_changed=tools_list_changed or None,
        prompts_list_changed=prompts_list_changed or None,
        resources_list_changed=resources_list_changed or None,
        resource_subscriptions=tuple(dict.fromkeys(resources)) or None,
        task_ids=tuple(dict.fromkeys(tasks)) or None,
    )
    if wanted == SubscriptionFilter():
        raise ValueError("there is nothing to listen to: name a list, or the URIs of resources")
    return wanted


def _declared(wanted: SubscriptionFilter, capabilities: ServerCapabilities | None) -> SubscriptionFilter:
    """Return the part of what is wanted that the server declares to notify; all of it if it was not asked."""
    return wanted if capabilities is None else granted_by(capabilities, wanted)


# One subscription.


@final
class EndedByServer(McpError):
    """The server has ended a subscription in an orderly way; or has cancelled it, which means the same."""


async def _subscribe_modern(connection: Connection, subscription: Subscription, grace: float) -> NoReturn:
    """Subscribe in the modern era, and stay until the subscription is over.

    Args:
        connection: The connection.
        subscription: What is wanted. It gets its id here.
        grace: How many seconds the acknowledgement may take.

    Raises:
        EndedByServer: The server has ended it in an orderly way.
        RequestError: The server refuses, or fails later.
        RemoteProtocolError: It ends what it has not acknowledged.
        ConnectionLost: The connection ended, or the stream of this subscription.

    Spec: 2026-07-28, basic/patterns/subscriptions.
    """
    connection.check(_LISTEN)
    peer = connection.peer
    acknowledge = subscription.acknowledge
    meta = tasks_declared(connection) if subscription.wanted.task_ids else None
    params = connection.write(SubscriptionsListenRequestParams(notifications=subscription.wanted, meta=meta))
    refusal: RequestError | None = None
    with trio.CancelScope() as scope:

        def begin(id: RequestId) -> None:
            subscription.id = id
            subscription.end = lambda: peer.fail_request(id, EndedByServer("the server ended the subscription"))
            connection.subscriptions.add(subscription)
            # Not before: this deadline would be sent to the server as the request's own.
            scope.deadline = trio.current_time() + grace

        def acknowledged(what: SubscriptionFilter) -> None:
            nonlocal refusal
            scope.deadline = math.inf
            refusal = _refusal_in(subscription.wanted, what)
            if refusal is None:
                acknowledge(what)
            else:
                scope.cancel(reason="the server notifies of nothing that is wanted")

        subscription.acknowledge = acknowledged
        try:
            result = await peer.request(_LISTEN, params, on_id=begin, is_watched=False)
            if subscription_id(result) != subscription.id:
                _log.warning("the server ended a subscription and named another one: %.200r", result)
        except EndedByServer:
            pass
        except RequestError as error:
            if error.code == METHOD_NOT_FOUND:
                what = f"this server does not let clients listen to changes: {error.message}"
                raise RequestError(METHOD_NOT_FOUND, what, error.data) from error
            raise
        except trio.Cancelled:
            if subscription.id is not None:
                connection.subscriptions.give_up(subscription.id)
            raise
        finally:
            connection.subscriptions.remove(subscription)
    if refusal is not None:
        raise refusal
    if scope.cancelled_caught:
        raise RemoteProtocolError(f"{_LISTEN} was not acknowledged within {grace:g} s (connect_timeout)")
    if not subscription.is_acknowledged:
        raise RemoteProtocolError(f"{_LISTEN} was ended without having been acknowledged")
    raise EndedByServer("the server has ended the subscription")


def _is_final(error: McpError) -> bool:
    """Whether asking again would bring the same answer."""
    if isinstance(error, RequestError):
        return error.code in {METHOD_NOT_FOUND, INVALID_PARAMS}
    if isinstance(error, AuthorizationFailed):
        return not error.may_pass  # nobody is asked to log in again by what runs in the background
    return isinstance(error, LocalProtocolError)


def _refusal_in(wanted: SubscriptionFilter, granted: SubscriptionFilter) -> RequestError | None:
    """Return the error for a server that notifies of no change at all: a listener would wait for nothing."""
    if not is_nothing(granted):
        return None
    missing = ", ".join(ungranted(wanted, granted))
    code = RESOURCE_NOT_FOUND if wanted.resource_subscriptions else METHOD_NOT_FOUND
    return RequestError(code, f"this server does not notify changes of: {missing:.500}")


# One subscription after another.


@attrs.define(eq=False)
class _Listener:
    """Holds a subscription, on one connection after another."""

    _reconnecting: ReconnectingConnection
    _wanted: SubscriptionFilter
    _limits: Limits
    # The server has agreed, or will not; before, its refusal is the caller's.
    _entered: trio.Event = attrs.field(factory=trio.Event, init=False)
    _backoff: Backoff = attrs.field(factory=lambda: Backoff(RESUBSCRIBE), init=False)
    _was_held: bool = attrs.field(default=False, init=False)
    # Why changes may have been missed since the last acknowledgement.
    _interruption: str | None = attrs.field(default=None, init=False)
    _acknowledged_at: float | None = attrs.field(default=None, init=False)
    _connection: Connection | None = attrs.field(default=None, init=False)

    # What listeners differ in.

    _makes_agreements: ClassVar = True
    """Whether it asks for other connections, over other channels too; if not, it ends with its channel."""

    async def _subscribe(self, connection: Connection) -> None:
        """Stay subscribed on a connection until the subscription is over. Returns if there is none to be made."""
        raise NotImplementedError

    # What they share.

    async def hold(self) -> None:
        """Subscribe, and again after each interruption. An orderly end is one: servers are restarted that way.

        Returns if there is no subscription to be made.

        Raises:
            McpError: Subscribing again would be of no use.
            trio.ClosedResourceError: The client was closed.
        """
        reconnecting = self._reconnecting
        may_retry = True
        pause = 0.0
        while True:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._acknowledged_at = None
            self._connection = None
            try:
                await reconnecting.connected(asks=self._makes_agreements)
                if pause:
                    with reconnecting.cancelled_when_over():
                        await trio.sleep(pause)  # after the connection is back, or all clients would ask at once
                self._connection = await reconnecting.connected(asks=self._makes_agreements)
                await self._subscribe(self._connection)
            except McpError as error:
                failure = error
            else:
                return
            connection: Connection | None = self._connection
            if not self._entered.is_set():
                if (
                    connection is None
                    or not may_retry
                    or await reconnecting.replacement(connection, failure) is None
                ):
                    raise failure
                may_retry = False
                continue
            was_lost = connection is not None and (connection.end is not None or connection.ends_with(failure))
            has_channel_ended = connection is not None and connection.peer.end is not None
            if (
                reconnecting.is_over
                or (_is_final(failure) and not was_lost)
                or (has_channel_ended and not self._makes_agreements)
            ):
                raise failure
            if not self._was_held and self._is_held():
                self._was_held, self._backoff = True, Backoff(_AGAIN)
            is_first = self._interruption is None
            self._interruption = str(failure)
            # Attempts to open a channel are counted where it is opened. A stale agreement is counted here:
            # asking for the next one makes it, and it may become stale by what is asked here.
            delay = RESUBSCRIBE.first_delay if has_channel_ended else self._backoff.next_delay(self._lasted())
            if delay is None:
                raise failure
            if is_first:
                self._log_interruption()
            # Spread what many clients do after the same interruption.
            pause = delay * random.uniform(0.5, 1.0)
            if not has_channel_ended:
                with reconnecting.cancelled_when_over():
                    await trio.sleep(pause)
                pause = 0.0

    def _log_interruption(self) -> None:
        """Log it, once for a connection: the end of a token, say, interrupts all of its listeners."""
        now = trio.current_time()
        if now - self._reconnecting.interrupted_at >= ONE_INTERRUPTION:
            self._reconnecting.interrupted_at = now
            _log.warning("listening was interrupted and goes on: %s", self._interruption)
        else:
            _log.debug("another listener was interrupted and goes on: %s", self._interruption)

    def _is_held(self) -> bool:
        """Whether the subscription was acknowledged."""
        return self._acknowledged_at is not None

    def _lasted(self) -> float:
        """Return how many seconds the subscription has held; 0 if it was never acknowledged."""
        return 0.0 if self._acknowledged_at is None else trio.current_time() - self._acknowledged_at


# Listeners with a block.


@asynccontextmanager
async def open_events(
    reconnecting: ReconnectingConnection,
    wanted: SubscriptionFilter,
    max_events: int,
    limits: Limits,
    entering: AbstractContextManager[None],
) -> AsyncGenerator[Events]:
    """Listen for as long as the block runs; see `Client.listen`.

    Args:
        reconnecting: Where to subscribe.
        wanted: What to listen to.
        max_events: How many different changes may wait.
        limits: How many seconds subscribing again may take, and what waiting changes may take in memory.
        entering: Is around the wait for the first acknowledgement.
    """
    events = Events(max_events, limits.max_notification_bytes)
    listener = _EventsListener(reconnecting, wanted, limits, events)
    async with open_hidden_nursery() as nursery:
        nursery.start_soon(listener.run)
        try:
            with entering:
                await listener.wait_entered()
            yield events
        finally:
            events._leave()
            nursery.cancel_scope.cancel(reason="the listener has left")


@final
@attrs.define(eq=False)
class _EventsListener(_Listener):
    """Brings changes to `Events`. Each expected error ends those, so the nursery around fails for bugs only."""

    _events: Events
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _refusal: Exception | None = attrs.field(default=None, init=False)

    async def wait_entered(self) -> None:
        """Wait until the server has agreed, and raise its refusal if it does not."""
        await self._entered.wait()
        if self._refusal is not None:
            raise self._refusal

    async def run(self) -> None:
        """Listen until an error ends it, or this is cancelled."""
        try:
            with self._scope:
                await self.hold()
        except (McpError, trio.ClosedResourceError) as error:
            self._fail(error)
        finally:
            self._entered.set()

    def _fail(self, error: Exception) -> None:
        if self._entered.is_set():
            make_error = error.renewed if isinstance(error, ConnectionLost) else lambda: error
            self._events._finish(make_error)
        else:
            self._refusal = error

    async def _subscribe(self, connection: Connection) -> None:
        subscription = Subscription(self._wanted, self._hear, self._acknowledge)
        if connection.revision.is_modern:
            # The first time, the deadlines around the block decide how long it may take.
            grace = self._limits.connect_timeout if self._entered.is_set() else math.inf
            with connection.until_stale():
                await _subscribe_modern(connection, subscription, grace)
            raise connection.end or ConnectionLost("the connection has ended")
        uris = tuple(self._wanted.resource_subscriptions or ())
        connection.subscriptions.add(subscription)
        try:
            try:
                await connection.resource_subscriptions.acquire(uris)
                subscription.is_acknowledged = True
                self._acknowledge(evolve(_declared(self._wanted, connection.capabilities), task_ids=None))
                await connection.wait_over()
                end = connection.end
                raise trio.ClosedResourceError("this client was closed") if end is None else end.renewed()
            finally:
                connection.subscriptions.remove(subscription)
        finally:
            await connection.resource_subscriptions.release(uris)  # noqa: ASYNC102 - shields itself, and is bounded

    # Called while a message is being read.

    def _hear(self, change: Change) -> None:
        if not self._events._push(change):
            self._scope.cancel(reason="the listener was too slow")

    def _acknowledge(self, acknowledged: SubscriptionFilter) -> None:
        self._acknowledged_at = trio.current_time()
        self._events._acknowledge(acknowledged)
        missing = ungranted(self._wanted, acknowledged)
        if missing:
            _log.warning("the server does not notify changes of: %.500s", ", ".join(missing))
        if self._interruption is not None and self._connection is not None:
            self._connection.subscriptions.report_missed(self._wanted)
            self._hear(Resynced(self._interruption))
            self._interruption = None
        self._entered.set()


# The callbacks.


async def listen_for_callbacks(
    wanted: SubscriptionFilter, limits: Limits, reconnecting: ReconnectingConnection
) -> None:
    """Subscribe to changes of lists for the callbacks of a client, until cancelled or refused too often.

    The callbacks are called where notifications are handled, in their order. After an interruption of the
    connection or of the subscription each is called once: changes may have been missed.

    Args:
        wanted: The changes there are callbacks for.
        limits: How many seconds an acknowledgement may take.
        reconnecting: Where to subscribe, until its present channel ends.
    """
    await _CallbackListener(reconnecting, wanted, limits).run()


@final
class _CallbackListener(_Listener):
    """Subscribes on the connections over one channel. In the legacy era changes of lists need no subscription."""

    _makes_agreements = False

    async def run(self) -> None:
        self._entered.set()  # there is no caller to handle a refusal
        self._interruption = "the connection was restored" if self._reconnecting.is_reconnected else None
        while True:
            try:
                await self.hold()
            except trio.ClosedResourceError:
                return
            except McpError as failure:
                connection = self._connection
                if connection is None or connection.peer.end is not None or self._reconnecting.is_over:
                    return
                _log.warning("callbacks are not called for changes of lists any more: %s", failure)
                if not _is_final(failure):
                    return
            # Ended by the server, refused, or nothing to subscribe to: so it is until the next connection.
            assert self._connection is not None, "hold() returns after it has subscribed"
            await self._connection.wait_over()
            self._interruption = "the connection was replaced"

    async def _subscribe(self, connection: Connection) -> None:
        if not connection.revision.is_modern:
            missed = () if self._interruption is None else changes_in(self._wanted)
            connection.subscriptions.notify_callbacks(missed, None)
            await trio.lowlevel.checkpoint()
            return
        wanted = _declared(self._wanted, connection.capabilities)
        if wanted == SubscriptionFilter():
            _log.info("the server notifies none of the changes that there are callbacks for")
            await trio.lowlevel.checkpoint()
            return

        def acknowledge(_: SubscriptionFilter) -> None:
            self._acknowledged_at = trio.current_time()
            missed = () if self._interruption is None else changes_in(wanted)
            self._interruption = None
            connection.subscriptions.notify_callbacks(missed, subscription.id)

        subscription = Subscription(wanted, lambda _: None, acknowledge)
        with connection.until_stale():
            await _subscribe_modern(connection, subscription, self._limits.connect_timeout)
        raise connection.end or ConnectionLost("the connection has ended")


# Blocks, of listeners and of clients


def entered_in_trio(
    make: Callable[_P, AbstractAsyncContextManager[_T, bool | None]],
) -> Callable[_P, AbstractAsyncContextManager[_T, bool | None]]:
    """Return a function whose block says what to write if it is entered without ``async``, or outside of Trio."""

    @wraps(make)
    def open_it(*args: _P.args, **kwargs: _P.kwargs) -> AbstractAsyncContextManager[_T, bool | None]:
        return EnteredInTrio(make(*args, **kwargs), make.__name__)

    return open_it


@final
class EnteredInTrio(AbstractAsyncContextManager[_T, "bool | None"]):
    """A block that says what to write where it is used as something else.

    Args:
        inner: The block.
        name: What returns it, as users write it.
    """

    def __init__(self, inner: AbstractAsyncContextManager[_T, bool | None], name: str) -> None:
        self._inner = inner
        self._name = name

    async def __aenter__(self) -> _T:
        check_trio_runs(f"{self._name}()")
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, traceback)  # noqa: ASYNC102 - as if this were not here

    def __enter__(self) -> NoReturn:
        raise TypeError(f"write 'async with {self._name}(...)', in an async function that trio.run runs")

    def __await__(self) -> NoReturn:
        raise TypeError(f"what {self._name}() returns is not awaited: write 'async with {self._name}(...) as it'")

    def __aiter__(self) -> NoReturn:
        raise TypeError(f"write 'async with {self._name}(...) as it', and 'async for one in it' inside")

    def __exit__(self, *_: object) -> None:
        raise AssertionError  # only there so that `__enter__` is called

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"what {self._name}() returns has no {name!r}: "
            f"write 'async with {self._name}(...) as it', and use 'it'"
        )
