"""What a handler says while no request of its client attends it, kept for the next one."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

from .._logs import Log
from .._parking_lot import LightParkingLot
from .._peer._exchange import Exchange

__all__ = ["KeptWords", "Words"]

_log: Final = Log("trio_mcp.server")

Words: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Says something as part of a request."""


@final
class KeptWords:
    """Progress and notifications of one handler.

    Args:
        most: How much is kept; beyond it the oldest make room.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._words: deque[Words] = deque()
        self._dropped = 0
        self._said = LightParkingLot()
        self.is_parked = False

    @property
    def is_silent(self) -> bool:
        """Whether nobody may say anything but by way of this: nobody listens, or not all that is kept is said."""
        return self.is_parked or bool(self._words)

    def keep(self, words: Words) -> None:
        """Keep something until somebody listens, and it is its turn.

        While nobody listens the oldest make room. While that is said which was kept, who says more waits for it.
        """
        if self.is_parked and len(self._words) >= self._most:
            self._words.popleft()
            self._dropped += 1
        self._words.append(words)

    async def wait_said(self) -> None:  # noqa: ASYNC910 - as its docstring says
        """Wait until all that was kept is said, unless nobody listens. Does not checkpoint if it is so."""
        while self._words and not self.is_parked:
            await self._said.park()

    async def say(self, exchange: Exchange) -> None:  # noqa: ASYNC910 - as its docstring says
        """Say what was kept as part of a request, in order, waiting for room."""
        if self._dropped:
            _log.warning(
                "%d notifications of a handler that waited for its client between two requests of it made room "
                "for later ones (max_notifications)",
                self._dropped,
            )
            self._dropped = 0
        try:
            while self._words:
                await self._words[0](exchange)
                self._words.popleft()
        finally:
            self._said.unpark_all()
