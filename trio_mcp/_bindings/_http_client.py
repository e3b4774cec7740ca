"""The client's end of Streamable HTTP, of both eras, with HTTP+SSE as a fallback: a server at a URL as a channel.

    send ──> a request        ──> a POST in a task of its own; its response is JSON or a stream
         ──> an answer        ──> a POST in a task of its own
         ──> a notification   ──> a POST; one after the other
         ──> a cancellation   ──> a POST at once; then the stream of the cancelled request is closed
    receive <── the inbox <── all responses and streams

Each message shows its era: a modern request names its revision. `initialize` begins a session, to which every
later message that is not modern belongs.

Spec: 2026-07-28, basic/transports/streamable-http; 2025-11-25, 2025-06-18 and 2025-03-26, basic/transports.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, final

import trio

from .._channel import AnswerClock, Channel, Outgoing, Received
from .._codec._jsonrpc import Notification, RequestId
from .._core._cache import MarkedTools
from .._core._http1 import (
    METHOD,
    NAME_SOURCES,
    PROTOCOL_VERSION,
    HeaderField,
    name_of,
    request_headers,
    version_of,
)
from .._errors import METHOD_NOT_FOUND, MODERN_ERRORS, ConnectionLost, McpError, RemoteProtocolError, RequestError
from .._http._asgi import AsgiClient, open_asgi_client
from .._http._auth import AuthorizedTransport, ProtectedServer, Reached
from .._http._client import open_http_client
from .._http._cookies import CookieJar, CookieTransport
from .._http._messages import HttpTransport
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery, shield_started
from ._http_messages import HttpInbox, HttpServerParameters, OutboundMessage, RemoteEndpoint, error_of
from ._http_session import HttpSession, HttpSseStream

_log: Final = Log("trio_mcp.http")

NO_FALLBACK: Final = frozenset({401, 403, 407, 429})
"""Statuses that refuse the client, not `initialize`. Every other 4xx may be how an old server refuses that
(2025-03-26, basic/transports, "Backwards Compatibility"; later revisions name 400, 404 and 405)."""


@final
class StreamableHttpChannel(Channel):
    """The channel to a server at a URL. Made by `open_streamable_http`.

    A failed request fails alone: its answer is an error, and `Incoming.failure` is the cause.
    """

    transport = "http"

    def __init__(
        self,
        parameters: HttpServerParameters,
        limits: Limits,
        transport: HttpTransport,
        clocks: Sequence[AnswerClock] = (),
        names: Mapping[str, str] = NAME_SOURCES,
    ) -> None:
        target = parameters.target
        self._description = f"the server at {target.shown}"
        self._parameters = parameters
        self._limits = limits
        self._inbox = HttpInbox(self._description, limits)
        self._endpoint = RemoteEndpoint(target, parameters, self._inbox, limits, transport, clocks)
        self._tools = MarkedTools()
        self._names = names
        self._modern_version: str | None = None
        self._session: HttpSession | None = None
        self._sse: HttpSseStream | None = None
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._notifications: deque[OutboundMessage] = deque()
        self._notification_queued = LightParkingLot()
        self._answering = trio.Semaphore(limits.max_inbound_requests)
        self._answers: dict[tuple[RequestId, ...], OutboundMessage] = {}  # that the server has not accepted yet
        self._undelivered = 0  # notifications and answers that are not yet sent
        self._all_delivered = LightParkingLot()
        self._waiting_for_stream: trio.CancelScope | None = None
        self._leave_by: float | None = None

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        return await self._inbox.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Start a POST for each message; see `Channel.send`.

        Waits only for the POST that ends the handshake of a session, and while too many answers are on their way.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        nursery = self._open_nursery()
        outbounds = [OutboundMessage(message) for message in messages]
        for outbound in outbounds:
            self._inbox.expect(outbound)  # before anything waits: each of them may be cancelled from now on
        for outbound in outbounds:
            if not outbound.takes_turns:
                self._begin(outbound, nursery)
            elif outbound.method is not None:
                self._undelivered += 1
                ready = trio.Event() if self._session is None else self._session.listening
                nursery.start_soon(
                    self._begin_session, outbound, self._session, ready, name=f"listening to {self._description}"
                )
                with trio.move_on_after(self._patience_for_stream) as self._waiting_for_stream:
                    await ready.wait()
            else:
                self._undelivered += 1
                self._answers[outbound.message.answers] = outbound
                await self._answering.acquire()
                nursery.start_soon(self._answer, outbound, name="answering the server")
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Start a POST for each message, unless one of them may have to wait; see `Channel.send_nowait`."""
        nursery = self._open_nursery()
        outbounds = [OutboundMessage(message) for message in messages]
        if any(outbound.takes_turns for outbound in outbounds):
            raise trio.WouldBlock
        for outbound in outbounds:
            self._inbox.expect(outbound)
        for outbound in outbounds:
            self._begin(outbound, nursery)
        return True

    @property
    def _patience_for_stream(self) -> float:
        """How long the first call of a session waits for the server to open the stream for its own messages."""
        return self._parameters.stream_timeout if self._leave_by is None else 0.0

    def about_to_close(self) -> None:
        """Wait for no stream any more, and count the time from here on; see `Channel.about_to_close`."""
        self._leave_by = trio.current_time() + self._limits.goodbye_timeout
        self._endpoint.leaving.set()
        if self._waiting_for_stream is not None:
            self._waiting_for_stream.cancel(reason="the client is being left")

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise trio.ClosedResourceError(f"the channel to {self._description} is closed")
        return self._nursery

    def _begin(self, outbound: OutboundMessage, nursery: trio.Nursery) -> None:
        """Start the POST of a message that does not wait for others."""
        if outbound.is_request:
            nursery.start_soon(self._request, outbound, name=f"requesting {outbound.method}")
            return
        self._undelivered += 1
        if (id := outbound.cancelled_id) is None:
            self._queue_notification(outbound)
        else:
            cancelled = self._inbox.unanswered.get(id)  # none, if its answer has come meanwhile
            outbound.session = self._session_of(outbound) if cancelled is None else cancelled.session
            nursery.start_soon(self._cancel, outbound, name="cancelling a request")

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Close the response of a request, or return the notification that cancels it; see `Channel.give_up`.

        Spec: 2026-07-28, basic/patterns/cancellation, "Transport-Specific Cancellation"; in the legacy era
        closing a stream does not cancel (2025-11-25, basic/transports, "Sending Messages to the Server").
        """
        outbound = self._inbox.unanswered.get(request_id)
        if outbound is None:
            return None  # its answer, or its failure, is about to be received
        if outbound.is_modern or (outbound.drop is None and len(outbound.unanswered) == 1):
            # A request that the server does not have in full will never be served.
            self._inbox.forget(outbound)
            outbound.scope.cancel(reason=reason)
            if outbound.drop is not None:
                outbound.drop()  # the caller may compute for long before the request's own task can do it
            return None
        outbound.is_cancelled = True
        return super().give_up(request_id, reason)

    def call_on_answers(self, take: Callable[[Sequence[Received]], int]) -> None:
        """Have answers taken where they come; see `Channel.call_on_answers`."""
        self._inbox.take_answers = take

    def withdraw_answer(self, request_id: RequestId) -> bool:
        """Send the answer to a request that the server has cancelled no more; see `Channel.withdraw_answer`.

        The answers to a batch are one message, which the others in it still wait for.
        """
        if (outbound := self._answers.get((request_id,))) is not None:
            outbound.scope.cancel(reason="the server has cancelled its request")
        return outbound is not None

    def call_on_release(self, released: Callable[[RequestId, float | None], object]) -> None:
        """Have a function called when the server lets a request go; see `Channel.call_on_release`."""
        self._inbox.on_release = released

    async def aclose(self) -> None:
        """Drop every connection at once; leaving `open_streamable_http` first sends what is queued."""
        self._close()
        await trio.lowlevel.checkpoint()

    def _close(self) -> None:
        self._nursery = None
        self._scope.cancel(reason="the channel was closed")
        self._inbox.close()

    # Lifetime.

    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks until the channel is closed."""
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._send_notifications, name=f"notifying {self._description}")
                task_status.started()
                shield_started(self._scope)

    async def _open_sse(self) -> None:
        """Open the stream of a server of HTTP+SSE.

        Raises:
            McpError: The server does not speak HTTP+SSE.
        """
        await trio.lowlevel.checkpoint_if_cancelled()  # the channel may have been closed in this very pass
        stream = HttpSseStream(self._endpoint)
        self._open_nursery().start_soon(stream.run, name=f"reading from {self._description}")
        await stream.wait_open()
        self._sse = stream

    async def _leave(self) -> None:
        """Send what is queued, end the session, and close, by `Limits.goodbye_timeout` after `about_to_close`.

        If there is a session, half of that is for ending it, so that a busy server that takes nothing else still
        learns that its work for this client can stop.
        """
        patience = self._limits.goodbye_timeout
        until = trio.current_time() + patience if self._leave_by is None else self._leave_by
        ending = self._session if self._session is not None and self._session.can_be_ended else None
        try:
            with trio.move_on_at(until):
                with trio.move_on_at(until if ending is None or until == math.inf else until - patience / 2):
                    while self._undelivered:
                        await self._all_delivered.park()
                if ending is not None:
                    await ending.end()
        finally:
            self._close()  # after Ctrl+C, too

    # Requests.

    async def _request(self, outbound: OutboundMessage) -> None:
        """Send one request and deliver what comes back. A failure is delivered as its answer."""
        is_answered_elsewhere = False
        try:
            with outbound.scope:
                try:
                    is_answered_elsewhere = await self._send_request(outbound)
                except McpError as error:
                    await self._fail(outbound, error)
            if outbound.is_cancelled:
                # Requests of the server that came with its response are cancelled as well. The server's own
                # cancellation comes on another stream, if at all, and may have come before the request.
                await self._inbox.end(outbound)
        finally:
            if not is_answered_elsewhere:
                self._inbox.forget(outbound)

    async def _fail(self, outbound: OutboundMessage, error: McpError) -> None:
        """Deliver the failure of a request, and cancel it if the server may be serving it still.

        Spec: 2025-11-25, basic/transports, "Sending Messages to the Server": a disconnection is no cancellation.
        """
        is_lost = isinstance(error, ConnectionLost)
        is_lost = is_lost or (isinstance(error, RemoteProtocolError) and outbound.is_streamed)
        if not (is_lost and outbound.unanswered and self._may_serve(outbound)):
            await self._inbox.fail(outbound, error)
            return
        outbound.is_cancelled = True
        cancel = super().give_up
        await self._inbox.fail(outbound, error, lambda lost: cancel(lost, "its answer cannot be had"))

    def _may_serve(self, outbound: OutboundMessage) -> bool:
        """Whether the server may be serving a request whose response was lost.

        In the legacy era its handler would hold its place for as long as the session lasts, and might wait for
        the answer to a question that nobody gets. ``initialize`` must not be cancelled, and what belongs to no
        session could not be found.
        """
        if outbound.is_modern or outbound.method == "initialize" or outbound.drop is None:
            return False
        session = outbound.session
        return self._sse is not None or (isinstance(session, HttpSession) and session.can_be_ended)

    async def _send_request(self, outbound: OutboundMessage) -> bool:
        """Send a request in the way of its era. Returns whether the answer comes on the stream of HTTP+SSE."""
        if outbound.is_modern:
            await self._request_modern(outbound)
        elif self._sse is not None:
            await self._sse.request(outbound)
            return True
        elif outbound.method == "initialize":
            return await self._initialize(outbound)
        else:
            outbound.session = self._session
            await (self._session or HttpSession(self._endpoint)).request(outbound)
        return False

    async def _request_modern(self, outbound: OutboundMessage) -> None:
        if self._parameters.transport == "sse":
            raise RemoteProtocolError(
                'revisions from 2026-07-28 on are not spoken over HTTP+SSE (transport="sse")'
            )
        assert outbound.method is not None
        params = outbound.params
        marks = self._tools.marks_of(outbound.method, params)
        if marks or not name_of(outbound.method, params, self._names):
            params = outbound.whole_params()
        headers = request_headers(outbound.method, params, marks, self._names)
        self._modern_version = version_of(params)
        if outbound.method == "tools/list":
            outbound.on_result = self._learn_tools
        async with await self._endpoint.post(outbound, headers) as response:
            await self._endpoint.take(response, outbound, self._endpoint.new_reader())
        if outbound.unanswered:
            raise self._endpoint.missing_answer(outbound)

    def _learn_tools(self, result: dict[str, Any]) -> bool:
        problems = self._tools.learn(result)
        for problem in problems:
            _log.warning("%s: %s", self._description, problem)
        return bool(problems)

    async def _initialize(self, outbound: OutboundMessage) -> bool:
        """Begin a session, or find out that the server speaks HTTP+SSE."""
        session = HttpSession(self._endpoint, self._session)
        outbound.on_result = session.take_result
        async with await self._endpoint.post(outbound, ()) as response:
            if self._may_be_old(response.status):
                refusal = await error_of(response)
            else:
                if 200 <= response.status < 300:
                    session.take_id(response)
                    if self._session is not None:
                        await self._session.replace()
                    # Before the answer is delivered, upon which the next message follows.
                    self._session = self._inbox.session = session
                await self._endpoint.take(response, outbound, self._endpoint.new_reader())
                if outbound.unanswered:
                    raise self._endpoint.missing_answer(outbound)
                return False
        await self._fall_back(refusal)
        assert self._sse is not None
        await self._sse.request(outbound)
        return True

    def _may_be_old(self, status: int) -> bool:
        return self._parameters.transport == "auto" and 400 <= status < 500 and status not in NO_FALLBACK

    async def _fall_back(self, refusal: RequestError) -> None:
        """Try HTTP+SSE. If the server does not speak it either, raise its refusal of `initialize`."""
        if refusal.code in MODERN_ERRORS or refusal.code == METHOD_NOT_FOUND:
            raise refusal
        try:
            await self._open_sse()
        except McpError as error:
            _log.debug("%s does not speak HTTP+SSE either: %s", self._description, error)
            raise refusal from error

    # Notifications and answers.

    async def _begin_session(
        self, outbound: OutboundMessage, session: HttpSession | None, ready: trio.Event
    ) -> None:
        """End the handshake, and listen on the stream for the server's own messages.

        The first call waits for both: servers refuse what comes before the end of the handshake, and may send a
        request during that call, on that stream.
        """
        await self._deliver(outbound)
        if session is None:
            ready.set()
        else:
            await session.listen()

    def _queue_notification(self, outbound: OutboundMessage) -> None:
        """Queue a notification. If the queue is full, the oldest is dropped: nothing waits for it."""
        if len(self._notifications) >= self._limits.max_notifications:
            dropped = self._notifications.popleft()
            self._count_delivered()
            _log.warning("%s takes no notifications; dropped %s", self._description, dropped.method)
        self._notifications.append(outbound)
        self._notification_queued.unpark()

    async def _send_notifications(self) -> None:
        """Send the queued notifications, one after the other so that they arrive in order."""
        while True:
            while self._notifications:
                await self._deliver(self._notifications.popleft())
            await self._notification_queued.park()

    async def _cancel(self, outbound: OutboundMessage) -> None:
        """Send a cancellation, and then close the response of the request, which may never end."""
        await self._deliver(outbound)
        cancelled = self._inbox.withdraw(outbound.cancelled_id)
        if cancelled is not None and not cancelled.unanswered:
            cancelled.scope.cancel(reason="the request was cancelled")

    async def _answer(self, outbound: OutboundMessage) -> None:
        try:
            with outbound.scope:
                await self._deliver(outbound)
        finally:
            if self._answers.get(outbound.message.answers) is outbound:  # in the next session the ids begin anew
                del self._answers[outbound.message.answers]
            self._answering.release()

    async def _deliver(self, outbound: OutboundMessage) -> None:
        """Send a notification or an answer in the way of the era. A failure is logged."""
        session = self._session_of(outbound)
        try:
            if self._sse is not None:
                await self._sse.notify(outbound)
            elif session is not None:
                await self._endpoint.notify(outbound, session.headers)
            elif outbound.method is not None:
                await self._endpoint.notify(outbound, self._modern_headers(outbound))
            else:
                # A modern server must not send requests, so nothing is answered ("Sending Messages").
                _log.debug("%s sent a request, which modern servers must not", self._description)
                await trio.lowlevel.checkpoint()
        finally:
            self._count_delivered()

    def _session_of(self, outbound: OutboundMessage) -> HttpSession | None:
        """Return the session in which a message is sent: that of what it cancels or answers, or else the present.

        Another one may have begun meanwhile, in which the same ids mean something else.
        """
        origin = outbound.session or outbound.message.origin
        if isinstance(origin, OutboundMessage):
            origin = origin.session
        return origin if isinstance(origin, HttpSession) else self._session

    def _modern_headers(self, outbound: OutboundMessage) -> list[HeaderField]:
        """Return the headers of a notification: the revisions define none, and servers may expect them."""
        fields: list[HeaderField] = []
        if self._modern_version is not None:
            fields.append((PROTOCOL_VERSION.encode(), self._modern_version.encode("ascii", "replace")))
        if outbound.method is not None and outbound.method.isascii() and outbound.method.isprintable():
            fields.append((METHOD.encode(), outbound.method.encode("ascii")))
        return fields

    def _count_delivered(self) -> None:
        self._undelivered -= 1
        if not self._undelivered:
            self._all_delivered.unpark_all()


@asynccontextmanager
async def _open_transport(parameters: HttpServerParameters, reached: Reached) -> AsyncGenerator[HttpTransport]:
    app = parameters.app
    if isinstance(app, AsgiClient):
        yield app
    elif app is not None:
        async with open_asgi_client(app) as in_process:
            yield in_process
    else:
        async with open_http_client(parameters.http, on_connected=reached.note) as client:
            yield client


@asynccontextmanager
async def open_streamable_http(
    parameters: HttpServerParameters,
    limits: Limits,
    *,
    transport: HttpTransport | None = None,
    clocks: Sequence[AnswerClock] = (),
    names: Mapping[str, str] = NAME_SOURCES,
    cookies: CookieJar | None = None,
) -> AsyncGenerator[StreamableHttpChannel]:
    """Open a channel to a server at a URL, for as long as the block runs.

    Nothing is sent before the first message, except that HTTP+SSE opens its stream. Leaving sends what is queued
    and ends the session, both within `Limits.goodbye_timeout`, half of which is for ending the session, also when
    cancelled; then it drops every connection. Leaving is a checkpoint.

    Args:
        parameters: Where the server is, and what is sent with every request.
        limits: `Limits.max_message_bytes` bounds a message in either direction.
        transport: Carries the requests instead of HTTP over the network.
        clocks: What stands still while a person must be asked before the server can be reached.
        names: Which parameter of a method a header field repeats.
        cookies: Those of the client; by default it has none yet.

    Raises:
        McpError: ``transport="sse"`` was asked for and the server does not speak HTTP+SSE.
    """
    async with AsyncExitStack() as stack:
        is_network = transport is None and parameters.app is None
        reached = Reached(cookies=cookies or CookieJar())
        if transport is None:
            transport = await stack.enter_async_context(_open_transport(parameters, reached))
        transport = CookieTransport(transport, reached.cookies)
        if parameters.auth is not None:
            target = parameters.target
            given = None if is_network else transport
            server = ProtectedServer(target.without_query, target, parameters.http, given, reached)
            auth = await stack.enter_async_context(parameters.auth.open(server))
            transport = AuthorizedTransport(transport, auth, target.address)
        nursery = await stack.enter_async_context(open_hidden_nursery())
        channel = StreamableHttpChannel(parameters, limits, transport, clocks, names)
        await nursery.start(channel._run)
        try:
            if parameters.transport == "sse":
                await channel._open_sse()
            yield channel
        finally:
            with trio.CancelScope(shield=True):  # bounded by itself
                await channel._leave()
