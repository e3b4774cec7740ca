"""The HTTP endpoint of a server: who is let in, where a request goes, and of which era it is.

The era is decided for each request by itself, so that clients of all revisions use one endpoint at the same time:

    its parameters name a modern revision, or `MCP-Protocol-Version` does   ──> one exchange (`_modern`)
    anything else                                                           ──> a session (`_legacy`)
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, cast, final

import attrs
import trio

from .._auth._verifiers import ResourceServer
from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import InvalidMessage, Message, Notification, Request, encode_error, parse_message, read_id
from .._core._account import Account
from .._core._http1 import METHOD, PROTOCOL_VERSION, SESSION_ID, answer_field
from .._core._http_rules import (
    EVENT_STREAM,
    JSON,
    MAX_HEAD_BYTES,
    HostRules,
    HttpRefused,
    HttpServerSettings,
    ProxyRules,
    audit_http,
    busy,
    check_accept,
    check_content_type,
)
from .._core._lifecycle import names_era
from .._errors import INTERNAL_ERROR, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION, RequestError
from .._limits import check_given
from .._logs import Log
from .._peer._sender import MAX_BATCH
from .._revisions import Revision
from .._server._lifetimes import Lifetime, Shutdown
from .._server._server import Hosted, Servable, hosted
from .._trio import Contained, LightParkingLot, open_hidden_nursery, propagating, sole_error
from ._authorization import Guard, identifier, open_guard
from ._call import (
    Authenticate,
    HttpCall,
    RequestLimits,
    RequestLoans,
    RequestSlot,
    nothing,
)
from ._event_store import EventStore, MemoryEventStore
from ._groups import Group, ServesModern, among
from ._legacy import LegacySessions, check_legacy
from ._modern import ModernRequests
from ._routes import OtherRoutes, PageRules, Route, Routes, plain_path
from ._session_channel import PostBody
from ._statistics import EndpointStatistics
from ._websockets import WebSocketCall, WebSocketSessions

_log: Final = Log("trio_mcp.http")

AUTHENTICATE_TIMEOUT: Final = 30.0
"""Seconds that `authenticate` may take. What should take less can say so itself, by `trio.fail_after`."""

_REVISIONS: Final = {revision.value: revision for revision in Revision}

_LISTEN: Final = "subscriptions/listen"

_PARTING: Final = frozenset({403, 421, 429, 503})
"""The statuses after which the connection ends."""


@final
@attrs.define(eq=False)
class Endpoint:
    """Answers HTTP requests. Made by `open_endpoint`.

    Attributes:
        settings: What is served, and to whom.
        legacy: The sessions of the legacy era.
        serves_websockets: Whether a request to upgrade becomes a WebSocket.
    """

    _server: Hosted
    settings: HttpServerSettings
    _modern: ModernRequests
    legacy: LegacySessions
    _request_limits: RequestLimits
    _account: Account
    _authenticate: Callable[[HttpCall], Awaitable[object]] | None
    _websockets: WebSocketSessions
    _only_websockets: bool = attrs.field(alias="only_websockets", kw_only=True)
    _guard: Guard | None = attrs.field(alias="guard", kw_only=True, default=None)
    _own_routes: Routes = attrs.field(alias="routes", kw_only=True, factory=dict[str, Route])
    _rest: Route | None = attrs.field(alias="rest", kw_only=True, default=None)
    _group: Group | None = attrs.field(alias="group", kw_only=True, default=None)
    _serve_modern: ServesModern = attrs.field(init=False)
    serves_websockets: bool = attrs.field(init=False)
    _hosts: HostRules = attrs.field(init=False)
    _proxies: ProxyRules = attrs.field(init=False)
    _pages: PageRules = attrs.field(init=False)
    _allowed: dict[str, bytes] = attrs.field(init=False)
    _routes: dict[str, dict[str, Callable[[HttpCall, RequestSlot], Awaitable[None]]]] = attrs.field(init=False)
    _others: OtherRoutes = attrs.field(init=False)
    _answer_forms: tuple[str, ...] = attrs.field(init=False)  # which a client must accept
    _decode: Callable[[HttpCall, bytes], Any] = attrs.field(init=False)
    _is_draining: bool = attrs.field(default=False, init=False)
    _active: int = attrs.field(default=0, init=False)
    _idle: LightParkingLot = attrs.field(factory=LightParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        settings, legacy = self.settings, self.legacy
        self._answer_forms = (JSON,) if settings.json_only else (JSON, EVENT_STREAM)
        self.serves_websockets = settings.websocket or self._only_websockets
        self._hosts = settings.host_rules()
        self._pages = PageRules(settings)
        self._proxies = settings.proxy_rules()
        self._routes = {
            settings.path.rstrip("/") or "/": {
                "POST": self._post,
                "GET": self._get,
                "DELETE": lambda call, _: legacy.delete(call),
            }
        }
        if self._only_websockets:
            self._routes = {settings.path.rstrip("/") or "/": {"GET": self._websockets.serve}}
        elif settings.sse and legacy.is_served:
            stream, messages = map(plain_path, settings.sse_paths)
            self._routes[stream] = {"GET": lambda call, _: legacy.stream_as_2024(call)}
            self._routes[messages] = {"POST": self._post_as_2024}
        # At the endpoint itself, a GET and a DELETE are answered, but allowed only if there are sessions.
        unmet = "" if legacy.is_served and not settings.stateless else "DELETE"
        unmet += " GET" if unmet and not self.serves_websockets else ""
        self._allowed = {
            path: ", ".join(
                each for each in methods if path != plain_path(settings.path) or each not in unmet
            ).encode()
            for path, methods in self._routes.items()
        }
        self._serve_modern = self._modern.request
        if taken := sorted({plain_path(path) for path in self._own_routes} & set(self._routes)):
            raise ValueError(f"routes: the endpoint itself is served at {taken[0]!r}")
        open_to_all: dict[str, Route] = {}
        if settings.health_path is not None:
            open_to_all[plain_path(settings.health_path)] = self._health
        if self._guard is not None:
            open_to_all |= self._guard.routes(settings.path)
            self._decode = self._decoded_and_checked
        else:
            self._decode = self._decoded
        if self._group is not None:
            self._routes = among(self._group, self._routes, legacy, plain_path(settings.sse_paths[1]))
            self._decode, self._serve_modern = self._group.by_state(self._decode, self._modern.request)
        self._others = OtherRoutes(self._own_routes, self._rest, open_to_all)

    def statistics(self) -> EndpointStatistics:
        """Return counters."""
        counted = self._request_limits
        return EndpointStatistics(
            counted.served.total,
            counted.subscriptions.total,
            len(self.legacy),
            self.legacy.dropped,
            counted.read.total,
            counted.answered.total,
            self._account.statistics(),
            len(self._websockets),
        )

    async def handle(self, call: HttpCall) -> None:
        """Answer one request. What fails costs that request alone.

        Cancelled, the request is cancelled, and its answer stays incomplete.
        """
        self._active += 1
        try:
            try:
                self._admit(call)
                await self._route(call)
            except HttpRefused as refused:
                await self._refuse(call, refused)
        except BaseException as error:  # noqa: ASYNC103
            if propagating(error) is not None:
                raise
            # The boundary of one request: our log gets the error in full, and the client nothing of it.
            _log.exception("%s %s failed", call.method, call.path)
            if not call.is_started:
                problem = RequestError(INTERNAL_ERROR, "internal error")
                await call.respond(500, encode_error(None, problem))  # noqa: ASYNC102, ASYNC104 - no cancellation
        finally:
            call.loans.give_back()
            # The callbacks refer to what was sent, which refers to them: a cycle for the garbage collector.
            call.on_gone = call.on_answer = call.on_standing = nothing
            self._active -= 1
            if self._is_draining and not self._active:
                self._idle.unpark_all()

    async def _refuse(self, call: HttpCall, refused: HttpRefused) -> None:
        # A wrong Host or Origin is a wrong setting or an attack; the rest concerns the client.
        asks = any(name.lower() == b"www-authenticate" for name, _ in refused.headers)
        level = logging.WARNING if refused.status in (403, 421) and not asks else logging.INFO
        _log.log(level, "refused %s %.100s of %s: %s", call.method, call.path, call.client, refused)
        audit_http(refused, call.method, call.path, call.client, call.principal)
        if not call.is_started:
            # A client that asks too much, or what it must not, need not go on over this connection; unless it is
            # asked to come back with another token.
            closing = call.closing if refused.status in _PARTING and not asks else ()
            await call.respond(refused.status, encode_error(None, refused.error), [*refused.headers, *closing])

    def _admit(self, call: HttpCall) -> None:
        """Check the header fields.

        Raises:
            HttpRefused: They are too large, or the client is not admitted.
        """
        headers = call.headers
        size = headers.size
        if size > MAX_HEAD_BYTES:
            raise HttpRefused(431, f"header fields of {size} bytes; {MAX_HEAD_BYTES} are allowed")
        if headers.has_repeats and len(headers.get_all("authorization")) > 1:
            # Others may read another one.
            raise HttpRefused(400, "Authorization is sent more than once; send it once")
        if self._proxies.trusts_any:
            call.client, call.scheme = self._proxies.sender(call.client, call.scheme, headers)
        try:
            self._hosts.check(headers)
        except HttpRefused:
            if not self._others.is_open(call.path):
                raise
        if self._pages.are_on:
            self._pages.add_to(call)

    async def _route(self, call: HttpCall) -> None:
        path = call.path.rstrip("/") or "/"
        methods = self._routes.get(path)
        if methods is None:
            await self._serve_other(call)
        # Nothing reads its connection any more, so a stream on it would not notice that the client leaves.
        elif call.is_websocket and path != (self.settings.path.rstrip("/") or "/"):
            raise HttpRefused(404, f"no WebSocket is served at {call.path[:100]!r}")
        elif call.method == "OPTIONS" and self._pages.are_on:
            await self._pages.preflight(call, self._allowed[path])
        elif (answer := methods.get(call.method)) is None:
            raise HttpRefused(405, f"{call.method[:20]} is not allowed here", [(b"allow", self._allowed[path])])
        else:
            # It counts from now on: authenticating costs something, too.
            key = call.key
            slot = self._request_limits.arrived(key)
            try:
                call.on_answer, call.on_standing = slot, slot.leave
                if self._authenticate is not None:
                    known = None if self._guard is None else self._guard.recall(call)
                    call.principal = known or await self._identify(call, self._authenticate)
                    key = call.key
                    slot.belong_to(key)
                    # By its fields, which are checked against its body: a scope for each request would cost more.
                    if call.method == "GET" or call.headers.get(METHOD) == _LISTEN:
                        answer = partial(self._while_accepted, answer)
                call.loans = RequestLoans(self._account.bytes, key)
                await answer(call, slot)
            finally:
                slot.leave()

    async def _while_accepted(
        self, answer: Callable[[HttpCall, RequestSlot], Awaitable[None]], call: HttpCall, slot: RequestSlot
    ) -> None:
        """Answer a request; if that turns out to be a stream, it ends with what it was opened with."""
        guard, scope = self._guard, trio.CancelScope()

        def stand() -> None:
            slot.leave()
            if guard is not None:
                guard.watch(call, scope)

        call.on_standing = stand
        try:
            with scope:
                await answer(call, slot)
        finally:
            if guard is not None:
                guard.unwatch(call, scope)

    async def _serve_other(self, call: HttpCall) -> None:
        """Answer a request that is none of the protocol's."""
        route = self._others.find(call.path)
        if route is None:
            raise HttpRefused(404, f"nothing is served at {call.path[:100]!r}")
        key = call.key
        slot = self._request_limits.arrived(key)
        try:
            call.on_answer, call.on_standing = slot, slot.leave
            call.loans = RequestLoans(self._account.bytes, key)
            failures: list[BaseException] = []
            block = Contained(failures.append, trio.CancelScope())
            with block:
                call.on_gone = block.scope.cancel
                if call.is_gone:
                    call.on_gone()
                await route(call)
            call.on_gone = nothing
            if failures:
                raise failures.pop()  # its frames have this one: kept in it, it would be a cycle
            call.check_answered()
        finally:
            slot.leave()

    async def _health(self, call: HttpCall) -> None:
        """Say whether requests are served, for load balancers."""
        body = _json.encode({"status": "draining" if self._is_draining else "ready"})
        await call.respond(503 if self._is_draining else 200, body, [(b"cache-control", b"no-store")])

    async def _identify(
        self, call: HttpCall, authenticate: Callable[[HttpCall], Awaitable[object]]
    ) -> str | None:
        """Authenticate a request; return the principal.

        `authenticate` is the user's code. What it raises or leaves open costs this request alone. It is cancelled
        when its client goes, and after `AUTHENTICATE_TIMEOUT`.

        Raises:
            HttpRefused: The client is refused, or could not be authenticated.
        """
        failures: list[BaseException] = []
        deadline = trio.current_time() + AUTHENTICATE_TIMEOUT
        block = Contained(failures.append, trio.CancelScope(deadline=deadline))
        principal: object = None
        before = list(call.answer_headers)
        with block:
            call.on_gone = block.scope.cancel
            if call.is_gone:
                call.on_gone()
            principal = await authenticate(call)
            call.answer_headers = [answer_field(name, value) for name, value in call.answer_headers]
            before = call.answer_headers
        call.answer_headers = before
        call.on_gone = nothing
        if failures:
            raise self._failed_to_identify(call, failures.pop())  # as in `_serve_other`
        if block.scope.cancelled_caught:
            if call.is_gone:
                raise HttpRefused(400, "the client went away before it was authenticated")
            _log.error("authenticate took more than %g s", AUTHENTICATE_TIMEOUT)
            raise busy(503, "authenticating you takes too long; try again")
        if principal is None and self.settings.allow_anonymous:
            return None
        if principal is None or principal == "":
            raise HttpRefused(401, "the request is not authenticated", [("www-authenticate", "Bearer")])
        if isinstance(principal, str):
            return principal
        kind = type(principal).__name__
        problem = TypeError(f"authenticate must return a str, a Principal, or None (anonymous), and not {kind}")
        raise self._failed_to_identify(call, problem)

    @staticmethod
    def _failed_to_identify(call: HttpCall, error: BaseException) -> HttpRefused:
        """Return the refusal when `authenticate` has failed."""
        cause = error
        if isinstance(error, BaseExceptionGroup):  # of a nursery in it
            cause = sole_error(cast("BaseExceptionGroup[BaseException]", error)) or cause
        if isinstance(cause, HttpRefused):
            return cause
        _log.error("authenticate failed for %s", call.client, exc_info=cause)
        return HttpRefused(500, "internal error", code=INTERNAL_ERROR)

    async def _get(self, call: HttpCall, slot: RequestSlot) -> None:
        """Answer a GET: a WebSocket, or the stream of a session."""
        if isinstance(call, WebSocketCall):
            await self._websockets.serve(call, slot)
        else:
            await self.legacy.get(call)

    # POSTs.

    async def _post(self, call: HttpCall, slot: RequestSlot) -> None:
        check_content_type(call.headers)
        check_accept(call.headers, *self._answer_forms)
        body = await call.take_body()
        value = self._decode(call, body)
        try:
            message = parse_message(value)
        except InvalidMessage as error:
            if is_array(value):
                await self._post_batch(call, slot, body, value)
            else:
                await self._invalid(call, value, error)
            return
        if isinstance(message, Request):
            slot.serve()
        if isinstance(message, Request) and names_era(message.params):
            await self._serve_modern(call, message)
        elif self._is_modern(call, message):
            await self._post_modern(call, message)
        else:
            await self.legacy.post(call, slot, PostBody(body, value, [message]))

    def _decoded(self, call: HttpCall, body: bytes) -> Any:
        call.loans.serve(body, self._server.limits.max_decoded_bytes)
        try:
            return _json.decode(body)
        except (ValueError, RecursionError) as error:
            raise HttpRefused(400, f"parse error: {error}", code=PARSE_ERROR) from error

    def _decoded_and_checked(self, call: HttpCall, body: bytes) -> Any:
        assert self._guard is not None
        value = self._decoded(call, body)
        self._guard.check_body(call, body, value)
        return value

    async def _invalid(self, call: HttpCall, value: Any, error: InvalidMessage) -> None:
        problem = HttpRefused(400, f"invalid request: {error.reason}")
        id = read_id(value.get("id")) if is_object(value) else None
        _log.info("refused %s %.100s of %s: %s", call.method, call.path, call.client, problem)
        audit_http(problem, call.method, call.path, call.client, call.principal)
        await call.respond(400, encode_error(id if error.answerable else None, problem.error))

    def _is_modern(self, call: HttpCall, message: Message) -> bool:
        """Whether a message is of the modern era, by its own `_meta` or by its header field."""
        if isinstance(message, (Request, Notification)) and names_era(message.params):
            return True
        version = call.headers.get(PROTOCOL_VERSION)
        if version is None:
            return not self.legacy.is_served
        known = _REVISIONS.get(version)
        if known is not None:
            return known.is_modern or not self.legacy.is_served
        # An unknown revision. Requests that name or begin a session are of the legacy era.
        begins = isinstance(message, Request) and message.method == "initialize"
        return SESSION_ID not in call.headers and not begins

    async def _post_modern(self, call: HttpCall, message: Message) -> None:
        if isinstance(message, Request):
            version = None if names_era(message.params) else call.headers.get(PROTOCOL_VERSION)
            if version is None or any(known == version and known.is_modern for known in self._server.revisions):
                await self._serve_modern(call, message)
            else:
                await self._modern.refuse(call, message, self._unsupported(version))
        elif isinstance(message, Notification):
            await self._modern.notification(call, message)
        else:
            raise HttpRefused(
                400, "invalid request: servers of this revision send no requests, so send no responses"
            )

    def _unsupported(self, version: str) -> RequestError:
        data: Mapping[str, object] = {
            "supported": [str(revision) for revision in sorted(self._server.revisions, reverse=True)],
            "requested": version,
        }
        return RequestError(UNSUPPORTED_PROTOCOL_VERSION, f"unsupported protocol version {version[:40]!r}", data)

    async def _post_batch(self, call: HttpCall, slot: RequestSlot, body: bytes, values: list[Any]) -> None:
        """Take a batch: only 2025-03-26 has them (basic, "Batching")."""
        if not values or len(values) > MAX_BATCH:
            raise HttpRefused(
                400, f"invalid request: a batch of {len(values)} messages; 1 to {MAX_BATCH} may be in one"
            )
        if not self.legacy.is_served:
            raise HttpRefused(400, "invalid request: the revision in use has no batches")
        messages: list[Message] = []
        for value in values:
            try:
                message = parse_message(value)
            except InvalidMessage as error:
                raise HttpRefused(400, f"invalid request: in a batch, {error.reason}") from error
            check_legacy(message)
            messages.append(message)
        posted = PostBody(body, values, messages)
        if posted.requests:
            slot.serve()
        await self.legacy.post(call, slot, posted)

    async def _post_as_2024(self, call: HttpCall, slot: RequestSlot) -> None:
        check_content_type(call.headers)
        body = await call.take_body()
        value = self._decode(call, body)
        values: list[Any] = value if is_array(value) and len(value) <= MAX_BATCH else [value]
        try:
            messages = [parse_message(each) for each in values]
        except InvalidMessage:
            messages = []  # the session refuses it, on its stream
        for message in messages:
            check_legacy(message)
        if any(isinstance(message, Request) for message in messages):
            slot.serve()
        await self.legacy.post_as_2024(call, slot, PostBody(body, value, messages))

    # Draining.

    async def drain(self) -> None:
        """Serve nothing new; let requests finish within `Limits.drain_timeout`, then cancel them.

        All requests are answered; subscriptions and sessions end in good order. Cancelled, it leaves the rest to
        `open_endpoint`.
        """
        limits = self._server.limits
        self._is_draining = True
        with trio.move_on_after(limits.drain_timeout + limits.goodbye_timeout):
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._modern.drain)
                nursery.start_soon(self.legacy.drain)
                nursery.start_soon(self._websockets.drain)
            while self._active:
                await self._idle.park()


@asynccontextmanager
async def open_endpoint(
    server: Servable[Any],
    settings: HttpServerSettings | None = None,
    *,
    authenticate: Authenticate | None = None,
    auth: ResourceServer | None = None,
    event_store: EventStore | None = None,
    shutdown: Shutdown | None = None,
    only_websockets: bool = False,
    routes: Routes | None = None,
    rest: Route | None = None,
    group: Group | None = None,
) -> AsyncGenerator[Endpoint]:
    """Run a server as an HTTP endpoint for as long as the body runs.

    Leaving cancels what is still being served; `Endpoint.drain` before lets it finish. An exception of the body
    comes out as itself.

    Args:
        server: The server.
        settings: What is served, and to whom.
        authenticate: Authenticates requests; see `serve_http`.
        auth: Protects it by OAuth, instead.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        shutdown: How long the lifespan may take. The rest of it is up to the caller.
        only_websockets: Whether nothing but WebSockets is served.
        routes: What is served beside the protocol; see `serve_http`.
        rest: Gets what no route is for; `None` for nothing.
        group: The processes that it is served by, if this is not the only one; for `run_workers`.

    Raises:
        ValueError: Both `auth` and `authenticate` are given, or a path is served twice.
        EndedBeforeStart: The lifespan was cancelled while it was being entered.
    """
    served = hosted(server, "open_endpoint()")
    check_given(open_endpoint, locals())
    settings = HttpServerSettings() if settings is None else settings
    lifetime = Lifetime(Shutdown() if shutdown is None else shutdown, served.limits)
    shared = None if group is None else group.store
    if event_store is None:
        event_store = MemoryEventStore() if shared is None else shared.events
    nonce_key = None if group is None else group.secret("dpop-nonces")
    identify = identifier(served, auth, authenticate)
    async with (
        served.open_service(lifetime, None if shared is None else shared.tasks) as service,
        nullcontext()
        if auth is None
        else open_guard(auth, served.lacking_scopes, service.account.bytes, nonce_key) as guard,
        open_hidden_nursery() as nursery,
    ):
        if group is not None:
            group.join(service, served)
        request_limits = RequestLimits(settings, served.limits)
        modern = ModernRequests(served, service, nursery, settings, request_limits)
        if settings.keep_alive_interval < math.inf:
            nursery.start_soon(modern.show_life)
        kept = None if shared is None else shared.sessions
        legacy = LegacySessions(served, service, nursery, settings, event_store, kept)
        try:
            yield Endpoint(
                served,
                settings,
                modern,
                legacy,
                request_limits,
                service.account,
                identify if guard is None else guard.authenticate,
                WebSocketSessions(served, service, settings),
                only_websockets=only_websockets,
                guard=guard,
                routes={} if routes is None else routes,
                rest=rest,
                group=group,
            )
        finally:
            nursery.cancel_scope.cancel(reason="the endpoint was closed")
