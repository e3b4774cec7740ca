"""Delivers the notifications of one connection, one at a time and in wire order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from contextvars import copy_context
from typing import Any, Final, TypeGuard, final

import attrs
import trio

from .._channel import Origin
from .._codec._jsonrpc import Notification
from .._contained import Contained, going_on
from .._core._notices import NoticeQueue
from .._limits import Limits
from .._parking_lot import LightParkingLot
from ._call import Call
from ._calls import Calls
from ._delivery import delivering
from ._dispatcher import Dispatcher
from ._exchange import Progress
from ._steps import Steps

__all__ = ["Notices"]

_log: Final = logging.getLogger("trio_mcp.peer")


@final
@attrs.define
class _CallProgress:
    call: Call
    progress: Progress


@final
@attrs.define
class _Other:
    notification: Notification
    origin: Origin | None


@final
class Notices:
    """A bounded queue of notifications and the one task that empties it.

    A handler that is slow makes the queue grow, and a full queue holds up reading, but only for
    `Limits.slow_consumer_timeout`: a slow handler must not keep answers from their callers, least of all from
    itself. From then on, until the queue is half empty, the notifications that are missed least make room for
    new ones, and are counted.

    Args:
        calls: Knows which call a progress token belongs to.
        dispatcher: Handles everything but progress.
        limits: How long the queue may be, and how long it may hold up reading.
        wake: Called when something is offered, if the task ends when it has emptied the queue.

    Attributes:
        dropped: How many notifications had to make room so far.
        is_waking: Whether a request that came after a notification should wait, with `wait_begun`, so that the
            two are begun in order.
    """

    def __init__(
        self,
        calls: Calls,
        dispatcher: Dispatcher,
        limits: Limits,
        wake: Callable[[], bool] | None = None,
    ) -> None:
        self._calls = calls
        self._dispatcher = dispatcher
        self._limits = limits
        self._queue: NoticeQueue[_CallProgress | _Other] = NoticeQueue(limits.max_notifications)
        self._something = LightParkingLot() if wake is None else None
        self._wake = wake
        self._room = LightParkingLot()
        self._delivered = LightParkingLot()
        self._variables = copy_context()
        self._handling: Notification | None = None
        self._is_delivering = False
        self._lagging = False
        self.is_waking = False
        self.dropped = 0

    @property
    def must_wait(self) -> bool:
        """Whether reading should be held up with `wait_room` before the next notification is offered."""
        return self._queue.is_full and not self._lagging

    async def wait_begun(self) -> None:
        """Wait until the handling of what was offered has begun."""
        while self.is_waking:  # noqa: ASYNC110 - a turn of the loop or two
            await trio.lowlevel.checkpoint()

    async def wait_delivered(self) -> None:
        """Wait until nothing is left, and what was handed on is handled."""
        await trio.lowlevel.checkpoint()
        while self._is_delivering or self._queue.first is not None:
            await self._delivered.park()

    async def wait_room(self) -> None:
        """Wait until there is room, or until waiting for it has become unreasonable."""
        with trio.move_on_after(self._limits.slow_consumer_timeout):
            while self._queue.is_full:
                await self._room.park()
            return
        self._lagging = True
        _log.warning(
            "notifications come faster than they are handled; %d are waiting (max_notifications), "
            "so progress and log messages are dropped, oldest first",
            len(self._queue),
        )

    def offer(self, notification: Notification, origin: Origin | None) -> None:
        """Take a notification for delivery. Never waits."""
        if notification.method == "notifications/progress":
            self._offer_progress(notification.params or {})
        else:
            self._push(self._dispatcher.notice_key(notification), _Other(notification, origin))

    def _offer_progress(self, params: Mapping[str, Any]) -> None:
        call = self._calls.find(params.get("progressToken"))
        if call is None:
            _log.debug("ignored progress for a request that is over or never asked for it: %.200r", params)
            return
        progress = _read_progress(params)
        if progress is None:
            _log.warning("ignored progress that is no number: %.200r", params)
            return
        if call.silence is not None:
            call.silence.push()
        if call.on_progress is None:
            return
        if call.is_held_up:
            self.dropped += call.hand_over_now(progress, self._limits.max_notifications)
        else:
            call.undelivered += 1
            self._push(None, _CallProgress(call, progress))

    def _push(self, key: Hashable | None, notice: _CallProgress | _Other) -> None:
        if self._queue.is_full:
            dropped = self._queue.drop()
            self.dropped += 1
            if isinstance(dropped, _CallProgress):
                dropped.call.forget_one()
        self._queue.push(key, notice)
        if self._wake_up():
            self.is_waking = True

    def _wake_up(self) -> bool:
        """Let the task that delivers look what there is. Returns whether it has not begun to."""
        if self._wake is not None:
            return self._wake()
        return self._something is not None and self._something.unpark()

    async def deliver(self) -> None:
        """Hand each notification on and wait until it is handled: for ever, or until there is none left."""
        goes_on = True
        while goes_on:
            with Contained(self._note_failure) as block:
                goes_on = await self._deliver(block)

    async def _deliver(self, block: Contained) -> bool:
        """Do so until a handler has left something open in the block. Returns whether to go on with another."""
        while True:
            self.is_waking = False
            self._is_delivering = self._queue.first is not None
            match self._queue.first:
                case None:
                    self._delivered.unpark_all()
                    if self._something is None:
                        return False
                    await self._something.park()
                case _CallProgress(call=call):
                    await call.hand_over(self._pop_progress_of(call))
                case _Other(notification=notification, origin=origin):
                    self._pop()
                    await self._handle(notification, origin)
                    if not block.is_clean:
                        return True
                    self._handling = None

    def _pop_progress_of(self, call: Call) -> list[Progress]:
        """Take the progress of one call as far as nothing else lies between; it crosses to the caller at once."""
        progress: list[Progress] = []
        while isinstance(first := self._queue.first, _CallProgress) and first.call is call:
            progress.append(first.progress)
            self._pop()
        return progress

    def _pop(self) -> None:
        self._queue.pop()
        if len(self._queue) * 2 <= self._limits.max_notifications:
            self._lagging = False
        self._room.unpark()

    async def _handle(self, notification: Notification, origin: Origin | None) -> None:
        self._handling = notification
        task = trio.lowlevel.current_task()
        steps = Steps(self._notified(notification, origin), self._variables.copy())
        if not steps.begin(task):
            await steps.go_on(task)

    async def _notified(self, notification: Notification, origin: Origin | None) -> None:
        try:
            with delivering(self._calls):
                await self._dispatcher.notified(notification, origin)
        except BaseException as error:  # noqa: ASYNC103
            # The boundary of one notification: its handler's failure costs nobody else anything.
            passing = going_on(error)
            if passing is error:
                raise
            _log.exception("a handler of %s failed", notification.method)
            if passing is not None:
                raise passing from None  # noqa: ASYNC104

    def _note_failure(self, error: BaseException) -> None:
        """A handler has left something open, or what it has raised before has come back."""
        notification, self._handling = self._handling, None
        if notification is None:
            raise error
        _log.error("a handler of %s failed", notification.method, exc_info=error)


def _read_progress(params: Mapping[str, Any]) -> Progress | None:
    """Read the parameters of a progress notification, or nothing if they are not its."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    if not _is_number(progress):
        return None
    return Progress(
        progress,
        total if _is_number(total) else None,
        message if isinstance(message, str) else None,
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
