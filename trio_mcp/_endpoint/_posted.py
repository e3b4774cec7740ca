"""What a POST of the legacy era brings: a message or a batch, decoded once."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, final

import attrs

from .._channel import Incoming, Origin
from .._codec._json import is_array
from .._codec._jsonrpc import Message, Notification, Request, RequestId, read_id

__all__ = ["Posted"]


@final
@attrs.frozen(eq=False)
class Posted:
    """The body of a POST.

    Attributes:
        body: As it came.
        value: Decoded.
        messages: What is in it; nothing if that is for whoever receives it to find out.
    """

    body: bytes
    value: Any
    messages: Sequence[Message]

    @property
    def is_batch(self) -> bool:
        """Whether it is a batch."""
        return is_array(self.value)

    @property
    def begins(self) -> bool:
        """Whether it is the handshake."""
        if self.is_batch or not self.messages:
            return False
        sole = self.messages[0]
        return isinstance(sole, Request) and sole.method == "initialize"

    @property
    def requests(self) -> list[Request]:
        """The requests in it."""
        return [message for message in self.messages if isinstance(message, Request)]

    @property
    def cancelled(self) -> list[RequestId]:
        """The ids of the requests that it gives up."""
        ids = [
            read_id((message.params or {}).get("requestId"))
            for message in self.messages
            if isinstance(message, Notification) and message.method == "notifications/cancelled"
        ]
        return [id for id in ids if id is not None]

    def without(self, ids: Container[RequestId]) -> Posted | None:
        """Return it without the requests of these ids; `None` if nothing is left."""
        left = [
            n
            for n, message in enumerate(self.messages)
            if not isinstance(message, Request) or message.id not in ids
        ]
        if not left:
            return None
        value = [self.value[n] for n in left] if self.is_batch else self.value
        return Posted(self.body, value, [self.messages[n] for n in left])

    def incoming(self, origin: Origin) -> Incoming:
        """Return it as what a peer receives."""
        return Incoming(self.body, origin, value=self.value)
