"""The client's end of Streamable HTTP, of both eras, with HTTP+SSE behind it: a server at a URL as a channel.

    send ──> a request        ──> a POST in a task of its own; its response is JSON or a stream
         ──> an answer        ──> a POST that nobody waits for
         ──> a notification   ──> the same, one after the other
         ──> `cancelled`      ──> the same at once; then the stream of that request is closed
    receive <── the inbox <── all responses and streams

Which era a message is of is written in it: a modern request names its revision. What `initialize` begins is a
session, and everything after it that is not modern belongs to that.

Spec: 2026-07-28, basic/transports/streamable-http; 2025-11-25, 2025-06-18 and 2025-03-26, basic/transports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, final

import trio

from .._channel import Channel, Outgoing, Received
from .._codec._jsonrpc import Notification, RequestId
from .._core._http_headers import METHOD, PROTOCOL_VERSION, HeaderField, MarkedTools, request_headers, version_of
from .._errors import METHOD_NOT_FOUND, MODERN_ERRORS, McpError, RemoteProtocolError, RequestError
from .._http._asgi import AsgiClient, open_asgi_client
from .._http._client import open_http_client
from .._http._messages import HttpTransport
from .._limits import Limits
from .._logs import Log
from .._trio import LightParkingLot, open_hidden_nursery, shield_started
from ._http_messages import HttpEndpoint, HttpExchange, HttpInbox, HttpServerParameters, error_of
from ._http_session import HttpSession, HttpSseStream

_log: Final = Log("trio_mcp.http")

NO_FALLBACK: Final = frozenset({401, 403, 407, 429})
"""What is no refusal of `initialize`, but of whoever asks. Every other 4xx may be how an old server refuses it
(2025-03-26, basic/transports, "Backwards Compatibility"; later revisions name 400, 404 and 405)."""


@final
class StreamableHttpChannel(Channel):
    """The channel to a server at a URL. Made by `open_streamable_http`.

    A request that fails on the way fails alone: its answer is an error, and `Incoming.failure` says why.
    """

    def __init__(self, parameters: HttpServerParameters, limits: Limits, transport: HttpTransport) -> None:
        target = parameters.target
        self._description = f"the server at {target.address}{target.path.partition('?')[0]}"
        self._parameters = parameters
        self._limits = limits
        self._transport = transport
        self._inbox = HttpInbox(self._description, limits)
        self._endpoint = HttpEndpoint(target, parameters, transport, self._inbox, limits.max_message_bytes)
        self._tools = MarkedTools(limits.max_remembered_bytes // 8)
        self._modern_version: str | None = None
        self._session: HttpSession | None = None
        self._sse: HttpSseStream | None = None
        self._service = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._notifications: deque[HttpExchange] = deque()
        self._something_to_notify = LightParkingLot()
        self._answering = trio.Semaphore(limits.max_inbound_requests)
        self._untold = 0  # notifications and answers that are still on their way
        self._all_told = LightParkingLot()

    @property
    def description(self) -> str:
        """Where the server is, without what a query may hold."""
        return self._description

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        return await self._inbox.receive()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Start a POST for each message; see `Channel.send`.

        Waits for none of them but the one that ends the handshake of a session, and for room if too many answers
        have not been accepted.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        nursery = self._open_nursery()
        exchanges = [HttpExchange(message) for message in messages]
        for exchange in exchanges:
            self._inbox.expect(exchange)  # before anything waits: any of them may be given up from now on
        for exchange in exchanges:
            if not exchange.takes_turns:
                self._begin(exchange, nursery)
            elif exchange.method is not None:
                self._untold += 1
                ready = trio.Event() if self._session is None else self._session.listening
                nursery.start_soon(
                    self._begin_session, exchange, self._session, ready, name=f"listening to {self._description}"
                )
                with trio.move_on_after(self._parameters.stream_timeout):
                    await ready.wait()
            else:
                self._untold += 1
                await self._answering.acquire()
                nursery.start_soon(self._answer, exchange, name="answering the server")
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        """Start a POST for each message, unless one of them may have to wait; see `Channel.send_nowait`."""
        nursery = self._open_nursery()
        exchanges = [HttpExchange(message) for message in messages]
        if any(exchange.takes_turns for exchange in exchanges):
            raise trio.WouldBlock
        for exchange in exchanges:
            self._inbox.expect(exchange)
        for exchange in exchanges:
            self._begin(exchange, nursery)
        return True

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None:
            raise trio.ClosedResourceError(f"the channel to {self._description} is closed")
        return self._nursery

    def _begin(self, exchange: HttpExchange, nursery: trio.Nursery) -> None:
        """Start the POST of what waits for nothing."""
        if exchange.is_request:
            nursery.start_soon(self._ask, exchange, name=f"asking {exchange.method}")
            return
        self._untold += 1
        if exchange.gives_up is not None:
            nursery.start_soon(self._tell_given_up, exchange, name="cancelling a request")
        else:
            self._put_notification(exchange)

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Close the response of a request, or return the notification that cancels it; see `Channel.give_up`.

        Spec: 2026-07-28, basic/patterns/cancellation, "Transport-Specific Cancellation"; in the legacy era
        closing a stream does not cancel (2025-11-25, basic/transports, "Sending Messages to the Server").
        """
        exchange = self._inbox.exchanges.get(request_id)
        if exchange is None:
            return None  # its answer, or its failure, is on the way to the reader
        if exchange.is_modern or (not exchange.is_sent and len(exchange.unanswered) == 1):
            # What the server does not have in full it will never serve.
            self._inbox.forget(exchange)
            exchange.scope.cancel(reason=reason)
            return None
        exchange.is_given_up = True
        return super().give_up(request_id, reason)

    async def aclose(self) -> None:
        """Drop every connection; leaving `open_streamable_http` does the same after saying goodbye."""
        self._close()
        await trio.lowlevel.checkpoint()

    def _close(self) -> None:
        self._nursery = None
        self._service.cancel(reason="the channel was closed")
        self._inbox.close()

    # Lifetime.

    async def _run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the tasks until the channel is closed."""
        with self._service:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._notify, name=f"notifying {self._description}")
                task_status.started()
                shield_started(self._service)

    async def _open_sse(self) -> None:
        """Open the stream of a server of HTTP+SSE.

        Raises:
            McpError: It is none.
        """
        assert self._nursery is not None
        stream = HttpSseStream(self._endpoint, self._transport, self._limits)
        self._nursery.start_soon(stream.run, name=f"reading from {self._description}")
        await stream.wait_open()
        self._sse = stream

    async def _leave(self) -> None:
        """Say what is still to be said, and close. Takes no longer than `Limits.goodbye_timeout`.

        Where there is a session, half of that is for ending it: what a busy server does not take from us must not
        keep it from being told that everything it does for us is in vain.
        """
        patience = self._limits.goodbye_timeout
        ending = self._session if self._session is not None and self._session.can_be_ended else None
        try:
            with trio.move_on_after(patience):
                with trio.move_on_after(patience if ending is None else patience / 2):
                    while self._untold:
                        await self._all_told.park()
                if ending is not None:
                    await ending.end()
        finally:
            self._close()  # after Ctrl+C, too

    # Requests.

    async def _ask(self, exchange: HttpExchange) -> None:
        """Send one request and bring what comes back; whatever goes wrong is its own affair."""
        awaits_stream = False
        try:
            with exchange.scope:
                try:
                    awaits_stream = await self._exchange(exchange)
                except McpError as error:
                    await self._inbox.fail(exchange, error)
            if exchange.is_given_up:
                # What the server has asked on its way goes with it: the goodbye comes on another stream, if it
                # does, and may have come before the question.
                await self._inbox.end(exchange)
        finally:
            if not awaits_stream:
                self._inbox.forget(exchange)

    async def _exchange(self, exchange: HttpExchange) -> bool:
        """Do it in the way of its era. Returns whether the answer comes elsewhere."""
        if exchange.is_modern:
            await self._ask_modern(exchange)
        elif self._sse is not None:
            await self._sse.ask(exchange)
            return True
        elif exchange.method == "initialize":
            return await self._initialize(exchange)
        else:
            await (self._session or HttpSession(self._endpoint)).ask(exchange)
        return False

    async def _ask_modern(self, exchange: HttpExchange) -> None:
        if self._parameters.transport == "sse":
            raise RemoteProtocolError("HTTP+SSE has no revision in which requests name it")
        assert exchange.method is not None
        headers = request_headers(
            exchange.method, exchange.params, self._tools.marks_of(exchange.method, exchange.params)
        )
        self._modern_version = version_of(exchange.params)
        if exchange.method == "tools/list":
            exchange.on_result = self._learn_tools
        async with await self._endpoint.post(exchange, headers) as response:
            await self._endpoint.take(response, exchange, self._endpoint.new_reader())
        if exchange.unanswered:
            raise exchange.missing_answer()

    def _learn_tools(self, result: dict[str, Any]) -> bool:
        problems = self._tools.learn(result)
        for problem in problems:
            _log.warning("%s: %s", self._description, problem)
        return bool(problems)

    async def _initialize(self, exchange: HttpExchange) -> bool:
        """Begin a session, or find out that the server is one of HTTP+SSE."""
        session = HttpSession(self._endpoint)
        exchange.on_result = session.take_result
        async with await self._endpoint.post(exchange, ()) as response:
            if self._may_be_old(response.status):
                refusal = await error_of(response)
            else:
                if 200 <= response.status < 300:
                    session.take_id(response)
                    if self._session is not None:
                        self._session.replace()
                    self._session = session  # before its answer is handed over, and with it the next message
                await self._endpoint.take(response, exchange, self._endpoint.new_reader())
                if exchange.unanswered:
                    raise exchange.missing_answer()
                return False
        await self._fall_back(refusal)
        assert self._sse is not None
        await self._sse.ask(exchange)
        return True

    def _may_be_old(self, status: int) -> bool:
        return self._parameters.transport == "auto" and 400 <= status < 500 and status not in NO_FALLBACK

    async def _fall_back(self, refusal: RequestError) -> None:
        """Try HTTP+SSE; if that is not it either, what the server said first is what counts."""
        if refusal.code in MODERN_ERRORS or refusal.code == METHOD_NOT_FOUND:
            raise refusal
        try:
            await self._open_sse()
        except McpError as error:
            _log.debug("%s does not speak HTTP+SSE either: %s", self._description, error)
            raise refusal from error

    # What nobody answers.

    async def _begin_session(
        self, exchange: HttpExchange, session: HttpSession | None, ready: trio.Event
    ) -> None:
        """End the handshake, and listen on the stream on which the server speaks unasked.

        The first call waits for both: servers refuse what comes before the end of the handshake, and may ask
        something during that call, on that stream.
        """
        await self._tell(exchange)
        if session is None:
            ready.set()
        else:
            await session.listen()

    def _put_notification(self, exchange: HttpExchange) -> None:
        """Put a notification in line. If the server takes none, the oldest goes: nothing waits for it."""
        if len(self._notifications) >= self._limits.max_notifications:
            dropped = self._notifications.popleft()
            self._told()
            _log.warning("%s takes no notifications; dropped %s", self._description, dropped.method)
        self._notifications.append(exchange)
        self._something_to_notify.unpark()

    async def _notify(self) -> None:
        """Send notifications, one after the other so that they arrive in order."""
        while True:
            while self._notifications:
                await self._tell(self._notifications.popleft())
            await self._something_to_notify.park()

    async def _tell_given_up(self, exchange: HttpExchange) -> None:
        """Cancel a request, and then let go of its response, which may never come."""
        await self._tell(exchange)
        given_up = self._inbox.give_up(exchange.gives_up)
        if given_up is not None and not given_up.unanswered:
            given_up.scope.cancel(reason="the request was cancelled")

    async def _answer(self, exchange: HttpExchange) -> None:
        try:
            await self._tell(exchange)
        finally:
            self._answering.release()

    async def _tell(self, exchange: HttpExchange) -> None:
        try:
            if self._sse is not None:
                await self._sse.tell(exchange)
            elif self._session is not None:
                await self._endpoint.tell(exchange, self._session.headers)
            elif exchange.method is not None:
                await self._endpoint.tell(exchange, self._modern_headers(exchange))
            else:
                # A modern server must not ask, so nothing of it may be answered ("Sending Messages").
                _log.debug("%s asked in an era in which servers do not", self._description)
                await trio.lowlevel.checkpoint()
        finally:
            self._told()

    def _modern_headers(self, exchange: HttpExchange) -> list[HeaderField]:
        """Return what a notification says of itself: no revision defines it, and servers may expect it."""
        fields: list[HeaderField] = []
        if self._modern_version is not None:
            fields.append((PROTOCOL_VERSION.encode(), self._modern_version.encode("ascii", "replace")))
        if exchange.method is not None and exchange.method.isascii() and exchange.method.isprintable():
            fields.append((METHOD.encode(), exchange.method.encode("ascii")))
        return fields

    def _told(self) -> None:
        self._untold -= 1
        if not self._untold:
            self._all_told.unpark_all()


@asynccontextmanager
async def _open_transport(parameters: HttpServerParameters) -> AsyncGenerator[HttpTransport]:
    app = parameters.app
    if isinstance(app, AsgiClient):
        yield app
    elif app is not None:
        async with open_asgi_client(app) as in_process:
            yield in_process
    else:
        async with open_http_client(parameters.http) as client:
            yield client


@asynccontextmanager
async def open_streamable_http(
    parameters: HttpServerParameters, limits: Limits, *, transport: HttpTransport | None = None
) -> AsyncGenerator[StreamableHttpChannel]:
    """Open a channel to a server at a URL, for as long as the block runs.

    Nothing is sent before the first message, except that HTTP+SSE opens its stream. Leaving says what is still to
    be said and ends the session, both within `Limits.goodbye_timeout`, half of which is the session's, also when
    cancelled; then it drops every connection. Leaving is a checkpoint.

    Args:
        parameters: Where the server is, and what it is told.
        limits: `Limits.max_message_bytes` bounds a message in either direction.
        transport: What carries requests, instead of HTTP over the network.

    Raises:
        McpError: HTTP+SSE was asked for and the server does not speak it.
    """
    async with AsyncExitStack() as stack:
        if transport is None:
            transport = await stack.enter_async_context(_open_transport(parameters))
        nursery = await stack.enter_async_context(open_hidden_nursery())
        channel = StreamableHttpChannel(parameters, limits, transport)
        await nursery.start(channel._run)  # noqa: SLF001 - its owner
        try:
            if parameters.transport == "sse":
                await channel._open_sse()  # noqa: SLF001 - its owner
            yield channel
        finally:
            with trio.CancelScope(shield=True):  # bounded by itself
                await channel._leave()  # noqa: SLF001 - its owner
