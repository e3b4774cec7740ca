"""The tasks that read one connection and serve the requests they read.

What a request is and what answers it is `_exchanges`' business; this file decides which task does the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final, TypeVarTuple, final

import attrs
import trio

from .._errors import ConnectionLost
from .._limits import Limits
from .._trio import Contained, InlineTask
from ._exchanges import Exchanges, Ready, Reply, make_reply, note_failure, settle
from ._receiver import Receiver
from ._sender import Sender

# How requests are read and served.
#
# The obvious way is one task that reads, and a task for each request. That costs each request a task, a pass of
# the event loop to start it and another one to write its answer, although most handlers never wait. So here the
# task that reads serves the requests itself, one after another, and writes all their answers at once before it
# waits again: a stdio server takes one pass for each read, whatever is in it (docs/benchmarks.md). A call in
# memory is 540 000 instructions; one whose handler waits once, and so needs a second task, is 617 000.
#
# One task at a time *leads*: it alone calls the receiver. It runs each handler as an `InlineTask` up to its first
# wait.
#
#   * The handler is done: the leader sends the answer and goes on with the next request. No other task took part.
#   * The handler waits: its coroutine cannot be moved to another task (Trio's scopes and nurseries in it belong
#     to this one), so the leader stays with it and hands the lead to another task: an idle one, or a new one.
#     When the handler is done, the task becomes idle, until it is woken to lead or ends because there are enough
#     idle tasks.
#
# What is kept true:
#
#   * At most one task leads (`_is_led`), so messages are taken in wire order, and there is no checkpoint between
#     taking a request and entering it, so a cancellation that is next on the wire finds it.
#   * While a task leads, the send queue is held: nothing wakes the writer, and `_wait` flushes before the leader
#     waits. `_hand_over` releases the queue, because the task does not come back to flush it.
#   * A handler cannot notice which task it runs in or what that did before. It has its own context variables, a
#     copy of those of the task that has opened the connection. Its cancel scope is that of the task's current
#     block, which is lent to one request after another for as long as it is not cancelled and nothing was left
#     open in it (`Contained`); a handler that spoils it costs the task that block, and if it has left something
#     open, the task itself.
#   * Code of this module that runs after a handler has waited uses `_outside`: the variables of the task are
#     still the handler's until the task has waited once more (see `InlineTask.go_on`).
#   * `has_waited` makes such a task wait before it does anything else, for the same reason.
#
# Cancelled from outside, these tasks end like the handlers they run; `on_cancelled` then starts a
# shielded reader.

MAX_IDLE: Final = 8
"""How many idle tasks are kept for later: waking one costs less than starting one."""

SERVED_AT_ONCE: Final = 64
"""After how many requests that were served without waiting other tasks get a pass of the event loop."""

_Args = TypeVarTuple("_Args")


@final
@attrs.define(eq=False)
class _Block:
    """The block in which a task serves one request after another.

    Attributes:
        serving: The request whose handler waits, or has failed in a way that its reply does not show.
        reply: Its reply, once there is one.
        failure: What came out of the block.
        contained: The block itself.
    """

    serving: Ready | None = None
    reply: Reply | None = None
    failure: BaseException | None = None
    contained: Contained = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.contained = Contained(self._fail)

    def _fail(self, error: BaseException) -> None:
        self.failure = error


@final
@attrs.define(eq=False)
class ServeLoop:
    """The tasks of one connection that read and serve."""

    _nursery: trio.Nursery
    _receiver: Receiver
    _exchanges: Exchanges
    _sender: Sender
    _limits: Limits
    _name: str  # of the tasks
    _max_idle: int
    _on_end: Callable[[Exception], None]  # called with the reason why no message will come any more
    _on_cancelled: Callable[[], None]  # called when the tasks were cancelled from outside and read no more
    _variables: Context = attrs.field(factory=copy_context, init=False)
    _is_led: bool = attrs.field(default=False, init=False)
    _has_ended: bool = attrs.field(default=False, init=False)
    _reading: trio.CancelScope | None = attrs.field(default=None, init=False)  # of the leader, while it waits
    _idle: list[trio.lowlevel.Task] = attrs.field(factory=list[trio.lowlevel.Task], init=False)
    _served: int = attrs.field(default=0, init=False)  # since the leader waited last

    def start(self) -> bool:
        """Read, if no task does. Returns whether one will: not after `end` or a cancellation. Never waits."""
        if not (self._is_led or self._has_ended):
            self._start_task()
        return not self._has_ended

    def _start_task(self) -> None:
        # Wherever they are started, they run with the variables of the task that has opened the connection.
        self._variables.run(lambda: self._nursery.start_soon(self._run, name=self._name))

    def end(self) -> None:
        """Read no more. Requests being served go on. Never waits."""
        self._has_ended = True
        if self._reading is not None:
            self._reading.cancel(reason="the connection was closed")
        for task in self._idle:
            trio.lowlevel.reschedule(task)
        self._idle.clear()

    async def _run(self) -> None:
        """Be one of the tasks: enter one block after another, and clean up after each."""
        task = trio.lowlevel.current_task()
        goes_on = True
        while goes_on and not self._has_ended:
            block = _Block()
            try:
                with block.contained:
                    goes_on = await self._run_in_block(block, task)
            except BaseException:
                if block.serving is not None:
                    self._outside(self._exchanges.leave, block.serving)
                raise
            ready = block.serving
            if block.failure is not None:
                if ready is None:
                    raise block.failure
                block.reply = note_failure(ready.exchange, block.failure)
                goes_on = False
            if ready is not None:
                if ready.exchange.scope.cancel_called:
                    await self._settle(ready, block.reply)
                else:
                    assert block.reply is not None, "its handler was not cancelled"
                    self._outside(self._finish, ready, block.reply)
                await trio.lowlevel.cancel_shielded_checkpoint()  # from here on with its own variables

    async def _run_in_block(self, block: _Block, task: trio.lowlevel.Task) -> bool:
        """Read and serve until nothing is left to do or the block is spoilt. Returns whether to enter another."""
        contained = block.contained
        scope = contained.scope
        has_waited = False
        while await self._lead(has_waited=has_waited):
            while True:
                ready = self._next(scope)
                if ready is None:
                    if not await self._wait(scope):
                        return False
                    continue
                exchange = ready.exchange
                handler = InlineTask(
                    make_reply(exchange, ready.handler, self._limits, self._sender.queue.wait_room),
                    self._variables.copy(),
                )
                try:
                    is_done = handler.begin(task)
                except BaseException:
                    block.serving = ready
                    self._hand_over()
                    raise
                if is_done and contained.is_clean and not exchange.is_overdue:
                    self._finish(ready, handler.result)
                    continue
                block.serving, block.reply = ready, None
                self._hand_over()
                block.reply = handler.result if is_done else await handler.go_on(task)
                if scope.cancel_called or not contained.is_clean:
                    return True
                block.serving = None
                self._outside(self._finish, ready, block.reply)
                has_waited = True
                break
        return False

    def _outside(self, function: Callable[[*_Args], object], *args: *_Args) -> None:
        """Call a function with the variables of the task that has opened the connection, not the handler's."""
        self._variables.copy().run(function, *args)

    def _finish(self, ready: Ready, reply: Reply) -> None:
        exchange = ready.exchange
        if exchange.scope.deadline != math.inf:
            exchange.scope.deadline = math.inf  # the scope is lent to the next request
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
        """Wait until no other task leads, and lead. Returns whether there is anything left to do for this task.

        Args:
            has_waited: Whether it has just served a handler that waited. Then another task leads, or is about to,
                and this one waits in any case, so that it has its own variables again before it does anything.
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
        """Let another task lead: this one stays with a handler that waits."""
        self._is_led = False
        self._sender.queue.release()
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            self._start_task()

    def _next(self, scope: trio.CancelScope) -> Ready | None:
        """Return the next request that was received, unless other tasks must run first. For the leader alone."""
        if self._served == SERVED_AT_ONCE:
            return None
        self._served += 1
        self._sender.queue.is_held = True
        return self._receiver.next_request(scope)

    async def _wait(self, scope: trio.CancelScope) -> bool:
        """Write what is queued and wait for messages. Returns whether any will come. For the leader alone."""
        self._sender.flush()
        if self._has_ended:  # by a message that was taken just now: nothing would cancel the wait
            return False
        self._reading = scope
        try:
            if self._served == SERVED_AT_ONCE:
                await trio.lowlevel.checkpoint()
            elif self._receiver.must_wait:
                await self._receiver.wait()
            elif self._receiver.may_rest():
                self._is_led = False
                return False
            else:
                await self._receiver.receive()
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
