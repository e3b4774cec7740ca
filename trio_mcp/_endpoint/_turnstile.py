"""Where requests wait for their turn, so that no client takes all of the event loop's time.

Who is next is decided by `Turns`; here requests wait and are charged for their time. A client that is alone never
waits, nor does one that asks for little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any, Final, TypeVar, final

import attrs
import trio

from .._core._http_rules import HttpRefused
from .._core._turns import SMALL_LONG, Turns
from .._limits import KIB
from .._trio import LightParkingLot
from ._call import HttpCall, connected

GREAT: Final = 64 * KIB
"""How large a body is that can hold the loop by itself, in bytes."""

FEW: Final = 4
"""So many small requests begin without a look at whose they are."""

SECONDS_PER_BYTE: Final = 4e-9
"""About how long a byte of a great answer holds the loop, from the handler that returns it to the socket."""

SECONDS_PER_REQUEST: Final = 2e-4
"""About how long a request of a batch holds the loop."""

SHARED_SECONDS: Final = 1.0
"""For how long after its last request a holder counts as asking, in seconds."""

_T = TypeVar("_T")


def is_great(body: bytes) -> bool:
    """Whether a body may take long by itself: it is large, or anything but one object (a batch)."""
    return len(body) > GREAT or not body.startswith(b"{")


@final
class Turnstile:
    """A gate through which the requests of all clients go before they are served.

    A pass of the event loop runs every task that is ready, so one client with a thousand requests would make all
    others wait for the end of that pass. Therefore:

    * If only one holder has asked within `SHARED_SECONDS`, its requests begin at once; counting them is all it
      costs.
    * Otherwise `Turns` gives each holder a share of each pass, and of the time that its requests hold the loop:
      the steps of great requests are measured and charged (`_metered`), those of small ones only if they take
      long.
    * One task lets the next ones in, pass by pass; it runs only while requests wait.

    What would break it: a checkpoint between the decision and the beginning of a request, or a charge that is
    skipped when a request fails.

    Args:
        nursery: Where that task runs.
        among: Another turnstile whose holders count as asking here, too; `None` for none.
        clock: Returns the time in seconds, to measure how long a great request holds the loop.

    Attributes:
        last_seen: The holder of the last request; `None` if `see` is to be called for the next one.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        among: Turnstile | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._nursery = nursery
        self._among = among
        self._clock = clock
        self._variables = copy_context()
        self._turns: Turns[trio.lowlevel.Task] = Turns()
        self._seen = (("", -math.inf), ("", -math.inf))
        self._begun = 0
        self.last_seen: str | None = None
        self._is_turning = False
        self._is_open = False
        self._changed = LightParkingLot()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._turns.waiting

    def open(self) -> None:
        """Let all requests in from now on: serving is about to end."""
        self._is_open = True
        self._let_in()

    def see(self, holder: str) -> None:
        """Note that a holder asks that is not `last_seen`."""
        now = trio.current_time()
        last, before = self._seen
        self._seen = ((holder, now), before if last[0] == holder else last)
        self.last_seen = holder

    def _is_shared(self, holder: str | None = None) -> bool:
        """Whether more than one holder is asking, or was a moment ago.

        Args:
            holder: One that certainly is asking.
        """
        if self._is_open:
            return False
        since = trio.current_time() - SHARED_SECONDS
        asking = self.asking_since(since)
        if self._among is not None:
            asking |= self._among.asking_since(since)
        if holder is not None:
            asking.add(holder)
        return len(asking) > 1

    def asking_since(self, since: float) -> set[str]:
        """Return the holders that have asked since a time, or wait."""
        asking = {who for who, when in self._seen if when > since}
        asking.update(self._turns.holders)
        self.last_seen = None  # `see` is called for the next request
        return asking

    async def serve(self, call: HttpCall, body: bytes, serve: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Serve a request when its turn comes, and charge its holder for the time that it holds the loop.

        Args:
            call: The request.
            body: Its body.
            serve: Serves it.

        Raises:
            HttpRefused: Its client has gone meanwhile.
        """
        if is_great(body):
            await self._let_in_while_connected(call, great=True)
            return await self._charged(call.loans.key, serve, is_great=True)
        self._begun += 1  # how many small ones have begun since that was looked at
        if self._begun <= FEW:
            return await serve()
        await self._let_in_while_connected(call)
        return await self._charged(call.loans.key, serve, is_great=False)

    async def enter(self, holder: str) -> None:
        """Wait until something small of a holder may begin. Does not checkpoint if it may at once.

        Cancelled, it has not begun.
        """
        if holder != self.last_seen:
            self.see(holder)
        self._begun += 1
        if self._begun > FEW and not self._may_begin(holder):
            await self._wait_turn(holder)

    def charge_answer(self, holder: str, size: int) -> None:
        """Charge a holder for a great answer whose time was not measured.

        Args:
            holder: Whose request it answers.
            size: How large it is, in bytes.
        """
        if size > GREAT:
            self._charge(holder, size * SECONDS_PER_BYTE, is_great=False)

    def charge_batch(self, holder: str, requests: int) -> None:
        """Charge a holder for the requests of a batch, whose time is not measured."""
        self._charge(holder, requests * SECONDS_PER_REQUEST, is_great=True)

    def _charge(self, holder: str, seconds: float, *, is_great: bool) -> None:
        """Charge a holder for time that the loop was held, if others were asking, too."""
        if self._is_shared(holder):
            self._turns.charge(holder, seconds, trio.current_time(), is_great=is_great)

    async def _let_in_while_connected(self, call: HttpCall, *, great: bool = False) -> None:
        if self._may_begin(call.loans.key, great=great):
            return
        with connected(call):
            await self._wait_turn(call.loans.key, great=great)
            return
        raise HttpRefused(400, "the client went away before its request was served")

    def _may_begin(self, holder: str, *, great: bool = False) -> bool:
        if not (self._turns or self._is_shared(holder)) or self._is_open:
            self._begun = 0
            return True
        if self._turns.begin(holder, trio.current_time(), is_great=great):
            self._go_round()
            return True
        return False

    async def _wait_turn(self, holder: str, *, great: bool = False) -> None:
        task = trio.lowlevel.current_task()
        self._turns.wait(holder, task, is_great=great)
        self._go_round()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._turns.leave(holder, task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    async def _charged(self, holder: str, serve: Callable[[], Coroutine[Any, Any, _T]], *, is_great: bool) -> _T:
        least = 0.0 if is_great else SMALL_LONG

        def charge(seconds: float) -> None:
            if seconds >= least:
                self._charge(holder, seconds, is_great=is_great)

        return await _metered(serve(), self._clock, charge)

    # The task that lets requests in.

    def _go_round(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            self._variables.run(lambda: self._nursery.start_soon(self._turn, name="letting requests begin"))
        elif self._changed:
            self._changed.unpark()

    async def _turn(self) -> None:
        """Let the next ones in, pass by pass, while any wait."""
        try:
            while True:
                self._let_in()
                if not self._turns:
                    self._begun = 0
                    break
                now = trio.current_time()
                until = min(self._turns.next_at(now), now + SHARED_SECONDS / 4)
                if until <= now:
                    await trio.lowlevel.checkpoint()
                else:
                    with trio.move_on_at(until):
                        await self._changed.park()
        except trio.Cancelled:
            self.open()
            raise
        finally:
            self._is_turning = False

    def _let_in(self) -> None:
        for task in self._turns.next(trio.current_time(), is_shared=self._is_shared()):
            trio.lowlevel.reschedule(task)


@final
@attrs.frozen
class Turnstiles:
    """The turnstiles of one endpoint.

    Attributes:
        requests: Where requests wait until they are served.
        notifications: Where handlers wait before each notification that they send.
    """

    requests: Turnstile
    notifications: Turnstile


@coroutine
def _metered(
    steps: Coroutine[Any, Any, _T], clock: Callable[[], float], charge: Callable[[float], object]
) -> Generator[Any, Any, _T]:
    """Run a coroutine, and charge each of its steps for how long it has held the event loop."""
    value: Any = None
    resume: Callable[[Any], Any] = steps.send
    while True:
        since = clock()
        try:
            trap = resume(value)
        except StopIteration as done:
            result: _T = done.value
            return result
        finally:
            charge(clock() - since)
        try:
            value, resume = (yield trap), steps.send
        except BaseException as error:  # noqa: ASYNC103 - it is raised in there
            value, resume = error, steps.throw
