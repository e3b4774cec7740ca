"""What a client of Streamable HTTP and of HTTP+SSE is made of: parameters, outbound messages, inbox, endpoint.

    RemoteEndpoint   sends a POST, GET or DELETE to one URL of the server, and reads what comes back
    HttpInbox        takes messages from all responses and streams, for the one task that receives
    ResponseRoom     limits what unfinished responses keep together

What a session is, and in which order things are sent, is decided in `_http_session` and `_http_client`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from .._channel import AnswerClock, Incoming, Origin, OriginGone, Outgoing, Received, TooLarge
from .._codec import _json
from .._codec._json import explain_cost, is_array, is_costlier, is_object, kind_of
from .._codec._jsonrpc import (
    ErrorResponse,
    InvalidMessage,
    Notification,
    RequestId,
    answered_id,
    answered_id_of_fragment,
    encode_error,
    id_of_fragment,
    is_request_fragment,
    is_response_fragment,
    parse_message,
    read_id,
)
from .._core._framing import OversizedSseEvent, SseReader, SseReceived, pieces_of
from .._core._http1 import (
    LAST_EVENT_ID,
    METHOD,
    NAME,
    PARAM_PREFIX,
    PROTOCOL_VERSION,
    SESSION_ID,
    HeaderField,
    version_of,
)
from .._core._http_rules import EVENT_STREAM, JSON, media_type_of
from .._core._reconnect import MAX_RETRY, Reconnect, RestartPolicy, as_policy, may_pass
from .._errors import TRANSPORT_FAILED, ConnectionLost, McpError, RemoteProtocolError, RequestError
from .._http._asgi import AsgiApplication, AsgiClient
from .._http._auth import Auth, check_auth, elsewhere, error_for, error_without_secrets, type_sent
from .._http._client import ResponseRoom, send_following
from .._http._messages import HttpRequest, HttpResponse, HttpTransport
from .._http._target import HttpSettings, HttpTarget, parse_target
from .._limits import Limits, check_kind, valid_count, valid_kind, valid_positive, valid_seconds
from .._logs import Log
from .._printable import excerpt, secrets_in, shown_name, shown_url, without_secrets
from .._trio import LightParkingLot

_log: Final = Log("trio_mcp.http")

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
"""Fields that the message and the connection determine: another value would break them."""

_OUR_PREFIXES: Final = (PARAM_PREFIX.lower(), "sec-websocket-")


def _check_url(_instance: object, _attribute: object, value: str) -> None:
    check_kind("url", value, str)
    parse_target(value)


def check_headers(_instance: object, _attribute: object, value: HeaderSource) -> None:
    """Check header fields as far as they are known: a validator of attrs."""
    if not callable(value):
        _encode(value)


def _check_app(_instance: object, _attribute: object, value: Any) -> None:
    if value is not None and not isinstance(value, AsgiClient) and not callable(value):
        raise TypeError(f"app must be an ASGI application or an open AsgiClient, not {type(value).__name__}")


def _encode(headers: object) -> tuple[HeaderField, ...]:
    """Return header fields as they are sent.

    Raises:
        TypeError: They are not a mapping of strings to strings.
        ValueError: A field cannot be sent, or is set by the library. The message does not show its value.
    """
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers must be a mapping of names to values, not {type(headers).__name__}")
    items = cast("Mapping[object, object]", headers)
    fields: list[HeaderField] = []
    for name, value in items.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"headers must map strings to strings, and {name!r} does not")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{shown_name(name)!r} is not the name of a header")
        if name.lower() in _OURS or name.lower().startswith(_OUR_PREFIXES):
            raise ValueError(f"the header {name} is set by the library; leave it out")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} has characters that no header may have")
        fields.append((name.encode("ascii"), value.encode("latin-1")))
    return tuple(fields)


async def headers_from(source: HeaderSource) -> tuple[HeaderField, ...]:
    """Return the header fields for one HTTP request.

    Raises:
        ConnectionLost: The user's function failed, or returned what cannot be sent. Nothing was sent.
    """
    try:
        if not callable(source):
            return _encode(source)
        outcome = source()
        return _encode(await outcome if isinstance(outcome, Awaitable) else outcome)
    except Exception as error:
        # The boundary of a callback: it costs the request that it was called for, whose caller gets the error.
        raise ConnectionLost(f"the headers of a request could not be made: {error!r}") from error


@final
@attrs.frozen
class HttpServerParameters:
    """A server at a URL.

    Durations are in seconds.

    Attributes:
        url: Its endpoint: ``http://``, ``https://``, or ``http+unix://`` with the percent-encoded path of a
            Unix socket for the host. Its query is not shown by ``repr``, in messages and in logs.
        headers: Fields sent with every HTTP request beside those of the protocol, such as ``Authorization``: a
            mapping, or a plain or async function that returns one and is called for each HTTP request, so that a
            token can be renewed. An exception in it is the cause of the `ConnectionLost` of that request, and
            costs nothing else.
        auth: Who this client is to the server: `OAuth`, `StaticToken`, or an `Auth` of your own. What it adds to
            requests replaces `headers` of the same names.
        http: How connections are made and what they may cost: TLS, proxies, pools.
        app: An ASGI application in this process that gets the requests instead of the network. It is started and
            stopped with the client; to share one among several clients, pass what `open_asgi_client` has opened.
            Bodies stream in both directions, and closing a response early is a disconnect.
        transport: ``"streamable-http"``, ``"sse"`` for HTTP+SSE of 2024-11-05, or ``"auto"`` for the first and,
            if the server does not know it, the second.
        stream_timeout: How long the first call of a legacy session waits for the server to open the stream for
            its own messages; and how long a server of HTTP+SSE may take to name its endpoint.
        notification_timeout: How long the server may take to accept a notification or an answer before it counts
            as lost. An answer is repeated until then, when its connection is lost or the server is busy; but not
            when the server has cancelled its request, or the client has been left.
        max_resumptions: How often in a row resuming a broken stream may fail before its request fails.
        max_retry_delay: The longest wait before a stream is resumed that a server may ask for (``retry``).
        restart: Whether and how often to connect again when the stream of HTTP+SSE breaks, which is the only
            connection that can be lost over HTTP; calls under way fail then, later ones wait for the new one.
    """

    url: str = attrs.field(validator=_check_url, repr=lambda url: repr(shown_url(url)))
    headers: HeaderSource = attrs.field(factory=dict[str, str], kw_only=True, repr=False, validator=check_headers)
    auth: Auth | None = attrs.field(default=None, kw_only=True, validator=check_auth)
    http: HttpSettings = attrs.field(factory=HttpSettings, kw_only=True, validator=valid_kind)
    app: AsgiApplication | AsgiClient | None = attrs.field(default=None, kw_only=True, validator=_check_app)
    transport: Literal["auto", "streamable-http", "sse"] = attrs.field(
        default="auto", kw_only=True, validator=attrs.validators.in_(("auto", "streamable-http", "sse"))
    )
    stream_timeout: float = attrs.field(default=3.0, kw_only=True, validator=valid_seconds)
    notification_timeout: float = attrs.field(default=30.0, kw_only=True, validator=valid_positive)
    max_resumptions: int = attrs.field(default=5, kw_only=True, validator=valid_count)
    max_retry_delay: float = attrs.field(default=MAX_RETRY, kw_only=True, validator=valid_seconds)
    restart: RestartPolicy | None = attrs.field(
        factory=lambda: RestartPolicy(max_restarts=10), kw_only=True, converter=as_policy
    )

    @property
    def target(self) -> HttpTarget:
        """The URL, parsed."""
        return parse_target(self.url)


@final
class OutboundMessage:
    """One outbound message, or a batch, and its state. It is the origin of what its response brings.

    Attributes:
        message: What is sent.
        method: Its method; `None` for an answer or a batch.
        params: Its parameters, decoded from the very bytes that are sent. If one string is most of a large
            message, it is empty here.
        asked: The ids of the requests in it: the only ones that its response may answer.
        unanswered: Those of them without an answer so far.
        scope: Around everything that is done for it.
        drop: Ends the connection that it was sent over, at once; `None` until the server may have all of it.
        is_cancelled: Whether ``notifications/cancelled`` was sent for it.
        is_streamed: Whether its response is a stream of events, which may end while it is still served.
        session: The session in which it is sent, as far as that is decided.
        problem: What came in place of an answer, in words; `None` if nothing did.
        on_result: Called with the result of a single request before it is received; it may change it, and
            returns whether it did.
    """

    principal = None
    """Nothing authenticates the server but its URL."""

    def __init__(self, message: Outgoing) -> None:
        data = message.data
        value: Any = _json.decode(data if len(data) < _json.LARGE else _json.without_middle(data))
        single: dict[str, Any] = value if is_object(value) else {}
        self.message: Final = message
        self.method: Final[str | None] = single.get("method")
        self.params: Final[dict[str, Any] | None] = single.get("params")
        self.asked: Final = frozenset(message.request_ids)
        self.unanswered: Final = set(self.asked)
        self.scope: Final = trio.CancelScope()
        self.drop: Callable[[], object] | None = None
        self.is_cancelled = False
        self.is_streamed = False
        self.session: Origin | None = None
        self.problem: str | None = None
        self.on_result: Callable[[dict[str, Any]], bool] | None = None

    def whole_params(self) -> dict[str, Any] | None:
        """Return its parameters with the string that may be empty in `params`."""
        if self.params is None or len(self.message.data) < _json.LARGE:
            return self.params
        params: dict[str, Any] = _json.decode(self.message.data)["params"]
        return params

    @property
    def is_modern(self) -> bool:
        """Whether it names its revision itself, as requests of the modern era do."""
        return version_of(self.params) is not None

    @property
    def is_request(self) -> bool:
        """Whether it expects an answer."""
        return bool(self.message.request_ids)

    @property
    def takes_turns(self) -> bool:
        """Whether what comes after it may have to wait: an answer, or the end of a handshake."""
        return not self.is_request and self.method in (None, "notifications/initialized")

    @property
    def cancelled_id(self) -> RequestId | None:
        """The request that it cancels, if it is ``notifications/cancelled``."""
        if self.method != "notifications/cancelled" or self.params is None:
            return None
        return read_id(self.params.get("requestId"))

    def mark_sent(self, drop: Callable[[], object]) -> None:
        """Note that its last bytes are about to be sent."""
        self.drop = drop


LARGE: Final = 4096
"""From how many bytes on a message is large."""

MAX_RECEIVED: Final = 100
"""How many messages are received at once."""


def _answered_ids(value: Any) -> list[RequestId]:
    """Return the ids of the requests that a message, or the messages of a batch, answer.

    Invalid answers count: the receiver ends their requests, too.
    """
    return [id for each in (value if is_array(value) else [value]) if (id := answered_id(each)) is not None]


def _asked(outbound: OutboundMessage | None) -> frozenset[RequestId]:
    """Return the ids that may be answered where a message comes from."""
    return frozenset() if outbound is None else outbound.asked


def _lacks_id(message: Any) -> bool:
    """Whether a message is an answer without an id: an error, if it is valid."""
    return is_object(message) and "method" not in message and message.get("id") is None


@final
class HttpInbox:
    """Takes the messages of all responses and streams, and knows which requests are unanswered.

    Nothing is buffered: delivering waits until the message is received, so a slow receiver slows the server down.

    A response to a POST may answer the requests of that POST, and a stream that belongs to no request may answer
    none; every other answer is dropped: a server, or an attacker who can write into one of its responses, could
    answer another request with it. Only HTTP+SSE has one stream for all answers (`answers_all`).

    Args:
        description: The server, for errors and logs.
        limits: `Limits.max_decoded_bytes` bounds a message in memory, `Limits.max_inbound_bytes` what unfinished
            responses keep together.

    Attributes:
        room: Limits what is kept of responses that are being read.
        unanswered: The requests without an answer, by id.
        session: The origin of what comes on a stream that belongs to no request; `None` if there is no session.
        on_release: Called when the server lets a request go, to answer it later; see `Channel.call_on_release`.
        sent: The header fields of the latest request: errors do not repeat what is secret in them.
        take_answers: See `Channel.call_on_answers`.
    """

    def __init__(self, description: str, limits: Limits) -> None:
        self._description = description
        self._max_decoded_bytes = limits.max_decoded_bytes
        self._has_large = False  # one is decoded, and not received yet
        self._large_gone = LightParkingLot()
        self._reading_lines = trio.Lock()
        self.room: Final = ResponseRoom(limits.max_inbound_bytes)
        self._send, self._receive = trio.open_memory_channel[Received](0)
        self._lost: ConnectionLost | None = None
        self.unanswered: Final[dict[RequestId, OutboundMessage]] = {}
        self.session: Origin | None = None
        self.sent: Sequence[HeaderField] = ()
        self.on_release: Callable[[RequestId, float | None], object] = lambda _id, _retry_after: None
        self.take_answers: Callable[[Sequence[Received]], int] = lambda _: 0

    async def receive(self) -> Sequence[Received]:
        """Wait for messages; see `Channel.receive`."""
        try:
            received = [await self._receive.receive()]
        except trio.EndOfChannel:
            if self._lost is not None:
                raise self._lost.renewed() from None
            raise
        try:
            while len(received) < MAX_RECEIVED:
                received.append(self._receive.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            pass
        return received

    def expect(self, outbound: OutboundMessage) -> None:
        """Note that the requests in a message will be answered."""
        for id in outbound.message.request_ids:
            self.unanswered[id] = outbound

    def forget(self, outbound: OutboundMessage) -> None:
        """Note that no answer to a message is waited for any more."""
        for id in outbound.message.request_ids:
            self.unanswered.pop(id, None)

    async def deliver(self, data: bytes, outbound: OutboundMessage | None, *, answers_all: bool = False) -> None:
        """Deliver one message, or a batch.

        Large ones wait as bytes for their turn: only one of them is decoded and not yet received.

        Args:
            data: Its bytes.
            outbound: The message whose response it came with; `None` for a stream that belongs to no request.
            answers_all: Whether it may answer any request, as on the stream of HTTP+SSE.
        """
        if len(data) <= LARGE:
            await self._deliver(data, outbound, answers_all=answers_all)
            return
        while self._has_large:
            await self._large_gone.park()
        self._has_large = True
        try:
            await self._deliver(data, outbound, answers_all=answers_all)
        finally:
            self._has_large = False
            self._large_gone.unpark_all()

    async def _deliver(self, data: bytes, outbound: OutboundMessage | None, *, answers_all: bool) -> None:
        if is_costlier(data, self._max_decoded_bytes):
            problem = explain_cost(len(data), self._max_decoded_bytes)
            await self._deliver_invalid(data, problem, outbound, answers_all=answers_all)
            return
        try:
            value: Any = _json.decode(data)
        except (ValueError, RecursionError) as error:
            problem = f"a message that is not JSON: {error}"
            await self._deliver_invalid(data, problem, outbound, answers_all=answers_all)
            return
        if is_object(value) and is_object(value.get("error")):
            value["error"] = error_without_secrets(value["error"], self.sent)
            data = _json.encode(value)
        answered = _answered_ids(value)
        if outbound is not None and outbound.unanswered and outbound.unanswered.isdisjoint(answered):
            failure = self._failure_in(value, answered, outbound)
            if failure is not None:
                await self.fail(outbound, failure)
                return
        waits = outbound is not None and bool(outbound.unanswered)  # for an error without an id, for example
        if not (answers_all or (waits and _asked(outbound).issuperset(answered))):
            kept = self._without_unasked(value, answered, _asked(outbound), waits=waits)
            if kept is not value:
                if not kept:
                    await trio.lowlevel.checkpoint()
                    return
                value, data, answered = kept, _json.encode(kept), _answered_ids(kept)
        if len(answered) == 1 and is_object(value) and is_object(result := value.get("result")):
            asked = self.unanswered.get(answered[0])
            if asked is not None and asked.on_result is not None and asked.on_result(result):
                data = _json.encode(value)
        await self._put(Incoming(data, outbound or self.session, value=value))
        for id in answered:
            self._settle(id)

    def _without_unasked(
        self, value: Any, answered: list[RequestId], asked: frozenset[RequestId], *, waits: bool
    ) -> Any:
        """Return a message, or a batch, without answers to what was not asked there. `None`: nothing is left.

        Args:
            value: The message or the batch, which is returned as it is if nothing is dropped.
            answered: The ids that it answers.
            asked: The ids that it may answer.
            waits: Whether one of them is unanswered, so that an error without an id may be its answer.
        """
        messages: list[Any] = value if is_array(value) else [value]
        if asked.issuperset(answered) and (waits or not any(map(_lacks_id, messages))):
            return value
        kept: list[Any] = []
        dropped: list[RequestId | None] = []
        for message in messages:
            id = answered_id(message)
            if (waits or not _lacks_id(message)) if id is None else id in asked:
                kept.append(message)
            else:
                dropped.append(id)
        self._log_dropped(dropped)
        return kept if is_array(value) else None

    def _log_dropped(self, dropped: Sequence[RequestId | None]) -> None:
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
            data: The bytes.
            is_part: Whether they are a part of what has very many lines (`pieces_of`). Only one of all streams is
                fed such a part before others have their turn.
        """
        if not is_part:
            return reader.feed(data)
        async with self._reading_lines:
            return reader.feed(data)

    async def deliver_event(
        self, event: SseReceived, outbound: OutboundMessage | None, *, answers_all: bool = False
    ) -> None:
        """Deliver the message in an event. An event without data, which only carries an id, has none.

        Args:
            event: The event.
            outbound: As for `deliver`.
            answers_all: As for `deliver`.
        """
        if event.event != "message":
            _log.debug("%s sent an event of type %r, which is ignored", self._description, event.event)
            await trio.lowlevel.checkpoint()
        elif isinstance(event, OversizedSseEvent):
            id = id_of_fragment(event.head, event.tail)
            answered = id if is_response_fragment(event.head, event.tail) else None
            if answered is not None and not answers_all and answered not in _asked(outbound):
                self._log_dropped([answered])
                if outbound is not None:
                    outbound.problem = f"it answers {answered!r}, which was not asked with it"
                await trio.lowlevel.checkpoint()
                return
            await self._put(TooLarge(event.size, event.head, event.tail, outbound or self.session))
            if answered is not None:
                self._settle(answered)
        elif event.data:
            await self.deliver(event.data, outbound, answers_all=answers_all)
        else:
            await trio.lowlevel.checkpoint()

    async def fail(
        self,
        outbound: OutboundMessage,
        error: McpError,
        cancel: Callable[[RequestId], Notification | None] = lambda _: None,
    ) -> None:
        """Deliver an error in place of each answer that a message has not had.

        Args:
            outbound: The message.
            error: The error.
            cancel: Returns what cancels a request in it, if the server may be serving that still.
        """
        for id in outbound.message.request_ids:
            if id in outbound.unanswered:
                sent = error if isinstance(error, RequestError) else RequestError(TRANSPORT_FAILED, str(error))
                await self._put(Incoming(encode_error(id, sent), outbound, error, cancellation=cancel(id)))
                self._settle(id)

    async def end(self, origin: Origin) -> None:
        """Report that a message's response, or a session, is over: requests of the server in it are cancelled."""
        await self._put(OriginGone(origin))

    async def report(self, failure: McpError) -> None:
        """Deliver a failure that belongs to no request."""
        await self._put(Incoming(encode_error(None, RequestError(TRANSPORT_FAILED, str(failure))), None, failure))

    def _failure_in(self, value: Any, answered: list[RequestId], outbound: OutboundMessage) -> McpError | None:
        """Return the failure of a message, if its response holds one; note every other problem.

        Args:
            value: What came with the response and answers nothing that was asked with it.
            answered: What it answers.
            outbound: The message. An answer without an id is to the only thing that was asked there.
        """
        if _lacks_id(value):
            try:
                message = parse_message(value)
            except InvalidMessage as error:
                asked = "" if "jsonrpc" in value else f"; {elsewhere(self._description)}"
                said = f"{self._description} answered with an invalid message: {error.reason}{asked}"
                return RemoteProtocolError(said)
            return message.error if isinstance(message, ErrorResponse) else None
        if answered:
            outbound.problem = f"it answers {answered[0]!r}, which was not asked with it"
        elif not is_object(value):
            outbound.problem = f"what came is {kind_of(value)}"
        return None

    async def _deliver_invalid(
        self, data: bytes, what: str, outbound: OutboundMessage | None, *, answers_all: bool
    ) -> None:
        """Deliver what cannot be decoded, as the failure of the request that it visibly answers."""
        problem = f"{self._description} sent {what}"
        id = answered_id_of_fragment(data)
        may_answer = id is not None and (answers_all or id in _asked(outbound))
        asked = self.unanswered.get(id) if id is not None and may_answer else None
        if asked is None and outbound is not None and not is_request_fragment(data):
            asked = outbound  # whatever it is, no other answer will come
        if asked is not None and asked.unanswered:
            await self.fail(asked, RemoteProtocolError(problem))
            return
        if outbound is not None:
            outbound.problem = problem
        _log.warning("%s", problem)
        await trio.lowlevel.checkpoint()

    async def _put(self, received: Received) -> None:
        # After `close` nothing is received any more, and all callers have been notified.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            # A receiver that waits has nothing that came before.
            if self._receive.statistics().tasks_waiting_receive and self.take_answers((received,)):
                return
            try:
                self._send.send_nowait(received)  # saves a turn of the event loop if the receiver waits
            except trio.WouldBlock:
                await self._send.send(received)

    def withdraw(self, id: RequestId | None) -> OutboundMessage | None:
        """Wait for the answer to a request no more. Returns the message it was sent with, if it is unanswered."""
        return None if id is None else self._settle(id)

    def _settle(self, id: RequestId) -> OutboundMessage | None:
        outbound = self.unanswered.pop(id, None)
        if outbound is not None:
            outbound.unanswered.discard(id)
        return outbound

    def lose(self, error: ConnectionLost) -> None:
        """End the channel: after what was delivered, receiving raises this error."""
        self._lost = self._lost or error
        self._send.close()

    def close(self) -> None:
        """Receive nothing more: receiving raises `trio.ClosedResourceError`."""
        self._send.close()
        self._receive.close()


ERROR_BYTES: Final = 64 * 1024
"""How much of the body of an HTTP error is read: an error of the protocol fits."""
_JSON_BEGINS: Final = (b"{", b"[")
"""What a message, or a batch of them, begins with."""

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
    """Read an HTTP error: the error of the protocol in its body, else one made of the status and the body."""
    body = await response.read_excerpt(ERROR_BYTES)
    sent = response.request
    return error_for(
        response.status,
        response.reason,
        response.headers,
        body,
        sent.target.shown,
        fields=sent.headers,
        has_auth=sent.has_auth,
        hidden=sent.target.secrets,
    )


@final
@attrs.define(eq=False)
class RemoteEndpoint:
    """One URL of a server: sends requests to it, and reads messages and errors from the responses.

    Attributes:
        target: The URL.
        parameters: The user's headers, and timeouts.
        inbox: Takes the messages that come back.
        limits: `Limits.max_message_bytes` bounds each of them.
        transport: Carries the requests.
        clocks: What stands still while a person must be asked for a request that belongs to no call.
        leaving: Set when the client is being left. It reads nothing more then, so it could not know whether an
            answer that it sends again is still wanted.
    """

    target: HttpTarget
    parameters: HttpServerParameters
    inbox: HttpInbox
    limits: Limits
    transport: HttpTransport
    clocks: Sequence[AnswerClock] = ()
    leaving: trio.Event = attrs.field(factory=trio.Event)

    @property
    def _description(self) -> str:
        return f"the server at {self.target.shown}"

    def new_reader(self) -> SseReader:
        """Return a reader for one stream of events."""
        return SseReader(self.limits.max_message_bytes)

    async def post(
        self, outbound: OutboundMessage, headers: Sequence[HeaderField], *, urgent: bool = False
    ) -> HttpResponse:
        """Send a message; see `HttpTransport.send`."""
        message = outbound.message
        return await self._send(
            "POST",
            (*_POST_HEADERS, *headers),
            message.data,
            outbound.mark_sent,
            urgent=urgent,
            clocks=message.clocks or self.clocks,
        )

    async def get(
        self, headers: Sequence[HeaderField] = (), *, last_event_id: str = "", clocks: Sequence[AnswerClock] = ()
    ) -> HttpResponse:
        """Open a stream of events. It stays open for long, so it does not wait for a connection of the pool."""
        fields = [*_GET_HEADERS, *headers]
        if last_event_id:
            fields.append((LAST_EVENT_ID.encode(), last_event_id.encode("utf-8")))
        return await self._send("GET", fields, urgent=True, clocks=(*self.clocks, *clocks))

    async def delete(self, headers: Sequence[HeaderField]) -> HttpResponse:
        """End the session that the headers name."""
        return await self._send("DELETE", headers, urgent=True)

    async def _send(
        self,
        method: str,
        headers: Sequence[HeaderField],
        body: bytes = b"",
        on_sent: Callable[[Callable[[], object]], object] | None = None,
        *,
        urgent: bool,
        clocks: Sequence[AnswerClock] = (),
    ) -> HttpResponse:
        own = await headers_from(self.parameters.headers)
        request = HttpRequest(
            method=method, target=self.target, headers=(*own, *headers), body=body, on_sent=on_sent, clocks=clocks
        )
        redirects = self.parameters.http.max_redirects
        response = await send_following(self.transport, request, urgent=urgent, max_redirects=redirects)
        self.inbox.sent = response.request.headers
        return response

    def missing_answer(self, outbound: OutboundMessage) -> RemoteProtocolError:
        """Return the failure of the unanswered requests of a message once its response has ended."""
        problem = "" if outbound.problem is None else f": {outbound.problem}"
        return RemoteProtocolError(f"{self._description} ended the response without an answer{problem}")

    async def take(self, response: HttpResponse, outbound: OutboundMessage, reader: SseReader) -> None:
        """Deliver the answers to a message, and what comes before them, from its response.

        Returns when the response has ended, or a little after everything was answered.

        Raises:
            RequestError: The response is an error.
            RemoteProtocolError: The response cannot be used, or is too large.
            ConnectionLost: The response broke off.
        """
        if not 200 <= response.status < 300:
            raise await error_of(response)
        if is_event_stream(response):
            outbound.is_streamed = True
            await self.take_events(response, outbound, reader)
            return
        with self.inbox.room.place() as place:
            body = await response.read(self.limits.max_message_bytes, "max_message_bytes", hold=place.hold)
            if not body or body.isspace():
                raise RemoteProtocolError(
                    f"{self._description} answered a request with HTTP status {response.status} and no message"
                )
            if body[:1] not in _JSON_BEGINS and body.lstrip()[:1] not in _JSON_BEGINS:
                secrets = (*secrets_in(self.inbox.sent), *self.target.secrets)
                begin = without_secrets(body[:ERROR_BYTES].decode("utf-8", "replace"), secrets)
                raise RemoteProtocolError(
                    f"{self._description} answered with {type_sent(response.headers)} instead of a message: "
                    f"{excerpt(begin.encode())}; {elsewhere(self._description)}"
                )
            await self.inbox.deliver(body, outbound)

    async def take_events(
        self, response: HttpResponse, outbound: OutboundMessage | None, reader: SseReader
    ) -> None:
        """Deliver messages from a stream of events until it ends, or a little after a message is answered.

        Raises:
            Like `take`.
        """
        with trio.CancelScope() as scope, self.inbox.room.place() as place:
            while data := await response.receive_some():
                for piece in pieces_of(data):
                    for event in await self.inbox.read_events(reader, piece, is_part=len(piece) < len(data)):
                        await self.inbox.deliver_event(event, outbound)
                if place.size or reader.size:
                    await place.hold(reader.size)
                if outbound is not None and not outbound.unanswered:
                    scope.deadline = min(scope.deadline, trio.current_time() + LINGER_SECONDS)

    async def notify(self, outbound: OutboundMessage, headers: Sequence[HeaderField]) -> None:
        """Send a notification or an answer. A failure is logged and raises nothing.

        The server waits for an answer, and ignores a second one. So if the connection is lost before, or the
        server is busy, it is sent again until `HttpServerParameters.notification_timeout` has passed, or the
        client is being left.
        """
        what = outbound.method or "an answer"
        problem = f"not accepted within {self.parameters.notification_timeout:g} s (notification_timeout)"
        reconnect = Reconnect(self.parameters.max_retry_delay)
        with trio.move_on_after(self.parameters.notification_timeout):
            may_help = True
            while may_help:
                may_help = outbound.method is None
                try:
                    async with await self.post(outbound, headers, urgent=True) as response:
                        if 200 <= response.status < 300:
                            await response.read_excerpt(ERROR_BYTES)
                            return
                        problem = str(await error_of(response))
                        may_help = may_help and may_pass(response.status)
                except ConnectionLost as error:
                    problem = str(error)
                except McpError as error:
                    problem, may_help = str(error), False
                if may_help:
                    delay = reconnect.next_delay(None, failed=True, chance=random.random())
                    with trio.move_on_after(delay):
                        await self.leaving.wait()
                    may_help = not self.leaving.is_set()
        _log.warning("%s could not be sent to %s: %s", what, self._description, problem)
