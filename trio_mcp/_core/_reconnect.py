"""How long to wait before an event stream is opened again. Time and chance are arguments.

What a server asks for is kept to within reason: it may ask for no wait at all, or for one without end.

Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" (`retry`).
"""

from __future__ import annotations

from typing import Final, final

__all__ = ["Reconnect"]

FIRST_DELAY: Final = 0.5
"""Seconds before the first attempt, if the server has not said how long."""
MIN_DELAY: Final = 0.1
"""Seconds before an attempt at least, whatever the server says."""
MAX_RETRY: Final = 60.0
"""Seconds that a server may ask for, if nobody says otherwise."""
MAX_DELAY: Final = 30.0
"""Seconds beyond which attempts do not grow apart."""
JITTER: Final = 0.2
"""The share of a delay that is left to chance, or all clients of a server that restarts would come at once."""


@final
class Reconnect:
    """Counts the attempts to open one stream again.

    Args:
        max_retry: The longest wait in seconds that a server may ask for.
    """

    def __init__(self, max_retry: float = MAX_RETRY) -> None:
        self._max_retry = max_retry
        self._fruitless = 0
        self._failures = 0

    @property
    def failures(self) -> int:
        """Attempts in a row that failed."""
        return self._failures

    def received(self) -> None:
        """A message came, or the stream lasted: the next attempt is the first one again."""
        self._fruitless = self._failures = 0

    def next_delay(self, retry: int | None, *, failed: bool, chance: float) -> float:
        """Return how many seconds to wait before the next attempt.

        Never less than what the server has asked for, as long as that is within the limit.

        Args:
            retry: What the server has asked for, in milliseconds.
            failed: Whether the attempt before was a failure; a server may also end a stream on purpose.
            chance: A number from 0 to 1.
        """
        self._failures = self._failures + 1 if failed else 0
        first = FIRST_DELAY if retry is None else max(MIN_DELAY, min(retry / 1000, self._max_retry))
        # The exponent is bounded before the power is taken.
        delay = max(first, min(first * (1 << min(self._fruitless, 20)), MAX_DELAY))
        self._fruitless += 1
        return delay * (1 + JITTER * chance)
