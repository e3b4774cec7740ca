"""Sends the requests and the notifications of one end of a connection.

Enters this side's requests in their table, and takes them out when their callers go on. When what is sent is
written, and by which task, is decided by `Writer`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._channel import Origin, Outgoing
from .._codec._jsonrpc import (
    Encoded,
    ErrorResponse,
    Notification,
    RequestId,
    Response,
    encode_batch,
    encode_notification,
    encode_request,
)
from .._errors import LocalProtocolError, RemoteProtocolError, RequestError
from .._limits import MAX_SECONDS
from .._logs import Log
from .._revisions import PROGRESS_TOKEN_KEY, TIMEOUT_KEY
from .._trio import LightParkingLot
from ._call import Call, Calls, CallState, QueuedMessage, SilenceWatch, checked, current_clock, granted_deadline
from ._exchange import Exchange, OnProgress
from ._middleware import ConnectionInfo, Message, Middleware, notify_through, send_through
from ._send_queue import Link, SendQueue, Writer

_log: Final = Log("trio_mcp.peer")

MAX_BATCH: Final = 1_000
"""Messages in one batch: a message may hold eight million, each of which would get an answer."""


@final
@attrs.define(eq=False)
class Sender:
    """Sends requests and notifications of this side. It is the `ExchangeSink` of the connection.

    Attributes:
        calls: The requests.
        writer: Writes them.
        queue: What is ready to be written.
    """

    _link: Link
    calls: Calls
    writer: Writer
    _middleware: Sequence[Middleware]
    _connection: ConnectionInfo | None  # for the middleware
    _max_silence: float
    queue: SendQueue = attrs.field(init=False)
    _clocks: tuple[SilenceWatch] | tuple[()] = attrs.field(default=(), init=False)
    _last_id: int = attrs.field(init=False)
    # A batch needs many places. It waits apart, or it would keep a place from those behind it that need one.
    _turn: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _batch_turn: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _refuses_requests: Callable[[], Exception] | None = attrs.field(default=None, init=False)
    _refuses_all: Callable[[], Exception] | None = attrs.field(default=None, init=False)
    # How many messages of any kind the peer has read, as far as its answers show.
    _read: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.queue = self.writer.queue
        self._last_id = self._link.hooks.after_id
        if self._max_silence < math.inf:
            self._clocks = (SilenceWatch(self._max_silence, self.calls, self._fail_silent),)

    @property
    def transport(self) -> str:
        """The name of the transport."""
        return self._link.channel.transport

    # Requests. The two functions that callers use are plain: they return the coroutine that does the work, which
    # saves a frame on each way into it.

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        exchange: Exchange | None = None,
        is_watched: bool = True,
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Send a request and wait for its result.

        The caller's deadline covers waiting for room, writing and waiting for the answer. A caller that is
        cancelled leaves at once: a request that was not written is withdrawn, for one that was written the
        cancellation follows it on the wire, and neither is waited for.

        Args:
            method: The method.
            params: Its parameters as plain JSON; what the connection adds goes into their `_meta`.
            on_progress: Called in this task with each progress notification, all of them before this returns.
            on_id: Called with the request's id before a byte of it is written, and thus before anything that
                refers to it can come. Not called if the request is refused before that.
            exchange: The request of the other side for which it is made, and with which it is over.
            is_watched: Whether it fails when nothing is heard of it for too long; see `open_peer`.

        Raises:
            RequestError: The answer is an error.
            RemoteProtocolError: The answer cannot be used.
            LocalProtocolError: The request is larger than `Limits.max_message_bytes`.
            ConnectionLost: The connection ended first; or only what this request needed of it, where a transport
                can lose that alone: then `Peer.end` is `None`.
            trio.TooSlowError: Nothing was heard of it for too long.
            trio.ClosedResourceError: This end was closed.
        """
        if self._middleware:
            request = partial(
                self._request, on_progress=on_progress, on_id=on_id, exchange=exchange, is_watched=is_watched
            )
            message = Message("sent", method, params, connection=self._connection)
            return self._request_through(message, request)
        return self._request(method, params, on_progress, on_id, exchange, is_watched=is_watched)

    def send_request(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Send a request for an exchange; see `ExchangeSink`."""
        return self.request(method, params, on_progress=on_progress, exchange=exchange)

    async def _request_through(
        self, message: Message, request: Callable[..., Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        def send(message: Message) -> Awaitable[Mapping[str, Any]]:
            return request(message.method, message.params)

        result = await send_through(self._middleware, message, send)
        assert result is not None
        return dict(result)

    async def _request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        exchange: Exchange | None = None,
        *,
        is_watched: bool = True,
    ) -> dict[str, Any]:
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._wait_turn(1)
        if exchange is not None and exchange.is_over:  # given up while this waited for its turn
            await trio.lowlevel.checkpoint()  # a handler that was woken before it was cancelled ends here
            exchange.check_may_ask(method)  # one behind a shield does not
        # No checkpoint from here to the queue: the request is in the table and in the queue, or in neither.
        call, data = self._open(method, params, on_progress, is_watched=is_watched)
        if on_id is not None:
            on_id(call.id)
        origin = None if exchange is None else exchange.origin
        clocks = self._clocks if call.clock is None else (call.clock, *self._clocks)
        outgoing = Outgoing(data, (call.id,), (), origin, clocks)
        call.message = message = QueuedMessage(outgoing, (call,), exchange)
        self.writer.put(message)
        try:
            await call.wait()
        except BaseException as error:
            self._give_up(call, _reason(error))
            raise
        finally:
            self._close(call)
        return call.outcome()

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch, and wait for all answers; see `Peer.request_batch`."""
        if self._middleware:
            raise LocalProtocolError(
                "requests that pass through middleware are not sent as a batch: leave out batch=True"
            )
        most, name = min((MAX_BATCH, ""), (self._link.limits.max_outbound_requests, "max_outbound_requests="))
        if not 0 < len(requests) <= most:
            raise ValueError(f"a batch holds 1 to {name}{most} requests, not {len(requests)}")
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._wait_turn(len(requests))
        calls: list[Call] = []
        frames: list[bytes] = []
        try:
            for method, params in requests:
                call, data = self._open(method, params, None)
                calls.append(call)
                frames.append(data)
            batch = checked(encode_batch(frames), "the batch", self._link.limits)
        except BaseException:
            for call in calls:
                self._close(call)
            raise
        clocks = (*(call.clock for call in calls if call.clock is not None), *self._clocks)
        outgoing = Outgoing(batch, tuple(call.id for call in calls), clocks=clocks)
        message = QueuedMessage(outgoing, tuple(calls))
        for call in calls:
            call.message = message
        self.writer.put(message)
        try:
            for call in calls:
                await call.wait()
        except BaseException as error:
            for call in calls:
                self._give_up(call, _reason(error))
            raise
        finally:
            for call in calls:
                self._close(call)
        return [call.error if isinstance(call.error, RequestError) else call.outcome() for call in calls]

    async def _wait_turn(self, count: int) -> None:
        """Wait until so many requests can be entered and written. Does not checkpoint if they can."""
        turn = self._turn if count == 1 else self._batch_turn
        has_room = not self.queue.is_full
        while self._refuses_requests is None:
            if self.calls.pending + count > self._link.limits.max_outbound_requests:
                await turn.park()
                has_room = not self.queue.is_full
            elif not has_room:
                try:
                    await self.queue.wait_room()
                    has_room = True
                finally:
                    # A task that leaves here has not taken the place it was woken for.
                    self._wake_next()
            else:
                return
        raise self._refuses_requests()

    def _wake_next(self) -> None:
        """A place may be free: wake those that wait for one."""
        if self._turn.parked is not None:
            self._turn.unpark()
        if self._batch_turn.parked is not None:
            self._batch_turn.unpark_all()

    def _open(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
        *,
        is_watched: bool = True,
    ) -> tuple[Call, bytes]:
        """Enter a request, and encode it. Ids are never used twice on one connection."""
        self._last_id = id = self._last_id + 1
        call = Call(id, method, on_progress, current_clock())
        self.calls.enter(call)
        if is_watched and self._clocks and call.clock is None:  # a silence of the caller's own takes its place
            call.heard = trio.current_time()
            if not self._clocks[0].is_watching:
                self._link.start_shielded(self._clocks[0].run, "silence of")
        try:
            data = encode_request(id, method, self._with_meta(call, params))
            return call, checked(data, method, self._link.limits)
        except BaseException:
            self._close(call)
            raise

    def _with_meta(self, call: Call, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Add what the other side needs of this call: where its progress goes, how long we will wait."""
        ours: dict[str, Any] = {}
        if call.wants_progress:
            progress: Any = call.on_progress
            if not (progress is None or callable(progress)):
                found = type(progress).__name__
                raise TypeError(f"on_progress takes a function or a trio.MemorySendChannel, not {found}")
            ours[PROGRESS_TOKEN_KEY] = call.id
        deadline = granted_deadline()
        if deadline != math.inf and call.method != "initialize":
            left = max(0.0, deadline - trio.current_time())  # minus infinity in a scope that is cancelled already
            if left <= MAX_SECONDS:
                # Rounded up: the other side's clock starts later than ours and must not run out before ours does.
                ours[TIMEOUT_KEY] = math.ceil(left * 1000)
        if not ours:
            return params
        if params is None:
            return {"_meta": ours}
        return {**params, "_meta": {**(params.get("_meta") or {}), **ours}}

    # How requests end. `_give_up` sends the one cancellation that is due, `Calls.settle` notes an answer;
    # neither waits.

    def _give_up(self, call: Call, reason: str) -> None:
        """Withdraw the request if it was not written, else send a cancellation if it was not answered."""
        if call.state is CallState.QUEUED and call.message is not None:
            self.queue.withdraw(call.message)
        if self.calls.give_up(call):
            _log.debug("%s was given up: %s", call.method, reason)
            cancellation = self._link.channel.give_up(call.id, reason)
            if cancellation is not None:
                # It goes the way that the request went, so that it cannot come first where there are several.
                origin = None if call.message is None else call.message.message.origin
                self.send_cancellation(call.id, cancellation, origin)

    def send_cancellation(self, id: RequestId, cancellation: Notification, origin: Origin | None) -> None:
        """Send what cancels a request of this side; `origin` is where it goes. Never waits."""
        data = encode_notification(cancellation.method, cancellation.params)
        # Before the caller goes on: it may compute for long, and nothing would be written meanwhile.
        self.writer.put(QueuedMessage(Outgoing(data, origin=origin), cancels=id, urgent=True), by_itself=True)

    def _close(self, call: Call) -> None:
        """The caller goes on, however the call has ended."""
        if call.is_pending:  # it was never sent
            self.calls.give_up(call)
        self.calls.pop(call.id, None)
        call.message = None  # which has the call: the result would be kept until the garbage collector comes
        call.forget_progress()
        if call.clock is not None:
            while call.has_stopped_clock:
                call.start_clock()
        self._wake_next()

    def _find(self, id: RequestId | None) -> Call | None:
        """Return the call that an answer with this id is for: one that is written and not answered.

        `1` and `"1"` are two ids. If there is none, a cancellation with this id that is still queued is
        withdrawn: there is nothing left to cancel.
        """
        if id is None:
            return None
        call = self.calls.get(id)
        if call is not None and call.state is CallState.WRITTEN:
            return call
        self.queue.withdraw_cancellation(id)
        return None

    def settle(self, response: Response | ErrorResponse) -> bool:
        """Give an answer to the call that waits for it. Returns whether one does."""
        call = self._find(response.id)
        if call is None:
            return False
        self._read = max(self._read, call.number)
        self.calls.settle(call, response.result if isinstance(response, Response) else response.error)
        return True

    @property
    def awaits_answers(self) -> bool:
        """Whether an answer can matter: a call waits for one, or the cancellation of one is queued."""
        return bool(self.calls) or self.queue.has_cancellations

    def refuse(self, id: RequestId | None, problem: str, *, whole: bool = False) -> bool:
        """The answer with this id cannot be used. Returns whether a call waited for it.

        Args:
            id: The id.
            problem: What is wrong with the answer.
            whole: Whether it was in a batch of which nothing can be used. What was asked in one batch is answered
                in one, so nothing that was asked with it will be answered.
        """
        call = self._find(id)
        if call is None:
            return False
        for one in (call,) if not whole or call.message is None else call.message.calls:
            self.fail(one.id, RemoteProtocolError(f"{one.method}: {problem}"))
        return True

    def fail(self, id: RequestId | None, error: Exception) -> bool:
        """The request with this id gets no result. Returns whether a call waited for it."""
        call = self._find(id)
        if call is None:
            return False
        call.end_callbacks(trio.current_time() + self._link.limits.slow_consumer_timeout, error)
        self.calls.settle(call, error)
        return True

    def fail_unreadable(self, error: RequestError) -> bool:
        """The peer could not read a message of ours, or not its id. Returns whether a call may be meant.

        One may if everything else that was written has been read, which an answer to something later shows. Since
        the error may also mean nothing, the call fails only if no answer comes within `Limits.goodbye_timeout`.
        """
        written = self.writer.written
        if written != self._read + 1:
            return False
        refused = [call for call in self.calls.values() if call.number == written]
        until = trio.current_time() + self._link.limits.goodbye_timeout
        for call in refused:
            if not call.is_settled:
                call.fail_at(until, partial(self.fail, call.id, copy.copy(error)))
        return bool(refused)

    def _fail_silent(self, call: Call) -> None:
        """Nothing was heard of this request for too long."""
        self._give_up(call, "nothing was heard of it for too long")
        call.error = trio.TooSlowError(
            f"{call.method} was not answered within {self._max_silence:g} s, and there was neither progress nor "
            "a question (request_timeout; math.inf waits for ever)"
        )
        call.wake()

    @contextmanager
    def clocks_stopped(self) -> Generator[None]:
        """Stop the clocks of all calls that are pending now, as long as the block or the call lasts."""
        calls = [call for call in self.calls.values() if call.clock is not None]
        for call in calls:
            call.stop_clock()
        for watch in self._clocks:
            watch.stop()
        try:
            yield
        finally:
            for call in calls:
                call.start_clock()
            for watch in self._clocks:
                watch.start()

    def end_input(self, make_error: Callable[[], Exception]) -> None:
        """No answer will come any more: every pending call fails, and so does every later request.

        What was received before may still be handled, for as long as a slow handler is waited for.
        """
        self._refuses_requests = make_error
        callbacks_end = trio.current_time() + self._link.limits.slow_consumer_timeout
        for call in tuple(self.calls.values()):
            call.end_callbacks(callbacks_end, make_error())
            if not call.is_pending:  # it is settled; or given up: to say so has shown that the connection is gone
                continue
            if call.state is CallState.QUEUED and call.message is not None:
                self.queue.withdraw(call.message)
            self.calls.settle(call, make_error())
        self._turn.unpark_all()
        self._batch_turn.unpark_all()

    def lose(self, make_error: Callable[[], Exception]) -> None:
        """The connection is gone: refuse notifications too, and drop what is queued."""
        self._refuses_all = make_error
        self.queue.close()

    def leave(self, make_error: Callable[[], Exception]) -> None:
        """This end closes: cancel every request that is written and not answered, and refuse everything."""
        was_lost, self._refuses_requests = self._refuses_requests is not None, make_error
        self._refuses_all = make_error
        # If it was lost before, all calls are settled, and have a deadline for their callbacks.
        for call in () if was_lost else tuple(self.calls.values()):
            if not call.is_settled:
                self._give_up(call, "the connection is being closed")
                call.error = make_error()
            elif call.is_behind:
                call.error = make_error()  # answered, but not everything before the answer was handled
            call.end_callbacks(-math.inf, make_error())
            call.forget_progress()
            call.wake()
        if not was_lost:
            self.calls.clear()
        self._turn.unpark_all()
        self._batch_turn.unpark_all()

    # Notifications.

    def send_notification(
        self, exchange: Exchange | None, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> Awaitable[None]:
        """Send a notification, which may belong to an exchange; see `Peer.notify` and `ExchangeSink`."""
        if self._middleware:
            send = partial(self._notify, exchange)
            return notify_through(self._middleware, method, params, send, self._connection)
        return self._notify(exchange, method, params)

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to an exchange, if there is room; see `ExchangeSink`."""
        if self.queue.is_full or not self._link.channel.has_room(exchange.origin):
            raise trio.WouldBlock
        self._put_notification(checked(encode_notification(method, params), method, self._link.limits), exchange)

    async def _notify(
        self, exchange: Exchange | None, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = checked(encode_notification(method, params), method, self._link.limits)
        origin = None if exchange is None else exchange.origin
        channel = self._link.channel
        if self.queue.is_full or not channel.has_room(origin):
            await self.queue.wait_room()
            while not channel.has_room(origin):
                await channel.wait_room(origin)
                await self.queue.wait_room()
        self._put_notification(data, exchange)

    def _put_notification(self, data: bytes, exchange: Exchange | None) -> None:
        if self._refuses_all is not None:
            raise self._refuses_all()
        if exchange is None:
            self.writer.put(QueuedMessage(Outgoing(data)))
        elif not exchange.is_over:
            self.writer.put(QueuedMessage(Outgoing(data, (), (), exchange.origin), (), exchange))


def _reason(error: BaseException) -> str:
    """Return the reason to send with a cancellation. It must not show the text of an exception."""
    if not isinstance(error, trio.Cancelled):
        return f"the caller failed with {type(error).__name__}"
    match error.source:
        case "deadline":
            return "the caller's deadline passed"
        case "explicit":
            return error.reason or "the caller was cancelled"
        case "nursery":
            return "another task of the caller's failed"  # Trio's own reason quotes the exception
        case _:
            return "the caller was cancelled"
