"""One subscription of the modern era, from asking to its end, and when it is worth asking again.

Whoever holds one decides what its end means; here is neither a loop nor a task.
"""

from __future__ import annotations

import math
import random
from typing import Final, final

import trio

from .._codec._jsonrpc import RequestId
from .._core._restart import RestartPolicy
from .._errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._logs import Log
from ..types import SubscriptionFilter, SubscriptionsListenRequestParams
from ._connection import Connection
from ._subscriptions import Subscription, subscription_id

__all__ = ["RENEWAL", "hold_subscription", "is_final", "jittered"]

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
