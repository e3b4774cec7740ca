"""Requests of the modern era: each POST is one exchange, and there is nothing between them.

    a POST ──> its header fields agree with its body ──> who serves it?
        ──> an answer on the spot
        ──> a handler, in an exchange whose sink is the answer to this POST

When the client goes, the exchange is given up. Handlers that wait for input live in the server's nursery, not
here.

Spec: 2026-07-28, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, final

import trio

from .._codec import _json
from .._codec._json import close_weight_of, is_object
from .._codec._jsonrpc import Notification, Request, encode_error, encode_response
from .._core._http_headers import PROTOCOL_VERSION, check_request_headers, version_of
from .._core._http_rules import EVENT_STREAM, HttpRefused, HttpServerSettings, accepts, busy, status_of_error
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, SERVER_BUSY, RequestError
from .._logs import Log
from .._peer._exchange import Dispatcher, Exchange, Handler, Standing, not_begun
from .._peer._exchanges import reply_to
from .._peer._middleware import InterposedDispatcher
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
    """Whether parameters say by themselves that they are of the modern era."""
    meta = (params or {}).get("_meta")
    return is_object(meta) and (PROTOCOL_VERSION_KEY in meta or CLIENT_CAPABILITIES_KEY in meta)


@final
class ModernRequests:
    """Serves them.

    Args:
        server: The server.
        service: The run of it.
        nursery: Where streams are written.
        settings: How answers are sent.
        load: Counts what is served.
        turnstile: Where handlers wait before each notification that they send.
    """

    def __init__(
        self,
        server: Server[Any],
        service: Service[Any],
        nursery: trio.Nursery,
        settings: HttpServerSettings,
        load: RequestLimits,
        turnstile: Turnstile,
    ) -> None:
        self._server = server
        self._service = service
        self._nursery = nursery
        self._settings = settings
        self._load = load
        self._turnstile = turnstile
        # Nothing of it belongs to a client: a modern request brings everything along.
        session: Dispatcher = ServerSession(server, service, service.background)
        self._dispatcher = InterposedDispatcher(session, server.middleware) if server.middleware else session
        self._exchanges: dict[Exchange, None] = {}
        self._standing_bytes: Counter[str] = Counter()
        self._silent: dict[Exchange, PostAnswer] = {}  # in the order in which they began
        self._has_begun = LightParkingLot()
        self._known = frozenset(revision for revision in server.revisions if revision.is_modern)
        self._notifications = 0
        self._refusal: RequestError | None = None
        self._done = LightParkingLot()

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
            # Its traceback holds this frame, which would hold it: a cycle, with the whole request in it.
            decision, refusal = None, error.with_traceback(None)
        except KeyboardInterrupt:
            raise
        except BaseException:  # nothing in there waits  # noqa: ASYNC103
            # The boundary of one request, as when it comes over any other wire.
            _log.exception("%s could not be served", request.method)
            decision, refusal = None, RequestError(INTERNAL_ERROR, "internal error")
        if refusal is not None:
            await self.refuse(call, request, refusal)
            return
        if isinstance(decision, Standing):
            call.on_standing()  # it is no request among others
            try:
                with self._load.long_lived_request(call.loans.key, decision.places), self._weighed(call, request):
                    call.loans.served = None  # from here on it is lent as what can be taken back
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
        """Count what a request that stands open weighs, until its client has seen its end.

        Raises:
            HttpRefused: With it, those of its client weigh too much.
        """
        most = self._server.limits.max_subscription_bytes
        size = close_weight_of(_json.encode(request.params))
        if self._standing_bytes[call.loans.key] + size > most:
            problem = f"what you are subscribed to would take more than {most} bytes (max_subscription_bytes)"
            raise busy(429, problem, RETRY_AFTER)
        self._standing_bytes[call.loans.key] += size
        try:
            yield
        finally:
            self._standing_bytes[call.loans.key] -= size
            if not self._standing_bytes[call.loans.key]:
                del self._standing_bytes[call.loans.key]

    async def refuse(self, call: HttpCall, request: Request, error: RequestError) -> None:
        """Answer a request with an error."""
        await call.respond(status_of_error(error.code, modern=True), encode_error(request.id, error))

    def _check(self, call: HttpCall, request: Request) -> None:
        """Check that the header fields say what the body says.

        A version that nobody here speaks is refused as such: its rules for header fields may be others.
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
        standing: Standing | None,
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
            exchange.companion = self._dispatcher.companion_of(request, exchange.origin)
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
        """Whoever waits long, and every proxy on the way, is shown that there is something to wait for.

        One task does it for all requests, and runs as long as there may be some.
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
        """Accept a notification. Whether its sender waits for its handler is up to the sender.

        Raises:
            HttpRefused: Too many are being handled.
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
        """Refuse what comes, let what came finish within `Limits.drain_timeout`, stop the rest and answer it."""
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
