"""Requests of the modern era: each POST is one exchange, and no state connects them.

    a POST ──> its header fields agree with its body ──> the dispatcher decides
        ──> an answer at once
        ──> a handler, in an exchange whose sink is the answer to this POST (`PostAnswer`)

When the client goes, the exchange is cancelled. Handlers that wait for input run in the server's nursery, not
here.

Spec: 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._channel import Outgoing
from .._codec import _json
from .._codec._json import close_weight_of
from .._codec._jsonrpc import Encoded, Notification, Request, encode_error, encode_notification, encode_response
from .._core._framing import encode_sse_event
from .._core._http1 import PROTOCOL_VERSION, check_request_headers, version_of
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, accepts, busy, status_of_error
from .._core._lifecycle import names_era
from .._errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_BUSY,
    LocalProtocolError,
    RequestError,
)
from .._limits import Limits
from .._logs import Log
from .._peer._call import QueuedMessage, checked
from .._peer._exchange import Dispatcher, Exchange, Handler, LongLived, OnProgress, Reply, not_begun, reply_to
from .._peer._middleware import Middleware, MiddlewareDispatcher, notify_through
from .._peer._send_queue import SendQueue
from .._revisions import METHODS, PROTOCOL_VERSION_KEY, Revision, Side
from .._server._parking import Service
from .._server._server import Servable
from .._trio import LightParkingLot
from ._call import HttpCall, HttpOrigin, RequestLimits, Turnstile
from ._session_channel import RETRY_AFTER
from ._streams import KEEP_ALIVE, StreamWriter

_log: Final = Log("trio_mcp.http")


@final
@attrs.define(eq=False)
class PostAnswer:
    """The answer to one modern POST: a JSON object, or a stream once a notification is sent; an `ExchangeSink`.

    A task writes the stream, so that a handler that is cancelled while it waits for room leaves no torn event.

    Args:
        call: The POST.
        nursery: Where that task runs.
        limits: How much may be queued, and how large a message may be.
        middleware: Wraps notifications.
        turnstile: Where senders of notifications wait for their turn.
        keep_alive: Seconds of silence after which a stream gets a keep-alive comment.
        may_stream: Whether the answer may be a stream; if not, notifications are dropped.
    """

    _call: HttpCall
    _nursery: trio.Nursery
    _limits: Limits
    _middleware: Sequence[Middleware]
    _turnstile: Turnstile
    _keep_alive: float = attrs.field(alias="keep_alive", kw_only=True)
    _may_stream: bool = attrs.field(alias="may_stream", kw_only=True)
    _send_queue: SendQueue | None = attrs.field(default=None, init=False)
    _writer: StreamWriter = attrs.field(init=False)  # set with the outbox
    _writing: trio.CancelScope = attrs.field(init=False)  # so is this
    _is_ending: bool = attrs.field(default=False, init=False)

    def stream(self) -> None:
        """Make it a stream, unless it is one already or must not be one. Never waits."""
        if self._send_queue is None and self._may_stream:
            self._send_queue = outbox = SendQueue(self._limits.max_outbox_bytes)
            self._writer = StreamWriter(self._call, lambda: outbox.size)
            self._writing = trio.CancelScope()
            self._nursery.start_soon(self._write, outbox, name=f"streaming to {self._call.client}")

    async def _write(self, outbox: SendQueue) -> None:
        try:
            with self._writing:
                await self._write_events(outbox)
        except HttpRefused as refused:
            self._writer.cut(refused)
        except Exception:
            # The boundary of one answer: the nursery is shared by all of them.
            _log.exception("a stream to %s failed", self._call.client)
        finally:
            outbox.close()

    async def _write_events(self, outbox: SendQueue) -> None:
        await self._call.start_stream()
        if not outbox.size:
            await self._call.send(KEEP_ALIVE)  # some proxies forward the head only when something follows it
        has_ended = False
        while not has_ended:
            entries: Sequence[QueuedMessage] = ()
            with trio.move_on_after(self._keep_alive):
                entries = await outbox.take()
            has_ended = self._is_ending and not outbox.size
            if has_ended:
                for entry in entries:
                    if entry.exchange is not None:
                        entry.exchange.cancel_parked = None
            events = b"".join([encode_sse_event(entry.message.data) for entry in entries])
            await self._writer.send(events, is_last=has_ended)

    async def finish(self, reply: Reply, exchange: Exchange) -> None:
        """Send the reply, and wait until the connection has taken it.

        Until then the cancel_parked task of the request ends with it: its client does not know yet how to go on.
        """
        if self._send_queue is None:
            exchange.cancel_parked = None
            self._may_stream = False
            code = reply.error_code
            status = 200 if code is None else status_of_error(code, modern=True)
            await self._call.respond(status, reply.data)
        else:
            self._is_ending = True
            data, id = reply.data, exchange.request.id
            try:
                self._writer.borrow(len(data))
            except HttpRefused as refused:
                _log.info("no room for the answer to %s: %s", self._call.client, refused)
                data = encode_error(id, refused.error)
            self._send_queue.put(QueuedMessage(Outgoing(data, answers=(id,)), exchange=exchange))
            await self._send_queue.wait_empty()

    def close(self) -> None:
        """Send nothing more. Without `finish`, a stream that was begun stays incomplete."""
        self._may_stream = False
        if self._send_queue is not None:
            self._writing.cancel(reason="the request is over")

    # What an exchange calls.

    async def send_notification(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, waiting for room."""
        await notify_through(self._middleware, method, params, partial(self._send, exchange))

    async def _send(self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._turnstile.enter(self._call.loans.key)
        data = checked(encode_notification(method, params), method, self._limits)
        self.stream()
        if self._send_queue is not None:
            await self._send_queue.wait_room()
            if not exchange.is_over and self._has_room_for(data):
                self._send_queue.put(QueuedMessage(Outgoing(data)))
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_notification_nowait(
        self, exchange: Exchange, method: str, params: Mapping[str, Any] | Encoded | None
    ) -> None:
        """Send a notification that belongs to the exchange, if there is room.

        Raises:
            trio.WouldBlock: There is no room; nothing was sent.
        """
        data = checked(encode_notification(method, params), method, self._limits)
        self.stream()
        if self._send_queue is not None and not exchange.is_over:
            if self._send_queue.is_full or not self._has_room_for(data):
                raise trio.WouldBlock
            self._send_queue.put(QueuedMessage(Outgoing(data)))

    def _has_room_for(self, data: bytes) -> bool:
        """Whether a notification may be queued. If no memory is lent to its client for it, the stream is cut."""
        try:
            self._writer.borrow(len(data))
        except HttpRefused as refused:
            self._writer.cut(refused)
            return False
        return True

    async def send_request(
        self,
        exchange: Exchange,
        method: str,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None,
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
        turnstile: Where handlers wait before each notification that they send.
    """

    _server: Servable[Any]
    _service: Service[Any]
    _nursery: trio.Nursery
    _settings: HttpServerSettings
    _request_limits: RequestLimits
    _turnstile: Turnstile
    _dispatcher: Dispatcher = attrs.field(init=False)
    _exchanges: dict[Exchange, None] = attrs.field(factory=dict[Exchange, None], init=False)
    _long_lived_bytes: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _silent: dict[Exchange, PostAnswer] = attrs.field(factory=dict[Exchange, PostAnswer], init=False)
    _has_begun: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)
    _known: frozenset[Revision] = attrs.field(init=False)
    _notifications: int = attrs.field(default=0, init=False)
    _refusal: RequestError | None = attrs.field(default=None, init=False)  # once it drains
    _done: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        server = self._server
        # It has no state of any client: a modern request carries all that it needs.
        session: Dispatcher = server.new_session(self._service, self._service.background)
        self._dispatcher = MiddlewareDispatcher(session, server.middleware) if server.middleware else session
        self._known = frozenset(revision for revision in server.revisions if revision.is_modern)

    async def request(self, call: HttpCall, request: Request) -> None:
        """Answer a request."""
        refusal: RequestError | None = None
        origin = HttpOrigin(call.principal, call.loans.key, call.headers)
        try:
            if self._refusal is not None:
                raise self._refusal
            self._check(call, request)
            decision = self._dispatcher.route(request, origin)
        except RequestError as error:
            # Its traceback refers to this frame, which would refer to it: a cycle with the whole request in it.
            decision, refusal = None, error.with_traceback(None)
        except KeyboardInterrupt:
            raise
        except BaseException:  # routing never waits, so this is no cancellation  # noqa: ASYNC103
            # The boundary of one request, as over any other transport.
            _log.exception("%s could not be served", request.method)
            decision, refusal = None, RequestError(INTERNAL_ERROR, "internal error")
        if refusal is not None:
            await self.refuse(call, request, refusal)
            return
        if isinstance(decision, LongLived):
            call.on_standing()  # from here on it counts as long-lived instead
            try:
                with (
                    self._request_limits.long_lived_request(call.loans.key, decision.places),
                    self._weighed(call, request),
                ):
                    call.loans.served = None  # `_weighed` bounds it from here on
                    await self._serve(call, request, origin, decision)
            except HttpRefused as refused:
                await call.respond(refused.status, encode_error(request.id, refused.error), refused.headers)
        elif callable(decision):
            await self._serve(call, request, origin, decision)
        elif decision is not None:
            await call.respond(200, encode_response(request.id, decision))
        else:
            await call.respond(202)

    @contextmanager
    def _weighed(self, call: HttpCall, request: Request) -> Generator[None]:
        """Count what a long-lived request weighs while the body runs.

        Raises:
            HttpRefused: With it, those of its client weigh too much.
        """
        most = self._server.limits.max_subscription_bytes
        size = close_weight_of(_json.encode(request.params))
        if self._long_lived_bytes[call.loans.key] + size > most:
            problem = f"your subscriptions would take more than {most} bytes (max_subscription_bytes)"
            raise busy(429, problem, RETRY_AFTER)
        self._long_lived_bytes[call.loans.key] += size
        try:
            yield
        finally:
            self._long_lived_bytes[call.loans.key] -= size
            if not self._long_lived_bytes[call.loans.key]:
                del self._long_lived_bytes[call.loans.key]

    async def refuse(self, call: HttpCall, request: Request, error: RequestError) -> None:
        """Answer a request with an error."""
        await call.respond(status_of_error(error.code, modern=True), encode_error(request.id, error))

    def _check(self, call: HttpCall, request: Request) -> None:
        """Check that the header fields agree with the body.

        A revision that is not served is refused as such: its rules for header fields may be others.
        """
        params = request.params or {}
        version = version_of(params)
        if version is None or version in self._known or call.headers.get(PROTOCOL_VERSION) != version:
            check_request_headers(
                call.headers, request.method, params, self._server.marks_of(request.method, params)
            )
        if version is None and not names_era(params):
            rule = METHODS.get(request.method)
            if rule is not None and not rule.allows(Side.CLIENT, max(Revision)):
                raise RequestError(METHOD_NOT_FOUND, f"{max(Revision)} has no method {request.method}")
            raise RequestError(INVALID_PARAMS, f"params._meta lacks {PROTOCOL_VERSION_KEY}")

    async def _serve(
        self, call: HttpCall, request: Request, origin: HttpOrigin, decision: Handler | LongLived
    ) -> None:
        """Serve one exchange in this task, with the answer to its POST as its sink."""
        standing = decision if isinstance(decision, LongLived) else None
        handler = decision.handler if isinstance(decision, LongLived) else decision
        settings = self._settings
        wants_stream = accepts(call.headers.get("accept"), EVENT_STREAM)
        may_stream = standing is not None or (wants_stream and not settings.json_only)
        answer = PostAnswer(
            call,
            self._nursery,
            self._server.limits,
            self._server.middleware,
            self._turnstile,
            keep_alive=settings.keep_alive_interval,
            may_stream=may_stream,
        )
        exchange = Exchange(request, origin, trio.current_time(), answer)
        if standing is not None:
            exchange.on_drain = standing.on_drain
            if self._refusal is not None:
                standing.on_drain()
        if exchange.start_clock():
            handler = not_begun
            exchange.cancel_parked = self._dispatcher.parked_canceller(request, exchange.origin)
        call.on_gone = lambda: exchange.give_up("the client closed the response")
        if call.is_gone:
            call.on_gone()
        self._exchanges[exchange] = None
        if may_stream:
            self._silent[exchange] = answer
            if self._has_begun:
                self._has_begun.unpark_all()
        try:
            reply = await reply_to(exchange, handler, self._server.limits)
            if reply is not None:
                await answer.finish(reply, exchange)
        finally:
            exchange.silenced = True
            answer.close()
            self._silent.pop(exchange, None)
            del self._exchanges[exchange]
            if self._done and not self._exchanges:
                self._done.unpark_all()

    async def show_life(self) -> None:
        """Begin the stream of each request that is silent for `keep_alive_interval`.

        Its client, and the proxies between, then get keep-alive comments.

        One task does it for all requests, for as long as this runs.
        """
        interval = self._settings.keep_alive_interval
        while True:
            while not self._silent:
                await self._has_begun.park()
            since = next(iter(self._silent)).received_at
            await trio.sleep_until(since + interval)
            while (oldest := next(iter(self._silent), None)) is not None and oldest.received_at <= since:
                self._silent.pop(oldest).stream()

    async def notification(self, call: HttpCall, message: Notification) -> None:
        """Accept a notification, and handle it in the background.

        Raises:
            HttpRefused: `max_notifications` are being handled.
        """
        limit = self._server.limits.max_notifications
        if self._notifications >= limit:
            raise HttpRefused(
                503, f"{limit} notifications are being handled (max_notifications)", code=SERVER_BUSY
            )
        self._notifications += 1
        origin = HttpOrigin(call.principal, call.loans.key, call.headers, call.loans.served)
        self._service.background.start_soon(self._notified, message, origin, name=message.method)
        await call.respond(202)

    async def _notified(self, message: Notification, origin: HttpOrigin) -> None:
        try:
            await self._dispatcher.notified(message, origin)
        finally:
            self._notifications -= 1

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
