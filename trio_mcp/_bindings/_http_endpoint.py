"""One URL of a server: requests to it, and what its responses hold, read as messages or as errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, final

import trio

from .._core._headers import HeaderField
from .._core._http_admission import EVENT_STREAM, JSON, media_type_of
from .._core._http_headers import LAST_EVENT_ID
from .._core._http_status import error_in, parse_retry_after
from .._core._sse import SseReader, pieces_of
from .._errors import HttpStatusError, McpError, RemoteProtocolError, RequestError
from .._http._client import send_following
from .._http._request import HttpRequest
from .._http._response import HttpResponse, HttpTransport
from .._http._target import HttpTarget, shown_url
from .._logs import Log
from ._http_exchange import HttpExchange
from ._http_inbox import HttpInbox
from ._http_parameters import HttpServerParameters, headers_from

__all__ = ["HttpEndpoint", "error_of", "is_event_stream"]

_log: Final = Log("trio_mcp.http")

ERROR_BYTES: Final = 64 * 1024
"""How much of the body of an HTTP error is read: an error of the protocol fits."""
EXCERPT: Final = 1000
"""How many characters of it are kept where it is none."""
LINGER_SECONDS: Final = 1.0
"""How long a stream may take to end after its answer, so that its connection can be used again."""

_POST_HEADERS: Final[Sequence[HeaderField]] = (
    (b"Content-Type", JSON.encode()),
    (b"Accept", f"{JSON}, {EVENT_STREAM}".encode()),
)
_GET_HEADERS: Final[Sequence[HeaderField]] = ((b"Accept", EVENT_STREAM.encode()), (b"Cache-Control", b"no-store"))


def is_event_stream(response: HttpResponse) -> bool:
    """Whether a response is a stream of events."""
    return response.status == 200 and media_type_of(response.headers.get("content-type")) == EVENT_STREAM


async def error_of(response: HttpResponse) -> RequestError:
    """Read an HTTP error: the error of the protocol in its body, or what the status and the body say."""
    body = await response.read_excerpt(ERROR_BYTES)
    retry_after = parse_retry_after(response.headers.get("retry-after"), time.time())
    said = error_in(body)
    if said is not None:
        said.status, said.retry_after = response.status, retry_after
        return said
    reason = f" {response.reason}" if response.reason else ""
    message = f"{response.request.target.origin} answered with HTTP status {response.status}{reason}"
    if (location := response.headers.get("location")) is not None and 300 <= response.status < 400:
        message += f", a redirect to {shown_url(location)!r} that is not followed"
    return HttpStatusError(
        response.status,
        message,
        body=body.decode("utf-8", "replace").strip()[:EXCERPT],
        retry_after=retry_after,
    )


@final
class HttpEndpoint:
    """One URL of a server.

    Args:
        target: Where it is.
        parameters: What every request says.
        transport: What carries requests.
        inbox: Takes the messages that come back.
        max_message_bytes: The largest of them.
    """

    def __init__(
        self,
        target: HttpTarget,
        parameters: HttpServerParameters,
        transport: HttpTransport,
        inbox: HttpInbox,
        max_message_bytes: int,
    ) -> None:
        self.target: Final = target
        self.parameters: Final = parameters
        self.inbox: Final = inbox
        self._transport = transport
        self._max_message_bytes = max_message_bytes
        self._description = f"the server at {target.origin}"

    def new_reader(self) -> SseReader:
        """Return what reads one stream of events."""
        return SseReader(self._max_message_bytes)

    async def post(
        self, exchange: HttpExchange, headers: Sequence[HeaderField], *, urgent: bool = False
    ) -> HttpResponse:
        """Send a message; see `HttpTransport.send`."""
        data, on_sent = exchange.message.data, exchange.mark_sent
        return await self._send("POST", (*_POST_HEADERS, *headers), data, on_sent, urgent=urgent)

    async def get(self, headers: Sequence[HeaderField] = (), *, last_event_id: str = "") -> HttpResponse:
        """Ask for a stream of events. It is held open for long, so it does not stand in line."""
        fields = [*_GET_HEADERS, *headers]
        if last_event_id:
            fields.append((LAST_EVENT_ID.encode(), last_event_id.encode("utf-8")))
        return await self._send("GET", fields, urgent=True)

    async def delete(self, headers: Sequence[HeaderField]) -> HttpResponse:
        """Ask the server to forget something."""
        return await self._send("DELETE", headers, urgent=True)

    async def _send(
        self,
        method: str,
        headers: Sequence[HeaderField],
        body: bytes = b"",
        on_sent: Callable[[], object] | None = None,
        *,
        urgent: bool,
    ) -> HttpResponse:
        own = await headers_from(self.parameters.headers)
        request = HttpRequest(
            method=method, target=self.target, headers=(*own, *headers), body=body, on_sent=on_sent
        )
        redirects = self.parameters.http.max_redirects
        return await send_following(self._transport, request, urgent=urgent, max_redirects=redirects)

    async def take(self, response: HttpResponse, exchange: HttpExchange, reader: SseReader) -> None:
        """Take the answers to an exchange, and what comes before them, from its response.

        Returns when the response has ended, or a little after everything was answered.

        Raises:
            RequestError: The response is an error.
            RemoteProtocolError: It cannot be used, or is too large.
            ConnectionLost: It broke off.
        """
        if not 200 <= response.status < 300:
            raise await error_of(response)
        if is_event_stream(response):
            await self.take_events(response, exchange, reader)
            return
        with self.inbox.room.place() as place:
            body = await response.read(self._max_message_bytes, "max_message_bytes", hold=place.hold)
            if not body.strip():
                raise RemoteProtocolError(
                    f"{self._description} answered a request with HTTP status {response.status} and no message"
                )
            await self.inbox.deliver(body, exchange)

    async def take_events(self, response: HttpResponse, exchange: HttpExchange | None, reader: SseReader) -> None:
        """Take messages from a stream of events until it ends, or a little after an exchange is answered.

        Raises:
            Like `take`.
        """
        with trio.CancelScope() as scope, self.inbox.room.place() as place:
            while data := await response.receive_some():
                for piece in pieces_of(data):
                    for event in await self.inbox.read_events(reader, piece, is_part=len(piece) < len(data)):
                        await self.inbox.deliver_event(event, exchange)
                if place.size or reader.size:
                    await place.hold(reader.size)
                if exchange is not None and not exchange.unanswered:
                    scope.deadline = min(scope.deadline, trio.current_time() + LINGER_SECONDS)

    async def tell(self, exchange: HttpExchange, headers: Sequence[HeaderField]) -> None:
        """Send what nobody answers. Whatever comes of it is logged and hurts nobody."""
        what = exchange.method or "an answer"
        problem = f"not accepted within {self.parameters.notification_timeout:g} s (notification_timeout)"
        with trio.move_on_after(self.parameters.notification_timeout):
            try:
                async with await self.post(exchange, headers, urgent=True) as response:
                    if 200 <= response.status < 300:
                        await response.read_excerpt(ERROR_BYTES)
                        return
                    problem = str(await error_of(response))
            except McpError as error:
                problem = str(error)
        _log.warning("%s did not get through to %s: %s", what, self._description, problem)
