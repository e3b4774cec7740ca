"""Requests of the modern era: each POST is one exchange, and no state connects them.

    a POST ──> its header fields agree with its body ──> the dispatcher decides
        ──> an answer at once
        ──> a handler, in an exchange whose sink is the answer to this POST (`PostAnswer`)

When the client goes, the exchange is cancelled. Handlers that wait for input run in the server's nursery, not
here.

Spec: 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, final

import attrs
import trio

from .._channel import Outgoing
from .._codec import _json
from .._codec._json import close_weight_of
from .._codec._jsonrpc import (
    Encoded,
    Notification,
    Request,
    encode_error,
    encode_notification,
    encode_request,
)
from .._core._account import Loan
from .._core._framing import encode_sse_event
from .._core._http1 import PROTOCOL_VERSION, check_request_headers, version_of
from .._core._http_rules import (
    HttpRefused,
    HttpServerSettings,
    audit_http,
    busy,
    fields_of_error,
    status_of_error,
)
from .._core._lifecycle import names_era
from .._errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_BUSY,
    LocalProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._peer._call import QueuedMessage, checked
from .._peer._exchange import (
    Answer,
    AtOnce,
    Dispatcher,
    Exchange,
    Handler,
    LongLived,
    OnProgress,
    OnServed,
    Reply,
    refused,
    reply_at_once,
    reply_to,
)
from .._peer._middleware import ConnectionInfo, Middleware, MiddlewareDispatcher, notify_through
from .._peer._send_queue import SendQueue, wire_log
from .._revisions import METHODS, PROTOCOL_VERSION_KEY, Revision, Side
from .._server._access import RequestActivity, access_log, activity_of
from .._server._parking import Service
from .._server._server import Hosted
from .._trio import LightParkingLot, run_now
from ._call import HttpCall, RequestLimits
from ._session_channel import HttpOrigin
from ._streams import KEEP_ALIVE, StreamWriter

_log: Final = Log("trio_mcp.http")

Show: TypeAlias = Callable[[str, Literal["sent", "received"], bytes], None]
TRANSPORT: Final = "http"
CONNECTION: Final = ConnectionInfo("server", TRANSPORT, "clients of the modern era over HTTP")


@final
@attrs.define(eq=False)
class PostAnswer:
    """The answer to one modern POST: a JSON object, or a stream once a notification is sent; an `ExchangeSink`.

    What is sent goes to the connection at once. A task writes what that does not take, and all of it where the
    host can only wait; so a handler that is cancelled while it waits for room leaves no torn event.

    Args:
        call: The POST.
        nursery: Where that task runs.
        limits: How much may be queued, and how large a message may be.
        middleware: Wraps notifications.
        heard: When the client of each answer has heard of it last, in this order; see `ModernRequests.show_life`.
        may_stream: Whether the answer may be a stream; if not, notifications are dropped.
        show: Shows messages in the log `trio_mcp.wire`, if that is on.
    """

    transport = TRANSPORT

    _call: HttpCall
    _nursery: trio.Nursery
    _limits: Limits
    _middleware: Sequence[Middleware]
    _heard: OrderedDict[PostAnswer, float] = attrs.field(alias="heard", kw_only=True)
    _may_stream: bool = attrs.field(alias="may_stream", kw_only=True)
    _show: Show | None = attrs.field(alias="show", kw_only=True)
    _send_queue: SendQueue | None = attrs.field(default=None, init=False)
    _writer: StreamWriter = attrs.field(init=False)  # set with the queue
    _writing: trio.CancelScope | None = attrs.field(default=None, init=False)  # of the task, or the last one
    _is_ending: bool = attrs.field(default=False, init=False)

    def _begin(self) -> SendQueue | None:
        """Make it a stream, unless it is one already or must not be one. Returns what is queued for it."""
        call = self._call
        if self._send_queue is None and self._may_stream and not call.is_gone:
            queue = SendQueue(self._limits.max_outbox_bytes, self._start_writing if call.sends_now else None)
            self._send_queue, self._writer = queue, StreamWriter(call, queue)
            if call.sends_now:
                run_now(call.start_stream())
            elif not self._start_writing():
                self._send_queue, self._may_stream = None, False
        return self._send_queue

    def _start_writing(self) -> bool:
        """Start the task that writes, unless it runs. Returns whether it does."""
        if self._writing is None:
            scope = trio.CancelScope()
            try:
                self._nursery.start_soon(self._write, scope, name=f"streaming to {self._call.client}")
            except RuntimeError:  # the endpoint was cancelled, and this handler still cleans up behind a shield
                return False
            self._writing = scope
        return True

    async def _write(self, scope: trio.CancelScope) -> None:
        queue = self._send_queue
        assert queue is not None
        may_go_on = False
        try:
            with scope:
                may_go_on = await self._write_events(queue)
        except HttpRefused as refused:
            self._writer.cut(refused)
        except Exception:
            # The boundary of one answer: the nursery is shared by all of them.
            _log.exception("a stream to %s failed", self._call.client)
        finally:
            if may_go_on:
                self._writing = None
            else:
                queue.close()

    async def _write_events(self, queue: SendQueue) -> bool:
        """Write what is queued. Returns whether the stream goes on without this task."""
        if self._call.sends_now:
            await self._writer.send_rest()
        else:
            await self._call.start_stream()
        has_ended = False
        while not has_ended:
            if queue.may_rest():
                return True
            entries = await queue.take()
            has_ended = self._is_ending and not queue.size
            if has_ended:
                for entry in entries:
                    if entry.exchange is not None:
                        entry.exchange.cancel_parked = None
            await self._writer.send(b"".join([entry.message.data for entry in entries]), is_last=has_ended)
        return False

    def _put(self, event: bytes) -> bool:
        """Send an event, or queue it. If no memory is lent to its client for that, the stream is cut.

        Returns whether there was room.
        """
        try:
            if self._writing is not None:
                self._writer.borrow(len(event))
                assert self._send_queue is not None
                self._send_queue.put(QueuedMessage(Outgoing(event)))
            elif not self._writer.send_nowait(event) and not self._start_writing():
                self._call.cut()  # as in `_begin`
        except HttpRefused as refused:
            self._writer.cut(refused)
            return False
        self._note_heard()
        return True

    def _note_heard(self) -> None:
        if self in self._heard:
            self._heard[self] = trio.current_time()
            self._heard.move_to_end(self)

    def show_life(self) -> None:
        """Send a keep-alive comment, unless something waits to be sent. Never waits."""
        queue = None if self._is_ending else self._begin()
        if queue is not None and (self._writing is None or not (self._call.sends_now or queue.is_busy)):
            # Some proxies forward the head of a stream only when something follows it.
            self._put(KEEP_ALIVE)
        self._note_heard()

    async def finish(self, reply: Reply, exchange: Exchange) -> None:
        """Send the reply, and wait until the connection has taken it.

        Until then the cancel_parked task of the request ends with it: its client does not know yet how to go on.
        """
        if self._show is not None:
            self._show(f"the client at {self._call.client}", "sent", reply.data)
        if self._send_queue is None:
            exchange.cancel_parked = None
            self._may_stream = False
            await _respond(self._call, reply)
            return
        self._is_ending = True
        data, id = reply.data, exchange.request.id
        try:
            self._writer.borrow(len(data))
        except HttpRefused as refused:
            _log.info("no room for the answer to %s: %s", self._call.client, refused)
            data = encode_error(id, refused.error)
        event = encode_sse_event(data)
        if self._writing is not None:
            self._send_queue.put(QueuedMessage(Outgoing(event, answers=(id,)), exchange=exchange))
            await self._send_queue.wait_empty()
            return
        exchange.cancel_parked = None
        try:
            await self._writer.send(event, is_last=True)
        except HttpRefused as refused:
            self._writer.cut(refused)

    def close(self) -> None:
        """Send nothing more. Without `finish`, a stream that was begun stays incomplete."""
        self._may_stream = False
        if self._writing is not None:
            self._writing.cancel(reason="the request is over")

    # What an exchange calls.

    def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> Awaitable[None]:
        """Send a notification that belongs to the exchange, waiting for room. Does not checkpoint if there is."""
        if self._middleware:
            return notify_through(self._middleware, method, params, partial(self._send, exchange), CONNECTION)
        return self._send(exchange, method, params)

    async def _send(self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        data = checked(encode_notification(method, params), method, self._limits)
        queue = self._begin()
        if queue is not None:
            await queue.wait_room()
            if not exchange.is_over:
                if self._show is not None:
                    self._show(f"the client at {self._call.client}", "sent", data)
                self._put(encode_sse_event(data))

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, if there is room.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
        """
        data = checked(encode_notification(method, params), method, self._limits)
        queue = self._begin()
        if (
            queue is not None
            and not exchange.is_over
            and (queue.is_full or not self._put(encode_sse_event(data)))
        ):
            raise trio.WouldBlock
        if self._show is not None and queue is not None:
            self._show(f"the client at {self._call.client}", "sent", data)

    async def send_request(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | None, on_progress: OnProgress | None
    ) -> dict[str, Any]:
        """Refuse: servers send no requests in the modern era.

        Raises:
            LocalProtocolError: Always.
        """
        del exchange, params, on_progress
        await trio.lowlevel.checkpoint()
        raise LocalProtocolError(
            f"{method}: {self._call.method} {self._call.path} cannot carry a server's request; "
            "return InputRequiredResult instead"
        )


def _respond(call: HttpCall, reply: Reply) -> Awaitable[None]:
    """Answer a POST with a reply, and nothing before it."""
    code = reply.error_code
    status = 200 if code is None else status_of_error(code, is_own_share=reply.is_own_share)
    return call.respond(status, reply.data, fields_of_error(code, reply.retry_after))


@final
@attrs.define(eq=False)
class ModernRequests:
    """Serves the requests of the modern era of one endpoint.

    Args:
        server: The server.
        service: The run of it.
        nursery: Where streams are written.
        settings: How answers are sent.
        request_limits: Counts what is served.
    """

    _server: Hosted
    _service: Service[Any]
    _nursery: trio.Nursery
    _settings: HttpServerSettings
    _request_limits: RequestLimits
    _dispatcher: Dispatcher = attrs.field(init=False)
    _exchanges: dict[Exchange, None] = attrs.field(factory=dict[Exchange, None], init=False)
    _heard: OrderedDict[PostAnswer, float] = attrs.field(factory=OrderedDict[PostAnswer, float], init=False)
    _has_begun: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _rests: bool = attrs.field(default=False, init=False)  # whether `show_life` waits for a request to begin
    _limits: Limits = attrs.field(init=False)
    _middleware: Sequence[Middleware] = attrs.field(init=False)
    _known: frozenset[Revision] = attrs.field(init=False)
    _on_served: OnServed | None = attrs.field(init=False)
    _notifications: int = attrs.field(default=0, init=False)
    _refusal: RequestError | None = attrs.field(default=None, init=False)  # once it drains
    _show: Show | None = attrs.field(factory=wire_log, init=False)
    _done: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        server = self._server
        self._limits, self._middleware = server.limits, server.middleware
        # It has no state of any client: a modern request carries all that it needs.
        session: Dispatcher = server.new_session(self._service, self._service.background)
        if server.middleware:
            session = MiddlewareDispatcher(session, server.middleware, CONNECTION)
        self._dispatcher = session
        self._known = frozenset(revision for revision in server.revisions if revision.is_modern)
        self._on_served = access_log(self._service.records, self._service.name, TRANSPORT)
        self._service.watched[self] = self

    def activity(self) -> None:
        """Modern requests have no session."""

    def requests(self) -> list[RequestActivity]:
        """Return the requests that are being served."""
        return [activity_of(exchange, TRANSPORT) for exchange in self._exchanges]

    async def request(self, call: HttpCall, request: Request) -> None:
        """Answer a request."""
        if self._show is not None:
            data = encode_request(request.id, request.method, request.params)
            self._show(f"the client at {call.client}", "received", data)
        origin = HttpOrigin(call.principal, call.loans.key, call.headers, client=call.client)
        decision: Handler | LongLived | AtOnce | Answer | Reply | None
        try:
            if self._refusal is not None:
                raise self._refusal
            self._check(call, request)
            decision = self._dispatcher.route(request, origin)
            if not callable(decision) and not isinstance(decision, LongLived):
                decision = reply_at_once(request, decision)
        except BaseException as error:  # of which `refused` makes an answer  # noqa: ASYNC103
            decision = refused(request, origin, error, self, TRANSPORT)
        if isinstance(decision, LongLived):
            await self._serve_long_lived(call, request, origin, decision)
        elif isinstance(decision, Reply):
            await self._answer(call, request, origin, decision)
        elif callable(decision):
            await self._serve(call, request, origin, decision)
        else:
            await call.respond(202)

    async def _serve_long_lived(
        self, call: HttpCall, request: Request, origin: HttpOrigin, decision: LongLived
    ) -> None:
        call.on_standing()  # from here on it counts as long-lived instead
        size = close_weight_of(_json.encode(request.params))
        try:
            with self._request_limits.long_lived_request(call.loans.key, decision.places, size):
                call.loans.give_back_served()  # the size is bounded from here on
                await self._serve(call, request, origin, decision.handler, decision.on_drain)
        except HttpRefused as refusal:
            audit_http(refusal, call.method, call.path, call.client, call.principal)
            reply = Reply(encode_error(request.id, refusal.error), refusal.error.code)
            self._note(call, request, origin, reply)
            await call.respond(refusal.status, reply.data, refusal.headers)

    async def refuse(self, call: HttpCall, request: Request, error: RequestError) -> None:
        """Answer a request with an error."""
        origin = HttpOrigin(call.principal, call.loans.key, client=call.client)
        await self._answer(call, request, origin, refused(request, origin, error, self, TRANSPORT))

    async def _answer(self, call: HttpCall, request: Request, origin: HttpOrigin, reply: Reply) -> None:
        """Answer a request without an exchange."""
        self._note(call, request, origin, reply)
        await _respond(call, reply)

    def _note(self, call: HttpCall, request: Request, origin: HttpOrigin, reply: Reply) -> None:
        """Tell whoever wants to know it how a request is answered without an exchange."""
        if self._show is not None:
            self._show(f"the client at {call.client}", "sent", reply.data)
        if self._on_served is not None:
            self._on_served(request, origin, trio.current_time(), reply)

    def _check(self, call: HttpCall, request: Request) -> None:
        """Check that the header fields agree with the body.

        A revision that is not served is refused as such: its rules for header fields may be others.
        """
        params = request.params or {}
        version = version_of(params)
        if version is None or version in self._known or call.headers.get(PROTOCOL_VERSION) != version:
            check_request_headers(
                call.headers,
                request.method,
                params,
                self._server.marks_of(request.method, params),
                self._server.names,
            )
        if version is None and not names_era(params):
            rule = METHODS.get(request.method)
            if rule is not None and not rule.allows(Side.CLIENT, max(Revision)):
                raise RequestError(METHOD_NOT_FOUND, f"{max(Revision)} has no method {request.method}")
            raise RequestError(INVALID_PARAMS, f"params._meta lacks {PROTOCOL_VERSION_KEY}")

    async def _serve(
        self,
        call: HttpCall,
        request: Request,
        origin: HttpOrigin,
        handler: Handler,
        on_drain: Callable[[], object] | None = None,
    ) -> None:
        """Serve one exchange in this task, with the answer to its POST as its sink.

        If it is long-lived, `on_drain` is called when serving is to end.
        """
        limits = self._limits
        may_stream = on_drain is not None or not self._settings.json_only  # then the client accepts streams
        answer = PostAnswer(
            call,
            self._nursery,
            limits,
            self._middleware,
            heard=self._heard,
            may_stream=may_stream,
            show=self._show,
        )
        exchange = Exchange(request, origin, trio.current_time(), answer, on_drain=on_drain)
        handler = exchange.begin(handler, self._dispatcher)
        call.on_gone = lambda: exchange.give_up("the client closed the response")
        if call.is_gone:
            call.on_gone()
        self._exchanges[exchange] = None
        if may_stream:
            self._heard[answer] = exchange.received_at
            if self._rests:
                self._has_begun.unpark_all()
        reply: Reply | None = None
        try:
            try:
                reply = await reply_to(exchange, handler, limits)
            finally:
                if self._on_served is not None:
                    self._on_served(exchange.request, origin, exchange.received_at, reply)
            if reply is not None:
                await answer.finish(reply, exchange)
        finally:
            exchange.silenced = True
            answer.close()
            self._heard.pop(answer, None)
            del self._exchanges[exchange]
            if self._refusal is not None and not self._exchanges:
                self._done.unpark_all()

    async def show_life(self) -> None:
        """Send a keep-alive comment for each request that is silent for `keep_alive_interval`.

        So its client, and the proxies between, see that it is alive; its answer thereby becomes a stream.

        One task does it for all requests, for as long as this runs. Nothing wakes it before a request can have
        been silent for so long: most are answered at once.
        """
        interval = self._settings.keep_alive_interval
        while True:
            if not self._heard:
                self._rests = True
                await self._has_begun.park()
                self._rests = False
            now = trio.current_time()
            due = next(iter(self._heard.values()), now) + interval
            if due > now:
                await trio.sleep_until(due)
                continue
            next(iter(self._heard)).show_life()
            await trio.lowlevel.checkpoint()  # another one may be due, of thousands

    async def notification(self, call: HttpCall, message: Notification) -> None:
        """Accept a notification, and handle it in the background.

        Raises:
            HttpRefused: `max_notifications` are being handled.
        """
        limit = self._server.limits.max_notifications
        if self._notifications >= limit:
            raise busy(503, f"{limit} notifications are being handled (max_notifications)")
        self._notifications += 1
        if self._show is not None:
            data = encode_notification(message.method, message.params)
            self._show(f"the client at {call.client}", "received", data)
        origin = HttpOrigin(call.principal, call.loans.key, call.headers, client=call.client)
        loan, call.loans.served = call.loans.served, None
        self._service.background.start_soon(self._notified, message, origin, loan, name=message.method)
        await call.respond(202)

    async def _notified(self, message: Notification, origin: HttpOrigin, loan: Loan | None) -> None:
        try:
            await self._dispatcher.notified(message, origin)
        finally:
            self._notifications -= 1
            if loan is not None:
                loan.give_back()

    # How it ends.

    async def drain(self) -> None:
        """Refuse new requests, let others finish within `Limits.drain_timeout`, then stop and answer the rest."""
        self._refusal = RequestError(SERVER_BUSY, "serving is about to end")
        limits = self._server.limits
        for exchange in tuple(self._exchanges):
            if exchange.on_drain is not None:
                exchange.on_drain()
        with trio.move_on_after(limits.drain_timeout):
            await self._wait_done()
        for exchange in tuple(self._exchanges):
            exchange.stop("serving ended")
        with trio.move_on_after(limits.goodbye_timeout):
            await self._wait_done()

    async def _wait_done(self) -> None:
        while self._exchanges:
            await self._done.park()
