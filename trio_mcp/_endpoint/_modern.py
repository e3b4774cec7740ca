"""Requests of the modern era: each POST is one exchange, and no state connects them.

    a POST ──> its header fields agree with its body ──> the dispatcher decides
        ──> an answer at once
        ──> a handler, in an exchange whose sink is the answer to this POST

When the client goes, the exchange is cancelled. Handlers that wait for input run in the server's nursery, not
here.

Spec: 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, final

import attrs
import trio

from .._codec import _json
from .._codec._json import close_weight_of, is_object
from .._codec._jsonrpc import Notification, Request, encode_error, encode_response
from .._core._http_headers import PROTOCOL_VERSION, check_request_headers, version_of
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, accepts, busy, status_of_error
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_BUSY, RequestError
from .._logs import Log
from .._peer._exchange import Dispatcher, Exchange, Handler, LongLived, not_begun
from .._peer._exchanges import reply_to
from .._peer._middleware import MiddlewareDispatcher
from .._revisions import CLIENT_CAPABILITIES_KEY, METHODS, PROTOCOL_VERSION_KEY, Revision, Side
from .._server._parking import Service
from .._server._server import Server
from .._server._session import ServerSession
from .._trio import LightParkingLot
from ._call import HttpCall, HttpOrigin, RequestLimits
from ._session_channel import RETRY_AFTER
from ._streams import PostAnswer
from ._turnstile import Turnstile

_log: Final = Log("trio_mcp.http")


def names_era(params: Mapping[str, Any] | None) -> bool:
    """Whether `_meta` of parameters names the modern era."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and (PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta)


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

    _server: Server[Any]
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
        session: Dispatcher = ServerSession(server, self._service, self._service.background)
        self._dispatcher = MiddlewareDispatcher(session, server.middleware) if server.middleware else session
        self._known = frozenset(revision for revision in server.revisions if revision.is_modern)

    async def request(self, call: HttpCall, request: Request) -> None:
        """Answer a request."""
        refusal: RequestError | None = None
        origin = HttpOrigin(call.principal, call.loans.key)
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
                    await self._serve(call, request, origin, decision.handler, decision)
            except HttpRefused as refused:
                await call.respond(refused.status, encode_error(request.id, refused.error), refused.headers)
        elif callable(decision):
            await self._serve(call, request, origin, decision, None)
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
        self,
        call: HttpCall,
        request: Request,
        origin: HttpOrigin,
        handler: Handler,
        standing: LongLived | None,
    ) -> None:
        """Serve one exchange in this task, with the answer to its POST as its sink."""
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
        origin = HttpOrigin(call.principal, call.loans.key, call.loans.served)
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
