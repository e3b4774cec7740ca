"""Whose requests begin in which pass of the event loop: a share of its time. No clock; time is an argument.

    requests of one holder ──> few, small ──────────────────────────────────> they begin
                                 └──> many, or great: so much a pass ──────> they begin, first come, first served

What many holders ask for in one pass makes the pass long, and everybody waits for its end. So while more than one
is asking, what one of them has begun in a pass is bounded. Nothing idles for it: what does not begin in this pass
begins in the next one. What is great holds the loop by itself; it is paid for afterwards.

How many requests each client may make in a time: a bucket of tokens each. No clock; time is an argument.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar, final

SHARE: Final = 4
"""Small requests of one holder that begin in one pass. A great one takes as much as all of them."""

TIMES: Final = 8
"""How many times as long as a great request has held the loop the next one of its holder waits."""

LONG: Final = 0.03
"""Up to how many seconds the loop may be held by what is great before it weighs more: others hardly notice."""

TIMES_LONG: Final = 32
"""How many times as long the next one waits for what a great request has held the loop longer than that."""

MOST_OWED: Final = 10.0
"""How long a great one waits at most for what others of the same holder took, in seconds."""

SMALL_LONG: Final = 0.01
"""From how many seconds on it counts that something small has held the loop: its answer is great, then."""

MOST_OWED_BY_SMALL: Final = 1.0
"""How long a small one waits at most for what others of the same holder took: it may be a cancellation."""

_T = TypeVar("_T", bound=Hashable)


@final
class _Queue(Generic[_T]):
    """What one holder has begun, and what waits.

    Attributes:
        begun: How much of its share of this pass is used.
        small: Its small requests that wait, in the order in which they came.
        great: Its great ones.
        is_great_next: Whether it is the turn of those.
    """

    __slots__ = ("begun", "great", "is_great_next", "small")

    def __init__(self) -> None:
        self.begun = 0
        self.small: OrderedDict[_T, None] = OrderedDict()
        self.great: OrderedDict[_T, None] = OrderedDict()
        self.is_great_next = False


@final
class Turns(Generic[_T]):
    """The rule. Who waits is whatever the caller likes."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue[_T]] = {}
        self._owed_until: dict[tuple[str, bool], float] = {}  # by great ones, and by small ones
        self._waiting = 0

    def __bool__(self) -> bool:
        """Whether anything was begun in this pass, or waits."""
        return bool(self._queues)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._waiting

    @property
    def holders(self) -> Collection[str]:
        """Who has begun something in this pass, or waits."""
        return self._queues.keys()

    def begin(self, holder: str, now: float, *, is_great: bool) -> bool:
        """Whether a request may begin at once; then it has begun."""
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
        """Let a request wait."""
        queue = self._queues.get(holder)
        if queue is None:
            queue = self._queues[holder] = _Queue[_T]()
        (queue.great if is_great else queue.small)[waiter] = None
        self._waiting += 1

    def leave(self, holder: str, waiter: _T) -> None:
        """A request that waits is given up."""
        queue = self._queues[holder]
        del (queue.great if waiter in queue.great else queue.small)[waiter]
        self._waiting -= 1

    def _owes(self, holder: str, now: float, *, is_great: bool) -> bool:
        return self._owed_until.get((holder, is_great), now) > now

    def charge(self, holder: str, seconds: float, now: float, *, is_great: bool) -> None:
        """A request has held the loop for so long, while others were asking, too.

        Others notice how often they meet a long pause, and how long it is. So what is longer than `LONG` weighs
        more: nineteen of twenty of their requests do not meet one.
        """
        if not is_great and seconds < SMALL_LONG:
            return
        owed, who = self._owed_until, (holder, is_great)
        for other in [other for other, until in owed.items() if until <= now]:
            del owed[other]
        more = TIMES * min(seconds, LONG) + TIMES_LONG * max(seconds - LONG, 0.0)
        most = MOST_OWED if is_great else MOST_OWED_BY_SMALL
        owed[who] = min(max(owed.get(who, now), now) + more, now + most)

    def next(self, now: float, *, is_shared: bool) -> list[_T]:
        """A pass is over: return who begins in the next one.

        Args:
            now: The time, in seconds.
            is_shared: Whether more than one holder is asking. If not, everything begins.
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
        """Return when somebody may begin next: now, but if all wait for what they owe."""
        if any(queue.begun for queue in self._queues.values()):
            return now
        dues = (
            self._owed_until.get((holder, is_great), now)
            for holder, queue in self._queues.items()
            for is_great, waiting in ((False, queue.small), (True, queue.great))
            if waiting
        )
        return max(now, min(dues, default=now))


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
