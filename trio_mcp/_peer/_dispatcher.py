"""What a peer asks of the floor above it: which handler serves a request, and what a notification means."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from .._channel import Origin
from .._codec._jsonrpc import Notification, Request
from ._exchange import Answer, Handler, Standing

__all__ = ["Dispatcher"]


class Dispatcher(Protocol):
    """Decides what the messages of one connection mean. A client is one, and a server has one per connection."""

    @property
    def accepts_batches(self) -> bool:
        """Whether the revision in use has batches."""
        ...

    @property
    def answers_unreadable(self) -> bool:
        """Whether an error may be sent for a message that could not even be read as a request.

        A server says so; a client has read a line that a library printed where the server's messages belong.
        """
        ...

    @property
    def answers_malformed(self) -> bool:
        """Whether an error may be sent for what has the id of a request, and is none: its sender waits for it."""
        ...

    def route(self, request: Request, origin: Origin | None) -> Handler | Standing | Answer | None:
        """Decide what a request means, before any later message is looked at.

        Returns:
            The handler to run in an exchange, or a `Standing` one; or the answer itself, which then needs no
            place among the requests being served; or `None` for a request that must not even be answered.

        Raises:
            RequestError: The request is refused with this error.
        """
        ...

    def take_back(self, request: Request) -> None:
        """Forget what `route` has answered on the spot: middleware has let the request fail all the same."""
        ...

    def companion_of(self, request: Request, origin: Origin | None) -> Callable[[str], object] | None:
        """Return what cancels the work that a request would go on with, for a reason; `None` if there is none.

        For a request that cannot be served at once, and may be given up before it is.
        """
        ...

    def notice_key(self, notification: Notification) -> Hashable | None:
        """Return what makes two notifications say the same, or `None` if each says something new."""
        ...

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Handle a notification. They come one at a time, in wire order."""
        ...
