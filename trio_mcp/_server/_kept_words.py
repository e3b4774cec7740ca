"""What a handler says while no request of its client attends it, kept for the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, final

from .._codec._cost import cost_of
from .._codec._jsonrpc import Encoded
from .._logs import Log
from .._parking_lot import LightParkingLot
from .._peer._exchange import Exchange

__all__ = ["KeptWords", "Words", "weight_of"]

_log: Final = Log("trio_mcp.server")

Words: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Says something as part of a request."""

WORDS_BYTES: Final = 512
"""What keeping something takes beside what is said."""


def weight_of(said: Mapping[str, Any] | Encoded | str | None) -> int:
    """Return what it takes to keep the parameters of a notification, or a text, in bytes."""
    if said is None:
        return WORDS_BYTES
    if isinstance(said, Encoded):
        return WORDS_BYTES + len(said)
    return WORDS_BYTES + cost_of(said)


@final
class KeptWords:
    """Progress and notifications of one handler.

    Args:
        most: How many of them are kept; beyond it the oldest make room.
        max_bytes: What they may weigh together.
        has_room: Asked whether so many bytes may be kept, before they are, and told how many are left.
    """

    def __init__(self, most: int, max_bytes: int, has_room: Callable[[int], bool]) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._has_room = has_room
        self._words: deque[tuple[Words, int]] = deque()
        self._bytes = 0
        self._dropped = 0
        self._said = LightParkingLot()
        self.is_parked = False

    @property
    def is_silent(self) -> bool:
        """Whether nobody may say anything but by way of this: nobody listens, or not all that is kept is said."""
        return self.is_parked or bool(self._words)

    def keep(self, words: Words, weight: int) -> None:
        """Keep something until somebody listens, and it is its turn.

        While nobody listens the oldest make room. While that is said which was kept, who says more waits for it.

        Args:
            words: Says it.
            weight: What it takes to keep it, in bytes.
        """
        if self.is_parked:
            while self._words and (len(self._words) >= self._most or self._bytes + weight > self._max_bytes):
                self._drop()
            while not self._has_room(self._bytes + weight):
                if not self._words:
                    self._dropped += 1
                    return
                self._drop()
        self._words.append((words, weight))
        self._bytes += weight

    def _drop(self) -> None:
        _, weight = self._words.popleft()
        self._bytes -= weight
        self._dropped += 1

    async def wait_said(self) -> None:  # noqa: ASYNC910 - as its docstring says
        """Wait until all that was kept is said, unless nobody listens. Does not checkpoint if it is so."""
        while self._words and not self.is_parked:
            await self._said.park()

    async def say(self, exchange: Exchange) -> None:  # noqa: ASYNC910 - as its docstring says
        """Say what was kept as part of a request, in order, waiting for room."""
        if self._dropped:
            _log.warning(
                "%d notifications of a handler that waited for its client between two requests of it made room "
                "for later ones (max_notifications, max_parked_notification_bytes)",
                self._dropped,
            )
            self._dropped = 0
        try:
            while self._words:
                words, weight = self._words[0]
                await words(exchange)
                self._words.popleft()
                self._bytes -= weight
        finally:
            self._said.unpark_all()
