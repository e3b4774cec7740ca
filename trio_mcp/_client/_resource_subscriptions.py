"""Which resources a connection of the legacy era is subscribed to, on behalf of how many listeners.

Spec: 2025-11-25, server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

import attrs
import trio

from .._codec._convert import to_wire
from .._codec._jsonrpc import RequestId
from .._errors import METHOD_NOT_FOUND, McpError, RequestError
from .._groups import open_hidden_nursery
from .._logs import Log
from .._peer._peer import Peer
from .._revisions import Revision
from ..types import SubscribeRequestParams, UnsubscribeRequestParams

__all__ = ["ResourceSubscriptions"]

_log: Final = Log("trio_mcp.client")

_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"


@final
@attrs.define(eq=False)
class _Held:
    """One resource.

    A request that is given up leaves open what the server thinks, so there are two answers: nobody relies on a
    subscription that the server has not confirmed, and whatever it may think is taken back in the end.

    Attributes:
        count: How many listeners want it.
        users: How many listeners have not given it back entirely; the last one forgets the resource.
        is_subscribed: Whether the server has said that we are subscribed, and was not asked to end it since.
        may_be_subscribed: Whether the server may think that we are.
        turn: Held while the server is being asked, so that it is asked in order.
    """

    count: int = 0
    users: int = 0
    is_subscribed: bool = False
    may_be_subscribed: bool = False
    turn: trio.Lock = attrs.field(factory=trio.Lock)


@final
class ResourceSubscriptions:
    """Subscribes to a resource when the first listener comes and unsubscribes when the last has gone.

    Args:
        peer: The connection.
        revision: What is spoken there.
        is_declared: Whether the server has said that it lets clients do so. It is asked all the same: many
            servers let them and do not say so, and one that does not can answer for itself.
        goodbye_timeout: How many seconds unsubscribing may take.
    """

    def __init__(self, peer: Peer, revision: Revision, *, is_declared: bool, goodbye_timeout: float) -> None:
        self._peer = peer
        self._revision = revision
        self._is_declared = is_declared
        self._goodbye_timeout = goodbye_timeout
        self._held: dict[str, _Held] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._held)

    def forget(self) -> None:
        """The server knows nothing of the connection any more. It is not told that something is unwanted."""
        self._is_over = True

    async def acquire(self, uris: Sequence[str]) -> None:
        """Subscribe to resources. Whatever comes of it, `release` has to follow.

        Raises:
            RequestError: The server refuses it.
            ConnectionLost: The connection ended first.
        """
        for uri in uris:
            held = self._held.setdefault(uri, _Held())
            held.count += 1
            held.users += 1
        errors = await _for_each(uris, self._subscribe)
        if errors:
            raise errors[0]

    async def release(self, uris: Sequence[str]) -> None:
        """Give back what `acquire` was called for.

        Cancelled or not, the server is told of what nobody wants any more, within the goodbye's timeout.
        """
        unwanted: list[str] = []
        for uri in uris:
            held = self._held[uri]
            held.count -= 1
            if not held.count:
                unwanted.append(uri)
        try:
            with trio.move_on_after(self._goodbye_timeout, shield=True):
                for error in await _for_each(unwanted, self._unsubscribe):
                    _log.debug("could not unsubscribe: %s", error)
        finally:
            for uri in uris:
                held = self._held[uri]
                held.users -= 1
                if not held.users:
                    del self._held[uri]

    async def _subscribe(self, uri: str) -> None:
        held = self._held[uri]
        async with held.turn:
            if held.is_subscribed:
                return

            def begin(_: RequestId) -> None:
                held.may_be_subscribed = True

            params = to_wire(SubscribeRequestParams(uri=uri), self._revision)
            try:
                await self._peer.request(_SUBSCRIBE, params, on_id=begin)
            except RequestError as error:
                held.may_be_subscribed = False
                if error.code == METHOD_NOT_FOUND and not self._is_declared:
                    what = f"this server does not let clients subscribe to resources: {error.message}"
                    raise RequestError(METHOD_NOT_FOUND, what, error.data) from error
                raise
            held.is_subscribed = True

    async def _unsubscribe(self, uri: str) -> None:
        held = self._held[uri]
        async with held.turn:
            # Another listener may have come while this one waited for its turn.
            if held.may_be_subscribed and not held.count and not self._is_over:
                held.is_subscribed = False
                params = to_wire(UnsubscribeRequestParams(uri=uri), self._revision)
                await self._peer.request(_UNSUBSCRIBE, params)
                held.may_be_subscribed = False


async def _for_each(uris: Sequence[str], act: Callable[[str], Awaitable[None]]) -> list[Exception]:
    """Act on all at once, and return what went wrong."""
    errors: list[Exception] = []

    async def one(uri: str) -> None:
        try:
            await act(uri)
        except (McpError, trio.ClosedResourceError) as error:
            errors.append(error)

    async with open_hidden_nursery() as nursery:
        for uri in uris:
            nursery.start_soon(one, uri)
    return errors
