"""One request of this side: its state, its progress callbacks, and the deadlines around its caller.

Decides whether giving up a request costs a cancellation. Sends nothing itself; `Sender` does. `Calls` is the
table of all calls.
"""

from __future__ import annotations

import abc
import enum
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast, final

import attrs
import trio

from .._channel import Origin, Outgoing
from .._codec._jsonrpc import RequestId, read_id
from .._errors import LocalProtocolError
from .._limits import Limits, check_seconds
from .._trio import LightParkingLot, is_clock_mocked
from ._exchange import Exchange, OnProgress, Progress, hold_message

# How long a request may take.
#
# Trio's deadline scopes count wall-clock time. Two of ours do not: `fail_after_silence` starts again with each
# sign of life of the server, and both it and a client's `request_timeout` stand still while this side's user
# answers a question, because that time is not the server's. So each keeps an ordinary `trio.CancelScope` and
# moves its deadline. They form a chain, innermost first, from a context variable: a sign of life is one for every
# scope around the request, and what stops the inner one stops the outer ones. Stops are counted, because several
# questions may be open at once.
#
# A context variable is copied into tasks that are started inside, and such a task may outlive the scope: hence
# `_is_over` and the search in `current_clock`. The deadline that a server gets is not the one the scope
# has at the moment (that can still move), but the latest that it can be moved to; see `granted_deadline`.


@attrs.define(eq=False)
class Clock(abc.ABC):
    """A cancel scope whose deadline moves. It stands still while this side's user answers a question."""

    _scope: trio.CancelScope
    _enclosing: Clock | None
    _is_over: bool = False
    _stops: int = 0

    @property
    def deadline(self) -> float:
        """When it fails if nothing is received until then, on Trio's clock."""
        return self._scope.deadline

    @property
    def heeds_progress(self) -> bool:
        """Whether progress moves a deadline, here or in the scopes around this one."""
        return any(isinstance(clock, SilenceScope) for clock in self._chain())

    def push(self) -> None:
        """Progress was received: start the idle time again, here and in the scopes around this one."""
        now = trio.current_time()
        for clock in self._chain():
            if not clock._stops:
                clock._hear(now)

    def stop(self) -> None:
        """Stop the time, here and in the scopes around this one, until `start` was called as often."""
        now = trio.current_time()
        for clock in self._chain():
            clock._stops += 1
            if clock._stops == 1 and not clock._is_over:
                clock._stop(now)

    def start(self) -> None:
        """Let the time go on."""
        now = trio.current_time()
        for clock in self._chain():
            clock._stops -= 1
            if not clock._stops and not clock._is_over:
                clock._start(now)

    def end(self) -> None:
        """Its scope is somebody else's from now on: nothing moves the deadline any more."""
        self._is_over = True

    def _chain(self) -> Iterator[Clock]:
        clock: Clock | None = self
        while clock is not None:
            yield clock
            clock = clock._enclosing

    @abc.abstractmethod
    def granted(self) -> float:
        """Return the deadline that may be sent to the server: the latest that this scope can have."""

    @abc.abstractmethod
    def _hear(self, now: float) -> None: ...

    @abc.abstractmethod
    def _stop(self, now: float) -> None: ...

    @abc.abstractmethod
    def _start(self, now: float) -> None: ...


@final
@attrs.define(eq=False, kw_only=True)
class SilenceScope(Clock):
    """What `fail_after_silence` yields.

    Attributes:
        idle: Seconds without progress after which it fails.
        latest: The deadline that progress cannot push further, on Trio's clock.
    """

    idle: float
    latest: float

    def granted(self) -> float:
        """Return the latest moment that it can be pushed to."""
        return self.latest

    def _hear(self, now: float) -> None:
        self._scope.deadline = min(now + self.idle, self.latest)

    def _stop(self, now: float) -> None:
        del now
        self._scope.deadline = self.latest

    def _start(self, now: float) -> None:
        self._hear(now)


@final
@attrs.define(eq=False, kw_only=True)
class TimeoutScope(Clock):
    """The time that a request may take, without the time in which this side's user answers questions.

    Attributes:
        is_sent: Whether the server gets this deadline. Not where it may stand still while the server's goes on.
    """

    is_sent: bool
    _left: float = 0.0

    def granted(self) -> float:
        """Return when it ends, if that may be sent."""
        return self._scope.deadline if self.is_sent else math.inf

    def _hear(self, now: float) -> None:
        pass

    def _stop(self, now: float) -> None:
        self._left = self._scope.deadline - now
        self._scope.deadline = math.inf

    def _start(self, now: float) -> None:
        self._scope.deadline = now + self._left


_current: ContextVar[Clock | None] = ContextVar("trio_mcp_clock", default=None)


def current_clock() -> Clock | None:
    """Return the innermost `fail_after_silence` or `request_timeout` around the current task.

    Not one that has ended, though the current task was started inside it.
    """
    clock = _current.get()
    while clock is not None and clock._is_over:
        clock = clock._enclosing
    return clock


@contextmanager
def clock_stopped() -> Generator[None]:
    """Stop the time of the scopes around the current task during a block."""
    clock = current_clock()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.start()


@contextmanager
def move_on_after_answer_time(seconds: float, *, is_told: bool) -> Generator[trio.CancelScope]:
    """Cancel the block after so many seconds, not counting those in which this side's user answers questions.

    Args:
        seconds: How many.
        is_told: Whether servers get the deadline; see `TimeoutScope.is_sent`.
    """
    with trio.move_on_after(seconds) as scope, answer_time(scope, is_told=is_told):
        yield scope


@contextmanager
def answer_time(scope: trio.CancelScope, *, is_told: bool) -> Generator[Clock]:
    """Let the deadline of a scope, which was entered, stand still while this side's user is asked something.

    Args:
        scope: The scope.
        is_told: As for `move_on_after_answer_time`.
    """
    clock = TimeoutScope(scope, _current.get(), is_sent=is_told)
    token = _current.set(clock)
    try:
        yield clock
    finally:
        clock.end()
        _current.reset(token)


@contextmanager
def fail_after_silence(idle: float, *, at_most: float) -> Generator[SilenceScope]:
    """Fail when the requests inside have made no progress for too long, or have taken too long altogether.

    Each progress notification of a request made inside starts the idle time again. The server gets `at_most` as
    its deadline, not the idle time: that ends when the server is silent, not when it is slow.

    A question of the server starts the idle time again too, and while this side's handlers answer it (`on_elicit`
    and its like) that stands still. In the eras before 2026-07-28 a question does not name the request it is for:
    it counts for all that are pending on its connection when it comes.

    Args:
        idle: Seconds without progress.
        at_most: Seconds altogether, whatever progress there is; ``math.inf`` for no end.

    Raises:
        trio.TooSlowError: Either was exceeded. The block was cancelled, as with `trio.fail_after`.
        ValueError: A duration is negative or not a number.

    Spec: 2026-07-28, basic/patterns/cancellation, "Timeouts".
    """
    for name, seconds in (("idle", idle), ("at_most", at_most)):
        check_seconds(name, seconds)
    now = trio.current_time()
    latest = now + at_most
    with trio.CancelScope(deadline=min(now + idle, latest)) as scope:
        silence = SilenceScope(scope, _current.get(), idle=idle, latest=latest)
        token = _current.set(silence)
        try:
            yield silence
        finally:
            silence._is_over = True
            _current.reset(token)
    if scope.cancelled_caught:
        raise trio.TooSlowError(
            f"no progress for {idle} s" if trio.current_time() < latest else f"not done after {at_most} s"
        )


@final
@attrs.define(eq=False)
class SilenceWatch:
    """Fails the requests of a connection of which nothing was heard for too long. It is an `AnswerClock` of each.

    One task for all of them, which sleeps until the first can be due. A scope around each call does the same, and
    costs a fifth of a call.

    Attributes:
        seconds: How long nothing may be heard of a request.
        is_watching: Whether its task runs.
    """

    seconds: float
    _calls: Mapping[RequestId, Call]
    _fail: Callable[[Call], object]
    is_watching: bool = False
    _stops: int = 0

    def stop(self) -> None:
        """This side's user is asked something: that time is not the server's."""
        self._stops += 1

    def start(self) -> None:
        """Let the time of all pending requests begin again, when this was called as often as `stop`."""
        self._stops -= 1
        if not self._stops:
            self.begin_again()

    async def run(self) -> None:
        """Watch until no request is pending."""
        self.is_watching = True
        try:
            while (due := min((call.heard for call in self._calls.values()), default=math.inf)) < math.inf:
                await self._sleep_until(due + self.seconds)
                if self._stops:
                    self.begin_again()
                now = trio.current_time()
                for call in [call for call in self._calls.values() if call.heard + self.seconds <= now]:
                    if call.is_pending and not call.is_behind:
                        self._fail(call)
                    else:
                        call.heard = now  # it is this side that takes its time
        finally:
            self.is_watching = False

    def begin_again(self) -> None:
        """Let the time of all pending requests begin now."""
        now = trio.current_time()
        for call in self._calls.values():
            if call.heard < math.inf:
                call.heard = now

    async def _sleep_until(self, time: float) -> None:
        if not is_clock_mocked():
            await trio.sleep_until(time)
            return
        with trio.CancelScope(deadline=time) as scope:
            threads_first = _ThreadsFirst(self, scope)
            trio.lowlevel.add_instrument(threads_first)
            try:
                await trio.sleep_forever()
            finally:
                trio.lowlevel.remove_instrument(threads_first)


@final
@attrs.define(eq=False)
class _ThreadsFirst(trio.abc.Instrument):
    """Lets a silence begin again when threads have ended.

    A mock clock jumps to the next deadline when all tasks wait, also when they wait for threads, which take none
    of its time: each plain handler would seem to be silent for as long as may be.
    """

    _watch: SilenceWatch
    _scope: trio.CancelScope
    _is_busy: bool = False

    def before_io_wait(self, timeout: float) -> None:
        """Called before the clock can jump."""
        del timeout
        if sys.modules["trio.testing"].active_thread_count():
            self._is_busy = True
            self._scope.deadline = math.inf
        elif self._is_busy:
            self._is_busy = False
            self._watch.begin_again()
            self._scope.deadline = trio.current_time() + self._watch.seconds


def granted_deadline() -> float:
    """Return the deadline to send with a request that is made now, on Trio's clock.

    It is that of the cancel scopes around the current task, where a `fail_after_silence` counts with its latest
    deadline, and a `request_timeout` that may stand still does not count. Trio knows which scopes those are: not
    one in which the task was merely started.
    """
    clock = current_clock()
    if clock is None:
        return trio.current_effective_deadline()
    changed: list[tuple[trio.CancelScope, float]] = []
    while clock is not None:
        scope = clock._scope
        changed.append((scope, scope.deadline))
        scope.deadline = clock.granted()
        clock = clock._enclosing
    # No checkpoint here, so the scopes are back as they were before Trio looks at their deadlines.
    try:
        return trio.current_effective_deadline()
    finally:
        for scope, deadline in changed:
            scope.deadline = deadline


_PROGRESS_BYTES: Final = 512
"""What a progress notification takes in memory beside its text and great numbers."""

_GREAT: Final = 1 << 60


@final
@attrs.define
class ProgressRoom:
    """What the progress that waits for all calls of one connection takes in memory.

    Attributes:
        on_less: Called with a call of which one less waits, or none will any more.
        taken: How many bytes.
    """

    on_less: Callable[[Call], object]
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
class CallState(enum.Enum):
    """Where a request of this side stands."""

    __hash__ = object.__hash__  # each is one object; Enum would hash the name, in Python

    QUEUED = "not a byte of it has been handed to the transport"
    WRITTEN = "the transport has it; giving it up now costs a cancellation"
    ANSWERED = "its answer was received, or the connection is gone: there is nothing left to give up"
    GIVEN_UP = "its caller waits for it no longer"


# The transitions, one table for each event. A state that is not in the table of an event is a bug and raises
# `KeyError`.
_ON_WRITE: Final = {CallState.QUEUED: CallState.WRITTEN}
_ON_ANSWER: Final = {
    CallState.QUEUED: CallState.ANSWERED,  # the connection can end, and fail every request, before it is written
    CallState.WRITTEN: CallState.ANSWERED,
}
_ON_GIVE_UP: Final = {
    CallState.QUEUED: CallState.GIVEN_UP,
    CallState.WRITTEN: CallState.GIVEN_UP,
    CallState.ANSWERED: CallState.ANSWERED,  # the caller may be cancelled between the answer and its next step
    CallState.GIVEN_UP: CallState.GIVEN_UP,  # an exception in the caller, after the client was left
}


@final
@attrs.define(eq=False)
class Call:
    """One request of this side, from the moment its caller makes it until its caller goes on.

    Progress callbacks run in the caller's task: what they raise comes out of the call, its deadline covers them,
    and none of them outlives it. Progress is handed over when it is read, before the answer behind it, so a slow
    callback holds up its own call and no other. When the connection ends, callbacks run until `end_callbacks`.

    Attributes:
        id: Its id on this connection.
        method: Its method.
        on_progress: Called for each progress notification, if the caller wants them.
        clock: The innermost `fail_after_silence` or `request_timeout` around the caller.
        heard: When it was made, or something was heard of it, on Trio's clock; see `SilenceWatch`.
        state: Where it stands; set by `mark_written`, `answer` and `give_up` alone.
        message: What it is sent in, perhaps with others as a batch.
        number: Which of the messages that were written that was, counted from 1; 0 before it was written.
        result: The result, once there is one.
        error: Why there is no result, once there is a reason.
        room: What its progress takes is counted here, once there is some.
    """

    id: RequestId
    method: str
    on_progress: OnProgress | None = None
    clock: Clock | None = None
    heard: float = math.inf
    state: CallState = CallState.QUEUED
    message: QueuedMessage | None = None
    number: int = 0
    result: dict[str, Any] | None = None
    error: Exception | None = None
    room: ProgressRoom | None = None
    _progress: deque[tuple[Progress, int]] | None = None
    _is_handling: bool = False
    _stops: int = 0
    _callback: trio.CancelScope | None = None
    _callbacks_end: float = math.inf
    _why_cut: Exception | None = None
    _unclear: tuple[float, Callable[[], object]] | None = None
    _wake: LightParkingLot = attrs.field(factory=LightParkingLot)

    @property
    def is_pending(self) -> bool:
        """Whether it is neither answered nor given up."""
        return self.state in _ON_ANSWER

    @property
    def is_settled(self) -> bool:
        """Whether its caller can go on: there is a result, or an error to raise."""
        return self.result is not None or self.error is not None

    def mark_written(self, number: int) -> None:
        """The transport has it, in the message with this number."""
        self.state = _ON_WRITE[self.state]
        self.number = number

    def answer(self, outcome: dict[str, Any] | Exception) -> None:
        """Set how it ended, and wake the caller. A second answer is a stray, which never gets here."""
        self.state = _ON_ANSWER[self.state]
        if isinstance(outcome, dict):
            self.result = outcome
        else:
            self.error = outcome
        self._wake.unpark()

    def give_up(self) -> bool:
        """The caller waits for it no longer. This is the only place that decides whether a cancellation is due.

        Returns:
            Whether the other side must be notified: it may have the request, has not answered it, was not
            notified yet, and the request is not ``initialize``, which must not be cancelled (2025-11-25,
            basic/utilities/cancellation, "Behavior Requirements").
        """
        was = self.state
        self.state = _ON_GIVE_UP[was]
        return was is CallState.WRITTEN and self.method != "initialize"

    def outcome(self) -> dict[str, Any]:
        """Return the result of a settled call, or raise its error. To be called once."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = self._why_cut = None  # its frames have this, and what was sent: a cycle
        assert self.result is not None
        return self.result

    @property
    def wants_progress(self) -> bool:
        """Whether progress changes anything: there is a callback or an idle time."""
        return self.on_progress is not None or (self.clock is not None and self.clock.heeds_progress)

    def wake(self) -> None:
        """Let the caller check again whether it can go on."""
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
                progress = self.take_progress()
                assert self.room is not None
                self.room.on_less(self)
                assert self.on_progress is not None
                self._is_handling = True
                outcome = self.on_progress(progress)
                if outcome is not None and isinstance(outcome, Awaitable):
                    await self._handle(cast("Awaitable[object]", outcome))
                self._is_handling = False
            if self.is_settled:
                return
            if self._unclear is None:
                await self._wake.park()
            else:
                await self._wait_unclear(*self._unclear)

    async def _wait_unclear(self, until: float, fail: Callable[[], object]) -> None:
        with trio.move_on_at(until):
            await self._wake.park()
            return
        self._unclear = None
        fail()

    async def _handle(self, callback: Awaitable[object]) -> None:
        with trio.CancelScope(deadline=self._callbacks_end) as scope:
            self._callback = scope
            await callback
        self._callback = None
        if scope.cancelled_caught:
            self.error = self._why_cut
            self.forget_progress()

    def fail_at(self, until: float, fail: Callable[[], object]) -> None:
        """The other side may have refused this request, in an error without an id: fail it if no answer comes."""
        if self._unclear is None:
            self._unclear = until, fail
            self._wake.unpark()

    def hand_over(self, progress: Progress, room: ProgressRoom) -> int:
        """Give progress to the caller, and return how much waits now. Never waits."""
        if self._progress is None:
            self._progress = deque()
            self.room = room
        weight = weight_of_progress(progress)
        self._progress.append((progress, weight))
        room.taken += weight
        if self._wake.parked is not None:
            self._wake.unpark()
        return len(self._progress)

    def take_progress(self) -> Progress:
        """Take out the progress that has waited longest."""
        assert self._progress
        assert self.room is not None
        progress, weight = self._progress.popleft()
        self.room.taken -= weight
        return progress

    def hear(self) -> None:
        """Something was heard of it: the times of silence begin again."""
        if self.clock is not None:
            self.clock.push()
        if self.heard < math.inf:
            self.heard = trio.current_time()

    @property
    def has_stopped_clock(self) -> bool:
        """Whether there is a `stop_clock` to be undone."""
        return self._stops > 0

    def stop_clock(self) -> None:
        """This side's user answers a question, perhaps of this call: that time is not the server's."""
        if self.clock is not None:
            self._stops += 1
            self.clock.stop()

    def start_clock(self) -> None:
        """Undo one `stop_clock`, if there is one left."""
        if self._stops and self.clock is not None:
            self._stops -= 1
            self.clock.start()

    def end_callbacks(self, deadline: float, why: Exception) -> None:
        """Cancel the callbacks that have not ended by the deadline; then the call fails."""
        self._callbacks_end, self._why_cut = deadline, why
        if self._callback is not None:
            self._callback.deadline = deadline

    def cut_callbacks(self) -> None:
        """Cancel the callbacks at once, if they have a deadline already."""
        if self._why_cut is not None:
            self.end_callbacks(-math.inf, self._why_cut)

    def forget_progress(self) -> None:
        """Drop all progress that waits: none is handled any more."""
        while self._progress:
            self.take_progress()
        self._progress = None
        if self.room is not None:
            self.room.on_less(self)


@final
class Calls(dict[RequestId, Call]):
    """The requests of this side, from the moment each is made until its caller goes on, by id.

    Attributes:
        pending: How many of them are neither answered nor given up.
        changed: Woken when one is made, and by `Exchanges` when one of the other side is done with.
    """

    __slots__ = ("changed", "pending")

    def __init__(self) -> None:
        super().__init__()
        self.pending = 0
        self.changed = LightParkingLot()

    def enter(self, call: Call) -> None:
        """Enter a call that is made now."""
        self[call.id] = call
        self.pending += 1
        if self.changed.parked is not None:
            self.changed.unpark_all()

    def settle(self, call: Call, outcome: dict[str, Any] | Exception) -> None:
        """Note how a pending call has ended, and wake its caller."""
        self.pending -= 1
        call.answer(outcome)

    def give_up(self, call: Call) -> bool:
        """Note that the caller waits no longer. Returns whether the other side must be notified."""
        if call.is_pending:
            self.pending -= 1
        return call.give_up()

    def fail_withdrawn(self, message: QueuedMessage) -> None:
        """The requests in a message belong to an exchange that was given up before they were written.

        A caller that is shielded is not cancelled with the exchange, and would wait for ever.
        """
        assert message.exchange is not None
        for call in message.calls:
            self.settle(call, message.exchange.too_late_to_ask(call.method))

    def of_progress(self, token: object) -> Call | None:
        """Return the call that asked for progress under this token."""
        if type(token) is int or type(token) is str:
            call = self.get(token)
        else:
            id = read_id(token)
            call = None if id is None else self.get(id)
        if call is None or call.result is not None or call.error is not None:
            return None
        return call if call.on_progress is not None or call.wants_progress else None


def checked(data: bytes, what: str, limits: Limits) -> bytes:
    """Return an encoded message, unless it is too large to be sent.

    Raises:
        LocalProtocolError: It is.
    """
    if len(data) > limits.max_message_bytes:
        raise LocalProtocolError(
            f"{what} is {len(data)} bytes as a message; max_message_bytes is {limits.max_message_bytes}"
        )
    return data


@final
@attrs.define(eq=False)
class QueuedMessage:
    """A message on its way through a `SendQueue`. It is here because it and its calls know each other.

    Attributes:
        message: What is to be written.
        calls: The requests of this side that are in it.
        exchange: The request of the other side it belongs to. It is withdrawn when that is given up.
        cancels: The id of the request of this side that it cancels.
        urgent: Whether it was put without waiting for room.
        ends: The origin of a received message that is done with when this is written, or withdrawn.
        without: Leaves the answer to a request out of those to a batch. Returns what encodes the others, if there
            are any.
    """

    message: Outgoing
    calls: tuple[Call, ...] = ()
    exchange: Exchange | None = None
    cancels: RequestId | None = None
    urgent: bool = False
    ends: Origin | None = None
    without: Callable[[RequestId], Callable[[], Outgoing] | None] | None = None

    @classmethod
    def complaint(cls, data: bytes, origin: Origin | None) -> QueuedMessage:
        """Return what says that a message cannot be served, which is done with when that is written."""
        hold_message(origin)
        return cls(Outgoing(data, origin=origin), urgent=True, ends=origin)
