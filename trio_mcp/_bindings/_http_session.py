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
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from .._codec._jsonrpc import RequestId
from .._core._framing import SseEvent, SseReader, SseReceived, pieces_of
from .._core._http1 import PROTOCOL_VERSION, SESSION_ID, HeaderField, is_session_id
from .._core._http_rules import media_type_of
from .._core._reconnect import MAX_DELAY, Reconnect
from .._errors import (
    AuthorizationFailed,
    ConnectionLost,
    HttpStatusError,
    McpError,
    RemoteProtocolError,
    RequestError,
    SessionLost,
)
from .._http._messages import HttpResponse
from .._http._target import HttpTarget
from .._logs import Log
from .._trio import LightParkingLot
from ._http_messages import OutboundMessage, RemoteEndpoint, error_of, is_event_stream

_log: Final = Log("trio_mcp.http")


_NO_SSE: Final = frozenset({200, 400, 404, 405, 406})
"""What a GET is answered with where there is no HTTP+SSE."""


async def _not_events(response: HttpResponse) -> McpError:
    """Return the error for a GET that did not open a stream of events."""
    if response.status >= 300:
        return await error_of(response)
    return RemoteProtocolError("the server answered a GET with something that is not a stream of events")


_NOT_THERE: Final = frozenset({200, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 502, 503})
"""What a POST may be answered with where the endpoint of HTTP+SSE is not: also a page, or by something else."""

_NO_STREAM: Final = frozenset({404, 405})
"""What the first GET is answered with where a server has no stream for its own messages."""


@final
class _EventStream:
    """A stream of events that is opened by GET, again and again.

    Args:
        endpoint: The server's URL.
        begun: The reader of its beginning, if that came otherwise.

    Attributes:
        reader: Reads what comes now.
        last_event_id: What the next GET goes on after.
        is_open: Whether the last GET has opened it.
        status: The HTTP status of its answer; `None` if there was none.
    """

    def __init__(self, endpoint: RemoteEndpoint, begun: SseReader | None = None) -> None:
        self._endpoint = endpoint
        self._reconnect = Reconnect(endpoint.parameters.max_retry_delay)
        self.reader = begun or endpoint.new_reader()
        self.last_event_id = self.reader.last_event_id
        self._retry = self.reader.retry
        self._began_at = 0.0
        self.is_open = False
        self.status: int | None = None

    def begin(self) -> None:
        self.reader = self._endpoint.new_reader()
        self._began_at = trio.current_time()
        self.is_open = False
        self.status = None

    def end(self, *, is_polled: bool) -> None:
        """Take note of what has come.

        Args:
            is_polled: Whether it is enough that an id came: a server that lets a request be polled for sends
                nothing else each time.
        """
        reader = self.reader
        has_lasted = self.is_open and trio.current_time() - self._began_at >= MAX_DELAY
        if reader.messages or has_lasted or (is_polled and reader.last_event_id):
            self._reconnect.received()
        self.last_event_id = reader.last_event_id or self.last_event_id
        self._retry = self._retry if reader.retry is None else reader.retry

    def next_delay(self, *, failed: bool) -> float:
        """Return how many seconds to wait before it is opened."""
        return self._reconnect.next_delay(self._retry, failed=failed, chance=random.random())

    @property
    def failures(self) -> int:
        """How often in a row it has failed."""
        return self._reconnect.failures


@final
class HttpSession:
    """A session that `initialize` has begun. A server may do without an id; the rest is the same.

    It is the origin of what comes on the server's own stream. What belongs to it is said in it and in no other: a
    server counts its ids from the start in each session.

    Args:
        endpoint: The server's URL.
        before: The session that this one replaces, if there is one.

    Attributes:
        had_stream: Whether the server's own stream was open, in this session or in one before.
        listening_scope: Around listening to the server's own stream.
        listening: Set once that stream is open, or the server has none.
    """

    principal = None
    """Nothing authenticates the server but its URL."""

    def __init__(self, endpoint: RemoteEndpoint, before: HttpSession | None = None) -> None:
        self._endpoint = endpoint
        self.had_stream: bool = before is not None and before.had_stream
        self._id: str | None = None
        self._version: str | None = None
        self._lost = trio.Event()
        self._has_streams = False
        self._served = LightParkingLot()  # for who waits until a request was taken
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
                self._served.unpark_all()
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
            raise broken or self._endpoint.missing_answer(outbound)

    async def listen(self) -> None:
        """Keep the server's own stream open while the session lasts.

        Only a server that refuses the first GET with 405 or 404 has none, and never had one in sessions before: a
        new session may not be known everywhere yet. Whatever else goes wrong, it is opened again, after pauses
        that grow. A lost session is reported, and so is that messages may have been missed: a client that only
        listens would learn neither otherwise.
        """
        with self.listening_scope:
            try:
                lost = await self._keep_listening()
            finally:
                self.listening.set()
            if lost is not None:
                await self._endpoint.inbox.report(lost)

    async def _keep_listening(self) -> SessionLost | None:
        """Open the server's own stream again and again. Returns if the session is lost, or there is no stream."""
        stream = _EventStream(self._endpoint)
        failure: McpError | None = None
        is_known = False
        while True:
            was_broken = failure is not None
            failure = await self._read(stream, None, on_open=partial(self._opened, stream, was_broken=was_broken))
            self.listening.set()
            if isinstance(failure, SessionLost):
                return failure
            self.had_stream = self.had_stream or stream.is_open
            if not self.had_stream and stream.status in _NO_STREAM:
                _log.debug("the server has no stream for its own messages: %s", failure)
                return None
            where = self._endpoint.target.shown
            if failure is not None and stream.is_open:
                _log.info("the stream for messages of %s broke off, and is opened again: %s", where, failure)
            elif failure is not None and not is_known:
                _log.warning("the stream for messages of %s is not open, and is tried again: %s", where, failure)
            is_known = not stream.is_open  # one warning for each interruption
            if isinstance(failure, AuthorizationFailed) and not failure.may_pass:
                await self._served.park()  # nobody is asked to log in again by what runs in the background
            await trio.sleep(stream.next_delay(failed=failure is not None))

    async def _opened(self, stream: _EventStream, *, was_broken: bool) -> None:
        self.listening.set()
        if was_broken and not stream.last_event_id:
            what = f"the stream for messages of {self._endpoint.target.shown} was interrupted"
            await self._endpoint.inbox.report(ConnectionLost(what))

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

    async def _resume(self, outbound: OutboundMessage, reader: SseReader, broken: McpError | None) -> None:
        """Go on with the stream of a request by GET, again and again as it ends.

        Args:
            outbound: The request.
            reader: The reader of the stream so far.
            broken: Why it ended, if not in an orderly way.

        Raises:
            ConnectionLost: The session was lost, or it failed too often in a row.
            AuthorizationFailed: There is no token any more.
        """
        stream = _EventStream(self._endpoint, reader)
        while outbound.unanswered:
            with trio.move_on_after(stream.next_delay(failed=broken is not None)):
                await self._lost.wait()
            if self.is_lost:
                await self._endpoint.inbox.end(outbound)
                # The request was accepted: unlike `SessionLost`, this does not allow to send it again.
                raise ConnectionLost("the session ended before the request was answered") from broken
            if broken is not None and stream.failures > self._endpoint.parameters.max_resumptions:
                if isinstance(broken, ConnectionLost):
                    raise broken
                what = f"the answer to a request that was accepted cannot be had: {broken}"
                raise ConnectionLost(what) from broken
            broken = await self._read(stream, outbound)
            if isinstance(broken, AuthorizationFailed) and not broken.may_pass:
                raise broken

    async def _read(
        self,
        stream: _EventStream,
        outbound: OutboundMessage | None,
        on_open: Callable[[], Awaitable[None]] | None = None,
    ) -> McpError | None:
        """Open a stream by GET, and read it to its end. Returns why it failed, or was refused.

        Args:
            stream: The stream.
            outbound: The request that it belongs to; `None` for the server's own stream.
            on_open: Called once it is open.
        """
        stream.begin()
        try:
            async with await self._endpoint.get(self.headers, last_event_id=stream.last_event_id) as response:
                stream.status = response.status
                if not is_event_stream(response):
                    # Some servers without a stream for their own messages answer 404 instead of 405, which
                    # says nothing about the session. One that gives events ids has promised that they can be had.
                    is_known = self._has_streams or outbound is not None
                    refused = self._refused if response.status == 404 and is_known else _not_events
                    return await refused(response)
                self._has_streams = stream.is_open = True
                if on_open is not None:
                    await on_open()
                await self._endpoint.take_events(response, outbound, stream.reader)
        except McpError as error:
            return error
        finally:
            stream.end(is_polled=outbound is not None)
        return None

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
        self._behind_proxy: list[RemoteEndpoint] = []  # where the endpoint may be, until it has accepted a POST
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
                                f"{self._stream.target.shown} serves no HTTP+SSE, which "
                                f'era="sse" asks for (leave it out; or its URL ends in /sse): {self._failure}'
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
            behind = _behind_proxy(target, response.request.target)
            self._behind_proxy = [attrs.evolve(self._stream, target=each) for each in behind]
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
            named = self._endpoint
            refusal = await _accepted(named, outbound)
            for behind in self._behind_proxy:
                if refusal is None or refusal.status not in _NOT_THERE:
                    break
                self._endpoint = behind  # before the answer can be on the stream
                if await _accepted(behind, outbound) is None:
                    refusal = None
                else:
                    self._endpoint = named
            self._behind_proxy = []
            if refusal is not None:
                raise refusal
        finally:
            refusal = None  # its frames have this one, and that what was sent: they would be a cycle
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


async def _accepted(endpoint: RemoteEndpoint, outbound: OutboundMessage) -> RequestError | None:
    """Send a request whose answer comes elsewhere. Returns why it is not accepted, if it is not."""
    async with await endpoint.post(outbound, ()) as response:
        may_be_page = (
            response.status == 200 and media_type_of(response.headers.get("content-type")) == "text/html"
        )
        if may_be_page or not 200 <= response.status < 300:
            error = await error_of(response)
            # Frameworks call what has no type HTML, also an "OK".
            if not may_be_page or getattr(error, "body", "").startswith("<"):
                return error
        await response.read_excerpt(1024)
    return None


def _behind_proxy(named: HttpTarget, stream: HttpTarget) -> list[HttpTarget]:
    """Return the endpoints below the path that a proxy removes from what it forwards, if there may be some.

    A server that does not know of it names what it sees: for ``/proxy/mcp/sse`` it is asked for ``/mcp/sse``, and
    names ``/mcp/messages``, or ``/messages``. So what the URL of the stream has more goes before that.
    """
    folders, steps = (target.path.partition("?")[0].split("/")[1:-1] for target in (stream, named))
    is_folder = stream.path.partition("?")[0].endswith("/")  # also ``/proxy/sse/`` may be what is ``/sse`` there
    paths: list[str] = []
    for above in (folders[:-1], folders) if is_folder else (folders,):
        shared = next(n for n in range(len(above), -1, -1) if above[len(above) - n :] == steps[:n])
        prefix = above[: len(above) - shared]
        if prefix and steps[: len(prefix)] != prefix:
            paths.append(f"/{'/'.join(prefix)}{named.path}")
    return [attrs.evolve(named, path=path) for path in dict.fromkeys(paths)]


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
            f"the server at {base.named} names an endpoint on another server: {target.named}"
        )
    return target
