"""The client's end of HTTP+SSE: a stream for everything that comes, and POSTs to the endpoint that it names.

Spec: 2024-11-05, basic/transports, "HTTP with SSE".
"""

from __future__ import annotations

from typing import Final, final

import trio

from .._codec._jsonrpc import RequestId
from .._core._sse import SseEvent, SseReceived, pieces_of
from .._errors import ConnectionLost, McpError, RemoteProtocolError
from .._http._response import HttpResponse, HttpTransport
from .._http._target import HttpTarget
from .._limits import Limits
from .._logs import Log
from ._http_endpoint import HttpEndpoint, error_of, is_event_stream
from ._http_exchange import HttpExchange

__all__ = ["HttpSseStream"]

_log: Final = Log("trio_mcp.http")


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
        if target.origin != base.origin:
            raise RemoteProtocolError(f"the server names an endpoint on another origin: {target.origin}")
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
