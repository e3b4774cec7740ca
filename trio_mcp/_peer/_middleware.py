"""Code of a user's that stands between a peer and its messages: what it sees, and how it is put together.

The same for a client and a server. No I/O here, and nothing that knows what a message means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

import attrs

__all__ = ["CallNext", "Message", "Middleware", "compose"]


@final
@attrs.frozen
class Message:
    """A request or notification on its way: out of this side, or into it.

    Attributes:
        direction: Whether this side sends it or has received it.
        method: Its method.
        params: Its parameters as plain JSON, `_meta` included; `None` if it has none.
        is_notification: Whether nobody answers it.
    """

    direction: Literal["sent", "received"]
    method: str
    params: Mapping[str, Any] | None = None
    is_notification: bool = False

    def evolve(self, *, params: Mapping[str, Any] | None) -> Message:
        """Return the same message with other parameters."""
        return attrs.evolve(self, params=params)


CallNext: TypeAlias = Callable[[Message], Awaitable[Mapping[str, Any] | None]]
"""Hands a message on and returns its result as plain JSON; `None` for a notification.

What goes wrong further in comes out of it: `RequestError` for an error that answers a request.
"""

Middleware: TypeAlias = Callable[[Message, CallNext], Awaitable[Mapping[str, Any] | None]]
"""Takes a message and what hands it on, and returns the result, `None` for a notification.

It may hand on another message (see `Message.evolve`), return a result without handing anything on, drop a
notification, hand on twice, or raise. It runs where the message is waited for, so a deadline there covers it.
"""


def compose(middleware: Sequence[Middleware], innermost: CallNext) -> CallNext:
    """Return what hands a message through all middleware to the innermost; the first is the outermost.

    Without any it is the innermost itself, so that what nobody asked for costs nothing.
    """
    call_next = innermost
    for layer in reversed(middleware):
        call_next = _wrap(layer, call_next)
    return call_next


def _wrap(layer: Middleware, call_next: CallNext) -> CallNext:
    async def call(message: Message) -> Mapping[str, Any] | None:  # noqa: ASYNC910 - the layer's business
        return await layer(message, call_next)

    return call
