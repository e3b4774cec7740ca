"""Takes the messages of one connection in wire order, and hands each to the part of the peer it is for.

    a response      ──> the call that waits for it
    a notification  ──> `cancelled`: the exchange's scope, at once
                    ──> the others: one queue, one task, in wire order
    a request       ──> refused or answered at once, put off until there is room, or returned to be served

Messages are taken without waiting. When reading must pause, `must_wait` says so. Runs no handlers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .._absent import ABSENT
from .._channel import Channel, Incoming, Origin, OriginGone, Outgoing, Received, TooLarge
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
    is_response_fragment,
    parse_message,
    read_id,
)
from .._errors import PARSE_ERROR, TRANSPORT_FAILED, McpError, RequestError
from .._limits import Limits
from .._logs import Log
from ._call import QueuedMessage
from ._exchange import Dispatcher
from ._exchanges import Arrival, BatchReply, Exchanges, Ready
from ._notifications import Notifications
from ._send_queue import FrameHook, SendQueue
from ._sender import Sender

_log: Final = Log("trio_mcp.peer")

MAX_AT_ONCE: Final = 100
"""After how many messages that need no handler other tasks get a pass. One read may bring half a million."""

PARTS_AT_ONCE: Final = 8
"""After how many parts of a batch other tasks get a pass. There may be a thousand, each of them a request."""

OnNotificationRead: TypeAlias = Callable[[Notification], object]
"""Called with each notification but progress while it is being read, before any later message is looked at."""

OnFailure: TypeAlias = Callable[[McpError], object]
"""Called with failures that the transport reports and that concern no single request."""


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


@final
@attrs.define(eq=False)
class Receiver:
    """Takes the messages of one connection."""

    _channel: Channel
    _dispatcher: Dispatcher
    _sender: Sender
    _notifications: Notifications
    _exchanges: Exchanges
    _limits: Limits
    _frames: FrameHook | None  # called with the bytes of each message
    _on_notification_read: OnNotificationRead | None
    _on_failure: OnFailure | None
    _queue: SendQueue = attrs.field(init=False)
    _received: deque[Received | _Decoded | _EndOfBatch] = attrs.field(
        factory=deque[Received | _Decoded | _EndOfBatch], init=False
    )
    _harmless_bytes: int = attrs.field(init=False)
    _received_at: float = attrs.field(default=0.0, init=False)
    _is_held_up: bool = attrs.field(
        default=False, init=False
    )  # until notifications before the next message begin
    _gives_way: bool = attrs.field(default=False, init=False)  # for one pass of the event loop
    _parts_taken: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._queue = self._sender.queue
        self._harmless_bytes = harmless_size(self._limits.max_decoded_bytes)

    async def receive(self) -> None:
        """Wait for messages. Cancelled, it has lost none.

        Raises:
            Others: As `Channel.receive`.
        """
        received = await self._channel.receive()
        self._received_at = trio.current_time()
        self._received.extend(received)

    def may_rest(self) -> bool:
        """Return whether no task need wait in `receive`; see `Channel.may_rest`."""
        return self._channel.may_rest()

    @property
    def must_wait(self) -> bool:
        """Whether `wait` is to be called before anything more is taken."""
        return self._is_held_up or self._gives_way or self._queue.is_overfull or self._exchanges.must_wait

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
        if self._queue.is_overfull:
            await self._queue.wait_urgent_room()

    def next_request(self, scope: trio.CancelScope | None) -> Ready | None:
        """Take messages until one is a request with a handler.

        Args:
            scope: The scope in which the caller will serve it, if it has one.

        Returns:
            The request; `None` if there is no message left, or `must_wait` says so.
        """
        received, queue, exchanges = self._received, self._queue, self._exchanges
        taken = 0
        while received and not (self._is_held_up or queue.is_overfull or exchanges.must_wait):
            if taken == MAX_AT_ONCE:
                self._gives_way = True
                return None
            taken += 1
            message = received.popleft()
            ready: Ready | None = None
            if isinstance(message, Incoming):
                ready = self._take(message, scope)
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
            elif isinstance(message, OriginGone):
                self._exchanges.cancel_from(message.origin)
            else:
                self._parts_taken = 0
                message.batch.close()
            if ready is not None:
                return ready
        return None

    def _take(self, message: Incoming, scope: trio.CancelScope | None) -> Ready | None:
        if len(message.data) > self._harmless_bytes and self._is_too_costly(message):
            if self._frames is not None:
                self._frames.received(message.data)
            self._take_costly(message)
            return None
        try:
            value = _json.decode(message.data) if message.value is ABSENT else message.value
        except (ValueError, RecursionError) as error:
            if self._frames is not None:
                self._frames.received(message.data)
            self._take_unreadable(message, error)
            return None
        if _json.is_object(value) and self._must_follow(value):
            self._is_held_up = True
            self._received.appendleft(message)
            return None
        if self._frames is not None and _was_on_wire(message.failure):
            self._frames.received(message.data)
        if message.failure is not None:
            self._take_failure(value, message.failure)
        elif _json.is_array(value):
            self._take_batch(value, message.origin)
        else:
            return self._take_decoded(
                value, Arrival(message.origin, message.data, None, self._received_at), scope
            )
        return None

    def _is_too_costly(self, message: Incoming) -> bool:
        return message.value is ABSENT and is_costlier(message.data, self._limits.max_decoded_bytes)

    def _take_too_large(self, received: TooLarge) -> None:
        problem = f"a message of {received.size} bytes; max_message_bytes is {self._limits.max_message_bytes}"
        self._take_excess(received.head, received.tail, problem, received.origin)

    def _take_costly(self, message: Incoming) -> None:
        data = message.data
        problem = explain_cost(len(data), self._limits.max_decoded_bytes)
        self._take_excess(data[:FRAGMENT_BYTES], data[-FRAGMENT_BYTES:], problem, message.origin)

    def _take_excess(self, head: bytes, tail: bytes, problem: str, origin: Origin | None) -> None:
        """Take a message that exceeds a limit: only its ends are examined."""
        id = id_of_fragment(head, tail)
        if not is_response_fragment(head, tail):
            self._complain(id, invalid_request(problem), origin)
        elif not self._sender.refuse(id, f"the answer was {problem}", whole=_is_batch(head)):
            _log.warning("%s sent %s, and it is lost", self._channel.description, problem)

    def _take_unreadable(self, message: Incoming, error: Exception) -> None:
        """Take a message that cannot be decoded. If it looks like an answer, there will be no other."""
        id = answered_id_of_fragment(message.data)
        if not self._sender.refuse(id, f"the answer cannot be read: {error}", whole=_is_batch(message.data)):
            self._complain(None, RequestError(PARSE_ERROR, f"parse error: {error}"), message.origin)

    def _take_batch(self, messages: list[Any], origin: Origin | None) -> None:
        """Take a batch apart; its messages are the next to be taken."""
        most = self._limits.max_batch_messages
        if not self._dispatcher.accepts_batches or not 0 < len(messages) <= most:
            problem = "a batch, and the revision in use has none"
            if self._dispatcher.accepts_batches:
                problem = f"a batch of {len(messages)} messages; it holds 1 to {most} (max_batch_messages)"
            answered = [answered_id(message) for message in messages]
            for id in answered:
                self._sender.refuse(id, f"the answer came in {problem}")
            if not answered or None in answered:
                self._complain(None, invalid_request(problem), origin)
            else:
                _log.warning("%s sent answers in %s", self._channel.description, problem)
            return
        batch = BatchReply(
            lambda reply: self._queue.put(QueuedMessage(reply)), origin, self._limits.max_message_bytes
        )
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
        """Whether a message must wait for notifications before it: there are too many, or it is a request."""
        if "id" in value:
            return "method" in value and (self._notifications.has_called or self._notifications.has_unbegun)
        method = value.get("method")
        return method != "notifications/cancelled" and self._notifications.must_wait(method, value.get("params"))

    def _take_failure(self, value: Any, failure: McpError) -> None:
        """The transport reports that a request has failed: pass the error to its caller."""
        id = read_id(value.get("id")) if _json.is_object(value) else None
        if id is not None:
            if not self._sender.fail(id, failure):
                _log.debug("no call waits for what has failed, id %r: %s", id, failure)
        elif self._on_failure is not None:
            self._on_failure(failure)
        else:
            _log.warning("%s: %s", self._channel.description, failure)

    def _take_invalid(self, error: InvalidMessage, value: Any, arrival: Arrival) -> None:
        if self._sender.refuse(answered_id(value), f"invalid response: {error.reason}"):
            return
        if not error.answerable:
            _log.warning("ignored an invalid response from %s: %s", self._channel.description, error.reason)
        elif arrival.batch is not None and (
            self._dispatcher.answers_unreadable or (error.id is not None and self._dispatcher.answers_malformed)
        ):
            arrival.batch.expect()
            answer = encode_error(error.id, invalid_request(error.reason))
            arrival.batch.add(Outgoing(answer, origin=arrival.origin))
        else:
            self._complain(error.id, invalid_request(error.reason), arrival.origin)

    def _take_notification(self, notification: Notification, arrival: Arrival) -> None:
        if notification.method == "notifications/cancelled" and self._exchanges.cancel(notification.params or {}):
            return
        if self._on_notification_read is not None and notification.method != "notifications/progress":
            self._on_notification_read(notification)
        self._notifications.offer(notification, arrival.origin, arrival.data)

    def _take_stray(self, response: Response | ErrorResponse) -> None:
        """An answer that no call waits for: late, repeated, or to a request that was never made."""
        if isinstance(response, ErrorResponse) and response.id is None:
            if self._sender.fail_unreadable(response.error):
                return
            _log.warning("%s could not read a message of ours: %s", self._channel.description, response.error)
        else:
            _log.debug("ignored an answer that no call waits for, id %r", response.id)

    def _complain(self, id: RequestId | None, error: RequestError, origin: Origin | None) -> None:
        """Reply to an unusable message with an error, if this side does that."""
        _log.warning("%s sent what cannot be used: %s", self._channel.description, error.message)
        if self._dispatcher.answers_unreadable or (id is not None and self._dispatcher.answers_malformed):
            self._queue.put(QueuedMessage(Outgoing(encode_error(id, error), origin=origin), urgent=True))


def _is_batch(data: bytes) -> bool:
    """Whether a message that cannot be decoded is a batch."""
    return data[:64].lstrip().startswith(b"[")


def _was_on_wire(failure: McpError | None) -> bool:
    """Whether the other side has sent this, and not the transport in its place."""
    return failure is None or (isinstance(failure, RequestError) and failure.code != TRANSPORT_FAILED)
