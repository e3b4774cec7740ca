"""The answers to one batch, gathered until they can go back as one (2025-03-26, basic, "Batching")."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from .._channel import Origin, Outgoing
from .._codec._jsonrpc import RequestId, encode_batch, encode_error
from .._errors import INTERNAL_ERROR, RequestError

__all__ = ["BatchReply"]


@final
class BatchReply:
    """Gathers the answers to the requests of one batch.

    Holds itself open while the batch is taken apart; `close` says that this is done. When nothing is missing any
    more, one array of the answers is sent, or nothing if there are none: JSON-RPC 2.0, section 6.

    Args:
        send: Called with the array.
        origin: Where the batch came from.
        max_bytes: How much the answers may be together. Those that come when it is used up become errors.
    """

    def __init__(self, send: Callable[[Outgoing], None], origin: Origin | None, max_bytes: int) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._bytes = 0
        self._origin = origin
        self._missing = 1
        self._answers: list[bytes] = []
        self._ids: list[RequestId] = []

    def expect(self) -> None:
        """Wait for one more answer."""
        self._missing += 1

    def add(self, answer: Outgoing) -> None:
        """Take one answer that was expected."""
        data = answer.data
        if self._bytes + len(data) > self._max_bytes and answer.answers:
            problem = f"the answers to the batch exceed {self._max_bytes} bytes (max_message_bytes)"
            data = encode_error(answer.answers[0], RequestError(INTERNAL_ERROR, problem))
        self._bytes += len(data)
        self._answers.append(data)
        self._ids.extend(answer.answers)
        self.skip()

    def skip(self) -> None:
        """Stop waiting for one answer: its request was given up."""
        self._missing -= 1
        if not self._missing and self._answers:
            self._send(Outgoing(encode_batch(self._answers), answers=tuple(self._ids), origin=self._origin))

    close = skip
