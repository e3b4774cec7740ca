"""What lasts longer than one request over HTTP: a session of the legacy era, and the stream of HTTP+SSE.

A session is an id, the stream for the server's own messages, and streams that are resumed. HTTP+SSE is one stream
for everything the server sends, and POSTs to the endpoint that it names.

Spec: 2025-11-25, basic/transports, "Listening for Messages from the Server", "Resumability and Redelivery",
"Session Management", "Protocol Version Header"; the same in 2025-03-26 and 2025-06-18. 2024-11-05,
basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

import math
import random
from typing import Any, Final, final

import attrs
import trio

from .._codec._jsonrpc import RequestId
from .._core._framing import SseEvent, SseReader, SseReceived, pieces_of
from .._core._http1 import PROTOCOL_VERSION, SESSION_ID, HeaderField, is_session_id
from .._core._reconnect import MAX_DELAY, Reconnect
from .._errors import ConnectionLost, HttpStatusError, McpError, RemoteProtocolError, RequestError, SessionLost
from .._http._messages import HttpResponse
from .._http._target import HttpTarget
from .._logs import Log
from ._http_messages import OutboundMessage, RemoteEndpoint, error_of, is_event_stream

_log: Final = Log("trio_mcp.http")


_NO_SSE: Final = frozenset({200, 400, 404, 405, 406})
"""What a GET is answered with where there is no HTTP+SSE."""


async def _not_events(response: HttpResponse) -> McpError:
    """Return the error for a GET that did not open a stream of events."""
    if response.status >= 300:
        return await error_of(response)
    return RemoteProtocolError("the server answered a GET with something that is not a stream of events")


@final
class HttpSession:
    """A session that `initialize` has begun. A server may do without an id; the rest is the same.

    It is the origin of what comes on the server's own stream. What belongs to it is said in it and in no other: a
    server counts its ids from the start in each session.

    Args:
        endpoint: The server's URL.

    Attributes:
        listening_scope: Around listening to the server's own stream.
        listening: Set once that stream is open, or the server has none.
    """

    principal = None
    """Nothing authenticates the server but its URL."""

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._endpoint = endpoint
        self._id: str | None = None
        self._version: str | None = None
        self._lost = trio.Event()
        self._has_streams = False
        self.listening_scope: Final = trio.CancelScope()
        self.listening: Final = trio.Event()

    def take_id(self, response: HttpResponse) -> None:
        """Keep the id that came with the answer to `initialize`.

        Raises:
            RemoteProtocolError: It cannot be sent back.
        """
        id = response.headers.get(SESSION_ID)
        if id is not None and not is_session_id(id):
            raise RemoteProtocolError(f"{SESSION_ID} must be visible ASCII, not {id[:100]!r}")
        self._id = id

    def take_result(self, result: dict[str, Any]) -> bool:
        """Keep the revision that the result of `initialize` names; see `OutboundMessage.on_result`."""
        version = result.get("protocolVersion")
        if isinstance(version, str) and is_session_id(version):
            self._version = version
        return False

    @property
    def headers(self) -> list[HeaderField]:
        """The headers of every request in the session."""
        fields: list[HeaderField] = []
        if self._id is not None:
            fields.append((SESSION_ID.encode(), self._id.encode()))
        if self._version is not None:
            fields.append((PROTOCOL_VERSION.encode(), self._version.encode()))
        return fields

    async def request(self, outbound: OutboundMessage) -> None:
        """Send a request, and deliver its answers over as many connections as that takes.

        Raises:
            SessionLost: The server does not know the session any more; nothing was done.
            RequestError: The response is an error.
            RemoteProtocolError: The response cannot be used.
            ConnectionLost: The response broke off and cannot be resumed, or the session was lost after that.
        """
        reader = self._endpoint.new_reader()
        broken: ConnectionLost | None = None
        try:
            async with await self._endpoint.post(outbound, self.headers) as response:
                if response.status == 404:
                    raise await self._refused(response)
                await self._endpoint.take(response, outbound, reader)
        except ConnectionLost as error:
            if not reader.last_event_id:
                raise
            broken = error
        if outbound.unanswered and reader.last_event_id:
            if broken is None:
                for id in outbound.unanswered:
                    self._endpoint.inbox.on_release(id, None if reader.retry is None else reader.retry / 1000)
            await self._resume(outbound, reader, broken)
        if outbound.unanswered:
            raise broken or outbound.missing_answer()

    async def listen(self) -> None:
        """Keep the server's own stream open until the session ends or the server refuses the stream.

        A lost session is reported: a client that only listens would not learn it otherwise.
        """
        with self.listening_scope:
            try:
                await self._resume(None, self._endpoint.new_reader(), None)
            except SessionLost as lost:
                self.listening.set()
                await self._endpoint.inbox.report(lost)
            except McpError as error:
                # Servers that send nothing of their own refuse in many ways; the regular one is 405.
                _log.debug("the server has no stream for its own messages: %s", error)
            finally:
                self.listening.set()

    @property
    def is_lost(self) -> bool:
        """Whether the server does not know it any more, or another one has begun."""
        return self._lost.is_set()

    async def lose(self) -> None:
        """End what needs the session: its questions, and requests whose response is to be taken up again.

        Requests whose response is open go on.
        """
        self._lost.set()
        if self._has_streams:
            await self._endpoint.inbox.end(self)

    async def replace(self) -> None:
        """Stop listening: another session has begun."""
        self.listening_scope.cancel(reason="there is another session")
        await self.lose()

    async def _resume(
        self, outbound: OutboundMessage | None, reader: SseReader, broken: ConnectionLost | None
    ) -> None:
        """Open a stream by GET, again and again as it ends.

        Args:
            outbound: The message whose stream it continues; `None` for the server's own stream.
            reader: The reader of the stream so far.
            broken: Why it ended, if not in an orderly way.

        Raises:
            ConnectionLost: It failed too often in a row, or the session was lost.
            McpError: The server refuses it.
        """
        reconnect = Reconnect(self._endpoint.parameters.max_retry_delay)
        last_event_id, retry = reader.last_event_id, reader.retry
        pause = outbound is not None
        while outbound is None or outbound.unanswered:
            if pause:
                failed = broken is not None
                delay = reconnect.next_delay(retry, failed=failed, chance=random.random())  # noqa: S311
                if outbound is None:
                    await trio.sleep(delay)
                else:
                    with trio.move_on_after(delay):
                        await self._lost.wait()
                    if self.is_lost:
                        await self._endpoint.inbox.end(outbound)
                        # The request was accepted: unlike `SessionLost`, this does not allow to send it again.
                        raise ConnectionLost("the session ended before the request was answered") from broken
                    if reconnect.failures > self._endpoint.parameters.max_resumptions:
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
                        await self._endpoint.take_events(response, outbound, reader)
                    else:
                        broken = await self._refusal(response, outbound)
            except ConnectionLost as error:
                broken = error
            self.listening.set()
            # A server that lets a request be polled for sends only an id each time.
            is_polled = outbound is not None and bool(reader.last_event_id)
            if reader.messages or is_polled or trio.current_time() - opened_at >= MAX_DELAY:
                reconnect.received()
            last_event_id = reader.last_event_id or last_event_id
            retry = retry if reader.retry is None else reader.retry

    async def _refusal(self, response: HttpResponse, outbound: OutboundMessage | None) -> ConnectionLost:
        """Return a refusal that may pass, and raise one that will not."""
        # Some servers without a stream for their own messages answer 404 instead of 405, which says nothing about
        # the session. A server that gives events ids has promised that they can be had by GET.
        if response.status == 404 and (self._has_streams or outbound is not None):
            error = await self._refused(response)
            if outbound is None or not isinstance(error, SessionLost):
                raise error
            return ConnectionLost(str(error))
        refusal = await _not_events(response)
        if response.status == 429 or response.status >= 500:
            return ConnectionLost(str(refusal))
        raise refusal

    async def _refused(self, response: HttpResponse) -> RequestError:
        """Return the error for a 404: in a session with an id, that it is lost."""
        error = await error_of(response)
        if self._id is None:
            return error
        await self.lose()
        body = error.body if isinstance(error, HttpStatusError) else error.message
        return SessionLost(404, "the server does not know the session any more", body=body)

    @property
    def can_be_ended(self) -> bool:
        """Whether there is a session to end on the server."""
        return self._id is not None and not self.is_lost

    async def end(self) -> None:
        """End the session on the server. A failure is logged."""
        try:
            async with await self._endpoint.delete(self.headers) as response:
                await response.read_excerpt(1024)
        except McpError as error:
            _log.debug("the session could not be ended: %s", error)


@final
class _OpeningClock:
    """The time for opening a stream, which stands still while a person logs in."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._left = 0.0

    def stop(self) -> None:
        self._left = self.scope.deadline - trio.current_time()
        self.scope.deadline = math.inf

    def start(self) -> None:
        self.scope.deadline = trio.current_time() + self._left


@final
class HttpSseStream:
    """The stream of a server of HTTP+SSE, and the endpoint that it has named.

    Args:
        endpoint: The URL of the stream.
    """

    def __init__(self, endpoint: RemoteEndpoint) -> None:
        self._stream = endpoint
        self._endpoint: RemoteEndpoint | None = None
        self._failure: McpError | None = None
        self._opened = trio.Event()
        self._posting: dict[RequestId, trio.Event] = {}  # the requests that the server has not accepted yet
        self._scope = trio.CancelScope()
        self._clock = _OpeningClock()

    async def wait_open(self) -> None:
        """Wait until the server has named its endpoint.

        Raises:
            RequestError: The server answers with an error.
            RemoteProtocolError: The server does not speak HTTP+SSE, or names no endpoint in time.
            ConnectionLost: The server closed the connection.
        """
        timeout = self._stream.parameters.stream_timeout
        with trio.move_on_after(timeout) as self._clock.scope:
            await self._opened.wait()
        if self._failure is None and self._endpoint is None:
            self._scope.cancel(reason="the server has not named its endpoint in time")
            self._failure = RemoteProtocolError(
                f"the server has not named its endpoint within {timeout:g} s (stream_timeout)"
            )
        if self._failure is not None:
            raise self._failure

    async def run(self) -> None:
        """Read the stream until it ends. The connection ends with it."""
        with self._scope:
            try:
                async with await self._stream.get(clocks=(self._clock,)) as response:
                    if not is_event_stream(response):
                        self._failure = await _not_events(response)
                        if self._stream.parameters.transport == "sse" and response.status in _NO_SSE:
                            self._failure = RemoteProtocolError(
                                f"{self._stream.target.shown} serves no HTTP+SSE, "
                                f'which era="sse" asks for (leave it out): {self._failure}'
                            )
                    else:
                        await self._read(response)
            except McpError as error:
                self._failure = self._failure or error
            self._failure = self._failure or ConnectionLost("the server ended the stream of events")
        if self._endpoint is not None:
            failure = self._failure
            self._stream.inbox.lose(
                failure if isinstance(failure, ConnectionLost) else ConnectionLost(str(failure))
            )
        self._opened.set()

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
            target = _named_target(event.data, response.request.target)
            self._endpoint = attrs.evolve(self._stream, target=target)
            self._opened.set()
        else:
            raise RemoteProtocolError("the first event of the stream does not name the endpoint")

    async def request(self, outbound: OutboundMessage) -> None:
        """Send a request. Its answer comes on the stream.

        Raises:
            RequestError: The server does not accept it.
            ConnectionLost: The server closed the connection.
        """
        assert self._endpoint is not None
        accepted = trio.Event()
        ids = outbound.message.request_ids
        self._posting.update(dict.fromkeys(ids, accepted))
        try:
            async with await self._endpoint.post(outbound, ()) as response:
                if not 200 <= response.status < 300:
                    raise await error_of(response)
                await response.read_excerpt(1024)
        finally:
            for id in ids:
                del self._posting[id]
            accepted.set()

    async def notify(self, outbound: OutboundMessage) -> None:
        """Send a notification or an answer; see `RemoteEndpoint.notify`.

        The cancellation of a request that the server has not accepted waits for that, at most half of
        `Limits.goodbye_timeout`: it goes over another connection, and must not be the first to arrive. The other
        half is for sending it; if the answer has come meanwhile, there is nothing to cancel.
        """
        assert self._endpoint is not None
        id = outbound.cancelled_id
        if id is not None and (accepted := self._posting.get(id)) is not None:
            with trio.move_on_after(self._stream.limits.goodbye_timeout / 2):
                await accepted.wait()
            if id not in self._stream.inbox.unanswered:
                return
        await self._endpoint.notify(outbound, ())


def _named_target(data: bytes, base: HttpTarget) -> HttpTarget:
    """Return the endpoint that a server of HTTP+SSE has named.

    Raises:
        RemoteProtocolError: It is on another server, which must not get our credentials, or not a URL.
    """
    try:
        target = base.join(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise RemoteProtocolError(f"the server names an endpoint that is not a URL: {error}") from error
    if target.address != base.address:
        raise RemoteProtocolError(
            f"the server at {base.address} names an endpoint on another server: {target.address}"
        )
    return target
