"""Fair shares of the event loop, and of requests per second, for the holders (clients) of one server.

Decisions only: no I/O, no Trio, no clock; time is an argument. Who is a holder is decided in `_account`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar, final

# A request runs in one piece up to its first checkpoint, and all that begin in one pass of the event loop run
# before the next pass. So a holder that sends very many requests at once, or great ones (large bodies, large
# results), makes the pass long for all others. Two rules bound that while more than one holder is active:
#
# * A share: in one pass a holder begins at most SHARE small requests, or one great one. The others wait for the
#   next pass, small and great ones in turns, each in order of arrival.
# * A debt: the time for which a great request has held the loop is charged to its holder, whose next great one
#   waits TIMES as long. So great requests of one holder take a ninth of the loop at most, and less if they hold
#   it so long that others notice (LONG). Small requests have a debt of their own. It is short, because a small
#   request may be a cancellation.
#
# Kept true: a request that waits is in exactly one queue of its holder, and what waits for nothing but a share
# begins in the next pass. A single active holder is neither bounded nor in debt. The caller must call `next` once
# after every pass as long as the object is true; otherwise shares are never renewed.

SHARE: Final = 2
"""Small requests of one holder that begin in one pass. A great one counts as much as all of them."""

TIMES: Final = 8
"""For each second that a great request has held the loop, the next one of its holder waits so many seconds."""

LONG: Final = 0.03
"""Seconds for which a great request may hold the loop before more is charged: others hardly notice as much."""

TIMES_LONG: Final = 32
"""The same as `TIMES`, for each second beyond `LONG`."""

MOST_OWED: Final = 20.0
"""The longest debt for great requests, in seconds."""

SMALL_LONG: Final = 0.01
"""Seconds from which on it is charged that a small request has held the loop: then its result is great."""

MOST_OWED_BY_SMALL: Final = 1.0
"""The longest debt for small requests, in seconds: one of them may be a cancellation."""

_T = TypeVar("_T", bound=Hashable)


@final
class _Queue(Generic[_T]):
    """The requests of one holder.

    Attributes:
        begun: How much of its share of this pass is used.
        small: Its small requests that wait, in order of arrival.
        great: Its great requests that wait, in order of arrival.
        is_great_next: Whether a great one begins next, if both wait.
    """

    __slots__ = ("begun", "great", "is_great_next", "small")

    def __init__(self) -> None:
        self.begun = 0
        self.small: OrderedDict[_T, None] = OrderedDict()
        self.great: OrderedDict[_T, None] = OrderedDict()
        self.is_great_next = False


@final
class Turns(Generic[_T]):
    """Decides when requests begin. What stands for a waiting request is the caller's choice (`_T`)."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue[_T]] = {}
        self._owed_until: dict[tuple[str, bool], float] = {}  # by great ones, and by small ones
        self._waiting = 0

    def __bool__(self) -> bool:
        """Whether a request has begun in this pass, or waits."""
        return bool(self._queues)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._waiting

    @property
    def holders(self) -> Collection[str]:
        """The holders with a request that has begun in this pass, or waits."""
        return self._queues.keys()

    def begin(self, holder: str, now: float, *, is_great: bool) -> bool:
        """Whether a request may begin at once; then it counts as begun."""
        queue = self._queues.get(holder)
        if self._owes(holder, now, is_great=is_great):
            return False
        if queue is None:
            queue = self._queues[holder] = _Queue[_T]()
        elif queue.great if is_great else queue.small:
            return False
        if queue.begun >= (1 if is_great else SHARE):
            return False
        queue.begun += SHARE if is_great else 1
        return True

    def wait(self, holder: str, waiter: _T, *, is_great: bool) -> None:
        """Queue a request that may not begin yet."""
        queue = self._queues.get(holder)
        if queue is None:
            queue = self._queues[holder] = _Queue[_T]()
        (queue.great if is_great else queue.small)[waiter] = None
        self._waiting += 1

    def leave(self, holder: str, waiter: _T) -> None:
        """Take a request out that waits: it was cancelled."""
        queue = self._queues[holder]
        del (queue.great if waiter in queue.great else queue.small)[waiter]
        self._waiting -= 1

    def _owes(self, holder: str, now: float, *, is_great: bool) -> bool:
        return self._owed_until.get((holder, is_great), now) > now

    def charge(self, holder: str, seconds: float, now: float, *, is_great: bool) -> None:
        """Charge a holder for a request that has held the loop for some seconds while other holders were active.

        Others notice how often they meet a long pause, and how long it is. So more is charged for what is longer
        than `LONG`: nineteen of twenty requests of others do not meet one.
        """
        if not is_great and seconds < SMALL_LONG:
            return
        owed, debtor = self._owed_until, (holder, is_great)
        for other in [other for other, until in owed.items() if until <= now]:
            del owed[other]
        more = TIMES * min(seconds, LONG) + TIMES_LONG * max(seconds - LONG, 0.0)
        most = MOST_OWED if is_great else MOST_OWED_BY_SMALL
        owed[debtor] = min(max(owed.get(debtor, now), now) + more, now + most)

    def next(self, now: float, *, is_shared: bool) -> list[_T]:
        """Take out the requests that begin in the next pass; call this when a pass is over.

        Args:
            now: The time, in seconds.
            is_shared: Whether more than one holder is active. If not, all requests begin and no debt is left.
        """
        found: list[_T] = []
        for holder, queue in tuple(self._queues.items()):
            queue.begun = 0
            if not is_shared:
                found += [*queue.small, *queue.great]
                queue.small.clear()
                queue.great.clear()
            elif self._is_greats_turn(holder, queue, now):
                queue.is_great_next = False
                queue.begun = SHARE
                found.append(queue.great.popitem(last=False)[0])
            else:
                queue.is_great_next = True
                most = 0 if self._owes(holder, now, is_great=False) else SHARE
                while queue.small and queue.begun < most:
                    queue.begun += 1
                    found.append(queue.small.popitem(last=False)[0])
            if not (queue.begun or queue.small or queue.great):
                del self._queues[holder]
        if not is_shared:
            self._owed_until.clear()
        self._waiting -= len(found)
        return found

    def _is_greats_turn(self, holder: str, queue: _Queue[_T], now: float) -> bool:
        if not queue.great or self._owes(holder, now, is_great=True):
            return False
        return queue.is_great_next or not queue.small or self._owes(holder, now, is_great=False)

    def next_at(self, now: float) -> float:
        """Return when a request may begin next: now, unless all that wait are in debt."""
        if any(queue.begun for queue in self._queues.values()):
            return now
        dues = (
            self._owed_until.get((holder, is_great), now)
            for holder, queue in self._queues.items()
            for is_great, waiting in ((False, queue.small), (True, queue.great))
            if waiting
        )
        return max(now, min(dues, default=now))


# Requests per second: a bucket of tokens for each client.

MAX_BUCKETS: Final = 10_000
"""Clients that are remembered. That which has been silent longest is forgotten first; its next bucket is full."""


@final
class RateTable:
    """The token buckets of all clients.

    Args:
        rate: Tokens that come back per second.
        burst: Tokens in a full bucket.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """Take a token and return 0; if there is none, return in how many seconds there will be one."""
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
        """Give back a token that was taken for the wrong client."""
        found = self._buckets.get(client)
        if found is not None:
            tokens, then = found
            self._buckets[client] = min(float(self._burst), tokens + 1), then
