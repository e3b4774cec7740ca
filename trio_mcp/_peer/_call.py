"""A task that waits for the answer to one request, and runs the request's progress callbacks while it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Sequence
from typing import final

import attrs

from .._core._outbound import OutboundRequest
from .._parking_lot import LightParkingLot
from ._delivery import Delivery, delivering
from ._exchange import OnProgress, Progress
from ._outbox import OutboxEntry
from ._silence import SilenceScope

__all__ = ["Call"]


@final
@attrs.define(eq=False)
class Call:
    """The waiting side of an `OutboundRequest`.

    Progress callbacks run here, in the caller's task: what they raise comes out of the call, its deadline covers
    them, and when the call is over none of them is left. The connection hands progress over one by one and waits
    until it is taken, so that callbacks of one connection never overlap, except for those of a call that another
    callback makes.

    Attributes:
        request: What is waited for.
        connection: What it was made over; compared by identity.
        within: What was being handled when it was made.
        entry: Where it lies in the outbox until it is written, perhaps with others as a batch.
        on_progress: Called for each progress notification, if the caller wants them.
        silence: The innermost `fail_after_silence` around the caller.
        undelivered: Progress notifications received and not handled yet.
    """

    request: OutboundRequest
    connection: object
    within: Delivery | None = None
    entry: OutboxEntry | None = None
    on_progress: OnProgress | None = None
    silence: SilenceScope | None = None
    undelivered: int = 0
    _handed: deque[Progress] | None = None
    _wake: LightParkingLot = attrs.field(factory=LightParkingLot)
    _taken: LightParkingLot | None = None
    _ended: bool = False

    @property
    def wants_progress(self) -> bool:
        """Whether anybody would notice progress."""
        return self.on_progress is not None or self.silence is not None

    def wake(self) -> None:
        """Let the caller look again whether it can go on."""
        self._wake.unpark()

    async def wait(self) -> None:
        """Wait until the request is settled and every progress notification before its answer was handled.

        Does not checkpoint if that is so already.
        """
        while True:
            while self._handed:
                await self._run_callback(self._handed.popleft())
                self.undelivered -= 1
            if self._taken is not None:
                self._taken.unpark_all()
            if self.request.is_settled and self.undelivered <= 0:
                return
            await self._wake.park()

    async def _run_callback(self, progress: Progress) -> None:
        assert self.on_progress is not None
        outcome = self.on_progress(progress)
        if isinstance(outcome, Awaitable):
            with delivering(self.connection):
                await outcome

    async def hand_over(self, progress: Sequence[Progress]) -> None:
        """Give progress to the caller, and wait until it has handled it or does not wait any more."""
        if not self._ended:
            self._queue().extend(progress)
            self.wake()
            if self._taken is None:
                self._taken = LightParkingLot()
            await self._taken.park()

    def _queue(self) -> deque[Progress]:
        if self._handed is None:
            self._handed = deque()
        return self._handed

    @property
    def is_held_up(self) -> bool:
        """Whether it was made by a callback that is still running: until that is done, nothing is handed over."""
        return self.within is not None and self.within.holds_up(self.connection)

    def hand_over_now(self, progress: Progress, max_handed: int) -> bool:
        """Give progress to the caller without waiting. Returns whether the oldest had to make room for it."""
        handed = self._queue()
        is_full = len(handed) >= max_handed
        if is_full:
            handed.popleft()
        else:
            self.undelivered += 1
        handed.append(progress)
        self.wake()
        return is_full

    def forget_one(self) -> None:
        """A progress notification will never be handed over."""
        self.undelivered -= 1
        self.wake()

    def forget_all(self) -> None:
        """No progress will be handed over any more."""
        self._handed = None
        self.undelivered = 0
        self.wake()

    def end(self) -> None:
        """Nobody waits any more: whoever hands something over goes on."""
        self._ended = True
        if self._taken is not None:
            self._taken.unpark_all()
