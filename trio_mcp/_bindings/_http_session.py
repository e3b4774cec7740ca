"""A session of the legacy era over Streamable HTTP: its id, its own stream, and streams that are taken up again.

Spec: 2025-11-25, basic/transports, "Listening for Messages from the Server", "Resumability and Redelivery",
"Session Management", "Protocol Version Header"; the same in 2025-03-26 and 2025-06-18.

The client's end of HTTP+SSE: a stream for everything that comes, and POSTs to the endpoint that it names.

Spec: 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import random
from typing import Any, Final, final

import trio

from .._codec._jsonrpc import RequestId
from .._core._framing import SseEvent, SseReader, SseReceived, pieces_of
from .._core._http_headers import PROTOCOL_VERSION, SESSION_ID, HeaderField, is_session_id
from .._core._reconnect import MAX_DELAY, Reconnect
from .._errors import ConnectionLost, HttpStatusError, McpError, RemoteProtocolError, RequestError, SessionLost
from .._http._messages import HttpResponse, HttpTransport
from .._http._target import HttpTarget
from .._limits import Limits
from .._logs import Log
from ._http_messages import HttpEndpoint, HttpExchange, error_of, is_event_stream

_log: Final = Log("trio_mcp.http")


@final
class HttpSession:
    """What `initialize` has begun. A server may do without an id; the rest is the same.

    Args:
        endpoint: Where the server is.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._id: str | None = None
        self._version: str | None = None
        self._is_lost = False
        self._has_streams = False
        self.listening_scope: Final = trio.CancelScope()
        self.listening: Final = trio.Event()
        """The server's own stream is open, or the server has none."""

    def take_id(self, response: HttpResponse) -> None:
        """Remember the id that came with the answer to `initialize`.

        Raises:
            RemoteProtocolError: It is none that could be sent back.
        """
        id = response.headers.get(SESSION_ID)
        if id is not None and not is_session_id(id):
            raise RemoteProtocolError(f"{SESSION_ID} must be visible ASCII, not {id[:100]!r}")
        self._id = id

    def take_result(self, result: dict[str, Any]) -> bool:
        """Remember the revision that the result of `initialize` names. Changes nothing."""
        version = result.get("protocolVersion")
        if isinstance(version, str) and is_session_id(version):
            self._version = version
        return False

    @property
    def headers(self) -> list[HeaderField]:
        """What every request of the session says."""
        fields: list[HeaderField] = []
        if self._id is not None:
            fields.append((SESSION_ID.encode(), self._id.encode()))
        if self._version is not None:
            fields.append((PROTOCOL_VERSION.encode(), self._version.encode()))
        return fields

    async def ask(self, exchange: HttpExchange) -> None:
        """Send a request, and bring its answers however many connections that takes.

        Raises:
            SessionLost: The server does not know the session any more; nothing was done.
            RequestError: The response is an error.
            RemoteProtocolError: The response cannot be used.
            ConnectionLost: It broke off and cannot be taken up again.
        """
        reader = self._endpoint.new_reader()
        broken: ConnectionLost | None = None
        try:
            async with await self._endpoint.post(exchange, self.headers) as response:
                if response.status == 404:
                    raise await self._gone(response)
                await self._endpoint.take(response, exchange, reader)
        except ConnectionLost as error:
            if not reader.last_event_id:
                raise
            broken = error
        if exchange.unanswered and reader.last_event_id:
            await self._follow(exchange, reader, broken)
        if exchange.unanswered:
            raise broken or exchange.missing_answer()

    async def listen(self) -> None:
        """Keep the server's own stream open until the session ends or the server says that it has none.

        That the session is lost is reported: whoever only listens would not learn it otherwise.
        """
        with self.listening_scope:
            try:
                await self._follow(None, self._endpoint.new_reader(), None)
            except SessionLost as lost:
                self.listening.set()
                await self._endpoint.inbox.report(lost)
            except McpError as error:
                # Servers that send nothing unasked refuse in many ways; 405 is the regular one.
                _log.debug("there is no stream of the server's own: %s", error)
            finally:
                self.listening.set()

    def replace(self) -> None:
        """There is another session now. What is under way in this one goes on."""
        self._is_lost = True
        self.listening_scope.cancel(reason="there is another session")

    async def _follow(
        self, exchange: HttpExchange | None, reader: SseReader, broken: ConnectionLost | None
    ) -> None:
        """Open a stream by GET, as often as it ends.

        Args:
            exchange: The request whose stream it continues; `None` for the server's own.
            reader: What has read it so far.
            broken: Why it ended, if not in an orderly way.

        Raises:
            McpError: The server refuses it, or it failed too often in a row.
        """
        reconnect = Reconnect(self._endpoint.parameters.max_retry_delay)
        last_event_id, retry = reader.last_event_id, reader.retry
        pause = exchange is not None
        while exchange is None or exchange.unanswered:
            if pause:
                failed = broken is not None
                await trio.sleep(reconnect.next_delay(retry, failed=failed, chance=random.random()))  # noqa: S311
                if exchange is not None and reconnect.failures > self._endpoint.parameters.max_resumptions:
                    assert broken is not None
                    raise broken
            pause = True
            reader = self._endpoint.new_reader()
            opened_at = trio.current_time()
            broken = None
            try:
                async with await self._endpoint.get(self.headers, last_event_id=last_event_id) as response:
                    if is_event_stream(response):
                        self._has_streams = True
                        self.listening.set()
                        await self._endpoint.take_events(response, exchange, reader)
                    else:
                        broken = await self._refusal(response, exchange)
            except ConnectionLost as error:
                broken = error
            self.listening.set()
            # A server that lets a request be polled for sends no more than an id each time.
            is_polled = exchange is not None and bool(reader.last_event_id)
            if reader.messages or is_polled or trio.current_time() - opened_at >= MAX_DELAY:
                reconnect.received()
            last_event_id = reader.last_event_id or last_event_id
            retry = retry if reader.retry is None else reader.retry

    async def _refusal(self, response: HttpResponse, exchange: HttpExchange | None) -> ConnectionLost:
        """Return what is only so for the moment, and raise what will stay so."""
        # Some servers that have no stream of their own say so with 404 instead of 405. That says nothing of the
        # session. Who gives events ids has promised that they can be had by GET.
        if response.status == 404 and (self._has_streams or exchange is not None):
            error = await self._gone(response)
            if exchange is None or not isinstance(error, SessionLost):
                raise error
            # The request was accepted: unlike `SessionLost`, this does not say that it may be sent again.
            raise RemoteProtocolError("the session ended before the request was answered")
        error = await error_of(response)
        if response.status == 429 or response.status >= 500:
            return ConnectionLost(str(error))
        if response.status < 300:
            raise RemoteProtocolError("the server answered a GET with something that is no stream of events")
        raise error

    async def _gone(self, response: HttpResponse) -> RequestError:
        """Return what a 404 means: in a session, that it is over."""
        error = await error_of(response)
        if self._id is None:
            return error
        self._is_lost = True
        body = error.body if isinstance(error, HttpStatusError) else error.message
        return SessionLost(404, "the server does not know the session any more", body=body)

    @property
    def can_be_ended(self) -> bool:
        """Whether there is anything to tell the server when it is over."""
        return self._id is not None and not self._is_lost

    async def end(self) -> None:
        """Tell the server that the session is over. Whatever it says, it is."""
        try:
            async with await self._endpoint.delete(self.headers) as response:
                await response.read_excerpt(1024)
        except McpError as error:
            _log.debug("the session could not be ended: %s", error)


@final
class HttpSseStream:
    """The stream of a server of HTTP+SSE, and the endpoint that it has named.

    Args:
        endpoint: Where the stream is.
        transport: What carries requests.
        limits: Bounds messages, and how long a goodbye may take.
    """

    def __init__(self, endpoint: HttpEndpoint, transport: HttpTransport, limits: Limits) -> None:
        self._stream = endpoint
        self._transport = transport
        self._limits = limits
        self._endpoint: HttpEndpoint | None = None
        self._failure: McpError | None = None
        self._opened = trio.Event()
        self._posting: dict[RequestId, trio.Event] = {}  # the requests that the server has not accepted yet
        self._scope = trio.CancelScope()

    async def wait_open(self) -> None:
        """Wait until the server has named its endpoint.

        Raises:
            RequestError: It answers with an error.
            RemoteProtocolError: It does something else.
            ConnectionLost: It hangs up.
        """
        timeout = self._stream.parameters.stream_timeout
        with trio.move_on_after(timeout):
            await self._opened.wait()
        if self._failure is None and self._endpoint is None:
            self._scope.cancel(reason="the server has not named its endpoint in time")
            self._failure = RemoteProtocolError(
                f"the server has not named its endpoint within {timeout:g} s (stream_timeout)"
            )
        if self._failure is not None:
            raise self._failure

    async def run(self) -> None:
        """Read the stream until it ends. With it ends the connection."""
        inbox = self._stream.inbox
        with self._scope:
            try:
                async with await self._stream.get() as response:
                    if not is_event_stream(response):
                        self._failure = await self._refusal(response)
                    else:
                        await self._read(response)
            except McpError as error:
                self._failure = self._failure or error
            self._failure = self._failure or ConnectionLost("the server ended the stream of events")
        if self._endpoint is not None:
            failure = self._failure
            lost = failure if isinstance(failure, ConnectionLost) else ConnectionLost(str(failure))
            inbox.lose(lost)
        self._opened.set()

    async def _refusal(self, response: HttpResponse) -> McpError:
        if response.status >= 300:
            return await error_of(response)
        return RemoteProtocolError("the server answered a GET with something that is no stream of events")

    async def _read(self, response: HttpResponse) -> None:
        reader = self._stream.new_reader()
        while data := await response.receive_some():
            for piece in pieces_of(data):
                is_part = len(piece) < len(data)
                for event in await self._stream.inbox.read_events(reader, piece, is_part=is_part):
                    await self._take(event, response)

    async def _take(self, event: SseReceived, response: HttpResponse) -> None:
        if self._endpoint is not None:
            await self._stream.inbox.deliver_event(event, None, answers_all=True)
        elif event.event == "endpoint" and isinstance(event, SseEvent):
            self._endpoint = self._named(event.data, response.request.target)
            self._opened.set()
        else:
            raise RemoteProtocolError("the first event of the stream does not name the endpoint")

    def _named(self, data: bytes, base: HttpTarget) -> HttpEndpoint:
        """Return the endpoint that the server has named.

        It is never on another origin, which has no right to our credentials.
        """
        name = data.decode("utf-8", "replace")
        try:
            target = base.join(name)
        except ValueError as error:
            raise RemoteProtocolError(f"the server names an endpoint that is no URL: {error}") from error
        if target.address != base.address:
            raise RemoteProtocolError(f"the server names an endpoint on another origin: {target.address}")
        return HttpEndpoint(
            target,
            self._stream.parameters,
            self._transport,
            self._stream.inbox,
            self._limits.max_message_bytes,
        )

    async def ask(self, exchange: HttpExchange) -> None:
        """Send a request. Its answer comes on the stream.

        Raises:
            RequestError: The server does not accept it.
            ConnectionLost: It hangs up.
        """
        assert self._endpoint is not None
        accepted = trio.Event()
        ids = exchange.message.request_ids
        self._posting.update(dict.fromkeys(ids, accepted))
        try:
            async with await self._endpoint.post(exchange, ()) as response:
                if not 200 <= response.status < 300:
                    raise await error_of(response)
                await response.read_excerpt(1024)
        finally:
            for id in ids:
                del self._posting[id]
            accepted.set()

    async def tell(self, exchange: HttpExchange) -> None:
        """Send what nobody answers; see `HttpEndpoint.tell`.

        What cancels a request that the server has not accepted waits for that, half of `Limits.goodbye_timeout`:
        it goes over another connection, and must not be the first to arrive. The other half is its own.
        """
        assert self._endpoint is not None
        accepted = None if exchange.gives_up is None else self._posting.get(exchange.gives_up)
        if accepted is not None:
            with trio.move_on_after(self._limits.goodbye_timeout / 2):
                await accepted.wait()
        await self._endpoint.tell(exchange, ())
