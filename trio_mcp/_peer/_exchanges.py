"""The requests of the other side: which are served, put off or refused, and what answers each.

For every request, wherever it came from: failures are masked, a granted time that is over cancels the handler,
and a caller that does not give up after all is answered. Which task runs a handler is the serve loop's business.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, final
from weakref import ref

import attrs
import trio

from .._channel import Origin, Outgoing
from .._codec import _json
from .._codec._json import close_weight_of, most_weight
from .._codec._jsonrpc import (
    Request,
    RequestId,
    encode_batch,
    encode_error,
    encode_request,
    invalid_request,
    parse_message,
    read_id,
)
from .._errors import INTERNAL_ERROR, SERVER_BUSY, RequestError
from .._logs import Log
from .._trio import LightParkingLot
from ._call import QueuedMessage
from ._exchange import (
    Admission,
    Exchange,
    Handler,
    InboundTable,
    LongLived,
    Reply,
    Several,
    end_message,
    hold_message,
    refused,
    reply_at_once,
    reply_to,
)
from ._send_queue import Link, SendQueue, Writer
from ._sender import Sender

_log: Final = Log("trio_mcp.peer")


@final
@attrs.define(eq=False)
class BatchReply:
    """Gathers the answers to one batch until they go back as one (2025-03-26, basic, "Batching").

    It counts itself as a missing answer until `close`, while the batch is taken apart. When nothing is missing
    any more, one array of the answers is sent, or nothing if there are none: JSON-RPC 2.0, section 6. An answer
    whose request is given up before the array is written is left out of it, and what was sent for that request
    before is withdrawn.

    Args:
        queue: Takes the array.
        origin: Where the batch came from.
        max_bytes: How much the answers may be together. Those that come when it is used up become errors.
        gathering: Finds the batches that have an answer and are not complete, by the id of its request.
    """

    _queue: SendQueue
    _origin: Origin | None
    _max_bytes: int
    _gathering: Several[RequestId, BatchReply]
    _bytes: int = attrs.field(default=0, init=False)
    _missing: int = attrs.field(default=1, init=False)
    # Several for one id, if a request was refused because its id was taken.
    _answers: dict[RequestId | None, list[bytes | memoryview]] = attrs.field(
        factory=dict[RequestId | None, list[bytes | memoryview]], init=False
    )
    # A request of which nothing is queued is not kept for the others.
    _served: dict[RequestId, ref[Exchange]] = attrs.field(factory=dict[RequestId, ref[Exchange]], init=False)

    def expect(self) -> None:
        """Wait for one more answer."""
        self._missing += 1

    def add(self, answer: bytes, id: RequestId | None, exchange: Exchange | None = None) -> None:
        """Take one answer that was expected, and the id of its request if that can be given up."""
        if exchange is not None and id is not None:
            self._served[id] = ref(exchange)
        if id is not None:
            if self._bytes + len(answer) > self._max_bytes:
                problem = f"the answers to the batch exceed {self._max_bytes} bytes (max_message_bytes)"
                answer = encode_error(id, RequestError(INTERNAL_ERROR, problem))
            self._gathering.add(id, self)
        self._bytes += len(answer)
        self._answers.setdefault(id, []).append(answer)
        self.skip()

    def skip(self) -> None:
        """Stop waiting for one answer: its request was given up."""
        self._missing -= 1
        if self._missing:
            return
        for id in self._answers:
            if id is not None:
                self._gathering.remove(id, self)
        if self._answers:
            self._queue.put(QueuedMessage(self._encode(), ends=self._origin, without=self.leave_out))
        else:
            end_message(self._origin)

    close = skip

    def leave_out(self, id: RequestId) -> Callable[[], Outgoing] | None:
        """Leave out the answer to a request that is given up. Returns what encodes the others, if any."""
        served = self._served.pop(id, None)
        if served is not None and (exchange := served()) is not None:
            self._queue.withdraw_all_of(exchange)
        self._bytes -= sum(map(len, self._answers.pop(id, ())))
        return self._encode if self._answers else None

    def _encode(self) -> Outgoing:
        data = encode_batch([answer for answers in self._answers.values() for answer in answers])
        # From now on each answer is kept as a part of this, so that none is kept twice.
        array, begin = memoryview(data), len(b"[")
        for answers in self._answers.values():
            for number, answer in enumerate(answers):
                end = begin + len(answer)
                answers[number] = array[begin:end]
                begin = end + len(b",")
        ids = tuple(id for id in self._answers if id is not None)
        return Outgoing(data, answers=ids, origin=self._origin)


@final
@attrs.define
class Arrival:
    """How a request was received.

    Attributes:
        origin: Where from, as far as the transport knows.
        data: Its bytes; `None` for one that came in a batch.
        batch: The batch it came in; `None` for one that came alone.
        received_at: When, on Trio's clock.
        cancel_parked: See `Exchange.cancel_parked`; for a request that waits and may never be served.
    """

    origin: Origin | None
    data: bytes | None
    batch: BatchReply | None
    received_at: float
    cancel_parked: Callable[[str], object] | None = None


@final
@attrs.define(eq=False)
class Ready:
    """A request that is to be served now.

    Attributes:
        exchange: The request, entered among those that are being served.
        handler: Serves it.
        arrival: How it came.
    """

    exchange: Exchange
    handler: Handler
    arrival: Arrival


@final
@attrs.define(eq=False)
class Exchanges:
    """The requests of the other side: refused, answered at once, returned to be served, or put off."""

    _link: Link
    _sender: Sender
    table: InboundTable[Exchange, Arrival]
    _writer: Writer = attrs.field(init=False)
    _changed: LightParkingLot = attrs.field(init=False)
    _gathering: Several[RequestId, BatchReply] = attrs.field(factory=Several[RequestId, BatchReply], init=False)
    _refusal: RequestError | None = attrs.field(default=None, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    _starts_waiting: bool = attrs.field(default=True, init=False)
    _lagging: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._writer = self._sender.writer
        self._changed = self._sender.calls.changed

    @property
    def must_wait(self) -> bool:
        """Whether reading should pause with `wait_room`: too much waits, and no request of this side is open."""
        return self.table.is_overfull and not self._lagging and not self._sender.calls

    async def wait_room(self) -> None:
        """Wait until there is room, or until waiting for it has become unreasonable.

        The messages behind may be the cancellations of those that take the places. So reading goes on after a
        while, and until at most half of the room is taken it does not pause again: requests that find no room are
        refused.
        """
        with trio.move_on_after(self._link.limits.slow_consumer_timeout):
            while self.must_wait:
                await self._changed.park()
            return
        if not self.must_wait:  # room came in the turn in which the time ran out
            return
        self._lagging = True
        _log.warning(
            "%d requests wait while %d are being served, and weigh more than %d bytes (max_waiting_bytes); "
            "further ones are refused",
            self.table.waiting,
            self.table.running,
            self._link.limits.max_waiting_bytes,
        )

    def new_batch(self, origin: Origin | None) -> BatchReply:
        """Return what gathers the answers to a batch."""
        hold_message(origin)
        return BatchReply(self._writer.queue, origin, self._link.limits.max_message_bytes, self._gathering)

    def receive(self, request: Request, arrival: Arrival, scope: trio.CancelScope | None) -> Ready | None:
        """Take a request. Never waits.

        Args:
            request: The request.
            arrival: How it came.
            scope: The scope that the caller will serve it in, if it has one.

        Returns:
            What the caller is to serve, or to `start`, before it takes anything else; `None` if there is nothing
            left to be done.
        """
        if self._is_over:
            return None
        if arrival.batch is not None:
            arrival.batch.expect()
        elif arrival.origin is not None:
            hold_message(arrival.origin)  # until `_send` or `_leave_unanswered`
        admission = self.table.admit(request.id)
        if admission is Admission.DUPLICATE:
            self._refuse(request, invalid_request("id is that of a request still in flight"), arrival)
        elif self._refusal is not None:
            self._refuse(request, self._refusal, arrival)
        else:
            return self._take(request, arrival, scope, has_room=admission is Admission.RUN)
        return None

    def _refuse(self, request: Request, error: BaseException, arrival: Arrival) -> None:
        sender = self._sender
        self._answer(request, refused(request, arrival.origin, error, sender, sender.transport), arrival)

    def _answer(self, request: Request, reply: Reply | None, arrival: Arrival) -> None:
        """Answer a request without an exchange; not at all, if there is no reply."""
        if reply is not None:
            self._note(request, arrival, reply)
            self._send(request.id, reply.data, arrival)
        else:
            self._leave_unanswered(arrival)

    def _note(self, request: Request | None, arrival: Arrival, reply: Reply | None) -> None:
        """A request is over: tell whoever wants to know it. One that has waited is decoded for that."""
        if self._link.hooks.on_served is not None:
            if request is None:
                assert arrival.data is not None, "it has waited"
                decoded = parse_message(_json.decode(arrival.data))
                assert isinstance(decoded, Request)
                request = decoded
            self._link.hooks.on_served(request, arrival.origin, arrival.received_at, reply)

    def _take(
        self, request: Request, arrival: Arrival, scope: trio.CancelScope | None, *, has_room: bool
    ) -> Ready | None:
        """Ask the dispatcher what to do with a request, and do it. Returns it if it is to be served now."""
        try:
            decision = self._link.dispatcher.route(request, arrival.origin)
            if callable(decision):
                if has_room:
                    return self._enter(request, decision, arrival, scope)
                self._put_off(request, arrival)
            elif isinstance(decision, LongLived):
                self._start_long_lived(request, decision, arrival)
            else:
                self._answer(request, reply_at_once(request, decision), arrival)
        except BaseException as error:  # of which `refused` makes an answer  # noqa: ASYNC103
            self._refuse(request, error, arrival)
        return None

    def _enter(
        self, request: Request, handler: Handler, arrival: Arrival, scope: trio.CancelScope | None
    ) -> Ready | None:
        lent = scope
        if scope is None:
            scope = trio.CancelScope()
        exchange = Exchange(request, arrival.origin, arrival.received_at, self._sender, scope)
        exchange.cancel_parked = arrival.cancel_parked
        begun = exchange.begin(handler, self._link.dispatcher)
        data = arrival.data
        if data is None:
            # Each part of a batch may be what is heavy in it, and outlive the others.
            data = encode_request(request.id, request.method, request.params)
        self.table.run(request.id, exchange, most_weight(len(data)), arrival.origin, data=data)
        if begun is handler:
            return Ready(exchange, handler, arrival)
        if lent is not None:
            lent.deadline = math.inf
            exchange.scope = trio.CancelScope(deadline=exchange.deadline)
        self.start(Ready(exchange, begun, arrival))
        return None

    def start(self, ready: Ready) -> None:
        """Serve a request in a new task. Never waits."""
        self._link.start(self._run, ready)

    def _start_long_lived(self, request: Request, served: LongLived, arrival: Arrival) -> None:
        if arrival.batch is not None:
            # Its answer would keep those of all the others.
            raise invalid_request(f"{request.method} cannot come in a batch")
        assert arrival.data is not None, "it has not come in a batch"
        size = close_weight_of(arrival.data)
        if not self.table.has_room_for_long_lived(served.places, size):
            limits = self._link.limits
            raise RequestError(
                SERVER_BUSY,
                "too much is subscribed to over this connection: max_subscriptions is "
                f"{limits.max_subscriptions}, half of max_message_bytes is {limits.max_subscription_bytes}",
            )
        exchange = Exchange(request, arrival.origin, arrival.received_at, self._sender, on_drain=served.on_drain)
        handler = exchange.begin(served.handler, self._link.dispatcher)
        self.table.run_long_lived(request.id, exchange, served.places, size, arrival.origin)
        self.start(Ready(exchange, handler, arrival))

    def _put_off(self, request: Request, arrival: Arrival) -> None:
        """Keep a request until there is room, as bytes: decoded it would weigh ten times as much."""
        if self.table.is_overfull:
            # Reading goes on: answers that the requests being served wait for, or their cancellations, may
            # follow.
            raise RequestError(
                SERVER_BUSY,
                f"{self.table.running} requests are being served (max_inbound_requests) and those that wait "
                f"exceed {self._link.limits.max_waiting_bytes} bytes (max_waiting_bytes)",
            )
        if arrival.data is None:
            arrival.data = encode_request(request.id, request.method, request.params)
        arrival.cancel_parked = self._link.dispatcher.parked_canceller(request, arrival.origin)
        size = len(arrival.data)
        if isinstance(request.id, str):
            size += 4 * len(request.id)  # the id is kept decoded
        self.table.wait(request.id, arrival, size, arrival.origin)

    def _start_waiting(self) -> None:
        """Start what has waited longest, as long as there is room."""
        while self._starts_waiting and (arrival := self.table.next_waiting()) is not None:
            assert arrival.data is not None
            request = parse_message(_json.decode(arrival.data))
            assert isinstance(request, Request)
            ready = self._take(request, arrival, None, has_room=True)
            if ready is not None:
                self.start(ready)
        self._room_has_changed()

    def _room_has_changed(self) -> None:
        if self._lagging and self.table.is_relieved:
            self._lagging = False
        self._changed.unpark_all()

    async def _run(self, ready: Ready) -> None:
        """Be the task that serves one request."""
        wait_room = self._writer.queue.wait_room
        await self.finish_with(ready, reply_to(ready.exchange, ready.handler, self._link.limits, wait_room))

    async def finish_with(self, ready: Ready, making: Awaitable[Reply | None]) -> None:
        """Wait for the reply to a request, and answer with it. A request that ends without one is left."""
        try:
            reply = await making
        except BaseException:
            self._link.call_outside(self.leave, ready)
            raise
        self._link.call_outside(self.finish, ready, reply)

    def finish(self, ready: Ready, reply: Reply | None) -> None:
        """Answer a request that was served; not at all, if there is no reply."""
        exchange = ready.exchange
        if exchange.deadline != math.inf:
            exchange.scope.deadline = math.inf  # it may be lent to the next request
        if reply is not None:
            self._send(exchange.request.id, reply.data, ready.arrival, exchange)
        else:
            self._leave_unanswered(ready.arrival)
        self.leave(ready, reply)

    def leave(self, ready: Ready, reply: Reply | None = None) -> None:
        """A request is no longer served; nothing is sent about it, except the reply that was sent."""
        exchange = ready.exchange
        if self._link.hooks.on_served is not None:
            self._note(exchange.request, ready.arrival, reply)
        exchange.silenced = True
        table = self.table
        table.finish(exchange.request.id)
        if table.waiting or self._changed.parked is not None:
            self._start_waiting()

    def _send(self, id: RequestId, answer: bytes, arrival: Arrival, exchange: Exchange | None = None) -> None:
        """Send an answer; one for which no exchange has waited for room is urgent."""
        if arrival.batch is not None:
            arrival.batch.add(answer, id, exchange)
        else:
            message = Outgoing(answer, answers=(id,), origin=arrival.origin)
            self._writer.put(QueuedMessage(message, (), exchange, None, exchange is None, arrival.origin))

    @staticmethod
    def _leave_unanswered(arrival: Arrival) -> None:
        if arrival.batch is not None:
            arrival.batch.skip()
        else:
            end_message(arrival.origin)

    def cancel(self, params: Mapping[str, Any]) -> bool:
        """The other side has cancelled a request. Returns whether it was one that is not answered yet.

        Spec: 2025-11-25, basic/utilities/cancellation, "Behavior Requirements".
        """
        id, reason = read_id(params.get("requestId")), params.get("reason")
        if id is None:
            return False
        exchange = self.table.get_running(id)
        if exchange is not None:
            _log.debug("%s was given up by its caller: %.200r", exchange.request.method, reason)
            self._cancel(
                exchange,
                f"the caller gave it up: {reason}" if isinstance(reason, str) else "the caller gave it up",
            )
            return True
        if (batches := self._gathering.pop(id, None)) is not None:
            for batch in batches:
                batch.leave_out(id)
            return True
        return self._cancel_waiting(id) or self._writer.withdraw_answer(id)

    def cancel_from(self, origin: Origin) -> None:
        """The origin is gone: cancel every request that came from it."""
        for id in self.table.all_from(origin):
            exchange = self.table.get_running(id)
            if exchange is not None:
                self._cancel(exchange, "nobody waits for its answer any more")
            else:
                self._cancel_waiting(id)

    def _cancel(self, exchange: Exchange, reason: str) -> None:
        exchange.give_up(reason)
        self._writer.queue.withdraw_all_of(exchange)

    def _cancel_waiting(self, id: RequestId) -> bool:
        waiting = self.table.cancel_waiting(id)
        if waiting is None:
            return False
        self._note(None, waiting, None)
        self._leave_unanswered(waiting)
        if waiting.cancel_parked is not None:
            waiting.cancel_parked("the caller gave it up")
        self._room_has_changed()
        return True

    def refuse_new(self, error: RequestError) -> None:
        """Refuse every request that is received from now on. Others are served; long-lived ones soon end."""
        self._refusal = error
        for exchange in self.table.all_running():
            if exchange.on_drain is not None:
                exchange.on_drain()

    async def wait_done(self) -> None:
        """Wait until nothing is being served and nothing waits. Does not checkpoint if that is so."""
        while self.table.running or self.table.long_lived or self.table.waiting:
            await self._changed.park()

    def stop(self, reason: str) -> None:
        """Cancel everything that is being served, and answer with an error."""
        self._drop_waiting(RequestError(SERVER_BUSY, "serving ended before the request was started"))
        for exchange in self.table.all_running():
            exchange.stop(reason)

    def give_up(self, reason: str) -> None:
        """Cancel everything that is being served, begin no more, and answer nothing: the connection is gone."""
        self._is_over = True
        self._drop_waiting(None)
        for exchange in self.table.all_running():
            exchange.give_up(reason)

    def _drop_waiting(self, error: RequestError | None) -> None:
        self._starts_waiting = False
        for id, arrival in self.table.forget_waiting():
            reply = None if error is None else Reply.of_error(id, error)
            self._note(None, arrival, reply)
            if reply is not None:
                self._send(id, reply.data, arrival)
            elif arrival.cancel_parked is not None:
                arrival.cancel_parked("the connection has ended")
        self._room_has_changed()
