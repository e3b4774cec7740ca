"""How many requests each client may make in a time: a bucket of tokens each. No clock; time is an argument."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final, final

__all__ = ["RateTable"]

MAX_BUCKETS: Final = 10_000
"""Clients that are remembered. Who has been silent longest is forgotten first, and starts with a full bucket."""


@final
class RateTable:
    """The buckets of all clients.

    Args:
        rate: Tokens that come back per second.
        burst: Tokens in a full bucket.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """Take a token. Returns 0, or in how many seconds there will be one."""
        if math.isinf(self._rate):
            return 0.0
        tokens, then = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - then) * self._rate)
        wait = 0.0
        if tokens >= 1:
            tokens -= 1
        else:
            wait = (1 - tokens) / self._rate
        self._buckets[client] = tokens, now
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait

    def give_back(self, client: str) -> None:
        """Give back a token that was taken in the wrong name."""
        found = self._buckets.get(client)
        if found is not None:
            tokens, then = found
            self._buckets[client] = min(float(self._burst), tokens + 1), then
