"""A task that waits for the answer to one request, and runs the request's progress callbacks while it does."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from .._core._outbound import OutboundRequest
from .._parking_lot import LightParkingLot
from ._exchange import OnProgress, Progress
from ._outbox import OutboxEntry
from ._silence import Clock

__all__ = ["Call", "ProgressRoom", "weight_of_progress"]

_PROGRESS_BYTES: Final = 512
"""What progress takes in memory beside its text and great numbers."""

_GREAT: Final = 1 << 60


@final
@attrs.define
class ProgressRoom:
    """What the progress that waits for all calls of one connection takes in memory.

    Attributes:
        taken: How many bytes.
    """

    taken: int = 0


def weight_of_progress(progress: Progress) -> int:
    """Return what progress takes in memory while it waits."""
    size = _PROGRESS_BYTES
    if progress.message is not None:
        size += len(progress.message) * (1 if progress.message.isascii() else 5)
    for number in (progress.progress, progress.total):
        if number.__class__ is not float and number is not None and not -_GREAT < number < _GREAT:
            size += int(number).bit_length() >> 2
    return size


@final
@attrs.define(eq=False)
class Call:
    """The waiting side of an `OutboundRequest`.

    Progress callbacks run here, in the caller's task: what they raise comes out of the call, its deadline covers
    them, and when the call is over none of them is left. Progress comes here when it is read, before the answer
    behind it, so that a callback holds up its own call and no other. When the connection ends it may run until
    `end_callbacks` says.

    Attributes:
        request: What is waited for.
        entry: Where it lies in the outbox until it is written, perhaps with others as a batch.
        on_progress: Called for each progress notification, if the caller wants them.
        clock: The innermost `fail_after_silence` or `request_timeout` around the caller.
        on_room: Called when one less progress notification waits, or none will any more.
        room: What its progress takes is counted here.
    """

    request: OutboundRequest
    entry: OutboxEntry | None = None
    on_progress: OnProgress | None = None
    clock: Clock | None = None
    on_room: Callable[[Call], object] | None = None
    room: ProgressRoom | None = None
    _progress: deque[tuple[Progress, int]] | None = None
    _is_handling: bool = False
    _stops: int = 0
    _callback: trio.CancelScope | None = None
    _callbacks_end: float = math.inf
    _why_cut: Exception | None = None
    _doubt: tuple[float, Callable[[], object]] | None = None
    _wake: LightParkingLot = attrs.field(factory=LightParkingLot)

    @property
    def wants_progress(self) -> bool:
        """Whether anybody would notice progress."""
        return self.on_progress is not None or (self.clock is not None and self.clock.heeds_progress)

    def wake(self) -> None:
        """Let the caller look again whether it can go on."""
        self._wake.unpark()

    @property
    def waiting(self) -> int:
        """How many progress notifications were received and wait to be handled."""
        return 0 if self._progress is None else len(self._progress)

    @property
    def is_behind(self) -> bool:
        """Whether progress was received that is not handled yet."""
        return self._is_handling or bool(self._progress)

    async def wait(self) -> None:
        """Wait until the request is settled and every progress notification before its answer was handled.

        Does not checkpoint if that is so already.
        """
        while True:
            while self._progress:
                progress = self._next_progress()
                if self.on_room is not None:
                    self.on_room(self)
                await self._handle(progress)
            if self.request.is_settled:
                return
            if self._doubt is None:
                await self._wake.park()
            else:
                await self._wait_in_doubt(*self._doubt)

    async def _wait_in_doubt(self, until: float, fail: Callable[[], object]) -> None:
        with trio.move_on_at(until):
            await self._wake.park()
            return
        self._doubt = None
        fail()

    async def _handle(self, progress: Progress) -> None:
        assert self.on_progress is not None
        self._is_handling = True
        outcome = self.on_progress(progress)
        if isinstance(outcome, Awaitable):
            with trio.CancelScope(deadline=self._callbacks_end) as scope:
                self._callback = scope
                await outcome
            self._callback = None
            if scope.cancelled_caught:
                self.request.error = self._why_cut
                self.forget_progress()
        self._is_handling = False

    def doubt(self, until: float, fail: Callable[[], object]) -> None:
        """The other side may have refused the request without saying which: if no answer comes, it fails."""
        if self._doubt is None:
            self._doubt = until, fail
            self._wake.unpark()

    def hand_over(self, progress: Progress, room: ProgressRoom) -> None:
        """Give progress to the caller. Never waits."""
        if self._progress is None:
            self._progress = deque()
            self.room = room
        weight = weight_of_progress(progress)
        self._progress.append((progress, weight))
        room.taken += weight
        self._wake.unpark()

    def _next_progress(self) -> Progress:
        assert self._progress
        assert self.room is not None
        progress, weight = self._progress.popleft()
        self.room.taken -= weight
        return progress

    @property
    def has_stopped_clock(self) -> bool:
        """Whether there is a `stop_clock` to be taken back."""
        return self._stops > 0

    def stop_clock(self) -> None:
        """The user is being asked, perhaps for this call: that is not the server's time."""
        if self.clock is not None:
            self._stops += 1
            self.clock.stop()

    def start_clock(self) -> None:
        """Take one `stop_clock` back, if there is one left."""
        if self._stops and self.clock is not None:
            self._stops -= 1
            self.clock.start()

    def drop_oldest(self) -> None:
        """The progress that has waited longest makes room."""
        self._next_progress()

    def end_callbacks(self, deadline: float, why: Exception) -> None:
        """Cancel what of its callbacks has not ended by the deadline, or begun; then the call fails."""
        self._callbacks_end, self._why_cut = deadline, why
        if self._callback is not None:
            self._callback.deadline = deadline

    def forget_progress(self) -> None:
        """No progress will be handled any more."""
        while self._progress:
            self._next_progress()
        self._progress = None
        if self.on_room is not None:
            self.on_room(self)
