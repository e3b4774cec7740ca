"""Takes the messages of one connection in wire order, and serves the requests among them.

    a response      ──> the call that waits for it
    a notification  ──> `cancelled`: the exchange's scope, at once
                    ──> the others: one queue, one task, in wire order
    a request       ──> refused or answered at once, put off until there is room, or returned to be served

`Receiver` takes messages without waiting, and runs no handlers; when reading must pause, `must_wait` says so.
`ServeLoop` is the tasks that read and serve. What a request is and what answers it is `_exchanges`' business.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, final

import attrs
import trio

from .._absent import ABSENT
from .._audit import audit
from .._channel import Incoming, Origin, OriginGone, Received, TooLarge, client_of
from .._codec import _json
from .._codec._json import explain_cost, harmless_size, is_costlier
from .._codec._jsonrpc import (
    FRAGMENT_BYTES,
    ErrorResponse,
    InvalidMessage,
    Notification,
    Request,
    RequestId,
    Response,
    answered_id,
    answered_id_of_fragment,
    encode_error,
    id_of_fragment,
    invalid_request,
    is_batch_fragment,
    is_response_fragment,
    parse_message,
    read_id,
)
from .._errors import PARSE_ERROR, ConnectionLost, McpError, RequestError
from .._limits import KIB, Limits
from .._logs import Log
from .._trio import Contained, InlineTask
from ._call import QueuedMessage
from ._exchange import Reply, end_message, make_reply, note_failure, settle
from ._exchanges import Arrival, BatchReply, Exchanges, Ready
from ._notifications import Notifications
from ._send_queue import Link, Writer
from ._sender import MAX_BATCH, Sender

_log: Final = Log("trio_mcp.peer")

MAX_AT_ONCE: Final = 100
"""After how many messages that need no handler other tasks get a pass. One read may bring thirty thousand."""

BYTES_AT_ONCE: Final = 64 * KIB
"""After how many bytes of them: each may be a batch of twenty thousand."""

PARTS_AT_ONCE: Final = 8
"""After how many parts of a batch other tasks get a pass. There may be a thousand, each of them a request."""


@final
@attrs.define(eq=False)
class _Decoded:
    """A part of a batch."""

    value: Any
    arrival: Arrival


@final
@attrs.define(eq=False)
class _EndOfBatch:
    batch: BatchReply


_NO_ARRIVAL: Final = Arrival(None, None, None, 0.0)
"""That of an answer, which nobody looks at unless it is invalid."""


# How long a message lasts.
#
# Kept true: the origin of a message that was received is held (`hold_message`) by everything that goes on with
# it, and by nothing else, whatever refers to it: the receiver, until it was taken; a request, until it has an
# answer or will have none (`Exchanges`); a batch, until all its requests have (`BatchReply`); a notification,
# until it was handled or dropped (`Notifications`); and what answers or complains, until that is on the wire or
# withdrawn (`QueuedMessage.ends`). What comes next holds it before what was before lets it go, so it is done with
# once. When the connection ends, nothing is let go.


@final
@attrs.define(eq=False)
class Receiver:
    """Takes the messages of one connection."""

    _link: Link
    _sender: Sender
    _notifications: Notifications
    _exchanges: Exchanges
    # `None` while the connection rests, as an empty deque is large.
    _received: deque[Received | _Decoded | _EndOfBatch] | None = attrs.field(default=None, init=False)
    _harmless_bytes: int = attrs.field(init=False)
    _received_at: float = attrs.field(default=0.0, init=False)
    # Until notifications before the next message begin.
    _is_held_up: bool = attrs.field(default=False, init=False)
    _gives_way: bool = attrs.field(default=False, init=False)  # for one pass of the event loop
    _parts_taken: int = attrs.field(default=0, init=False)
    unusable: str | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._link.channel.call_on_answers(self._take_answers)
        limits = self._link.limits
        self._harmless_bytes = min(harmless_size(limits.max_decoded_bytes), limits.max_message_bytes)

    async def receive(self) -> None:
        """Wait for messages. Cancelled, it has lost none.

        Raises:
            Others: As `Channel.receive`.
        """
        received = await self._link.channel.receive()
        self._received_at = trio.current_time()
        self._received = deque() if self._received is None else self._received
        self._received.extend(received)

    def _take_answers(self, messages: Sequence[Received]) -> int:
        """Take the first messages, as far as they are answers, in the task that brings them.

        Another one waits in `receive`: nothing that came before is left to take, and an answer waits for nothing
        (`_must_follow`). Returns how many were taken.
        """
        if self._received or self._link.frames is not None:
            return 0
        taken = 0
        for message in messages:
            if not isinstance(message, Incoming) or message.failure is not None or not self._sender.calls:
                break
            value = message.value
            try:
                if message.value is ABSENT and len(message.data) <= self._harmless_bytes:
                    value = _json.decode(message.data)
            except (ValueError, RecursionError):
                break
            if value.__class__ is not dict or "id" not in value or "method" in value:
                message.value = value  # it need not be decoded again
                break
            self._take_decoded(value, _NO_ARRIVAL, None)
            end_message(message.origin)
            taken += 1
        return taken

    def may_rest(self) -> bool:
        """Return whether nothing is left to take, and no task need wait in `receive`; see `Channel.may_rest`."""
        if self._received or not self._link.channel.may_rest():
            return False
        self._received = None
        return True

    @property
    def must_wait(self) -> bool:
        """Whether `wait` is to be called before anything more is taken."""
        exchanges = self._exchanges
        is_overfull = self._sender.queue.is_overfull or (exchanges.table.is_overfull and exchanges.must_wait)
        return self._is_held_up or self._gives_way or is_overfull

    async def wait(self) -> None:
        """Wait until more may be taken. Does not checkpoint if it may."""
        if self._gives_way:
            self._gives_way = False
            await trio.lowlevel.checkpoint()
        if self._is_held_up:
            await self._notifications.wait_begun()
            await self._notifications.wait_room()
            self._is_held_up = False
        if self._exchanges.must_wait:
            await self._exchanges.wait_room()
        if self._sender.queue.is_overfull:
            await self._sender.queue.wait_urgent_room()

    def next_request(self, scope: trio.CancelScope | None) -> Ready | None:
        """Take messages until one is a request with a handler.

        Args:
            scope: The scope in which the caller will serve it, if it has one.

        Returns:
            The request; `None` if there is no message left, or `must_wait` says so.
        """
        received, queue = self._received, self._sender.queue
        taken = size = 0
        while received and not (self._is_held_up or queue.is_overfull):
            if taken == MAX_AT_ONCE or size > BYTES_AT_ONCE:
                self._gives_way = True
                return None
            taken += 1
            message = received.popleft()
            ready: Ready | None = None
            if isinstance(message, Incoming):
                size += len(message.data)
                ready = self._take(message, scope)
                if message.origin is not None and not self._is_held_up:
                    end_message(message.origin)
            elif isinstance(message, _Decoded):
                if self._parts_taken == PARTS_AT_ONCE:
                    self._parts_taken = 0
                    self._gives_way = True
                    received.appendleft(message)
                    return None
                if _json.is_object(message.value) and self._must_follow(message.value):
                    self._is_held_up = True
                    received.appendleft(message)
                else:
                    self._parts_taken += 1
                    ready = self._take_decoded(message.value, message.arrival, scope)
            elif isinstance(message, TooLarge):
                self._take_too_large(message)
                end_message(message.origin)
            elif isinstance(message, OriginGone):
                self._exchanges.cancel_from(message.origin)
            else:
                self._parts_taken = 0
                message.batch.close()
            if ready is not None:
                return ready
        return None

    def _take(self, message: Incoming, scope: trio.CancelScope | None) -> Ready | None:
        frames = self._link.frames
        if len(message.data) > self._harmless_bytes and (problem := self._excess_of(message)) is not None:
            if frames is not None:
                frames.report("received", message.data)
            head, tail = message.data[:FRAGMENT_BYTES], message.data[-FRAGMENT_BYTES:]
            self._take_excess(head, tail, problem, message.origin)
            return None
        try:
            value = _json.decode(message.data) if message.value is ABSENT else message.value
        except (ValueError, RecursionError) as error:
            if frames is not None:
                frames.report("received", message.data)
            self._take_unreadable(message, error)
            return None
        if value.__class__ is dict and self._must_follow(value):
            self._is_held_up = True
            assert self._received is not None, "the message was taken from there"
            self._received.appendleft(message)
            return None
        if frames is not None and message.was_on_wire:
            frames.report("received", message.data)
        if message.failure is not None:
            self._take_failure(value, message, message.failure)
        elif value.__class__ is list:
            self._take_batch(value, message.origin)
        else:
            arrival = Arrival(message.origin, message.data, None, self._received_at)
            return self._take_decoded(value, arrival, scope)
        return None

    def _excess_of(self, message: Incoming) -> str | None:
        """Return what is too much in a message that no transport has weighed; `None` if nothing is."""
        limits = self._link.limits
        if message.value is ABSENT and len(message.data) > limits.max_message_bytes:
            return _explain_size(len(message.data), limits)
        if message.value is ABSENT and is_costlier(message.data, limits.max_decoded_bytes):
            return explain_cost(len(message.data), limits.max_decoded_bytes)
        return None

    def _take_too_large(self, received: TooLarge) -> None:
        refusal = received.refusal
        problem = _explain_size(received.size, self._link.limits) if refusal is None else refusal.message
        self._take_excess(received.head, received.tail, problem, received.origin, refusal)

    def _take_excess(
        self, head: bytes, tail: bytes, problem: str, origin: Origin | None, refusal: RequestError | None = None
    ) -> None:
        """Take a message that exceeds a limit: only its ends are examined."""
        id = id_of_fragment(head, tail)
        if not is_response_fragment(head, tail):
            self._complain(id, refusal or invalid_request(problem), origin)
        elif not self._sender.refuse(id, f"the answer was {problem}", whole=is_batch_fragment(head)):
            _log.warning("%s sent %s, and it is lost", self._link.channel.description, problem)

    def _take_unreadable(self, message: Incoming, error: Exception) -> None:
        """Take a message that cannot be decoded. If it looks like an answer, there will be no other."""
        id = answered_id_of_fragment(message.data)
        problem, is_batch = f"the answer cannot be read: {error}", is_batch_fragment(message.data)
        if not self._sender.refuse(id, problem, whole=is_batch):
            self._complain(None, RequestError(PARSE_ERROR, f"parse error: {error}"), message.origin, message.data)

    def _take_batch(self, messages: list[Any], origin: Origin | None) -> None:
        """Take a batch apart; its messages are the next to be taken."""
        has_batches = self._link.dispatcher.accepts_batches
        if not has_batches or not 0 < len(messages) <= MAX_BATCH:
            problem = "a batch, and the revision in use has none"
            if has_batches:
                problem = f"a batch of {len(messages)} messages; it holds 1 to {MAX_BATCH}"
            if self._sender.awaits_answers:
                for message in messages:
                    self._sender.refuse(answered_id(message), f"the answer came in {problem}")
            if not messages or any(answered_id(message) is None for message in messages):
                self._complain(None, invalid_request(problem), origin)
            else:
                _log.warning("%s sent answers in %s", self._link.channel.description, problem)
            return
        assert self._received is not None, "the batch was taken from there"
        batch = self._exchanges.new_batch(origin)
        self._received.appendleft(_EndOfBatch(batch))
        self._received.extendleft(
            _Decoded(value, Arrival(origin, None, batch, self._received_at)) for value in reversed(messages)
        )

    def _take_decoded(self, value: Any, arrival: Arrival, scope: trio.CancelScope | None) -> Ready | None:
        try:
            message = parse_message(value)
        except InvalidMessage as error:
            self._take_invalid(error, value, arrival)
            return None
        if isinstance(message, Request):
            return self._exchanges.receive(message, arrival, scope)
        if isinstance(message, Notification):
            self._take_notification(message, arrival)
        elif not self._sender.settle(message):
            self._take_stray(message)
        return None

    def _must_follow(self, value: dict[str, Any]) -> bool:
        """Whether a message must wait: a request for room or for notifications, a notification for others.

        Nothing else waits for the room that requests take, for it may cancel one that has it.
        """
        if "id" in value:
            exchanges, notifications = self._exchanges, self._notifications
            is_overfull = exchanges.table.is_overfull and exchanges.must_wait
            return "method" in value and (notifications.has_called or notifications.has_unbegun or is_overfull)
        method = value.get("method")
        return method != "notifications/cancelled" and self._notifications.must_wait(method, value.get("params"))

    def _take_failure(self, value: Any, message: Incoming, failure: Exception) -> None:
        """The transport reports that a request has failed: pass the error to its caller."""
        id = read_id(value.get("id")) if _json.is_object(value) else None
        if id is not None:
            if not self._sender.fail(id, failure):
                _log.debug("no call waits for what has failed, id %r: %s", id, failure)
            elif message.cancellation is not None:
                self._sender.send_cancellation(id, message.cancellation, message.origin)
        elif self._link.hooks.on_failure is not None and isinstance(failure, McpError):
            self._link.hooks.on_failure(failure)
        else:
            _log.warning("%s: %s", self._link.channel.description, failure)

    def _take_invalid(self, error: InvalidMessage, value: Any, arrival: Arrival) -> None:
        if self._sender.refuse(answered_id(value), f"invalid response: {error.reason}"):
            return
        if not error.answerable:
            _log.warning("ignored an invalid response from %s: %s", self._link.channel.description, error.reason)
        elif arrival.batch is not None and self._answers_invalid(error.id):
            arrival.batch.expect()
            arrival.batch.add(encode_error(error.id, invalid_request(error.reason)), None)
        else:
            self._complain(error.id, invalid_request(error.reason), arrival.origin, arrival.data)

    def _take_notification(self, notification: Notification, arrival: Arrival) -> None:
        if notification.method == "notifications/cancelled" and self._exchanges.cancel(notification.params or {}):
            return
        on_read = self._link.hooks.on_notification_read
        if on_read is not None and notification.method != "notifications/progress":
            on_read(notification)
        self._notifications.offer(notification, arrival.origin, arrival.data)

    def _take_stray(self, response: Response | ErrorResponse) -> None:
        """An answer that no call waits for: late, repeated, or to a request that was never made."""
        if self._link.hooks.on_stray is not None and isinstance(response, Response):
            self._link.hooks.on_stray(response.result)
        if not isinstance(response, ErrorResponse) or response.id is not None:
            _log.debug("ignored an answer that no call waits for, id %r", response.id)
        elif not self._sender.fail_unreadable(response.error):
            _log.warning(
                "%s could not read a message of ours: %s", self._link.channel.description, response.error
            )

    def _answers_invalid(self, id: RequestId | None) -> bool:
        """Whether an error may be sent for an invalid message, and the id of its request if that is known."""
        dispatcher = self._link.dispatcher
        return dispatcher.answers_unreadable or (id is not None and dispatcher.answers_malformed)

    def _complain(
        self, id: RequestId | None, error: RequestError, origin: Origin | None, data: bytes | None = None
    ) -> None:
        """Log an unusable message, with the beginning of `data`; reply with an error if this side does that."""
        channel = self._link.channel
        if data is None or self._link.dispatcher.answers_unreadable:
            _log.warning("%s sent what cannot be used: %s", channel.description, error.message)
        else:
            explanation = channel.explain_unusable(data, error.message)
            _log.warning("%s", explanation)
            self.unusable = self.unusable or explanation
        audit("message", error.message, code=error.code, transport=channel.transport, client=client_of(origin))
        if self._answers_invalid(id):
            self._sender.queue.put(QueuedMessage.complaint(encode_error(id, error), origin))


def _explain_size(size: int, limits: Limits) -> str:
    return f"a message of {size} bytes; max_message_bytes is {limits.max_message_bytes}"


# The serve loop: how requests are read and served.
#
# The obvious way is one task that reads, and a task for each request. That costs each request a task, a pass of
# the event loop to start it and another one to write its answer, although most handlers never wait. So here the
# task that reads serves the requests itself, one after another, and writes all their answers at once before it
# waits again: a stdio server takes one pass for each read, whatever is in it (docs/benchmarks.md). A call in
# memory is 410 000 instructions; one whose handler waits once, and so needs a second task, is 480 000.
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
#   * Code of this module that runs after a handler has waited uses `Link.call_outside`: the variables of the
#     task are still the handler's until the task has waited once more (see `InlineTask.go_on`).
#   * `has_waited` makes such a task wait before it does anything else, for the same reason.
#
# Cancelled from outside, these tasks end like the handlers they run; then a shielded task goes on reading.

MAX_IDLE: Final = 8
"""How many idle tasks are kept for later: waking one costs less than starting one."""

SERVED_AT_ONCE: Final = 64
"""After how many requests that were served without waiting other tasks get a pass of the event loop."""

_NO_MORE: Final = (trio.EndOfChannel, ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError)
"""What `Channel.receive` raises when no message will come any more."""


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

    _link: Link
    _writer: Writer
    _receiver: Receiver
    _exchanges: Exchanges
    _is_led: bool = attrs.field(default=False, init=False)
    _is_starting: bool = attrs.field(default=False, init=False)  # whether a task is to lead that has not run yet
    _has_ended: bool = attrs.field(default=False, init=False)
    _reading: trio.CancelScope | None = attrs.field(default=None, init=False)  # of the leader, while it waits
    _idle: list[trio.lowlevel.Task] = attrs.field(factory=list[trio.lowlevel.Task], init=False)
    _served: int = attrs.field(default=0, init=False)  # since the leader waited last

    def start(self) -> None:
        """Read, if no task does. Never waits."""
        if self._has_ended:
            self._link.start_shielded(self._read_shielded, "reading from")
        elif not self._is_led:
            self._start_task()  # once, also for many messages in one pass of the event loop

    def _start_task(self) -> None:
        if not self._is_starting:
            self._link.start(self._run)
            self._is_starting = True

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
        self._is_starting = False
        task = trio.lowlevel.current_task()
        goes_on = True
        while goes_on and not self._has_ended:
            block = _Block()
            try:
                with block.contained:
                    goes_on = await self._run_in_block(block, task)
            except BaseException:
                if block.serving is not None:
                    self._link.call_outside(self._exchanges.leave, block.serving)
                raise
            ready = block.serving
            if block.failure is not None:
                if ready is None:
                    raise block.failure
                block.reply = note_failure(ready.exchange, block.failure)
                goes_on = False
            if ready is not None:
                if ready.exchange.scope.cancel_called:
                    await self._exchanges.finish_with(
                        ready, settle(ready.exchange, block.reply, self._link.limits)
                    )
                else:
                    assert block.reply is not None, "its handler was not cancelled"
                    self._link.call_outside(self._exchanges.finish, ready, block.reply)
                await trio.lowlevel.cancel_shielded_checkpoint()  # from here on with its own variables
                block.serving = block.reply = block.failure = None  # the block is a cycle
                del ready

    async def _run_in_block(self, block: _Block, task: trio.lowlevel.Task) -> bool:
        """Read and serve until nothing is left to do or the block is spoilt. Returns whether to enter another."""
        contained = block.contained
        scope = contained.scope
        limits, variables, wait_room = self._link.limits, self._link.variables, self._writer.queue.wait_room
        has_waited = False
        while await self._lead(has_waited=has_waited):
            while True:
                ready = self._next(scope)
                if ready is None:
                    if not await self._wait(scope):
                        return False
                    continue
                exchange = ready.exchange
                handler = InlineTask(make_reply(exchange, ready.handler, limits, wait_room), variables.copy())
                try:
                    is_done = handler.begin(task)
                except BaseException:
                    block.serving = ready
                    self._hand_over()
                    raise
                if is_done and contained.is_clean and (exchange.deadline == math.inf or not exchange.is_overdue):
                    self._exchanges.finish(ready, handler.result)
                    del ready, exchange, handler  # an idle connection keeps nothing of its last request
                    continue
                block.serving, block.reply = ready, None
                self._hand_over()
                block.reply = handler.result if is_done else await handler.go_on(task)
                if scope.cancel_called or not contained.is_clean:
                    return True
                block.serving = None
                self._link.call_outside(self._exchanges.finish, ready, block.reply)
                block.reply = None
                del ready, exchange, handler
                has_waited = True
                break
        return False

    async def _lead(self, *, has_waited: bool) -> bool:
        """Wait until no other task leads, and lead. Returns whether there is anything left to do for this task.

        Args:
            has_waited: Whether it has just served a handler that waited. Then another task leads, or is about to,
                and this one waits in any case, so that it has its own variables again before it does anything.
        """
        while (has_waited or self._is_led) and not self._has_ended:
            has_waited = False
            if self._link.rests or len(self._idle) == MAX_IDLE:
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
        if self._link.rests:
            self._writer.flush()  # such a channel takes everything at once
            if not self._receiver.must_wait and self._receiver.may_rest():
                self._served = 0
                return
        else:
            self._writer.queue.release()
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            self._start_task()

    def _next(self, scope: trio.CancelScope) -> Ready | None:
        """Return the next request that was received, unless other tasks must run first. For the leader alone."""
        if self._served == SERVED_AT_ONCE:
            return None
        self._served += 1
        self._writer.queue.is_held = True
        return self._receiver.next_request(scope)

    async def _wait(self, scope: trio.CancelScope) -> bool:
        """Write what is queued and wait for messages. Returns whether any will come. For the leader alone."""
        self._writer.flush()
        if self._has_ended:  # by a message that was taken just now: nothing would cancel the wait
            return False
        self._reading = scope
        try:
            if self._served == SERVED_AT_ONCE:
                await trio.lowlevel.checkpoint()
            elif self._receiver.must_wait:
                await self._receiver.wait()
            elif self._link.rests and self._receiver.may_rest():
                self._is_led = False
                return False
            else:
                await self._receiver.receive()
        except trio.Cancelled:
            if not self._has_ended:
                self._has_ended = True
                self._link.start_shielded(self._read_shielded, "reading from")
            raise
        except _NO_MORE as error:
            self.end()
            self._link.on_end(error)
            return False
        finally:
            self._reading = None
            self._served = 0
        return True

    async def _read_shielded(self) -> None:
        """Be the task that reads once the others were cancelled from outside, and has others serve."""
        try:
            while True:
                ready = self._receiver.next_request(None)
                if ready is not None:
                    self._exchanges.start(ready)
                elif self._receiver.must_wait:
                    await self._receiver.wait()
                elif self._receiver.may_rest():
                    return
                else:
                    await self._receiver.receive()
        except _NO_MORE as error:
            self._link.on_end(error)
