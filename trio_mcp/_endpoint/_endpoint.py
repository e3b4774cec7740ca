"""The HTTP endpoint of a server: who is let in, where a request goes, and of which era it is.

Each request is looked at by itself, so that clients of every revision use one endpoint at the same time:

    its parameters name a modern revision, or `MCP-Protocol-Version` does   ──> one exchange (`_modern`)
    anything else                                                           ──> a session (`_legacy`)
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast, final

import attrs
import trio

from .._codec import _json
from .._codec._json import is_array, is_object
from .._codec._jsonrpc import InvalidMessage, Message, Notification, Request, encode_error, parse_message, read_id
from .._core._account import Account, PoolStatistics
from .._core._http_headers import LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, answer_field
from .._core._http_rules import (
    EVENT_STREAM,
    JSON,
    HttpRefused,
    HttpServerSettings,
    busy,
    check_accept,
    check_content_type,
)
from .._errors import INTERNAL_ERROR, PARSE_ERROR, UNSUPPORTED_PROTOCOL_VERSION, RequestError
from .._logs import Log
from .._revisions import Revision
from .._server._lifetimes import Shutdown
from .._server._parking import Lifetime
from .._server._server import Server
from .._trio import Contained, LightParkingLot, going_on, open_hidden_nursery, sole_error
from ._call import Authenticate, HttpCall, RequestLimits, RequestLoans, RequestSlot, nothing
from ._event_store import EventStore, MemoryEventStore
from ._legacy import LegacySessions
from ._modern import ModernRequests, names_era
from ._session_channel import PostBody
from ._turnstile import Turnstile, Turnstiles

_log: Final = Log("trio_mcp.http")

MAX_BATCH: Final = 1_000
"""Messages in one batch."""

_PARTING: Final = frozenset({403, 421, 429, 503})
"""The statuses after which a connection ends."""

_OURS: Final = f"{LAST_EVENT_ID}, {METHOD}, {NAME}, {PROTOCOL_VERSION}, {SESSION_ID}"
_ALLOWED_HEADERS: Final = f"Accept, Authorization, Content-Type, {_OURS}".encode("ascii")
_EXPOSED_HEADERS: Final = f"{SESSION_ID}, WWW-Authenticate, Retry-After".encode("ascii")


@final
@attrs.frozen
class EndpointStatistics:
    """What is going on at an endpoint.

    Attributes:
        requests: Requests that are being served.
        standing: Places that subscriptions take.
        sessions: Sessions of the legacy era.
        dropped: Messages for the streams of such sessions that have made room for newer ones, because their
            clients had opened none.
        reading: POSTs that are being read, or are no requests and being answered.
        answering: Answers that their clients have not taken yet.
        kept: What is kept for clients: of `Limits.max_kept_bytes`, as ``"bytes"``, and of places.
    """

    requests: int
    standing: int
    sessions: int
    dropped: int = 0
    reading: int = 0
    answering: int = 0
    kept: Mapping[str, PoolStatistics] = attrs.field(factory=dict[str, PoolStatistics])


@final
class Endpoint:
    """Answers HTTP requests. Made by `open_endpoint`."""

    def __init__(
        self,
        server: Server[Any],
        settings: HttpServerSettings,
        modern: ModernRequests,
        legacy: LegacySessions,
        load: RequestLimits,
        turnstiles: Turnstiles,
        account: Account,
        authenticate: Authenticate | None,
    ) -> None:
        self._server = server
        self._settings = settings
        self._modern = modern
        self._legacy = legacy
        self._load = load
        self._turnstile = turnstiles.requests
        self._notifying = turnstiles.notifications
        self._account = account
        self._authenticate = authenticate
        self._hosts = settings.host_rules()
        self._forms = (JSON,) if settings.json_only else (JSON, EVENT_STREAM)
        self._routes: dict[str, dict[str, Callable[[HttpCall, RequestSlot], Awaitable[None]]]] = {
            settings.path.rstrip("/") or "/": {
                "POST": self._post,
                "GET": lambda call, _: legacy.get(call),
                "DELETE": lambda call, _: legacy.delete(call),
            }
        }
        if settings.sse and legacy.is_served:
            self._routes[settings.sse_path] = {"GET": lambda call, _: legacy.stream_as_2024(call)}
            self._routes[settings.messages_path] = {"POST": self._post_as_2024}
        self._proxies = settings.proxy_rules()
        self._max_decoded_bytes = server.limits.max_decoded_bytes
        self._active = 0
        self._idle = LightParkingLot()

    def statistics(self) -> EndpointStatistics:
        """Return counters."""
        load = self._load
        return EndpointStatistics(
            load.running,
            load.standing,
            len(self._legacy),
            self._legacy.dropped,
            load.reading,
            load.answering,
            self._account.statistics(),
        )

    async def handle(self, call: HttpCall) -> None:
        """Answer one request. What fails costs that request alone.

        Cancelled, the request is given up.
        """
        self._active += 1
        try:
            try:
                await self._admit(call)
            except HttpRefused as refused:
                await self._refuse(call, refused)
        except BaseException as error:  # noqa: ASYNC103
            if going_on(error) is not None:
                raise
            # The boundary of one request: it is told to our log in full, and to the other side not at all.
            _log.exception("%s %s failed", call.method, call.path)
            if not call.is_started:
                problem = RequestError(INTERNAL_ERROR, "internal error")
                await call.respond(500, encode_error(None, problem))  # noqa: ASYNC102, ASYNC104 - no cancellation
        finally:
            call.loans.give_back()
            # What it was asked to call holds what was sent, and is held by it: until the garbage collector comes.
            call.on_gone = call.on_answer = call.on_standing = nothing
            self._active -= 1
            if self._idle and not self._active:
                self._idle.unpark_all()

    async def _refuse(self, call: HttpCall, refused: HttpRefused) -> None:
        # A wrong name or page is somebody's setting, or somebody's attack; the rest is a client's business.
        level = logging.WARNING if refused.status in (403, 421) else logging.INFO
        _log.log(level, "refused %s %.100s of %s: %s", call.method, call.path, call.client, refused)
        if not call.is_started:
            # Who asks too much, or what they must not, need not ask more over this connection.
            closing = call.closing if refused.status in _PARTING else ()
            await call.respond(refused.status, encode_error(None, refused.error), [*refused.headers, *closing])

    async def _admit(self, call: HttpCall) -> None:
        """Check who is asking and for what, and go on."""
        settings = self._settings
        size = call.headers.size
        if size > settings.max_head_bytes:
            raise HttpRefused(431, f"header fields of {size} bytes; max_head_bytes is {settings.max_head_bytes}")
        if call.headers.has_repeats and len(call.headers.get_all("authorization")) > 1:
            raise HttpRefused(400, "Authorization is there more than once")  # whoever looks may see another
        call.client, call.scheme = self._proxies.sender(call.client, call.scheme, call.headers)
        self._hosts.check(call.headers)
        origin = call.headers.get("origin")
        if settings.cors and origin is not None:
            call.answer_headers += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED_HEADERS),
                (b"vary", b"Origin"),
            ]
        await self._route(call)

    async def _route(self, call: HttpCall) -> None:
        methods = self._routes.get(call.path.rstrip("/") or "/")
        if methods is None:
            raise HttpRefused(404, f"there is nothing at {call.path[:100]!r}")
        if call.method == "OPTIONS" and self._settings.cors:
            await self._preflight(call, ", ".join(methods).encode("ascii"))
        elif (answer := methods.get(call.method)) is None:
            raise HttpRefused(
                405, f"{call.method[:20]} is not allowed here", [(b"allow", ", ".join(methods).encode("ascii"))]
            )
        else:
            # Whoever it is, it counts from now on: finding out who costs something, too.
            key = call.key
            with self._load.arrived(key) as place:
                call.on_answer, call.on_standing = place, place.leave
                if self._authenticate is not None:
                    call.principal = await self._identify(call, self._authenticate)
                    key = call.key
                    place.belong_to(key)
                call.loans = RequestLoans(self._account.bytes, key)
                if key != self._turnstile.last_seen:
                    self._turnstile.see(key)
                await answer(call, place)

    async def _identify(self, call: HttpCall, authenticate: Authenticate) -> str | None:
        """Find out who sends a request; return the principal.

        That is code of the server's author. Whatever it raises or leaves open costs this request alone. It may
        take as long as its client waits, but no longer than `authenticate_timeout`.

        Raises:
            HttpRefused: Whoever it is must not be let in, or nobody can tell.
        """
        failures: list[BaseException] = []
        timeout = self._settings.authenticate_timeout
        block = Contained(failures.append, trio.CancelScope(deadline=trio.current_time() + timeout))
        said: object = None
        before = list(call.answer_headers)
        with block:
            call.on_gone = block.scope.cancel
            if call.is_gone:
                call.on_gone()
            said = cast("object", await authenticate(call))
            call.answer_headers = [answer_field(name, value) for name, value in call.answer_headers]
            before = call.answer_headers
        call.answer_headers = before
        call.on_gone = nothing
        if failures:
            raise self._failed_to_identify(call, failures[0])
        if block.scope.cancelled_caught:
            if call.is_gone:
                raise HttpRefused(400, "the client went away before it was known who it is")
            _log.error("authenticate took more than %g s (authenticate_timeout)", timeout)
            raise busy(503, "it takes too long to find out who you are (authenticate_timeout)")
        if said is None and self._settings.allow_anonymous:
            return None
        if said is None or said == "":
            raise HttpRefused(401, "nobody is known to have sent this", [("www-authenticate", "Bearer")])
        if isinstance(said, str):
            return said
        problem = TypeError(f"authenticate must return a str, or None for nobody, not {type(said).__name__}")
        raise self._failed_to_identify(call, problem)

    @staticmethod
    def _failed_to_identify(call: HttpCall, error: BaseException) -> HttpRefused:
        """Return what is answered when `authenticate` has raised something."""
        cause = error
        if isinstance(error, BaseExceptionGroup):  # it may have a nursery
            cause = sole_error(cast("BaseExceptionGroup[BaseException]", error)) or cause
        if isinstance(cause, HttpRefused):
            return cause
        _log.error("authenticate failed for %s", call.client, exc_info=cause)
        return HttpRefused(500, "internal error", code=INTERNAL_ERROR)

    async def _preflight(self, call: HttpCall, methods: bytes) -> None:
        asked = call.headers.get("access-control-request-headers") or ""
        mirrored = [name.strip() for name in asked.split(",") if name.strip().lower().startswith("mcp-param-")]
        allowed = b", ".join((_ALLOWED_HEADERS, *(name.encode("latin-1") for name in mirrored)))
        await call.respond(
            204,
            headers=[
                (b"access-control-allow-methods", methods),
                (b"access-control-allow-headers", allowed),
                (b"access-control-max-age", b"86400"),
            ],
        )

    # POSTs.

    async def _post(self, call: HttpCall, place: RequestSlot) -> None:
        check_content_type(call.headers)
        check_accept(call.headers, *self._forms)
        body = await call.read_body()
        await self._turnstile.serve(call, body, partial(self._take, call, place, body))

    async def _take(self, call: HttpCall, place: RequestSlot, body: bytes) -> None:
        value = self._decoded(call, body)
        if is_array(value):
            await self._post_batch(call, place, body, value)
            return
        try:
            message = parse_message(value)
        except InvalidMessage as error:
            await self._invalid(call, value, error)
            return
        if isinstance(message, Request):
            place.serve()
        if self._is_modern(call, message):
            await self._post_modern(call, message)
        else:
            await self._legacy.post(call, place, PostBody(body, value, [message]))

    def _decoded(self, call: HttpCall, body: bytes) -> Any:
        call.loans.serve(body, self._max_decoded_bytes)
        try:
            return _json.decode(body)
        except (ValueError, RecursionError) as error:
            raise HttpRefused(400, f"parse error: {error}", code=PARSE_ERROR) from error

    async def _invalid(self, call: HttpCall, value: Any, error: InvalidMessage) -> None:
        problem = HttpRefused(400, f"invalid request: {error.reason}")
        id = read_id(value.get("id")) if is_object(value) else None
        _log.info("refused %s %.100s of %s: %s", call.method, call.path, call.client, problem)
        await call.respond(400, encode_error(id if error.answerable else None, problem.error))

    def _is_modern(self, call: HttpCall, message: Message) -> bool:
        """Whether a message is of the modern era: it says so itself, or its header does."""
        if isinstance(message, (Request, Notification)) and names_era(message.params):
            return True
        version = call.headers.get(PROTOCOL_VERSION)
        if version is None:
            return not self._legacy.is_served
        known = next((revision for revision in Revision if revision == version), None)
        if known is not None:
            return known.is_modern or not self._legacy.is_served
        # A revision nobody knows. Sessions, and what begins them, are the legacy era's.
        begins = isinstance(message, Request) and message.method == "initialize"
        return SESSION_ID not in call.headers and not begins

    async def _post_modern(self, call: HttpCall, message: Message) -> None:
        if isinstance(message, Request):
            version = None if names_era(message.params) else call.headers.get(PROTOCOL_VERSION)
            if version is None or self._speaks(version):
                await self._modern.request(call, message)
            else:
                await self._modern.refuse(call, message, self._unsupported(version))
        elif isinstance(message, Notification):
            await self._modern.notification(call, message)
        else:
            raise HttpRefused(
                400, "invalid request: a server of this revision asks nothing, so there is no answer"
            )

    def _speaks(self, version: str) -> bool:
        return any(revision == version and revision.is_modern for revision in self._server.revisions)

    def _unsupported(self, version: str) -> RequestError:
        data: Mapping[str, object] = {
            "supported": [str(revision) for revision in sorted(self._server.revisions, reverse=True)],
            "requested": version,
        }
        return RequestError(UNSUPPORTED_PROTOCOL_VERSION, f"unsupported protocol version {version[:40]!r}", data)

    async def _post_batch(self, call: HttpCall, place: RequestSlot, body: bytes, values: list[Any]) -> None:
        """Take a batch: 2025-03-26 alone has them (basic, "Batching")."""
        if not values or len(values) > MAX_BATCH:
            raise HttpRefused(
                400, f"invalid request: a batch of {len(values)} messages; 1 to {MAX_BATCH} may be in one"
            )
        if not self._legacy.is_served:
            raise HttpRefused(400, "invalid request: the revision in use has no batches")
        messages: list[Message] = []
        for value in values:
            try:
                message = parse_message(value)
            except InvalidMessage as error:
                raise HttpRefused(400, f"invalid request: in a batch, {error.reason}") from error
            self._check_legacy(message)
            messages.append(message)
        posted = PostBody(body, values, messages)
        if posted.requests:
            place.serve()
            self._turnstile.charge_batch(call.loans.key, len(posted.requests))
        await self._legacy.post(call, place, posted)

    @staticmethod
    def _check_legacy(message: Message) -> None:
        """Check that what goes to a session belongs to one.

        A modern message comes alone, at the endpoint, and its header fields say what it says: proxies route by
        them, and let in or not. A way around that check would be a way past those proxies.

        Spec: 2026-07-28, basic/transports/streamable-http, "Sending Messages" and "Request Metadata".

        Raises:
            HttpRefused: It is a modern one.
        """
        if isinstance(message, (Request, Notification)) and names_era(message.params):
            newest = max(revision for revision in Revision if revision.is_modern)
            raise HttpRefused(400, f"invalid request: a message of {newest} comes alone, as a POST of its own")

    async def _post_as_2024(self, call: HttpCall, place: RequestSlot) -> None:
        check_content_type(call.headers)
        body = await call.read_body()
        await self._turnstile.serve(call, body, partial(self._take_as_2024, call, place, body))

    async def _take_as_2024(self, call: HttpCall, place: RequestSlot, body: bytes) -> None:
        value = self._decoded(call, body)
        try:
            messages = [parse_message(value)]
        except InvalidMessage:
            messages = []  # the session says so, on its stream
        for message in messages:
            self._check_legacy(message)
        if any(isinstance(message, Request) for message in messages):
            place.serve()
        await self._legacy.post_as_2024(call, place, PostBody(body, value, messages))

    # How it ends.

    async def drain(self) -> None:
        """Serve nothing new; let what is being served finish within `Limits.drain_timeout`, then cancel it.

        What came is answered, subscriptions and sessions are ended in good order. May be cancelled.
        """
        limits = self._server.limits
        self._turnstile.open()
        self._notifying.open()
        with trio.move_on_after(limits.drain_timeout + limits.goodbye_timeout):
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._modern.drain)
                nursery.start_soon(self._legacy.drain)
            while self._active:
                await self._idle.park()


@asynccontextmanager
async def open_endpoint(
    server: Server[Any],
    settings: HttpServerSettings | None = None,
    *,
    authenticate: Authenticate | None = None,
    event_store: EventStore | None = None,
    shutdown: Shutdown | None = None,
) -> AsyncGenerator[Endpoint]:
    """Run a server as an HTTP endpoint for as long as the body runs.

    Leaving cancels what is still being served; `Endpoint.drain` before lets it finish. An exception of the body
    comes out as itself.

    Args:
        server: The server.
        settings: What is served, and to whom.
        authenticate: Finds out who sends a request; see `serve_http`.
        event_store: Keeps events for clients of the legacy era that lost a connection; in memory by default.
        shutdown: Says how long the lifespan may take. Who serves the endpoint heeds the rest of it.

    Raises:
        EndedBeforeStart: The lifespan was cancelled while it was being entered.
    """
    settings = HttpServerSettings() if settings is None else settings
    lifetime = Lifetime(Shutdown() if shutdown is None else shutdown, server.limits)
    store = MemoryEventStore() if event_store is None else event_store
    async with server.open_service(lifetime) as service, open_hidden_nursery() as nursery:
        load = RequestLimits(settings, server.limits)
        requests = Turnstile(nursery)
        turnstiles = Turnstiles(requests, Turnstile(nursery, among=requests))
        modern = ModernRequests(server, service, nursery, settings, load, turnstiles.notifications)
        if settings.keep_alive_interval < math.inf:
            nursery.start_soon(modern.show_life)
        legacy = LegacySessions(server, service, nursery, settings, store, turnstiles)
        try:
            yield Endpoint(server, settings, modern, legacy, load, turnstiles, service.account, authenticate)
        finally:
            nursery.cancel_scope.cancel(reason="the endpoint was closed")
