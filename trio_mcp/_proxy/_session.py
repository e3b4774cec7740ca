"""One connection of a client to a proxy: which upstream connection serves each request, and in which era.

    client  server
    legacy  legacy  as it is, in a session of its own
    modern  modern  as it is
    legacy  modern  each request says what the session has agreed on; what the server asks back is asked within
                    the request, which is then sent again with the answers
    modern  legacy  by a session that is made for the client; a question of the server is the answer to the
                    client's request, and what is forwarded waits for the next one, as handlers do

What messages become on the way is in `_eras`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Final, cast, final

import attrs
import trio

from .. import types
from .._channel import Origin, ReleasableOrigin, client_key_of
from .._client._connection import ClientIdentity
from .._client._low_level import IDLE_ROUNDS, answered_all
from .._codec import _json
from .._codec._json import InvalidData, is_object
from .._codec._jsonrpc import Notification, Request, from_wire, to_wire
from .._core._changes import HANDLED_BY_CONNECTION
from .._core._lifecycle import Agreement, ServerLifecycle, names_era
from .._core._reconnect import Backoff
from .._errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpError, RequestError
from .._logs import Log
from .._peer._exchange import Answer, Exchange, Handler, LongLived, OnProgress
from .._peer._peer import Peer
from .._revisions import INPUT_METHODS, QUESTIONS, REFUSED, WITHOUT_HANDLER, Revision, Side
from .._server._context import Context, Surroundings, ask_in, notify_in
from .._server._input_required import Asking, input_types
from .._server._lifetimes import Background
from .._server._listing import read_params
from .._server._parking import Service
from .._server._permits import Throttle
from .._server._session import Session, check_client_info
from ._eras import (
    UNKNOWN,
    no_such_method,
    to_discover_result,
    to_error,
    to_initialize_result,
    to_legacy_question,
    to_legacy_result,
    to_modern_result,
    with_subscription,
)
from ._subscriptions import FollowedChanges, forward_listening, listen_for
from ._upstream import Caller, SharedKey, Upstream, Upstreams, reporting

_log: Final = Log("trio_mcp.proxy")

_UNCOUNTED: Final = WITHOUT_HANDLER | {"resources/subscribe", "resources/unsubscribe"}
"""The requests that no rate is about, as on a server."""

_connections: Final = count(1)


@final
class ProxySession(Session):
    """Dispatches the messages of one client to the server; over HTTP, of all clients of the modern era.

    Args:
        revisions: The revisions that clients may speak.
        service: The running proxy, with its connections to the server.
        background: Starts tasks that last as long as the connection.
        assumed: The agreement for requests of the legacy era without a handshake.
        client: The client that places are lent to; by default the connection counts as a client by itself.
        throttle: How often each client may send requests; `None` for as often as it likes.

    Attributes:
        peer: The connection to the client; `None` if there is none, or not any more.
        ready: Set when the client takes messages that it has not asked for.
    """

    def __init__(
        self,
        revisions: tuple[Revision, ...],
        service: Service[Upstreams],
        background: Background,
        assumed: Agreement | None,
        client: str | None,
        throttle: Throttle | None,
    ) -> None:
        super().__init__(ServerLifecycle(revisions, assumed), service.parking)
        self._throttle = throttle
        self._upstreams = service.state
        self._limits = limits = service.state.limits
        self._number = next(_connections)
        self._is_connected = False
        self._background = background
        self._client = f"connection {self._number}" if client is None else client
        self._surroundings: Surroundings[Any] = Surroundings(
            None, self._client, _find_tool, background, service.background
        )
        self._assumed = assumed
        self._own: Upstream | None = None
        self._handshake_over: trio.Event | None = None
        self._changes = FollowedChanges(limits, background, self)
        self.peer: Peer | None = None
        self.ready: trio.Event = trio.Event()

    @asynccontextmanager
    async def connected(self, opening: AbstractAsyncContextManager[Peer]) -> AsyncGenerator[Peer]:
        """Open the connection that it dispatches, and end what it has upstream when the body is left.

        What was forwarded for the client is cancelled there first, when the connection is left.
        """
        self._is_connected = True
        try:
            async with opening as peer:
                self.peer = peer
                yield peer
        finally:
            self.peer = None
            self.ready.set()
            own = [] if self._own is None else [self._own]
            upstreams = own + self._upstreams.find(lambda key: key.connection == self._number)
            for upstream in upstreams:
                upstream.close()
            with trio.CancelScope(shield=True):  # bounded, as leaving a client is
                for upstream in upstreams:
                    await upstream.aclose()

    # Messages.

    def route(self, request: Request, origin: Origin | None) -> Handler | LongLived | Answer | None:
        """Decide how a request is served; see `Dispatcher.route`."""
        del origin
        if request.method == "initialize" and not names_era(request.params):
            check_client_info(request.params or {})
            agreement = self._lifecycle.initialize(request)
            self._handshake_over = trio.Event()
            return partial(self._initialize, agreement, self._handshake_over)
        agreement = self._lifecycle.agreement_of(request)
        if request.method == "initialize":
            raise RequestError(METHOD_NOT_FOUND, f"{agreement.revision} has no method initialize")
        if agreement.revision.is_modern and request.method == "subscriptions/listen":
            return self._listen(request, agreement)
        if request.method != "ping":
            self.ready.set()  # some clients forget to say so
        return partial(self._serve, agreement)

    def take_back(self, request: Request) -> None:
        """Undo nothing: no request is answered at once; see `Dispatcher.take_back`."""

    async def notified(self, notification: Notification, origin: Origin | None) -> None:
        """Forward a notification of the client; see `Dispatcher.notified`.

        What names a request has been heeded, if it names one of this connection; the server would take it for one
        of another client.
        """
        if notification.method in HANDLED_BY_CONNECTION:
            await trio.lowlevel.checkpoint()
            return
        agreement = self._lifecycle.agree_on_notification(notification)
        if agreement is not None and notification.method == "notifications/initialized":
            self.ready.set()
        elif agreement is not None:
            try:
                for upstream in self._upstreams_for(agreement, origin):
                    await upstream.notify(notification.method, notification.params)
            except (McpError, trio.ClosedResourceError) as error:
                _log.debug("%.60r could not be forwarded: %s", notification.method, error)
        await trio.lowlevel.checkpoint()

    def _upstreams_for(self, agreement: Agreement, origin: Origin | None) -> list[Upstream]:
        if not agreement.revision.is_modern:
            return [] if self._own is None else [self._own]
        place = self._place(origin)
        return self._upstreams.find(lambda key: key[:2] == place)[-1:]

    # Which upstream connection.

    async def _initialize(self, agreement: Agreement, over: trio.Event, exchange: Exchange) -> Answer:
        """Connect to the server in the client's name, and answer as it does. Other requests wait for it."""
        try:
            return await self._begin_session(agreement, exchange)
        except (McpError, trio.ClosedResourceError) as error:
            raise to_error(error, "initialize", client_is_modern=False) from error
        finally:
            if self._own is None:
                self._lifecycle.forget()
            over.set()

    async def _begin_session(self, agreement: Agreement, exchange: Exchange) -> Answer:
        client = client_key_of(exchange.origin, self._client)
        upstream = self._upstreams.begin(client, self._identity(agreement), self)
        try:
            connection = await upstream.connected()
        except BaseException:
            upstream.close()
            raise
        self._own = upstream
        self._background.start_own(self._end_with, upstream, name="a session ends with its server")
        if connection.revision.is_modern:
            self._changes.follow_lists(upstream)
            return to_initialize_result(upstream.description, agreement.revision)
        self._lifecycle.session = attrs.evolve(agreement, revision=connection.revision)
        return upstream.description

    async def _end_with(self, upstream: Upstream) -> None:
        """End the session when its server is lost for good, as a connection to the server itself would.

        Requests under way have failed with the reason. The client can begin another session: one that was refused
        for ever would be of no use, and over HTTP nothing but the end of the session makes clients begin anew.
        """
        reason = await upstream.wait_lost()
        if self.peer is not None:
            _log.warning("a session ends, because the server behind it is lost for good: %s", reason)
            await self.peer.drain()
            await self.peer.aclose()

    def _identity(self, agreement: Agreement) -> ClientIdentity:
        return ClientIdentity(
            agreement.client_info or UNKNOWN,
            agreement.client_capabilities,
            tuple(Revision),
            proposed=None if agreement.revision.is_modern else agreement.revision,
        )

    async def _upstream_of(self, agreement: Agreement, origin: Origin | None) -> Upstream:
        """Return the connection that serves a request. Use it at once. Does not checkpoint outside a handshake.

        Raises:
            RequestError: There is none, and no place for one.
        """
        if not agreement.revision.is_modern and self._assumed is None:
            if self._handshake_over is not None:
                await self._handshake_over.wait()
            if self._own is None:
                raise RequestError(INVALID_REQUEST, "there is no session: its handshake has failed")
            return self._own
        number, client = self._place(origin)
        declared = _json.encode([agreement.client_info, agreement.client_capabilities])
        key = SharedKey(number, client, agreement.revision.is_modern, declared)
        return self._upstreams.share(key, lambda: self._identity(agreement))

    def _place(self, origin: Origin | None) -> tuple[int | None, str]:
        """Return the connection, if it is that of a single client, and the client for a message."""
        is_of_one = self._is_connected and self._assumed is None
        return self._number if is_of_one else None, client_key_of(origin, self._client)

    # Requests.

    async def _serve(self, agreement: Agreement, exchange: Exchange) -> Answer:
        method = exchange.request.method
        is_modern = agreement.revision.is_modern
        if self._throttle is not None and method not in _UNCOUNTED:
            self._throttle.pass_by(client_key_of(exchange.origin, self._client), exchange)
        try:
            upstream = await self._upstream_of(agreement, exchange.origin)
            if not is_modern:
                agreement = self._lifecycle.session or agreement  # which the handshake has completed
            with upstream.in_use():
                connection = await upstream.connected()
                if is_modern and connection.revision.is_modern:
                    return await self._pass_on(upstream, exchange, agreement)
                if is_modern:
                    return await self._serve_by_legacy(upstream, exchange, agreement)
                if connection.revision.is_modern:
                    return await self._serve_by_modern(upstream, exchange, agreement)
                return await self._pass_on_in_session(upstream, exchange, agreement)
        except (McpError, trio.ClosedResourceError) as error:
            raise to_error(error, method, client_is_modern=is_modern) from error

    async def _pass_on(self, upstream: Upstream, exchange: Exchange, agreement: Agreement) -> Answer:
        """Forward a request within its era."""
        request = exchange.request
        result = await upstream.request(request.method, request.params, _caller_of(exchange, agreement))
        if request.method == "server/discover" and "supportedVersions" in result:
            result["supportedVersions"] = self._lifecycle.supported_versions
        if request.method == "tools/list" and not self._is_connected:
            self._upstreams.tools.learn(dict(result))
        return result

    async def _pass_on_in_session(self, upstream: Upstream, exchange: Exchange, agreement: Agreement) -> Answer:
        """Forward a request of a session, and note what is to be restored after an interruption."""
        request = exchange.request
        if request.method == "logging/setLevel":
            params = read_params(request.params or {}, types.SetLevelRequestParams)
            await upstream.set_log_level(params.level, params.meta)
            return {}
        uri = (request.params or {}).get("uri")
        if request.method == "resources/subscribe" and isinstance(uri, str):
            upstream.uris.add(uri, self._limits)
            try:
                return await self._pass_on(upstream, exchange, agreement)
            except (McpError, trio.ClosedResourceError):
                upstream.uris.discard(uri)
                raise
        if request.method == "resources/unsubscribe" and isinstance(uri, str):
            upstream.uris.discard(uri)
        return await self._pass_on(upstream, exchange, agreement)

    # A legacy client before a modern server.

    async def _serve_by_modern(self, upstream: Upstream, exchange: Exchange, agreement: Agreement) -> Answer:
        method, params = exchange.request.method, exchange.request.params or {}
        match method:
            case "ping":
                pass
            case "logging/setLevel":
                self._lifecycle.set_log_level(read_params(params, types.SetLevelRequestParams).level)
            case "resources/subscribe":
                await self._changes.follow(upstream, read_params(params, types.SubscribeRequestParams).uri)
            case "resources/unsubscribe":
                self._changes.unfollow(read_params(params, types.UnsubscribeRequestParams).uri)
            case _:
                result = await self._ask_in_rounds(upstream, exchange, agreement)
                return to_legacy_result(method, result, agreement.revision)
        return {}

    async def _ask_in_rounds(
        self, upstream: Upstream, exchange: Exchange, agreement: Agreement
    ) -> Mapping[str, Any]:
        """Forward a request, ask the client what the server asks back, and send it again with the answers.

        Spec: 2026-07-28, basic/patterns/mrtr.
        """
        method, caller = exchange.request.method, _caller_of(exchange, agreement)
        params = given = exchange.request.params
        idle: Backoff | None = None
        for _ in range(self._limits.max_input_rounds + 1):
            result = await upstream.request(method, params, caller)
            if result.get("resultType") != "input_required" or method not in INPUT_METHODS:
                return result
            asked, state = result.get("inputRequests"), result.get("requestState")
            params = {**(given or {}), **({} if state is None else {"requestState": state})}
            if is_object(asked) and asked:
                params["inputResponses"] = await self._ask(exchange, asked, agreement)
            else:
                idle = idle or Backoff(IDLE_ROUNDS)
                await trio.sleep(idle.next_delay(0) or IDLE_ROUNDS.max_delay)
        problem = f"{method} asked for input more than {self._limits.max_input_rounds} times (max_input_rounds)"
        raise RequestError(INTERNAL_ERROR, problem)

    async def _ask(self, exchange: Exchange, asked: Mapping[str, Any], agreement: Agreement) -> dict[str, Any]:
        """Ask the client all questions, as many at once as may be served; return its answers as they came."""

        async def ask(key: str, question: object) -> dict[str, Any]:
            method = question.get("method") if is_object(question) else None
            if not is_object(question) or method not in QUESTIONS:
                what = f"inputRequests.{key:.60} is none that a client can be asked"
                raise RequestError(INTERNAL_ERROR, f"the server behind this proxy: {what}")
            params = question.get("params")
            params = to_legacy_question(method, params if is_object(params) else None, agreement.revision)
            try:
                return await exchange.ask(method, params)
            except RequestError as error:
                # Its code is about the question, and would mean something else for this request.
                raise RequestError(INTERNAL_ERROR, f"the client refused {method}: {error.message}") from error

        questions = {key: partial(ask, key, question) for key, question in asked.items()}
        return await answered_all(questions, self._limits.max_inbound_requests, name="asking behind a proxy")

    # A modern client before a legacy server.

    async def _serve_by_legacy(self, upstream: Upstream, exchange: Exchange, agreement: Agreement) -> Answer:
        request = exchange.request
        params = request.params or {}
        if request.method == "server/discover":
            return to_discover_result(upstream.description, self._lifecycle.supported_versions)
        if request.method in REFUSED[Side.CLIENT][agreement.revision]:
            raise no_such_method(request.method, agreement.revision)
        if agreement.log_level is not None:
            await self._raise_log_level(upstream, cast("types.LoggingLevel", agreement.log_level))
        is_retry = "requestState" in params or "inputResponses" in params
        if request.method not in INPUT_METHODS or not (is_retry or agreement.client_capabilities):
            result = await upstream.request(request.method, request.params, _caller_of(exchange, agreement))
            return to_modern_result(request.method, result, upstream.description)
        outcome = await self._parking.serve(
            exchange,
            Context(agreement, exchange, self._surroundings),
            partial(self._forward_parkable, upstream, request, agreement),
            read_params(params, types.InputResponseRequestParams).input_responses or {},
            client=client_key_of(exchange.origin, self._client),
            asking=Asking.PARK,
        )
        if is_object(outcome):
            return to_modern_result(request.method, outcome, upstream.description)
        asked: Answer = to_wire(outcome, agreement.revision)  # an `InputRequiredResult`
        return asked

    async def _forward_parkable(
        self, upstream: Upstream, request: Request, agreement: Agreement, context: Context[Any]
    ) -> object:
        """Forward a request, in the task of a handler that waits between two requests for what it asks."""

        async def ask(
            method: str, params: Mapping[str, Any] | None, *, on_progress: OnProgress | None
        ) -> Mapping[str, Any]:
            del on_progress  # a question that is part of a result has none
            if method not in QUESTIONS:
                raise no_such_method(method, agreement.revision)
            try:
                question = from_wire({"method": method, "params": params or {}}, input_types()[method][0])
            except InvalidData as error:
                raise RequestError(INVALID_PARAMS, f"invalid params: {error}") from error
            return await ask_in(context, method, question.params)

        on_progress = reporting(context.report_progress, context.meta)
        caller = Caller(partial(notify_in, context), ask, agreement, on_progress)
        with upstream.in_use():
            return await upstream.request(request.method, request.params, caller)

    async def _raise_log_level(self, upstream: Upstream, level: types.LoggingLevel) -> None:
        """Let the server send log messages of at least this severity; each request gets those that it wants."""
        capabilities = upstream.description.get("capabilities")
        if is_object(capabilities) and "logging" in capabilities and upstream.needs_log_level(level):
            await upstream.set_log_level(level)

    # Subscriptions of modern clients.

    def _listen(self, request: Request, agreement: Agreement) -> LongLived:
        """Serve a ``subscriptions/listen``; see `route`.

        Raises:
            RequestError: It names too many resources, or cannot be read.
        """
        wanted = read_params(request.params or {}, types.SubscriptionsListenRequestParams).notifications
        named, limit = len(wanted.resource_subscriptions or ()), self._limits.max_subscriptions
        named += len(wanted.task_ids or ())
        if named >= limit:
            raise RequestError(
                INVALID_PARAMS,
                f"invalid params: notifications.resourceSubscriptions names {named} resources; with the request "
                f"itself that is {named + 1} subscriptions, and max_subscriptions is {limit}",
            )
        scope = trio.CancelScope()
        serve = partial(self._serve_listening, agreement, wanted, scope)
        return LongLived(serve, lambda: scope.cancel(reason="serving is about to end"), places=1 + named)

    async def _serve_listening(
        self, agreement: Agreement, wanted: types.SubscriptionFilter, scope: trio.CancelScope, exchange: Exchange
    ) -> Answer:
        result: Mapping[str, Any] = {"resultType": "complete"}
        try:
            upstream = await self._upstream_of(agreement, exchange.origin)
            with upstream.in_use(), scope:
                connection = await upstream.connected()
                if connection.revision.is_modern:
                    result = await forward_listening(upstream, connection, wanted, exchange)
                else:
                    await listen_for(upstream, wanted, exchange)
        except (McpError, trio.ClosedResourceError) as error:
            raise to_error(error, exchange.request.method, client_is_modern=True) from error
        await trio.lowlevel.checkpoint()
        return with_subscription(result, exchange.request.id)


def _caller_of(exchange: Exchange, agreement: Agreement) -> Caller:
    on_progress, origin = reporting(exchange.report, exchange.meta), exchange.origin
    if agreement.revision.is_modern:
        return Caller(exchange.notify, None, agreement, on_progress)
    release = origin.release if isinstance(origin, ReleasableOrigin) else None
    return Caller(exchange.notify, exchange.ask, agreement, on_progress, release)


def _find_tool(name: str) -> types.Tool:
    raise ValueError(f"a proxy has no tool {name} of its own")
