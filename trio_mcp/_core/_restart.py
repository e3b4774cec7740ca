"""How often, and after what pause, something that died is started again. Time is an argument."""

from __future__ import annotations

from typing import final

import attrs

from .._limits import valid_seconds, valid_size

__all__ = ["Backoff", "RestartPolicy"]


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
