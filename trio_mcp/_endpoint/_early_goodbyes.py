"""Cancellations that come before what they cancel: in the legacy era each has a POST of its own, and no order.

No I/O and no clock; nothing here knows what a POST is.
"""

from __future__ import annotations

from typing import Final, TypeVar, final

from .._codec._jsonrpc import RequestId

__all__ = ["EarlyGoodbyes"]

_T = TypeVar("_T")

KEPT_FOR: Final = 30.0
"""Seconds: as long as a request may wait to be read at a server that is busy, and its client may think of it."""

MAX_IDS: Final = 512
MAX_ID_LENGTH: Final = 64

ID_BYTES: Final = 256
"""What it takes to remember an id: one of the longest, or, where numbers are ids, one and a half of them."""


@final
class EarlyGoodbyes:
    """What one client has given up and not yet asked, as far as that can be told; bounded in number and in time.

    A goodbye to a request that was here is none of these, even if that is long answered: a client that uses an
    id twice, which it must not, then gets its second answer.
    """

    __slots__ = ("_early", "_seen")

    def __init__(self) -> None:
        self._seen: dict[RequestId, None] = {}
        self._early: dict[RequestId, float] = {}

    @property
    def size(self) -> int:
        """What it takes to remember them at most, in bytes."""
        return ID_BYTES * (len(self._seen) + len(self._early))

    def say(self, id: RequestId, now: float) -> None:
        """Note that a request was given up."""
        if id not in self._seen and not _is_long(id):
            _keep(self._early, id, now)

    def is_given_up(self, id: RequestId, now: float) -> bool:
        """Note that a request has come, and return whether it was given up before."""
        if not _is_long(id):
            _keep(self._seen, id, None)
        said_at = self._early.pop(id, None)
        return said_at is not None and now - said_at < KEPT_FOR


def _keep(kept: dict[RequestId, _T], id: RequestId, value: _T) -> None:
    """Keep something as the newest, and no more than so many."""
    kept.pop(id, None)
    kept[id] = value
    if len(kept) > MAX_IDS:
        del kept[next(iter(kept))]


def _is_long(id: RequestId) -> bool:
    """Whether an id is too long to be kept. Nobody's are, but for those who want to fill the memory."""
    return isinstance(id, str) and len(id) > MAX_ID_LENGTH
