"""What one end of a connection says: its requests, its notifications, and how everything gets to the wire.

put ──> the outbox ──> at once, if nobody else has anything to say and the wire takes it
──> the writer, if the wire does not
──> whoever holds the outbox, together with what it says itself

The requests this side makes over one connection: opened, written, answered, given up.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import trio

from .._channel import Channel, Outgoing
from .._codec._jsonrpc import (
    Encoded,
    ErrorResponse,
    RequestId,
    Response,
    encode_batch,
    encode_notification,
    encode_request,
    read_id,
)
from .._errors import ConnectionLost, LocalProtocolError, RemoteProtocolError, RequestError
from .._limits import MAX_SECONDS, Limits
from .._logs import Log
from .._revisions import PROGRESS_TOKEN_KEY, TIMEOUT_KEY
from .._trio import LightParkingLot
from ._call import Call, current_clock, granted_deadline
from ._exchange import Exchange, OnProgress
from ._middleware import Message, Middleware, interpose, interpose_batch, notification
from ._outbox import Frames, OutboundState, OutboundTable, Outbox, OutboxEntry

_log: Final = Log("trio_mcp.peer")


@final
class Calls:
    """The requests of ours, and the tasks that wait for them.

    Args:
        channel: Says how a request is given up.
        outbox: What is ready to be written.
        put: Puts something there, or writes it at once.
        limits: How many requests, and how large.
        changed: Woken when a request is made.
    """

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        put: Callable[[OutboxEntry], None],
        limits: Limits,
        changed: LightParkingLot,
    ) -> None:
        self._channel = channel
        self._outbox = outbox
        outbox.on_question_withdrawn = self._fail_withdrawn
        self._put = put
        self._limits = limits
        self._changed = changed
        self._table = OutboundTable(limits.max_outbound_requests)
        self._calls: dict[RequestId, Call] = {}
        self._goodbyes: dict[RequestId, OutboxEntry] = {}  # those that are not on the wire yet
        # A batch needs many places. It waits apart, or it would keep a place from those behind it that need one.
        self._turn = LightParkingLot()
        self._batch_turn = LightParkingLot()
        self._refusal: Callable[[], Exception] | None = None
        self.written = 0
        """How many messages were written, of whatever kind; counted by the writer."""
        self._read = 0  # so many of them the other side has read, as far as its answers show

    def __len__(self) -> int:
        return len(self._calls)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        exchange: Exchange | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result; see `Peer.request`.

        Args:
            method: The method.
            params: Its parameters.
            on_progress: Called with its progress.
            on_id: Called with its id.
            exchange: The request of the other side for which it is made, and with which it is over.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._wait_turn(1)
        if exchange is not None:
            exchange.check_may_ask(method)  # it may have been given up while it waited, behind a shield
        # No checkpoint from here to the outbox: the request is in both tables or in none.
        call, data = self._open(method, params, on_progress)
        if on_id is not None:
            on_id(call.request.id)
        origin = None if exchange is None else exchange.origin
        await self._run([call], Outgoing(data, (call.request.id,), origin=origin), exchange)
        return _result(call)

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch and wait for all of them; see `Peer.request_batch`."""
        name = min("max_batch_messages", "max_outbound_requests", key=lambda limit: getattr(self._limits, limit))
        most: int = getattr(self._limits, name)
        if not 0 < len(requests) <= most:
            raise ValueError(f"a batch holds 1 to {name}={most} requests, not {len(requests)}")
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._wait_turn(len(requests))
        calls: list[Call] = []
        frames: list[bytes] = []
        try:
            for method, params in requests:
                call, data = self._open(method, params, None)
                calls.append(call)
                frames.append(data)
            batch = self._checked(encode_batch(frames), "the batch")
        except BaseException:
            for call in calls:
                self._close(call)
            raise
        await self._run(calls, Outgoing(batch, tuple(call.request.id for call in calls)))
        return [_outcome(call) for call in calls]

    async def _run(self, calls: Sequence[Call], message: Outgoing, exchange: Exchange | None = None) -> None:
        """Write the requests and wait until all are settled, or give them up."""
        entry = OutboxEntry(message, tuple(call.request for call in calls), exchange)
        for call in calls:
            call.entry = entry
        self._put(entry)
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

    async def _wait_turn(self, count: int) -> None:
        """Wait until so many requests can be entered and written. Does not checkpoint if they can."""
        turn = self._turn if count == 1 else self._batch_turn
        has_room = not self._outbox.is_full
        while self._refusal is None:
            if len(self._table) + count > self._limits.max_outbound_requests:
                await turn.park()
                has_room = not self._outbox.is_full
            elif not has_room:
                try:
                    await self._outbox.wait_room()
                    has_room = True
                finally:
                    # Whoever leaves here has not taken the place it was woken for.
                    self._wake_next()
            else:
                return
        raise self._refusal()

    def _wake_next(self) -> None:
        """A place may be free: let those who wait for one look."""
        self._turn.unpark()
        self._batch_turn.unpark_all()

    def _open(
        self, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> tuple[Call, bytes]:
        call = Call(self._table.open(method), on_progress=on_progress, clock=current_clock())
        self._calls[call.request.id] = call
        self._changed.unpark_all()
        try:
            return call, self._checked(
                encode_request(call.request.id, method, self._with_meta(call, params)), method
            )
        except BaseException:
            self._close(call)
            raise

    def _with_meta(self, call: Call, params: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Add what the callee should know about this call: where progress goes, how long we will wait."""
        ours: dict[str, Any] = {}
        if call.wants_progress:
            ours[PROGRESS_TOKEN_KEY] = call.request.id
        deadline = granted_deadline()
        if deadline != math.inf and call.request.method != "initialize":
            left = max(0.0, deadline - trio.current_time())  # minus infinity in a scope that is cancelled already
            if left <= MAX_SECONDS:
                # Rounded up: the callee's clock starts later than ours and must not run out before ours does.
                ours[TIMEOUT_KEY] = math.ceil(left * 1000)
        if not ours:
            return params
        if params is None:
            return {"_meta": ours}
        return {**params, "_meta": {**(params.get("_meta") or {}), **ours}}

    def _checked(self, data: bytes, what: str) -> bytes:
        if len(data) > self._limits.max_message_bytes:
            raise LocalProtocolError(
                f"{what} is {len(data)} bytes as a message; max_message_bytes is {self._limits.max_message_bytes}"
            )
        return data

    def _give_up(self, call: Call, reason: str) -> None:
        """Take the request back if it was not written, else say goodbye if it was not answered. Never waits."""
        if call.request.state is OutboundState.QUEUED and call.entry is not None:
            self._outbox.withdraw(call.entry)
        if self._table.give_up(call.request):
            _log.debug("%s was given up: %s", call.request.method, reason)
            goodbye = self._channel.give_up(call.request.id, reason)
            if goodbye is not None:
                data = encode_notification(goodbye.method, goodbye.params)
                # It goes the way that the request went, so that it cannot come first where there are several.
                origin = None if call.entry is None else call.entry.message.origin
                entry = OutboxEntry(Outgoing(data, origin=origin), goodbye_to=call.request.id, urgent=True)
                self._goodbyes[call.request.id] = entry
                self._outbox.put(entry)

    def _close(self, call: Call) -> None:
        """Nobody waits for the call any more, however it ended."""
        self._table.give_up(call.request)
        self._calls.pop(call.request.id, None)
        call.forget_progress()
        if call.clock is not None:
            while call.has_stopped_clock:
                call.start_clock()
        self._wake_next()

    def mark_written(self, entry: OutboxEntry) -> None:
        """The writer has taken the entry."""
        for request in entry.requests:
            self._table.mark_written(request)
            request.number = self.written
        if entry.goodbye_to is not None:
            del self._goodbyes[entry.goodbye_to]

    def settle(self, response: Response | ErrorResponse) -> bool:
        """Give an answer to the call that waits for it. Returns whether one does."""
        request = self._table.get(response.id)
        if request is None:
            self._take_goodbye_back(response.id)
            return False
        self._read = max(self._read, request.number)
        self._table.answer(request, response.result if isinstance(response, Response) else response.error)
        self._calls[request.id].wake()
        return True

    def refuse(self, id: RequestId | None, problem: str, *, whole: bool = False) -> bool:
        """The answer with this id cannot be used. Returns whether a call waited for it.

        Args:
            id: The id.
            problem: What is wrong with the answer.
            whole: Whether it was in a batch of which nothing can be used. What was asked in one batch is answered
                in one, so nothing that was asked with it will be answered.
        """
        request = self._table.get(id)
        if request is None:
            self._take_goodbye_back(id)
            return False
        entry = self._calls[request.id].entry if whole else None
        for one in (request,) if entry is None else entry.requests:
            self.fail(one.id, RemoteProtocolError(f"{one.method}: {problem}"))
        return True

    def settle_nameless(self, error: RequestError) -> bool:
        """The other side could not read a message of ours, or not its id. Returns whether one may wait.

        It may if everything else that was written has been read, which an answer to something later shows. Since
        it may also mean nothing at all, the call fails only when no answer comes within `Limits.goodbye_timeout`.
        """
        if self.written != self._read + 1:
            return False
        refused = [call for call in self._calls.values() if call.request.number == self.written]
        until = trio.current_time() + self._limits.goodbye_timeout
        for call in refused:
            if not call.request.is_settled:
                call.doubt(until, partial(self.fail, call.request.id, copy.copy(error)))
        return bool(refused)

    def fail(self, id: RequestId | None, error: Exception) -> bool:
        """The other side is done with the request, without a result. Returns whether a call waited for it."""
        request = self._table.get(id)
        if request is None:
            self._take_goodbye_back(id)
            return False
        self._table.answer(request, error)
        call = self._calls[request.id]
        call.end_callbacks(trio.current_time() + self._limits.slow_consumer_timeout, error)
        call.wake()
        return True

    def _fail_withdrawn(self, entry: OutboxEntry) -> None:
        """What they belong to was given up before they were written.

        Who asks behind a shield is not cancelled, and would wait for ever.
        """
        assert entry.exchange is not None
        for request in entry.requests:
            self._table.answer(request, entry.exchange.too_late_to_ask(request.method))
            self._calls[request.id].wake()

    def _take_goodbye_back(self, id: RequestId | None) -> None:
        """There is nothing left to cancel if the answer came before the goodbye went out."""
        entry = None if id is None else self._goodbyes.pop(id, None)
        if entry is not None:
            self._outbox.withdraw(entry)

    def find(self, progress_token: object) -> Call | None:
        """Return the call that asked for progress under this token."""
        token = read_id(progress_token)
        call = None if token is None else self._calls.get(token)
        return call if call is not None and call.wants_progress and not call.request.is_settled else None

    @contextmanager
    def clocks_stopped(self) -> Generator[None]:
        """Stop the clocks of all calls that are pending now, as long as the block or the call lasts."""
        calls = [call for call in self._calls.values() if call.clock is not None]
        for call in calls:
            call.stop_clock()
        try:
            yield
        finally:
            for call in calls:
                call.start_clock()

    def fail_all(self, make_error: Callable[[], Exception]) -> None:
        """No answer will come any more: everything waiting fails, and so does everything that is asked now.

        What was received before may still be handled, for as long as a slow handler is waited for.
        """
        self._refusal = make_error
        callbacks_end = trio.current_time() + self._limits.slow_consumer_timeout
        for call in tuple(self._calls.values()):
            call.end_callbacks(callbacks_end, make_error())
            if call.request.is_settled:
                continue
            if call.request.state is OutboundState.QUEUED and call.entry is not None:
                self._outbox.withdraw(call.entry)
            self._table.answer(call.request, make_error())
            call.wake()
        self._turn.unpark_all()
        self._batch_turn.unpark_all()

    def leave(self, make_error: Callable[[], Exception]) -> None:
        """We close: say goodbye for everything that is written and not answered, and fail everything."""
        was_lost, self._refusal = self._refusal is not None, make_error
        # If it was lost before, all are settled, and their callbacks have been told how long they may take.
        for call in () if was_lost else tuple(self._calls.values()):
            if not call.request.is_settled:
                self._give_up(call, "the connection is being closed")
                call.request.error = make_error()
            elif call.is_behind:
                call.request.error = make_error()  # answered, but not everything before the answer was handled
            call.end_callbacks(-math.inf, make_error())
            call.forget_progress()
            call.wake()
        self._calls.clear()
        self._turn.unpark_all()
        self._batch_turn.unpark_all()


def _result(call: Call) -> dict[str, Any]:
    if call.request.error is not None:
        raise call.request.error
    assert call.request.result is not None
    return call.request.result


def _outcome(call: Call) -> dict[str, Any] | RequestError:
    try:
        return _result(call)
    except RequestError as error:
        return error


def _reason(error: BaseException) -> str:
    """Say in the goodbye why the request was given up, without showing what anybody's exception says."""
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


@final
class Outlet:
    """Puts in line what this end says, and writes it. It is the `ExchangeSink` of the connection.

    Args:
        channel: Where to.
        outbox: The line.
        limits: How large a message may be.
        frames: Shows what is written, if anybody looks.
        middleware: What requests and notifications go through.
        changed: Woken when a request is made.
        rests: Whether the writer goes when there is nothing to write, because the outbox wakes the next.
        serving: How many requests of the other side may have something to say.
        refusal: Why nothing is said any more; `None` while anything is.
        on_failure: Called with what writing has failed with.

    Attributes:
        calls: The requests of this end.
    """

    # A session that idles keeps all of this, and there may be thousands of them.
    __slots__ = (
        "_channel",
        "_frames",
        "_limits",
        "_middleware",
        "_on_failure",
        "_outbox",
        "_refusal",
        "_rests",
        "_serving",
        "calls",
    )

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        limits: Limits,
        frames: Frames | None,
        middleware: Sequence[Middleware],
        changed: LightParkingLot,
        *,
        rests: bool,
        serving: Callable[[], int],
        refusal: Callable[[], Exception | None],
        on_failure: Callable[[Exception], object],
    ) -> None:
        self._channel = channel
        self._outbox = outbox
        self._limits = limits
        self._frames = frames
        self._middleware = middleware
        self._rests = rests
        self._serving = serving
        self._refusal = refusal
        self._on_failure = on_failure
        self.calls = Calls(channel, outbox, self.put, limits, changed)

    # Requests.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        on_progress: OnProgress | None = None,
        on_id: Callable[[RequestId], object] | None = None,
        exchange: Exchange | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result; see `Peer.request`."""
        if not self._middleware:
            return await self.calls.request(
                method, params, on_progress=on_progress, on_id=on_id, exchange=exchange
            )

        async def send(message: Message) -> Mapping[str, Any]:
            return await self.calls.request(
                message.method, message.params, on_progress=on_progress, exchange=exchange, on_id=on_id
            )

        result = await interpose(self._middleware, Message("sent", method, params), send)
        assert result is not None
        return dict(result)

    async def request_batch(
        self, requests: Sequence[tuple[str, Mapping[str, Any] | None]]
    ) -> list[dict[str, Any] | RequestError]:
        """Send several requests as one batch, and wait for all answers; see `Peer.request_batch`."""
        if self._middleware and requests:
            return await interpose_batch(self._middleware, requests, self.calls.request_batch, self._send)
        return await self.calls.request_batch(requests)

    async def _send(self, message: Message) -> Mapping[str, Any]:
        return await self.calls.request(message.method, message.params)

    async def send_request(
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        """Ask on behalf of an exchange; see `ExchangeSink`."""
        return await self.request(method, params, on_progress=on_progress, exchange=exchange)

    # Notifications.

    async def notify(
        self, method: str, params: Mapping[str, Any] | Encoded | None, exchange: Exchange | None = None
    ) -> None:
        """Send a notification; see `Peer.notify`."""
        # Progress belongs to its request, and there may be a lot of it; see `_interposed`.
        if not self._middleware or method == "notifications/progress":
            await self._send_notification(method, params, exchange)
            return

        async def send(message: Message) -> None:
            await self._send_notification(message.method, message.params, exchange)

        await interpose(self._middleware, notification(method, params), send)

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to an exchange; see `ExchangeSink`."""
        if self._middleware:
            await self.notify(method, params, exchange)
        else:
            await self._send_notification(method, params, exchange)

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to an exchange, if there is room; see `ExchangeSink`."""
        if self._outbox.is_full or not self._channel.has_room(exchange.origin):
            raise trio.WouldBlock
        self._put_notification(self._encoded(method, params), exchange)

    async def _send_notification(
        self, method: str, params: Mapping[str, Any] | Encoded | None, exchange: Exchange | None
    ) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = self._encoded(method, params)
        origin = None if exchange is None else exchange.origin
        await self._channel.wait_turn(origin)
        if self._outbox.is_full or not self._channel.has_room(origin):
            await self._outbox.wait_room()
            while not self._channel.has_room(origin):
                await self._channel.wait_room(origin)
                await self._outbox.wait_room()
        self._put_notification(data, exchange)
        await trio.lowlevel.cancel_shielded_checkpoint()

    def _encoded(self, method: str, params: Mapping[str, Any] | Encoded | None) -> bytes:
        data = encode_notification(method, params)
        if len(data) > self._limits.max_message_bytes:
            raise LocalProtocolError(
                f"{method} is {len(data)} bytes as a message; "
                f"max_message_bytes is {self._limits.max_message_bytes}"
            )
        return data

    def _put_notification(self, data: bytes, exchange: Exchange | None) -> None:
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        if exchange is None:
            self.put(OutboxEntry(Outgoing(data)))
        elif not exchange.is_over:
            self.put(OutboxEntry(Outgoing(data, (), (), exchange.origin), (), exchange))

    # Writing.

    def put(self, entry: OutboxEntry) -> None:
        """Say something: at once, if nobody else seems to have anything to say; else with what they say."""
        outbox = self._outbox
        # What lies there already could not be written at once, and its writer is awake. To try again with each
        # new entry would look at all the others each time.
        if outbox.is_held or self._serving() + len(self.calls) > 1 or not outbox.is_empty:
            outbox.put(entry)
        else:
            outbox.is_held = True
            outbox.put(entry)
            self.flush()

    def flush(self) -> None:
        """Write what is ready, as far as the wire takes it now; the writer does the rest. Never waits."""
        outbox = self._outbox
        outbox.is_held = False
        while first := outbox.first():
            try:
                is_written = self._channel.send_nowait([entry.message for entry in first])
            except trio.WouldBlock:
                outbox.wake_writer()
                return
            except (ConnectionLost, trio.ClosedResourceError) as error:
                self._on_failure(error)
                return
            self._mark_written(first)
            outbox.remove_first(len(first), has_rest=not is_written)

    async def write(self) -> None:
        """Be the writer: as long as the connection lasts, or as long as there is something to write."""
        try:
            while not (self._rests and self._outbox.may_rest()):
                taken = await self._outbox.take()
                self._mark_written(taken)
                await self._channel.send([entry.message for entry in taken])
        except (ConnectionLost, trio.ClosedResourceError, trio.BrokenResourceError) as error:
            self._on_failure(error)

    def _mark_written(self, entries: Sequence[OutboxEntry]) -> None:
        for entry in entries:
            self.calls.written += 1
            if entry.requests or entry.goodbye_to is not None:
                self.calls.mark_written(entry)
            if self._frames is not None:
                self._frames.sent(entry.message.data)
