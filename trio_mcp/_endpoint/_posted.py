"""What a POST of the legacy era brings: a message or a batch, decoded once."""

from __future__ import annotations

from collections.abc import Sequence
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
        messages: What is in it.
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
        first = self.messages[0]
        return not self.is_batch and isinstance(first, Request) and first.method == "initialize"

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

    def incoming(self, origin: Origin) -> Incoming:
        """Return it as what a peer receives."""
        return Incoming(self.body, origin, value=self.value)
