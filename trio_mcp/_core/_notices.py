"""A bounded queue of notifications that knows which of them may go when it overflows.

No I/O, no Trio, no clock: how long an overflow is waited out is the peer's business.
"""

from __future__ import annotations

from collections.abc import Hashable
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
    """

    def __init__(self, max_length: int) -> None:
        self._max_length = max_length
        self._notices: list[tuple[Hashable | None, _T]] = []

    def __len__(self) -> int:
        return len(self._notices)

    @property
    def is_full(self) -> bool:
        """Whether one must go before the next can come."""
        return len(self._notices) >= self._max_length

    @property
    def first(self) -> _T | None:
        """The oldest notice, which stays, or `None` if there is none."""
        return self._notices[0][1] if self._notices else None

    def push(self, key: Hashable | None, notice: _T) -> None:
        """Add a notice. Does not look whether there is room."""
        self._notices.append((key, notice))

    def pop(self) -> _T:
        """Take the oldest notice.

        Raises:
            IndexError: There is none.
        """
        return self._notices.pop(0)[1]

    def drop(self) -> _T:
        """Take out the notice that is missed least, to make room.

        That is the oldest of a series, else the oldest that a later one repeats, else the oldest.

        Raises:
            IndexError: There is none.
        """
        index = self._least_missed()
        _, notice = self._notices[index]
        del self._notices[index]
        return notice

    def _least_missed(self) -> int:
        keys = [key for key, _ in self._notices]
        if None in keys:
            return keys.index(None)
        least_missed = 0
        later: set[Hashable] = set()
        for index in range(len(keys) - 1, -1, -1):
            if keys[index] in later:
                least_missed = index
            later.add(keys[index])
        return least_missed
