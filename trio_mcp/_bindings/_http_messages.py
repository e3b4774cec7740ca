"""One outgoing message over HTTP, and what becomes of it: its answers, its end, its place in the books.

How much of unfinished responses one client keeps: who waits when it is too much, and who goes on.

Where everything meets that comes back over HTTP: many responses and streams, and one reader.

What a client is told about a server that it reaches over HTTP.

One URL of a server: requests to it, and what its responses hold, read as messages or as errors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from .._channel import Incoming, OriginGone, Outgoing, Received, TooLarge
from .._codec import _json
from .._codec._json import explain_cost, is_array, is_costlier, is_object
from .._codec._jsonrpc import (
    ErrorResponse,
    InvalidMessage,
    RequestId,
    answered_id,
    answered_in_fragment,
    encode_error,
    id_of_fragment,
    is_answer_fragment,
    is_asked_in_fragment,
    kind_of,
    parse_message,
    read_id,
)
from .._core._framing import OversizedSseEvent, SseReader, SseReceived, pieces_of
from .._core._http_headers import (
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    HeaderField,
    version_of,
)
from .._core._http_rules import EVENT_STREAM, JSON, error_in, media_type_of, parse_retry_after
from .._core._reconnect import MAX_RETRY, RestartPolicy
from .._errors import (
    TRANSPORT_FAILED,
    ConnectionLost,
    HttpStatusError,
    McpError,
    RemoteProtocolError,
    RequestError,
)
from .._http._asgi import AsgiApplication, AsgiClient
from .._http._client import send_following
from .._http._messages import HttpRequest, HttpResponse, HttpTransport
from .._http._target import HttpSettings, HttpTarget, parse_target, shown_url
from .._limits import Limits, valid_count, valid_positive, valid_seconds
from .._logs import Log
from .._trio import LightParkingLot


@final
class HttpExchange:
    """One outgoing message and what becomes of it. It is the origin of what its response brings.

    Attributes:
        message: What is sent.
        method: Its method; `None` for an answer or a batch.
        params: Its parameters, decoded from the very bytes that are sent.
        asked: The ids of the requests in it: the only ones that its response may answer.
        unanswered: Those of them whose answers have not come.
        scope: Around everything that is done for it.
        is_sent: Whether the server may have all of it.
        is_given_up: Whether the server was told that nobody waits for an answer.
        problem: What came in place of an answer, in words; `None` if nothing did.
        on_result: Called with the result of a single request before anybody else sees it; it may change it, and
            then says so.
    """

    principal = None
    """Who the server is says its URL."""

    def __init__(self, message: Outgoing) -> None:
        value: Any = _json.decode(message.data)
        single: dict[str, Any] = value if is_object(value) else {}
        self.message: Final = message
        self.method: Final[str | None] = single.get("method")
        self.params: Final[dict[str, Any] | None] = single.get("params")
        self.asked: Final = frozenset(message.request_ids)
        self.unanswered: Final = set(self.asked)
        self.scope: Final = trio.CancelScope()
        self.is_sent = False
        self.is_given_up = False
        self.problem: str | None = None
        self.on_result: Callable[[dict[str, Any]], bool] | None = None

    @property
    def is_modern(self) -> bool:
        """Whether it says its revision itself, as requests of the modern era do."""
        return version_of(self.params) is not None

    @property
    def is_request(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self.message.request_ids)

    @property
    def takes_turns(self) -> bool:
        """Whether what comes after it may have to wait: an answer, or the end of a handshake."""
        return not self.is_request and self.method in (None, "notifications/initialized")

    @property
    def gives_up(self) -> RequestId | None:
        """The request that it cancels, if it does that."""
        if self.method != "notifications/cancelled" or self.params is None:
            return None
        return read_id(self.params.get("requestId"))

    def mark_sent(self) -> None:
        """Its last bytes are about to go."""
        self.is_sent = True

    def missing_answer(self) -> RemoteProtocolError:
        """Return the failure of what is unanswered now that the response has ended."""
        problem = "" if self.problem is None else f": {self.problem}"
        return RemoteProtocolError(f"the server ended the response without an answer{problem}")


def answered_ids(value: Any) -> list[RequestId]:
    """Return the ids of the requests that a message, or the messages of a batch, answer.

    Whether the answers can be used or not: those that receive them end the requests either way.
    """
    messages: list[Any] = value if is_array(value) else [value]
    return [id for id in map(answered_id, messages) if id is not None]


@final
class RoomTaken:
    """What one response takes of the room.

    Attributes:
        size: How many bytes.
    """

    def __init__(self, room: ResponseRoom) -> None:
        self._room = room
        self.size = 0

    async def hold(self, size: int) -> None:  # noqa: ASYNC910, ASYNC911 - as its docstring says
        """So much is kept of it now. Waits, before more of it is read, while that is too much with all others.

        Whoever has begun first goes on, or nobody would. Does not checkpoint if there is room.
        """
        self._room.change(self, size)
        while self._room.must_wait(self):
            await self._room.changed.park()


@final
class ResponseRoom:
    """What the responses that are being read keep together, as bytes.

    Args:
        max_bytes: How much that may be before all but the oldest of them wait.

    Attributes:
        changed: Woken when less is kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._taken = 0
        self._holding: dict[RoomTaken, None] = {}  # those that keep anything, oldest first
        self.changed = LightParkingLot()

    @contextmanager
    def place(self) -> Generator[RoomTaken]:
        """Read a response in a block: when that is left nothing is kept of it."""
        taken = RoomTaken(self)
        try:
            yield taken
        finally:
            self.change(taken, 0)

    def change(self, one: RoomTaken, size: int) -> None:
        """Keep so much of a response instead of what was kept before."""
        less = size < one.size
        self._taken += size - one.size
        one.size = size
        if size:
            self._holding[one] = None
        else:
            self._holding.pop(one, None)
        if less:
            self.changed.unpark_all()

    def must_wait(self, one: RoomTaken) -> bool:
        """Whether a response should not be read on."""
        return self._taken > self._max_bytes and one.size > 0 and next(iter(self._holding)) is not one


_log: Final = Log("trio_mcp.http")

LARGE: Final = 4096
"""From how many bytes on a message is large."""

MAX_TAKEN: Final = 100
"""Messages that are handed over at once."""


def _asked(exchange: HttpExchange | None) -> frozenset[RequestId]:
    """Return what may be answered where a message comes from."""
    return frozenset() if exchange is None else exchange.asked


def _is_nameless(message: Any) -> bool:
    """Whether a message is an answer that does not say to what: an error, if it is valid."""
    return is_object(message) and "method" not in message and message.get("id") is None


def _has_nameless(value: Any) -> bool:
    return any(map(_is_nameless, value)) if is_array(value) else _is_nameless(value)


@final
class HttpInbox:
    """What was received, and which requests it has answered.

    Nothing is buffered: whoever delivers waits until the reader has taken it, so a reader that is slow is felt by
    the servers' sockets.

    What comes with the response to a POST can answer what was asked with that POST, and a stream that belongs to
    no request can answer nothing; any other answer is dropped. Only HTTP+SSE has one stream for all answers.

    Args:
        description: Who sends, for errors and logs.
        limits: What one message may take in memory, and what unfinished responses may.

    Attributes:
        room: What is kept of responses that are being read.
        exchanges: The requests without an answer, by id.
    """

    def __init__(self, description: str, limits: Limits) -> None:
        self._description = description
        self._max_decoded_bytes = limits.max_decoded_bytes
        self._has_large = False  # one is decoded, and not taken yet
        self._large_gone = LightParkingLot()
        self._reading_lines = trio.Lock()
        self.room: Final = ResponseRoom(limits.max_inbound_bytes)
        self._send, self._receive = trio.open_memory_channel[Received](0)
        self._lost: ConnectionLost | None = None
        self.exchanges: Final[dict[RequestId, HttpExchange]] = {}

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        try:
            received = [await self._receive.receive()]
        except trio.EndOfChannel:
            if self._lost is not None:
                raise self._lost.renewed() from None
            raise
        try:
            while len(received) < MAX_TAKEN:
                received.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass
        return received

    def expect(self, exchange: HttpExchange) -> None:
        """Somebody waits for the answers to an exchange."""
        for id in exchange.message.request_ids:
            self.exchanges[id] = exchange

    def forget(self, exchange: HttpExchange) -> None:
        """Nobody waits any more."""
        for id in exchange.message.request_ids:
            self.exchanges.pop(id, None)

    async def deliver(self, data: bytes, exchange: HttpExchange | None, *, answers_all: bool = False) -> None:
        """Hand over one message, or a batch.

        Large ones wait as bytes until it is their turn: only one of them is decoded and not yet taken.

        Args:
            data: Its bytes.
            exchange: Whose response it came with; `None` for a stream that belongs to no request.
            answers_all: Whether it may answer whatever was asked, as on the stream of HTTP+SSE.
        """
        if len(data) <= LARGE:
            await self._deliver(data, exchange, answers_all=answers_all)
            return
        while self._has_large:
            await self._large_gone.park()
        self._has_large = True
        try:
            await self._deliver(data, exchange, answers_all=answers_all)
        finally:
            self._has_large = False
            self._large_gone.unpark_all()

    async def _deliver(self, data: bytes, exchange: HttpExchange | None, *, answers_all: bool) -> None:
        if is_costlier(data, self._max_decoded_bytes):
            problem = explain_cost(len(data), self._max_decoded_bytes)
            await self._deliver_nonsense(data, problem, exchange, answers_all=answers_all)
            return
        try:
            value: Any = _json.decode(data)
        except (ValueError, RecursionError) as error:
            await self._deliver_nonsense(
                data, f"a message that is not JSON: {error}", exchange, answers_all=answers_all
            )
            return
        answered = answered_ids(value)
        if exchange is not None and exchange.unanswered and exchange.unanswered.isdisjoint(answered):
            failure = self._misfit(value, answered, exchange)
            if failure is not None:
                await self.fail(exchange, failure)
                return
        waits = exchange is not None and bool(exchange.unanswered)  # for an error without an id, for example
        if not answers_all and not (
            _asked(exchange).issuperset(answered) and (waits or not _has_nameless(value))
        ):
            value = self._without_strangers(value, exchange, waits=waits)
            if not value:
                await trio.lowlevel.checkpoint()
                return
            data, answered = _json.encode(value), answered_ids(value)
        if len(answered) == 1 and is_object(value) and is_object(result := value.get("result")):
            asked = self.exchanges.get(answered[0])
            if asked is not None and asked.on_result is not None and asked.on_result(result):
                data = _json.encode(value)
        await self._put(Incoming(data, exchange, value=value))
        for id in answered:
            self._settle(id)

    def _without_strangers(self, value: Any, exchange: HttpExchange | None, *, waits: bool) -> Any:
        """Return what is left of a message, or a batch, without the answers to what was not asked there.

        A server, or whoever writes into one of its responses, could answer another request with them.
        """
        asked = _asked(exchange)
        messages: list[Any] = value if is_array(value) else [value]
        kept: list[Any] = []
        dropped: list[RequestId | None] = []
        for message in messages:
            id = answered_id(message)
            if (waits or not _is_nameless(message)) if id is None else id in asked:
                kept.append(message)
            else:
                dropped.append(id)
        self._log_strangers(dropped)
        return kept if is_array(value) else None

    def _log_strangers(self, dropped: Sequence[RequestId | None]) -> None:
        more = f" and {len(dropped) - 1} more" if len(dropped) > 1 else ""
        _log.warning(
            "%s answered %r%s on a stream or with a response where that was not asked; dropped",
            self._description,
            dropped[0],
            more,
        )

    async def read_events(self, reader: SseReader, data: bytes, *, is_part: bool) -> list[SseReceived]:
        """Feed the reader of one stream.

        Args:
            reader: The reader.
            data: What came.
            is_part: Whether it is a part of what has very many lines (`pieces_of`). Of all streams only one is
                fed such a part before others have their turn.
        """
        if not is_part:
            return reader.feed(data)
        async with self._reading_lines:
            return reader.feed(data)

    async def deliver_event(
        self, event: SseReceived, exchange: HttpExchange | None, *, answers_all: bool = False
    ) -> None:
        """Hand over the message in an event, if it is one; what only primes for a reconnection is none.

        Args:
            event: The event.
            exchange: Like that of `deliver`.
            answers_all: Like that of `deliver`.
        """
        if event.event != "message":
            _log.debug("%s sent an event of type %r, which is ignored", self._description, event.event)
            await trio.lowlevel.checkpoint()
        elif isinstance(event, OversizedSseEvent):
            id = id_of_fragment(event.head, event.tail)
            answered = id if is_answer_fragment(event.head, event.tail) else None
            if answered is not None and not answers_all and answered not in _asked(exchange):
                self._log_strangers([answered])
                if exchange is not None:
                    exchange.problem = f"it answers {answered!r}, which was not asked with it"
                await trio.lowlevel.checkpoint()
                return
            await self._put(TooLarge(event.size, event.head, event.tail, exchange))
            if answered is not None:
                self._settle(answered)
        elif event.data:
            await self.deliver(event.data, exchange, answers_all=answers_all)
        else:
            await trio.lowlevel.checkpoint()

    async def fail(self, exchange: HttpExchange, error: McpError) -> None:
        """There will be no answer to what is unanswered in an exchange, and why."""
        for id in exchange.message.request_ids:
            if id in exchange.unanswered:
                said = error if isinstance(error, RequestError) else RequestError(TRANSPORT_FAILED, str(error))
                await self._put(Incoming(encode_error(id, said), exchange, error))
                self._settle(id)

    async def end(self, exchange: HttpExchange) -> None:
        """Nothing more comes of an exchange, and nobody waits for what it was asked."""
        await self._put(OriginGone(exchange))

    async def report(self, failure: McpError) -> None:
        """Hand over what has failed without being anybody's request."""
        await self._put(Incoming(encode_error(None, RequestError(TRANSPORT_FAILED, str(failure))), None, failure))

    @staticmethod
    def _misfit(value: Any, answered: list[RequestId], exchange: HttpExchange) -> McpError | None:
        """Look at what came with a response and answers nothing that was asked with it.

        Returns:
            The failure of the exchange, if that is what it says: an answer without an id is to the only thing
            that the server was asked here. Anything else is kept, for the case that no answer follows.
        """
        if is_object(value) and "method" not in value and value.get("id") is None:
            try:
                message = parse_message(value)
            except InvalidMessage as error:
                return RemoteProtocolError(f"the server answered with an invalid message: {error.reason}")
            return message.error if isinstance(message, ErrorResponse) else None
        if answered:
            exchange.problem = f"it answers {answered[0]!r}, which was not asked with it"
        elif not is_object(value):
            exchange.problem = f"what came is {kind_of(value)}"
        return None

    async def _deliver_nonsense(
        self, data: bytes, what: str, exchange: HttpExchange | None, *, answers_all: bool
    ) -> None:
        """Hand over what cannot be decoded, as the failure of the request that it visibly answers."""
        problem = f"{self._description} sent {what}"
        id = answered_in_fragment(data)
        may_be_meant = id is not None and (answers_all or id in _asked(exchange))
        asked = self.exchanges.get(id) if id is not None and may_be_meant else None
        if asked is None and exchange is not None and not is_asked_in_fragment(data):
            asked = exchange  # whatever it is, there will be no other
        if asked is not None and asked.unanswered:
            await self.fail(asked, RemoteProtocolError(problem))
            return
        if exchange is not None:
            exchange.problem = problem
        _log.warning("%s", problem)
        await trio.lowlevel.checkpoint()

    async def _put(self, received: Received) -> None:
        # Nobody may read any more; then everybody who waited knows.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            try:
                self._send.send_nowait(received)  # saves a turn of the event loop where the reader waits
            except trio.WouldBlock:
                await self._send.send(received)

    def give_up(self, id: RequestId | None) -> HttpExchange | None:
        """Nobody waits for the answer to a request any more. Returns what it was sent with, if it is known."""
        return None if id is None else self._settle(id)

    def _settle(self, id: RequestId) -> HttpExchange | None:
        exchange = self.exchanges.pop(id, None)
        if exchange is not None:
            exchange.unanswered.discard(id)
        return exchange

    def lose(self, why: ConnectionLost) -> None:
        """Nothing will come any more, and why."""
        self._lost = self._lost or why
        self._send.close()

    def close(self) -> None:
        """Nobody reads any more: reading raises `trio.ClosedResourceError`."""
        self._send.close()
        self._receive.close()


HeaderSource: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Header fields by name, or what returns them: a plain or an async function, called for each HTTP request."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e\x80-\xff](?:[\x20-\x7e\t\x80-\xff]*[\x21-\x7e\x80-\xff])?|")
_OURS: Final = frozenset(
    name.lower()
    for name in (
        "Accept", "Accept-Encoding", "Cache-Control", "Connection", "Content-Encoding", "Content-Length",
        "Content-Type", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
        LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID,
    )
)  # fmt: skip
"""What follows from the message and the connection, so that saying something else would break them."""


def _check_url(_instance: object, _attribute: object, value: str) -> None:
    parse_target(value)


def _check_headers(_instance: object, _attribute: object, value: HeaderSource) -> None:
    if not callable(value):
        _encode(value)


def _check_app(_instance: object, _attribute: object, value: Any) -> None:
    if value is not None and not isinstance(value, AsgiClient) and not callable(value):
        raise TypeError(f"app is an ASGI application, or an open AsgiClient, not {type(value).__name__}")


def _encode(headers: object) -> tuple[HeaderField, ...]:
    """Return header fields as they go on the wire.

    Raises:
        TypeError: They are none.
        ValueError: One cannot be sent, or is not the user's to choose. The message does not show its value.
    """
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers are a mapping of names to values, not {type(headers).__name__}")
    items = cast("Mapping[object, object]", headers)
    fields: list[HeaderField] = []
    for name, value in items.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers are strings: {name!r}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if name.lower() in _OURS or name.lower().startswith(PARAM_PREFIX.lower()):
            raise ValueError(f"the header {name} follows from what is sent, and cannot be chosen")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} contains what no header can")
        fields.append((name.encode("ascii"), value.encode("latin-1")))
    return tuple(fields)


async def headers_from(source: HeaderSource) -> tuple[HeaderField, ...]:
    """Return the header fields for one request.

    Raises:
        ConnectionLost: There are none to be had, and so nothing can be sent. The cause is what went wrong.
    """
    try:
        if not callable(source):
            return _encode(source)
        outcome = source()
        return _encode(await outcome if isinstance(outcome, Awaitable) else outcome)
    except Exception as error:
        # The boundary of a callback: it costs the request that it was called for, and whoever waits sees it.
        raise ConnectionLost(f"the headers of a request could not be made: {error!r}") from error


@final
@attrs.frozen
class HttpServerParameters:
    """A server at a URL.

    Durations are in seconds.

    Attributes:
        url: Its endpoint: ``http://``, ``https://``, or ``http+unix://`` with the percent-encoded path of a
            Unix socket for the host. Its query is not shown by ``repr``, in messages and in logs.
        headers: What every request says beside what the protocol wants, such as ``Authorization``: a mapping, or
            a plain or async function that returns one and is called for each HTTP request, so that a token can be
            renewed. What it raises is the cause of the `ConnectionLost` of that request, and costs nothing else.
        http: How connections are made and what they may cost: TLS, proxies, pools.
        app: An ASGI application in this process that is asked instead of the network. It is started and stopped
            with the client; to share one among several clients, hand over what `open_asgi_client` has opened.
            Bodies stream in both directions, and a client that leaves is a disconnect.
        transport: ``"streamable-http"``, ``"sse"`` for HTTP+SSE of 2024-11-05, or ``"auto"`` for the first and,
            if the server does not know it, the second.
        stream_timeout: How long the first call of a legacy session waits for the server to open the stream on
            which it speaks unasked; and how long a server of HTTP+SSE may take to name its endpoint.
        notification_timeout: How long the server may take to accept a notification or an answer before it counts
            as lost.
        max_resumptions: How often in a row resuming a broken stream may fail before its request does.
        max_retry_delay: How long a server may ask to wait before a stream is taken up again (``retry``).
        restart: Whether and how often to begin again when the stream of HTTP+SSE breaks, which is the only
            connection that can be lost over HTTP; calls fail then, and those made later wait for the next one.
    """

    url: str = attrs.field(validator=_check_url, repr=lambda url: repr(shown_url(url)))
    headers: HeaderSource = attrs.field(
        factory=dict[str, str], kw_only=True, repr=False, validator=_check_headers
    )
    http: HttpSettings = attrs.field(factory=HttpSettings, kw_only=True)
    app: AsgiApplication | AsgiClient | None = attrs.field(default=None, kw_only=True, validator=_check_app)
    transport: Literal["auto", "streamable-http", "sse"] = attrs.field(
        default="auto", kw_only=True, validator=attrs.validators.in_(("auto", "streamable-http", "sse"))
    )
    stream_timeout: float = attrs.field(default=3.0, kw_only=True, validator=valid_seconds)
    notification_timeout: float = attrs.field(default=30.0, kw_only=True, validator=valid_positive)
    max_resumptions: int = attrs.field(default=5, kw_only=True, validator=valid_count)
    max_retry_delay: float = attrs.field(default=MAX_RETRY, kw_only=True, validator=valid_seconds)
    restart: RestartPolicy | None = attrs.field(factory=lambda: RestartPolicy(max_restarts=10), kw_only=True)

    @property
    def target(self) -> HttpTarget:
        """The URL, taken apart."""
        return parse_target(self.url)


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
    message = f"{response.request.target.address} answered with HTTP status {response.status}{reason}"
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
        self._description = f"the server at {target.address}"

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
