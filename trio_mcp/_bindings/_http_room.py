"""How much of unfinished responses one client keeps: who waits when it is too much, and who goes on."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from .._parking_lot import LightParkingLot

__all__ = ["ResponseRoom", "RoomTaken"]


@final
class RoomTaken:
    """What one response takes of the room.

    Attributes:
        size: How many bytes.
    """

    def __init__(self, room: ResponseRoom) -> None:
        self._room = room
        self.size = 0

    async def hold(self, size: int) -> None:  # noqa: ASYNC910, ASYNC911 - as its docstring says
        """So much is kept of it now. Waits, before more of it is read, while that is too much with all others.

        Whoever has begun first goes on, or nobody would. Does not checkpoint if there is room.
        """
        self._room.change(self, size)
        while self._room.must_wait(self):
            await self._room.changed.park()


@final
class ResponseRoom:
    """What the responses that are being read keep together, as bytes.

    Args:
        max_bytes: How much that may be before all but the oldest of them wait.

    Attributes:
        changed: Woken when less is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken = 0
        self._holding: dict[RoomTaken, None] = {}  # those that keep anything, oldest first
        self.changed = LightParkingLot()

    @contextmanager
    def place(self) -> Generator[RoomTaken]:
        """Read a response in a block: when that is left nothing is kept of it."""
        taken = RoomTaken(self)
        try:
            yield taken
        finally:
            self.change(taken, 0)

    def change(self, one: RoomTaken, size: int) -> None:
        """Keep so much of a response instead of what was kept before."""
        less = size < one.size
        self._taken += size - one.size
        one.size = size
        if size:
            self._holding[one] = None
        else:
            self._holding.pop(one, None)
        if less:
            self.changed.unpark_all()

    def must_wait(self, one: RoomTaken) -> bool:
        """Whether a response should not be read on."""
        return self._taken > self._max_bytes and one.size > 0 and next(iter(self._holding)) is not one
