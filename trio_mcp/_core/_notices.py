"""A bounded queue of notifications that knows which of them may go when it overflows.

No I/O, no Trio, no clock: how long an overflow is waited out is the peer's business.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar, final

__all__ = ["NoticeQueue"]

_T = TypeVar("_T")


@final
class NoticeQueue(Generic[_T]):
    """Notices in the order they came.

    A notice with a key says the same as every other with that key ("the list of tools has changed"): one of them
    is enough. A notice without a key is one of a series (progress, log messages), of which the newest matter
    most.

    Args:
        max_length: How many there may be.
        max_bytes: What they may weigh together.

    Attributes:
        size: What they weigh together.
    """

    def __init__(self, max_length: int, max_bytes: int) -> None:
        self._max_length = max_length
        self._max_bytes = max_bytes
        # By number, oldest first, each with its key and what it weighs.
        self._notices: OrderedDict[int, tuple[Hashable | None, _T, int]] = OrderedDict()
        self.size = 0
        self._last_number = 0
        # Which one is missed least must not be searched for: a flood makes room once for each notice that comes.
        self._series: deque[int] | None = None  # without a key; none, because an empty one weighs much
        self._latest: dict[Hashable, int] = {}  # of each key
        self._repeated: list[int] = []  # those of which there is a later one, as a heap

    def __len__(self) -> int:
        return len(self._notices)

    @property
    def is_full(self) -> bool:
        """Whether one must go before the next can come."""
        return len(self._notices) >= self._max_length or self.size >= self._max_bytes

    @property
    def is_relieved(self) -> bool:
        """Whether at most half of the room is taken."""
        return len(self._notices) * 2 <= self._max_length and self.size * 2 <= self._max_bytes

    @property
    def first(self) -> _T | None:
        """The oldest notice, which stays, or `None` if there is none."""
        return next(iter(self._notices.values()))[1] if self._notices else None

    def push(self, key: Hashable | None, notice: _T, size: int) -> None:
        """Add a notice, and what it weighs. Does not look whether there is room."""
        self._last_number = number = self._last_number + 1
        self._notices[number] = key, notice, size
        self.size += size
        if key is None:
            if self._series is None:
                self._series = deque()
            self._series.append(number)
        else:
            earlier = self._latest.get(key)
            if earlier is not None:
                heappush(self._repeated, earlier)
            self._latest[key] = number

    def pop(self) -> _T:
        """Take the oldest notice.

        Raises:
            IndexError: There is none.
        """
        if not self._notices:
            raise IndexError("there is no notice")
        return self._take_out(next(iter(self._notices)))

    def drop(self) -> _T:
        """Take out the notice that is missed least, to make room.

        That is the oldest of a series, else the oldest that a later one repeats, else the oldest.

        Raises:
            IndexError: There is none.
        """
        if self._series:
            return self._take_out(self._series[0])
        if self._repeated:
            return self._take_out(self._repeated[0])
        return self.pop()

    def _take_out(self, number: int) -> _T:
        """Take out the oldest notice, or the oldest of a series, or the oldest that is repeated.

        So each leads the list that it is on.
        """
        key, notice, size = self._notices.pop(number)
        self.size -= size
        if key is None:
            assert self._series is not None, "it was pushed"
            self._series.popleft()
            if not self._series:
                self._series = None
        elif self._latest[key] == number:
            del self._latest[key]
        else:
            heappop(self._repeated)
        return notice
