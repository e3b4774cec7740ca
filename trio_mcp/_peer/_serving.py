"""The tasks that read one connection and serve what they read.

One of them leads: it reads, takes what has come, and serves the requests in it one after another, on the spot.
Most are served without waiting for anything, and then no other task takes part, nor any turn of the event loop.
A request that has to wait keeps the task that has begun it, and another one leads from then on: one that has
nothing to do, or a new one.

What a handler sees must not depend on which task it has, nor on what that task has done before. So a handler runs
with context variables of its own, made from those of whoever has opened the connection, and in a cancel scope
that is the task's for as long as nobody has cancelled it or left something in it; else the next request has a new
one. A task in which a handler has left a scope or a nursery open ends with that request. Cancelled from outside,
the tasks end like whatever they serve; who goes on reading then is their owner's business.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, TypeVarTuple, final

import attrs
import trio

from .._errors import ConnectionLost
from .._limits import Limits
from .._trio import Contained, Steps
from ._exchanges import Exchanges, Ready, Reply, make_reply, note_failure, settle
from ._outbox import Outbox
from ._receiver import Intake

MAX_IDLE: Final = 8
"""How many tasks with nothing to do are kept until they are needed: waking one costs less than starting one."""

_Args = TypeVarTuple("_Args")

SERVED_AT_ONCE: Final = 64
"""After how many requests that were served on the spot others get a turn."""


@final
@attrs.define(eq=False)
class _Worker:
    """One of the tasks.

    Attributes:
        serving: The request that it serves, while that has to wait for something, or has gone wrong.
        reply: What has become of that.
        failure: What has come out of it besides.
        block: Where it serves, while nobody has cancelled the scope of that or left something in it.
    """

    serving: Ready | None = None
    reply: Reply | None = None
    failure: BaseException | None = None
    block: Contained = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.block = Contained(self._fail)

    def _fail(self, error: BaseException) -> None:
        self.failure = error


@final
class Workers:
    """The tasks of one connection that read and serve.

    Args:
        nursery: Where they run.
        intake: What they read.
        exchanges: What they serve.
        outbox: Where their answers go.
        limits: How large an answer may be.
        name: What they are called.
        keeps_idle: Whether tasks with nothing to do are kept for when they are needed.
        flush: Writes what lies in the outbox, and lets its writer go on.
        on_end: Called with why nothing comes any more.
        on_cancelled: Called when none of them will read any more, because they were cancelled from outside.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        intake: Intake,
        exchanges: Exchanges,
        outbox: Outbox,
        limits: Limits,
        *,
        name: str,
        keeps_idle: bool,
        flush: Callable[[], None],
        on_end: Callable[[Exception], None],
        on_cancelled: Callable[[], None],
    ) -> None:
        self._nursery = nursery
        self._intake = intake
        self._exchanges = exchanges
        self._outbox = outbox
        self._limits = limits
        self._name = name
        self._flush = flush
        self._on_end = on_end
        self._on_cancelled = on_cancelled
        self._max_idle = MAX_IDLE if keeps_idle else 0
        self._variables = copy_context()
        self._is_led = False
        self._has_ended = False
        self._reading: trio.CancelScope | None = None  # of the task that waits for messages
        self._idle: list[trio.lowlevel.Task] = []
        self._served = 0

    def wake(self) -> bool:
        """Let one of them read. Returns whether one will: not if they were cancelled or ended. Never waits."""
        if not (self._is_led or self._has_ended):
            self._start()
        return not self._has_ended

    def _start(self) -> None:
        # Whatever wakes them, they run with the context variables of whoever has opened the connection.
        self._variables.run(lambda: self._nursery.start_soon(self._work, name=self._name))

    def end(self) -> None:
        """Read no more. What is being served goes on. Never waits."""
        self._has_ended = True
        if self._reading is not None:
            self._reading.cancel(reason="the connection was closed")
        for task in self._idle:
            trio.lowlevel.reschedule(task)
        self._idle.clear()

    async def _work(self) -> None:
        """Be one of the tasks."""
        task = trio.lowlevel.current_task()
        goes_on = True
        while goes_on and not self._has_ended:
            worker = _Worker()
            try:
                with worker.block:
                    goes_on = await self._work_in_scope(worker, task)
            except BaseException:
                if worker.serving is not None:
                    self._outside(self._exchanges.leave, worker.serving)
                raise
            ready = worker.serving
            if worker.failure is not None:
                if ready is None:
                    raise worker.failure
                worker.reply = note_failure(ready.exchange, worker.failure)
                goes_on = False
            if ready is not None:
                if ready.exchange.scope.cancel_called:
                    await self._settle(ready, worker.reply)
                else:
                    assert worker.reply is not None, "its handler was not cancelled"
                    self._outside(self._finish, ready, worker.reply)
                await trio.lowlevel.cancel_shielded_checkpoint()  # from here on with its own variables

    async def _work_in_scope(self, worker: _Worker, task: trio.lowlevel.Task) -> bool:
        """Read and serve until there is nothing to do, or the scope is used up. Returns whether to go on."""
        block = worker.block
        scope = block.scope
        has_waited = False
        while await self._lead(has_waited=has_waited):
            while True:
                ready = self._next(scope)
                if ready is None:
                    if not await self._wait(scope):
                        return False
                    continue
                exchange = ready.exchange
                steps = Steps(
                    make_reply(exchange, ready.handler, self._limits, self._outbox.wait_room),
                    self._variables.copy(),
                )
                try:
                    is_done = steps.begin(task)
                except BaseException:
                    worker.serving = ready
                    self._hand_over()
                    raise
                if is_done and block.is_clean and not exchange.is_overdue:
                    self._finish(ready, steps.result)
                    continue
                worker.serving, worker.reply = ready, None
                self._hand_over()
                worker.reply = steps.result if is_done else await steps.go_on(task)
                if scope.cancel_called or not block.is_clean:
                    return True
                worker.serving = None
                self._outside(self._finish, ready, worker.reply)
                has_waited = True
                break
        return False

    def _outside(self, function: Callable[[*_Args], object], *args: *_Args) -> None:
        """Call something with the variables of whoever has opened the connection.

        When a handler that has waited is done, its variables are still those of the task.
        """
        self._variables.copy().run(function, *args)

    def _finish(self, ready: Ready, reply: Reply) -> None:
        exchange = ready.exchange
        if exchange.scope.deadline != math.inf:
            exchange.scope.deadline = math.inf
        self._exchanges.finish(ready, reply)

    async def _settle(self, ready: Ready, reply: Reply | None) -> None:
        """End a request whose scope was cancelled."""
        try:
            reply = await settle(ready.exchange, reply, self._limits)
        except BaseException:
            self._outside(self._exchanges.leave, ready)
            raise
        self._outside(self._exchanges.finish, ready, reply)

    async def _lead(self, *, has_waited: bool) -> bool:
        """Wait until nobody else leads, and lead. Returns whether there is anything left to do for this task.

        Args:
            has_waited: Whether it has just served what had to wait. Then another leads, or is about to, and this
                one waits in any case: so it has its own variables again before it does anything.
        """
        while (has_waited or self._is_led) and not self._has_ended:
            has_waited = False
            if len(self._idle) == self._max_idle:
                return False
            task = trio.lowlevel.current_task()

            def leave(_: object, task: trio.lowlevel.Task = task) -> trio.lowlevel.Abort:
                self._idle.remove(task)
                return trio.lowlevel.Abort.SUCCEEDED

            self._idle.append(task)
            await trio.lowlevel.wait_task_rescheduled(leave)
        self._is_led = True
        return not self._has_ended

    def _hand_over(self) -> None:
        """Let another task lead: this one has to wait."""
        self._is_led = False
        self._outbox.release()
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            self._start()

    def _next(self, scope: trio.CancelScope) -> Ready | None:
        """Return the next request that has come already, if others need no turn before it. Only for who leads."""
        if self._served == SERVED_AT_ONCE:
            return None
        self._served += 1
        self._outbox.is_held = True
        return self._intake.next_request(scope)

    async def _wait(self, scope: trio.CancelScope) -> bool:
        """Write what is to be said, and wait for more messages. Returns whether any will come. For who leads."""
        self._flush()
        if self._has_ended:  # by what was taken just now: nobody would cancel the wait
            return False
        self._reading = scope
        try:
            if self._served == SERVED_AT_ONCE:
                await trio.lowlevel.checkpoint()
            elif self._intake.must_wait:
                await self._intake.wait()
            elif self._intake.may_rest():
                self._is_led = False
                return False
            else:
                await self._intake.receive()
        except trio.Cancelled:
            if not self._has_ended:
                self._has_ended = True
                self._on_cancelled()
            raise
        except (trio.EndOfChannel, ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self.end()
            self._on_end(error)
            return False
        finally:
            self._reading = None
            self._served = 0
        return True
