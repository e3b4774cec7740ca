"""Requests of handlers that wait in the standalone stream of a session, while no connection reads that.

With `json_only` it is the only stream there is, and a client need not open it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import final

import trio

from .._codec._jsonrpc import RequestId
from ._streams import EventStream


@final
class UnreadQuestions:
    """The requests that no connection was sent, by the numbers of their events.

    Args:
        stream: The stream.
        timeout: For how many seconds they wait while no connection could take them.
        cannot_ask: Called with the ids of requests that do not reach the client, and why.
    """

    __slots__ = ("_cannot_ask", "_numbers", "_stream", "_timeout", "_unread")

    def __init__(
        self, stream: EventStream, timeout: float, cannot_ask: Callable[[Sequence[RequestId], str], object]
    ) -> None:
        self._stream = stream
        self._timeout = timeout
        self._cannot_ask = cannot_ask
        self._unread: dict[int, tuple[RequestId, ...]] = {}
        self._numbers: dict[RequestId, int] = {}

    def add(self, number: int, ids: tuple[RequestId, ...]) -> None:
        """Note requests that are queued."""
        self._unread[number] = ids
        self._numbers.update(dict.fromkeys(ids, number))

    def take(self, number: int) -> tuple[RequestId, ...]:
        """Note that an event does not wait any more. Returns the ids of its requests."""
        ids = self._unread.pop(number, ())
        for id in ids:
            del self._numbers[id]
        return ids

    def withdraw(self, id: RequestId) -> bool:
        """Withdraw a request that no connection was sent. Returns whether that was so."""
        number = self._numbers.get(id)
        return number is not None and self._stream.withdraw(number) and bool(self.take(number))

    async def wait_read(self, number: int) -> None:
        """Wait until a request was sent; while no connection could take it, no longer than the timeout."""
        stream = self._stream
        until = math.inf
        while number in self._unread and stream.offered < number and not stream.is_ended:
            until = math.inf if stream.is_connected else min(until, trio.current_time() + self._timeout)
            with trio.move_on_at(until) as waiting:
                await stream.wait_changed()
            if waiting.cancelled_caught and not stream.is_connected:
                stream.withdraw(number)
                self._cannot_ask(
                    self.take(number),
                    "the answer to its request is no stream (json_only), and it has opened no other "
                    f"for {self._timeout:g} s",
                )
        self.take(number)
