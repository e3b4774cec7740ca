"""One subscription of the modern era, from asking to its end, and when it is worth asking again.

Whoever holds one decides what its end means; here is neither a loop nor a task.

Keeps what the callbacks for changes need on one connection: in the modern era, a subscription of their own.
"""

from __future__ import annotations

import math
import random
from typing import Final, final

import trio

from .._codec._jsonrpc import RequestId
from .._core._changes import changes_in
from .._core._reconnect import Backoff, RestartPolicy
from .._errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from ..types import ServerCapabilities, SubscriptionFilter, SubscriptionsListenRequestParams
from ._connection import Connection
from ._subscriptions import Callbacks, Subscription, subscription_id

_log: Final = Log("trio_mcp.client")

RENEWAL: Final = RestartPolicy(max_restarts=8, first_delay=0.1, max_delay=10.0, lasting=30.0)
"""How often a subscription that ends while the connection lives is made again."""

_METHOD: Final = "subscriptions/listen"


@final
class _EndedByServer(McpError):
    """The server has said, by other means than an answer, that a subscription is over."""


async def hold_subscription(connection: Connection, subscription: Subscription, grace: float) -> None:
    """Subscribe in the modern era, and stay until the server ends it.

    Args:
        connection: The connection.
        subscription: What is wanted, and who hears it. It gets its id here.
        grace: How many seconds the acknowledgement may take.

    Raises:
        RequestError: The server refuses, or fails later.
        RemoteProtocolError: It ends what it has not acknowledged.
        ConnectionLost: The connection ended, or let go of the subscription.

    Spec: 2026-07-28, basic/patterns/subscriptions.
    """
    connection.check(_METHOD)
    peer = connection.peer
    acknowledge = subscription.acknowledge
    params = connection.write(SubscriptionsListenRequestParams(notifications=subscription.wanted))
    with trio.CancelScope() as scope:

        def begin(id: RequestId) -> None:
            subscription.id = id
            subscription.end = lambda: peer.fail_request(id, _EndedByServer("the server ended the subscription"))
            connection.subscriptions.add(subscription)
            # Not before: the server would be told this deadline as the request's own.
            scope.deadline = trio.current_time() + grace

        def acknowledged(what: SubscriptionFilter) -> None:
            scope.deadline = math.inf
            acknowledge(what)

        subscription.acknowledge = acknowledged
        try:
            result = await peer.request(_METHOD, params, on_id=begin)
            if subscription_id(result) != subscription.id:
                _log.warning("the server ended a subscription and named another one: %.200r", result)
        except _EndedByServer:
            pass
        except RequestError as error:
            if error.code == METHOD_NOT_FOUND:
                what = f"this server does not let clients listen to changes: {error.message}"
                raise RequestError(METHOD_NOT_FOUND, what, error.data) from error
            raise
        finally:
            connection.subscriptions.remove(subscription)
    if scope.cancelled_caught:
        raise RemoteProtocolError(f"{_METHOD} was not acknowledged within {grace:g} s (listen_timeout)")
    if not subscription.is_acknowledged:
        raise RemoteProtocolError(f"{_METHOD} was ended without having been acknowledged")


def is_final(error: McpError) -> bool:
    """Whether asking again would bring the same answer."""
    if isinstance(error, RequestError):
        return error.code in {METHOD_NOT_FOUND, INVALID_PARAMS}
    return isinstance(error, LocalProtocolError)


def jittered(delay: float) -> float:
    """Spread what many clients do after the same interruption."""
    return delay * random.uniform(0.5, 1.0)  # noqa: S311 - nobody gains from guessing it


@final
class CallbackAttendance:
    """Sees to it that callbacks are called, on one connection after another over the same channel.

    Args:
        callbacks: What is to be called.
        limits: How long an acknowledgement may take.
    """

    def __init__(self, callbacks: Callbacks, limits: Limits) -> None:
        self._callbacks = callbacks
        self._limits = limits
        self._backoff = Backoff(RENEWAL)
        self._delay: float | None = 0.0

    async def attend(self, connection: Connection, *, is_renewal: bool) -> None:
        """See to it on one connection, until that ends or the server has nothing for them.

        After an interruption, that of a connection or of the subscription, each is called once: something may
        have changed unheard.

        Args:
            connection: The connection.
            is_renewal: Whether there was a connection before this one.
        """
        callbacks = self._callbacks
        wanted = _wanted(callbacks, None)
        if wanted == SubscriptionFilter():
            await trio.lowlevel.checkpoint()
            return
        if not connection.revision.is_modern:
            if is_renewal:
                connection.subscriptions.tell_callbacks(changes_in(wanted), None)
            await trio.lowlevel.checkpoint()
            return
        wanted = _wanted(callbacks, connection.capabilities)
        if wanted == SubscriptionFilter():
            _log.info("the server tells about none of the changes that there are callbacks for")
            await trio.lowlevel.checkpoint()
            return
        if self._delay is None:
            await trio.lowlevel.checkpoint()
            return
        if self._delay:
            await trio.sleep(self._delay)
        held = _CallbackSubscription(connection, wanted, self._limits, was_interrupted=is_renewal)
        self._delay = await held.keep(self._backoff)


@final
class _CallbackSubscription:
    """The subscription of the callbacks on one connection of the modern era."""

    def __init__(
        self, connection: Connection, wanted: SubscriptionFilter, limits: Limits, *, was_interrupted: bool
    ) -> None:
        self._connection = connection
        self._wanted = wanted
        self._limits = limits
        self._was_interrupted = was_interrupted
        self._acknowledged_at: float | None = None
        self._subscription: Subscription | None = None

    async def keep(self, backoff: Backoff) -> float | None:
        """Subscribe, and again after an interruption.

        Returns:
            How many seconds to wait before subscribing on the next connection over the same channel; `None` if
            the server has refused too often. That it refuses may be what ends a connection.
        """
        while True:
            failure = await self._hold()
            if failure is None or self._connection.end is not None:
                return 0.0  # until the next connection
            lasted = 0.0 if self._acknowledged_at is None else trio.current_time() - self._acknowledged_at
            is_void = self._connection.is_voided_by(failure)
            delay = None if is_final(failure) and not is_void else backoff.next_delay(lasted)
            if delay is None:
                _log.warning("callbacks are not told of changes any more: %s", failure)
                return 0.0 if is_final(failure) else None
            if is_void:
                return jittered(delay)
            _log.warning("listening for callbacks was interrupted and goes on: %s", failure)
            self._was_interrupted = True
            await trio.sleep(jittered(delay))

    async def _hold(self) -> McpError | None:
        """Subscribe, and stay until it ends; in an orderly way, or by what is returned."""
        self._acknowledged_at = None
        # Nothing is brought to it: the callbacks are called where notifications are handled, in their order.
        self._subscription = Subscription(self._wanted, lambda _: None, self._acknowledge)
        try:
            await hold_subscription(self._connection, self._subscription, self._limits.listen_timeout)
        except trio.ClosedResourceError:
            return None
        except McpError as error:
            return error
        return None

    def _acknowledge(self, _: SubscriptionFilter) -> None:
        assert self._subscription is not None, "it is what was acknowledged"
        self._acknowledged_at = trio.current_time()
        missed = changes_in(self._wanted) if self._was_interrupted else ()
        self._connection.subscriptions.tell_callbacks(missed, self._subscription.id)


def _wanted(callbacks: Callbacks, capabilities: ServerCapabilities | None) -> SubscriptionFilter:
    """Return what there are callbacks for, and the server tells about, as far as that is known."""
    unknown = capabilities is None
    can = capabilities or ServerCapabilities()
    tools = unknown or bool(can.tools and can.tools.list_changed)
    prompts = unknown or bool(can.prompts and can.prompts.list_changed)
    resources = unknown or bool(can.resources and can.resources.list_changed)
    return SubscriptionFilter(
        tools_list_changed=(callbacks.tools is not None and tools) or None,
        prompts_list_changed=(callbacks.prompts is not None and prompts) or None,
        resources_list_changed=(callbacks.resources is not None and resources) or None,
    )
