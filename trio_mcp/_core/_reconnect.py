"""How often, and after what pause, a connection or a stream is opened again. Time and chance are arguments.

Two counters share one rule of growth (`_grown`). `Backoff` gives up after a number of attempts. `Reconnect` never
gives up; its caller does, by the count of failures. The pauses of `Reconnect` begin with what the server asks
for, which may be another value each time, and part of them is left to chance.
"""

from __future__ import annotations

from typing import Final, final

import attrs

from .._limits import valid_seconds, valid_size

FIRST_DELAY: Final = 0.5
"""Seconds before the first attempt to open a stream again, if the server does not send `retry`."""
MIN_DELAY: Final = 0.1
"""The shortest pause in seconds; a server that sends a shorter `retry` gets this one."""
MAX_RETRY: Final = 60.0
"""The longest `retry` in seconds that is honoured by default."""
MAX_DELAY: Final = 30.0
"""Seconds up to which the pauses grow. A longer `retry` still counts."""
BUSY: Final = frozenset({408, 425, 429})
"""Statuses below 500 that refuse a request only for now."""
JITTER: Final = 0.2
"""The share of a pause that is left to chance. Otherwise all clients of a restarted server come at once."""


def may_pass(status: int) -> bool:
    """Return whether an HTTP status says nothing about the same request sent later."""
    return status >= 500 or status in BUSY


def _grown(first: float, attempts: int, most: float) -> float:
    """Return the pause before an attempt: `first`, doubled for each attempt before it, but `most` at most."""
    # The exponent is bounded before the power is taken, so that the integer stays small enough for a float.
    return min(first * (1 << min(attempts, 1000)), most)


@final
@attrs.frozen(kw_only=True)
class RestartPolicy:
    """When a server that died is started again.

    Each restart waits twice as long as the one before. After a connection that lasted, counting starts again.

    Attributes:
        max_restarts: How many restarts in a row may fail to bring a lasting connection.
        first_delay: Seconds before the first restart.
        max_delay: The longest pause, in seconds.
        lasting: Seconds after which a connection counts as lasting.

    Raises:
        TypeError: A value is not a number, or `max_restarts` is not an integer.
        ValueError: `max_restarts` is less than 1, or a duration is negative or NaN.
    """

    max_restarts: int = attrs.field(default=5, validator=valid_size)
    first_delay: float = attrs.field(default=0.1, validator=valid_seconds)
    max_delay: float = attrs.field(default=10.0, validator=valid_seconds)
    lasting: float = attrs.field(default=30.0, validator=valid_seconds)


def as_policy(
    restart: RestartPolicy | bool | None,  # noqa: FBT001 - a converter
    name: str = "restart",
) -> RestartPolicy | None:
    """Return a policy: `True` is the one with its defaults, and false is `None`, never.

    Raises:
        TypeError: It is neither a policy nor one of these.
    """
    policy = RestartPolicy() if restart is True else restart or None
    if not isinstance(policy, (RestartPolicy, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance] - users are not checked
        raise TypeError(f"{name} must be a RestartPolicy, True or None, not {policy!r}")
    return policy


@final
@attrs.define(eq=False)
class Backoff:
    """Counts restarts by a policy."""

    _policy: RestartPolicy
    _restarts: int = attrs.field(default=0, init=False)

    def next_delay(self, lasted: float) -> float | None:
        """Decide about the next restart.

        Args:
            lasted: How many seconds the connection lasted that ended; 0 if it was never made.

        Returns:
            How many seconds to wait before the restart, or `None` if `max_restarts` are used up.
        """
        policy = self._policy
        if lasted >= policy.lasting:
            self._restarts = 0
        if self._restarts >= policy.max_restarts:
            return None
        delay = _grown(policy.first_delay, self._restarts, policy.max_delay)
        self._restarts += 1
        return delay


@final
@attrs.define(eq=False)
class Reconnect:
    """Counts the attempts to open one event stream again.

    Args:
        max_retry: The longest pause in seconds that a server may ask for.

    Attributes:
        failures: Attempts in a row that failed.

    Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" (`retry`).
    """

    _max_retry: float = MAX_RETRY
    failures: int = attrs.field(default=0, init=False)
    _fruitless: int = attrs.field(default=0, init=False)

    def received(self) -> None:
        """Count from the start: a message was received, or the stream lasted."""
        self._fruitless = self.failures = 0

    def next_delay(self, retry: int | None, *, failed: bool, chance: float) -> float:
        """Return how many seconds to wait before the next attempt, never less than the `retry` that is honoured.

        Args:
            retry: What the server has asked for, in milliseconds.
            failed: Whether the attempt before failed; a server may also end a stream on purpose.
            chance: A random number from 0 to 1.
        """
        self.failures = self.failures + 1 if failed else 0
        first = FIRST_DELAY if retry is None else max(MIN_DELAY, min(retry / 1000, self._max_retry))
        delay = max(first, _grown(first, self._fruitless, MAX_DELAY))
        self._fruitless += 1
        return delay * (1 + JITTER * chance)
