"""What a listener iterates over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import final

import trio

from .._core._changes import Change, ChangeQueue
from .._errors import Lagged
from .._parking_lot import LightParkingLot
from ..types import SubscriptionFilter

__all__ = ["Events"]


@final
class Events(AsyncIterator[Change]):
    """The changes that `Client.listen` hears, in the order they came; one task iterates over them.

    A change that already waits to be taken is not added again. What has been heard is given out before the end.

    Raises:
        Lagged: More than ``max_events`` different changes were waiting, or they took more memory than
            `Limits.max_notification_bytes`, and listening was given up.
        ConnectionLost: The connection is gone for good.
        RequestError: The server refuses to go on, after an interruption.
        trio.ClosedResourceError: The block of `Client.listen` was left, or the client was closed.
        trio.BusyResourceError: Another task is waiting already.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._queue = ChangeQueue(max_events, max_bytes)
        self._acknowledged: SubscriptionFilter | None = None
        self._end: Callable[[], Exception] | None = None
        self._changed = LightParkingLot()
        self._is_waiting = False

    @property
    def acknowledged(self) -> SubscriptionFilter:
        """What the server has agreed to tell about, most recently. It may be less than was asked for."""
        assert self._acknowledged is not None, "known before the block begins"
        return self._acknowledged

    @property
    def waiting(self) -> int:
        """How many changes wait to be taken."""
        return len(self._queue)

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint()
        if self._is_waiting:
            raise trio.BusyResourceError("another task is waiting for these events already")
        while not self._queue:
            if self._end is not None:
                raise self._end()
            self._is_waiting = True
            try:
                await self._changed.park()
            finally:
                self._is_waiting = False
        return self._queue.pop()

    # What the listening task does.

    def acknowledge(self, acknowledged: SubscriptionFilter) -> None:
        """The server has said what will come."""
        self._acknowledged = acknowledged

    def push(self, change: Change) -> bool:
        """Let a change wait. Returns whether listening is still of use: it is not when there is no room."""
        if self._end is None and not self._queue.push(change):
            max_events = self._max_events
            self.end(lambda: Lagged(max_events))
        self._changed.unpark_all()
        return self._end is None

    def end(self, make_error: Callable[[], Exception] = StopAsyncIteration) -> None:
        """Nothing will come any more, for the first reason that is given."""
        if self._end is None:
            self._end = make_error
        self._changed.unpark_all()

    def close(self) -> None:
        """The block was left."""
        self._end = _left
        self._queue.clear()
        self._changed.unpark_all()


def _left() -> Exception:
    return trio.ClosedResourceError("the block of listen() was left")
