"""What becomes of each message that comes over one connection, in wire order, and of nothing else.

    a response      ──> the call that waits for it
    a notification  ──> `cancelled`: the exchange's scope, at once
                    ──> the others: one queue, one task, in wire order
    a request       ──> refused or answered on the spot, put off until there is room, or handed to whoever reads

Messages are taken without waiting. When what they set off must not go on growing, `must_wait` says so.
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
from ._exchange import Dispatcher
from ._exchanges import Arrival, BatchReply, Exchanges, Ready
from ._notifications import Notices
from ._outbox import Outbox, OutboxEntry
from ._sending import Calls

_log: Final = Log("trio_mcp.peer")

MAX_AT_ONCE: Final = 100
"""After how many messages that nobody must serve others have their turn. A read may bring half a million."""

PARTS_AT_ONCE: Final = 8
"""After how many parts of a batch others have their turn. There may be a thousand, and each be a request."""

OnNotice: TypeAlias = Callable[[Notification], object]
"""Called with each notification but progress while it is being read, before any later message is looked at."""

OnFailure: TypeAlias = Callable[[McpError], object]
"""Called with what the transport says has failed, if it is no single request."""


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
class Intake:
    """Takes the messages of one connection.

    Args:
        channel: Where they come from.
        dispatcher: Knows about batches.
        outbox: Takes complaints.
        calls: What answers are for.
        notices: Takes notifications.
        exchanges: Takes requests.
        limits: How large a batch may be.
        show: Called with the bytes of each message.
        on_notice: Called with each notification but progress.
        on_failure: Called with failures that are no single request's.
    """

    def __init__(
        self,
        channel: Channel,
        dispatcher: Dispatcher,
        outbox: Outbox,
        calls: Calls,
        notices: Notices,
        exchanges: Exchanges,
        limits: Limits,
        *,
        show: Callable[[bytes], object] | None,
        on_notice: OnNotice | None,
        on_failure: OnFailure | None,
    ) -> None:
        self._channel = channel
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._calls = calls
        self._notices = notices
        self._exchanges = exchanges
        self._limits = limits
        self._show = show
        self._on_notice = on_notice
        self._on_failure = on_failure
        self._received: deque[Received | _Decoded | _EndOfBatch] = deque()
        self._harmless_bytes = harmless_size(limits.max_decoded_bytes)
        self._received_at = 0.0
        self._is_held_up = False
        self._gives_way = False
        self._parts_taken = 0

    async def receive(self) -> None:
        """Wait for messages. Cancelled, it has lost none.

        Raises:
            Others: As `Channel.receive`.
        """
        received = await self._channel.receive()
        self._received_at = trio.current_time()
        self._received.extend(received)

    def may_rest(self) -> bool:
        """Return whether nobody need wait in `receive`; see `Channel.may_rest`."""
        return self._channel.may_rest()

    @property
    def must_wait(self) -> bool:
        """Whether `wait` is to be called before anything more is taken."""
        return self._is_held_up or self._gives_way or self._outbox.is_overfull or self._exchanges.must_wait

    async def wait(self) -> None:
        """Wait until more may be taken. Does not checkpoint if it may."""
        if self._gives_way:
            self._gives_way = False
            await trio.lowlevel.checkpoint()
        if self._is_held_up:
            await self._notices.wait_begun()
            await self._notices.wait_room()
            self._is_held_up = False
        if self._exchanges.must_wait:
            await self._exchanges.wait_room()
        if self._outbox.is_overfull:
            await self._outbox.wait_urgent_room()

    def next_request(self, scope: trio.CancelScope | None) -> Ready | None:
        """Take messages until one is a request that somebody must serve.

        Args:
            scope: The scope that the caller would serve it in, if it has one.

        Returns:
            The request; `None` if there is no message left, or `must_wait` says so.
        """
        received, outbox, exchanges = self._received, self._outbox, self._exchanges
        taken = 0
        while received and not (self._is_held_up or outbox.is_overfull or exchanges.must_wait):
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
            if self._show is not None:
                self._show(message.data)
            self._take_costly(message)
            return None
        try:
            value = _json.decode(message.data) if message.value is ABSENT else message.value
        except (ValueError, RecursionError) as error:
            if self._show is not None:
                self._show(message.data)
            self._take_unreadable(message, error)
            return None
        if _json.is_object(value) and self._must_follow(value):
            self._is_held_up = True
            self._received.appendleft(message)
            return None
        if self._show is not None and _was_on_wire(message.failure):
            self._show(message.data)
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
        """Take what is more than it may be: only its ends are looked at."""
        id = id_of_fragment(head, tail)
        if not is_response_fragment(head, tail):
            self._complain(id, invalid_request(problem), origin)
        elif not self._calls.refuse(id, f"the answer was {problem}", whole=_is_batch(head)):
            _log.warning("%s sent %s, and it is lost", self._channel.description, problem)

    def _take_unreadable(self, message: Incoming, error: Exception) -> None:
        """Take what cannot be decoded: if an answer can be seen in it, there will be no other."""
        id = answered_id_of_fragment(message.data)
        if not self._calls.refuse(id, f"the answer cannot be read: {error}", whole=_is_batch(message.data)):
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
                self._calls.refuse(id, f"the answer came in {problem}")
            if not answered or None in answered:
                self._complain(None, invalid_request(problem), origin)
            else:
                _log.warning("%s sent answers in %s", self._channel.description, problem)
            return
        batch = BatchReply(
            lambda reply: self._outbox.put(OutboxEntry(reply)), origin, self._limits.max_message_bytes
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
        elif not self._calls.settle(message):
            self._take_stray(message)
        return None

    def _must_follow(self, value: dict[str, Any]) -> bool:
        """Whether notifications that came before a message keep it back: too many of them, or it is a request."""
        if "id" in value:
            return "method" in value and (self._notices.has_called or self._notices.has_unbegun)
        method = value.get("method")
        return method != "notifications/cancelled" and self._notices.must_wait(method, value.get("params"))

    def _take_failure(self, value: Any, failure: McpError) -> None:
        """There is no answer of the other side: whoever waits for it learns why."""
        id = read_id(value.get("id")) if _json.is_object(value) else None
        if id is not None:
            if not self._calls.fail(id, failure):
                _log.debug("nobody waits for what has failed, id %r: %s", id, failure)
        elif self._on_failure is not None:
            self._on_failure(failure)
        else:
            _log.warning("%s: %s", self._channel.description, failure)

    def _take_invalid(self, error: InvalidMessage, value: Any, arrival: Arrival) -> None:
        if self._calls.refuse(answered_id(value), f"invalid response: {error.reason}"):
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
        if self._on_notice is not None and notification.method != "notifications/progress":
            self._on_notice(notification)
        self._notices.offer(notification, arrival.origin, arrival.data)

    def _take_stray(self, response: Response | ErrorResponse) -> None:
        """An answer nobody waits for: late, repeated, or to something that was never asked."""
        if isinstance(response, ErrorResponse) and response.id is None:
            if self._calls.settle_nameless(response.error):
                return
            _log.warning("%s could not read a message of ours: %s", self._channel.description, response.error)
        else:
            _log.debug("ignored an answer that nobody waits for, id %r", response.id)

    def _complain(self, id: RequestId | None, error: RequestError, origin: Origin | None) -> None:
        """Answer a message that is none with an error, if this side does that."""
        _log.warning("%s sent what cannot be used: %s", self._channel.description, error.message)
        if self._dispatcher.answers_unreadable or (id is not None and self._dispatcher.answers_malformed):
            self._outbox.put(OutboxEntry(Outgoing(encode_error(id, error), origin=origin), urgent=True))


def _is_batch(data: bytes) -> bool:
    """Whether a message that cannot be decoded is a batch."""
    return data[:64].lstrip().startswith(b"[")


def _was_on_wire(failure: McpError | None) -> bool:
    """Whether the other side has said this, and not the transport in its place."""
    return failure is None or (isinstance(failure, RequestError) and failure.code != TRANSPORT_FAILED)
