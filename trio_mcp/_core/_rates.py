"""How often something may be done: rates as they are written, and a bucket of tokens for each client.

Decisions only: no clock and no I/O. Time is an argument.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from typing import Final, final

import attrs

MAX_COUNT: Final = 1_000_000_000
"""The greatest numbers in a rate."""

_UNITS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}
_RATE: Final = re.compile(
    r"([0-9]+) ?/ ?(?:([0-9]+) ?)?(?:(s)(?:econds?)?|(min)(?:utes?)?|(h)(?:ours?)?|(d)(?:ays?)?)"
)


@final
@attrs.frozen
class Rate:
    """How often something may be done in the long run; at once, so often as in one period.

    Attributes:
        count: How often in a period.
        seconds: How long a period is.
        text: The rate as it was written.
    """

    count: int
    seconds: int
    text: str

    def table(self) -> RateTable:
        """Return full buckets for clients that may do something at this rate."""
        return RateTable(self.count / self.seconds, self.count)


def read_rate(name: str, given: object) -> Rate:
    """Return the rate that a text such as ``"10/minute"`` or ``"100/15 minutes"`` stands for.

    Raises:
        TypeError: It is not a text.
        ValueError: It is not such a text, or one of its numbers is 0 or too large.
    """
    wanted = f"{name} must be a rate such as '10/minute' or '100/15 minutes' (second, minute, hour, day)"
    if not isinstance(given, str):
        raise TypeError(f"{wanted}, not {given!r:.60}")
    found = _RATE.fullmatch(given.strip())
    if found is None:
        raise ValueError(f"{wanted}, not {given!r:.60}")
    digits, periods, *units = found.groups()
    if max(len(digits), len(periods or "")) > len(str(MAX_COUNT)):
        raise ValueError(f"{name}: the numbers of a rate are at most {MAX_COUNT}, not {given!r:.60}")
    count, many = int(digits), int(periods or 1)
    if not (1 <= count <= MAX_COUNT and 1 <= many <= MAX_COUNT):
        raise ValueError(f"{name}: the numbers of a rate are 1 to {MAX_COUNT}, not {given!r:.60}")
    (unit,) = filter(None, units)
    return Rate(count, many * _UNITS[unit], given.strip())


def whole_seconds(wait: float) -> int:
    """Return how long a client is told to wait: at least a second, unless it need not wait at all."""
    return max(1, math.ceil(wait - 1e-6)) if wait else 0


MAX_BUCKETS: Final = 10_000
"""Clients that are remembered. That which has been silent longest is forgotten first; its next bucket is full."""

NEARLY: Final = 1 - 1e-6
"""What counts as a whole token: whoever waits as long as it was told must not fail for a rounding error."""


@final
@attrs.define(eq=False)
class RateTable:
    """The token buckets of all clients.

    Args:
        rate: Tokens that come back per second.
        burst: Tokens in a full bucket.
    """

    _rate: float
    _burst: int
    _buckets: OrderedDict[str, tuple[float, float]] = attrs.field(
        factory=OrderedDict[str, tuple[float, float]], init=False
    )

    def take(self, client: str, now: float) -> float:
        """Take a token and return 0; if there is none, return in how many seconds there will be one."""
        if math.isinf(self._rate):
            return 0.0
        tokens, then = self._buckets.pop(client, (float(self._burst), now))
        # Another run of Trio has a clock of its own, which may be behind.
        tokens = min(float(self._burst), tokens + max(now - then, 0.0) * self._rate)
        wait = 0.0
        if tokens >= NEARLY:
            tokens = max(tokens - 1, 0.0)
        else:
            wait = (1 - tokens) / self._rate
        self._buckets[client] = tokens, now
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait

    def give_back(self, client: str) -> None:
        """Give back a token that was taken for the wrong client."""
        found = self._buckets.get(client)
        if found is not None:
            tokens, then = found
            self._buckets[client] = min(float(self._burst), tokens + 1), then
