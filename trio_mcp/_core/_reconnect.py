"""How often, and after what pause, something that died is started again. Time is an argument.

How long to wait before an event stream is opened again. Time and chance are arguments.

What a server asks for is kept to within reason: it may ask for no wait at all, or for one without end.

Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" (`retry`).
"""

from __future__ import annotations

from typing import Final, final

import attrs

from .._limits import valid_seconds, valid_size


@final
@attrs.frozen(kw_only=True)
class RestartPolicy:
    """When a server that died is started again.

    Each restart waits twice as long as the one before. A connection that lasted counts as a fresh start.

    Attributes:
        max_restarts: How many restarts in a row may fail to bring a lasting connection.
        first_delay: Seconds before the first restart.
        max_delay: The longest pause, in seconds.
        lasting: Seconds after which a connection counts as lasting.

    Raises:
        TypeError: A value is no number, or `max_restarts` is not a whole one.
        ValueError: `max_restarts` is less than 1, or a duration is negative or not a number.
    """

    max_restarts: int = attrs.field(default=5, validator=valid_size)
    first_delay: float = attrs.field(default=0.1, validator=valid_seconds)
    max_delay: float = attrs.field(default=10.0, validator=valid_seconds)
    lasting: float = attrs.field(default=30.0, validator=valid_seconds)


@final
class Backoff:
    """Counts restarts by a policy.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._restarts = 0
        self._delay = policy.first_delay

    def next_delay(self, lasted: float) -> float | None:
        """Decide about the next restart.

        Args:
            lasted: How many seconds the connection that ended had been there; 0 if it never was.

        Returns:
            How many seconds to wait before it, or `None` if there were enough.
        """
        if lasted >= self._policy.lasting:
            self._restarts = 0
            self._delay = self._policy.first_delay
        if self._restarts >= self._policy.max_restarts:
            return None
        delay = min(self._delay, self._policy.max_delay)
        self._delay = 2 * delay
        self._restarts += 1
        return delay


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
