"""The client's end of a WebSocket: a server at a URL, its handshake, and what a refusal of that means.

The library that speaks the protocol is imported when a WebSocket is opened.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final, final

import attrs
import trio

from .._channel import AnswerClock, Channel
from .._core._frames import check_answer
from .._core._http1 import HeaderField, Headers, check_lines, fastest_fields
from .._core._reconnect import RestartPolicy, as_policy
from .._errors import ConnectionLost, HttpStatusError, RemoteProtocolError, RequestError
from .._http._auth import (
    Auth,
    AuthRequest,
    ProtectedServer,
    Reached,
    answer_of,
    check_auth,
    error_for,
    fields_of,
    headers_of,
    is_sent_again,
)
from .._http._cookies import CookieJar
from .._http._messages import ResponseHead, ResponseReader, decoded_excerpt
from .._http._target import HttpSettings, HttpTarget, parse_target
from .._limits import Limits, valid_kind, valid_positive
from .._printable import shown_url
from .._trio import Read, plain_stream, reader_of
from ._http_messages import HeaderSource, check_headers, headers_from

SCHEMES: Final = ("ws", "wss", "ws+unix")
_SWITCHING: Final = re.compile(rb"HTTP/1\.1 101[ \r]")
_END_OF_HEAD: Final = b"\r\n\r\n"
_KEY: Final = re.compile(rb"\r\nsec-websocket-key: *([!-~]+)\r\n", re.IGNORECASE)

BODY_BYTES: Final = 4_096
"""How much of the body of a refusal is read."""


def is_websocket_url(url: str) -> bool:
    """Whether a URL is one of a WebSocket."""
    return url.partition("://")[0].lower() in SCHEMES


def _target(url: str) -> HttpTarget:
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.lower() not in SCHEMES:
        raise ValueError(f"the scheme of a WebSocket's URL must be {', '.join(SCHEMES)}: {shown_url(url)!r}")
    return attrs.evolve(parse_target(f"http{scheme.lower()[2:]}://{rest}", given=url), is_websocket=True)


def _check_url(_instance: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"url must be a string, not {type(value).__name__}")
    _target(value)


@final
@attrs.frozen
class WebSocketServerParameters:
    """A server at the URL of a WebSocket.

    Durations are in seconds.

    Attributes:
        url: Its endpoint: ``ws://``, ``wss://`` over TLS, or ``ws+unix://`` with the percent-encoded path of a
            Unix socket for the host. Its query is not shown by ``repr``, in messages and in logs.
        headers: Fields sent with the handshake beside those of the protocol, such as ``Authorization``: a
            mapping, or a plain or async function that returns one and is called for each handshake.
        auth: Who this client is to the server: `OAuth`, `StaticToken`, or an `Auth` of your own. What it adds to
            the handshake replaces `headers` of the same names.
        http: How the connection is made: TLS, proxies, `HttpSettings.connect_timeout` and the largest head of an
            answer. The rest has no meaning here, and redirects are not followed.
        ping_interval: How often the server is asked for a sign of life; ``math.inf`` for never.
        ping_timeout: How long it may then send nothing at all before the connection is lost.
        restart: Whether and how often to connect again when the connection is lost; calls under way fail then,
            later ones wait for the new one. Default: never.
    """

    url: str = attrs.field(validator=_check_url, repr=lambda url: repr(shown_url(url)))
    headers: HeaderSource = attrs.field(factory=dict[str, str], kw_only=True, repr=False, validator=check_headers)
    auth: Auth | None = attrs.field(default=None, kw_only=True, validator=check_auth)
    http: HttpSettings = attrs.field(factory=HttpSettings, kw_only=True, validator=valid_kind)
    ping_interval: float = attrs.field(default=15.0, kw_only=True, validator=valid_positive)
    ping_timeout: float = attrs.field(default=30.0, kw_only=True, validator=valid_positive)
    restart: RestartPolicy | None = attrs.field(default=None, kw_only=True, converter=as_policy)

    @property
    def target(self) -> HttpTarget:
        """The URL, parsed; its scheme is that of the HTTP below."""
        return _target(self.url)

    @property
    def description(self) -> str:
        """The server, without the query of its URL."""
        return f"the server at {self.target.shown}"


@final
class StreamWire:
    """The bytes of a connection that a client has opened."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._read: Read = reader_of(stream)

    async def receive(self, most: int = 0) -> bytes:
        del most
        try:
            return await self._read()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()
            return b""

    async def send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except trio.ClosedResourceError as error:
            raise trio.BrokenResourceError("the connection was cut") from error

    async def send_eof(self) -> None:
        # Over TLS that would wait for the server's; the closing handshake has marked the end.
        await trio.lowlevel.checkpoint()
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError):
                await self._stream.send_eof()

    def cut(self) -> None:
        plain = plain_stream(self._stream)
        if isinstance(plain, trio.SocketStream):
            plain.socket.close()


@final
class HandshakeAnswer:
    """Reads what a server answers to the handshake: it is accepted, or why not.

    The library would wait for ever for an answer that is not complete, and keep a refusal of any size.

    Args:
        description: The server, for errors.
        max_head_bytes: The largest head.
        has_auth: Whether an `Auth` was to authorize the handshake.

    Attributes:
        sent: The header fields of the handshake, which no error repeats.
        hidden: What else was sent in secret.
        accepted: The header fields of the answer, if it was accepted.
        refused: The head of the refusal, if it was refused.
    """

    def __init__(self, description: str, max_head_bytes: int, *, has_auth: bool = False) -> None:
        self._description = description
        self._max_head_bytes = max_head_bytes
        self._has_auth = has_auth
        self.sent: Sequence[HeaderField] = ()
        self.hidden: Sequence[str] = ()
        self.accepted: Headers | None = None
        self.refused: ResponseHead | None = None
        self._key: str | None = None
        self._head = bytearray()
        self._searched = 0  # bytes of it in which it does not end
        self._refusal: ResponseReader | None = None
        self._body = b""

    def note_request(self, data: bytes) -> None:
        """Note what the handshake is that is sent."""
        key = _KEY.search(data)
        self._key = None if key is None else key[1].decode("ascii")

    def feed(self, data: bytes) -> bytes | None:
        """Take what has arrived; ``b""`` at the end. Returns all of it once the handshake is accepted.

        Raises:
            ConnectionLost: The connection ended first.
            RemoteProtocolError: This is no answer to a handshake.
            RequestError: The server refused it; `HttpStatusError` unless it sent an error of the protocol.
        """
        reader = self._refusal
        if reader is None:
            self._head += data
            if not data:
                raise ConnectionLost(f"{self._description} closed the connection in the handshake")
            if _SWITCHING.match(self._head):
                end = self._head.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
                is_whole = end >= 0
                size = end + len(_END_OF_HEAD) if is_whole else len(self._head)
                self._searched = size
                if size > self._max_head_bytes:
                    limit = f"{self._max_head_bytes} bytes (max_head_bytes)"
                    raise RemoteProtocolError(f"{self._description} answered with a head of more than {limit}")
                if not is_whole:
                    return None
                self._check(bytes(self._head[:size]))
                return bytes(self._head)
            if len(self._head) < len(b"HTTP/1.1 101 ") and b"\n" not in self._head:
                return None
            reader = self._refusal = ResponseReader(self._description, self._max_head_bytes, fastest_fields())
            data, self._head = bytes(self._head), bytearray()
        reader.feed(data)
        self._body += reader.take()
        if reader.head is not None and (reader.is_complete or len(self._body) >= BODY_BYTES):
            raise self._refused(reader)
        return None

    def _check(self, head: bytes) -> None:
        """Check what the library would call invalid without saying why."""
        if self._key is None:
            return
        try:
            check_lines(head)
            headers = Headers(fastest_fields()(head[head.index(b"\n") + 1 :]))
            check_answer(headers, self._key)
        except ValueError as error:
            problem = f"the handshake with {self._description} is not valid: {error}"
            raise RemoteProtocolError(problem) from error
        self.accepted = headers

    def _refused(self, reader: ResponseReader) -> RequestError:
        self.refused = head = reader.head
        assert head is not None
        what = "refused the WebSocket"
        error = error_for(
            head.status,
            head.reason,
            head.headers,
            decoded_excerpt(head.headers, self._body, self._description)[:BODY_BYTES],
            self._description,
            fields=self.sent,
            has_auth=self._has_auth,
            what=what,
            hidden=self.hidden,
        )
        if isinstance(error, HttpStatusError) or error.message.startswith(self._description):
            return error
        # Perhaps no WebSocket is served there: what it misses is about HTTP then, and alone would mislead.
        status = f"{head.status} {head.reason}".rstrip()
        refused = f"{self._description} {what} with HTTP status {status}"
        told = RequestError(error.code, f"{refused}: {error.message}", error.data)
        told.status, told.retry_after = error.status, error.retry_after
        return told


@asynccontextmanager
async def open_websocket(
    parameters: WebSocketServerParameters,
    limits: Limits,
    *,
    clocks: Sequence[AnswerClock] = (),
    cookies: CookieJar | None = None,
) -> AsyncGenerator[Channel]:
    """Connect to a server, and close the WebSocket in the end, within `Limits.goodbye_timeout`.

    Args:
        parameters: Where the server is.
        limits: What the connection may cost.
        clocks: What stands still while a person must be asked before the server can be reached.
        cookies: Those of the client; by default it has none yet.

    Raises:
        ConnectionLost: The server could not be reached, or left.
        RemoteProtocolError: Its answer to the handshake is not valid.
        RequestError: It refused the handshake; `HttpStatusError` if it did so by a status of HTTP alone.
        AuthorizationFailed: `WebSocketServerParameters.auth` had nothing to show.
    """
    target = parameters.target
    async with AsyncExitStack() as stack:
        auth: Auth | None = None
        reached = Reached(cookies=cookies or CookieJar())
        if parameters.auth is not None:
            server = ProtectedServer(target.without_query, target, parameters.http, None, reached)
            auth = await stack.enter_async_context(parameters.auth.open(server))
        asked = AuthRequest("GET", target.documented_url, b"", clocks=clocks)
        channel: Channel | None = None
        sent: Mapping[str, str] = {}
        while channel is None:
            sent = {} if auth is None else await headers_of(auth, asked)
            answer = HandshakeAnswer(
                parameters.description, parameters.http.max_head_bytes, has_auth=auth is not None
            )
            refusal: RequestError | None = None
            try:
                channel = await stack.enter_async_context(_open_once(parameters, limits, sent, answer, reached))
            except RequestError as error:
                refusal = error
            if answer.accepted is not None:
                reached.cookies.take(target, answer.accepted)
            if refusal is not None:
                asked.sends += 1
                if auth is None or answer.refused is None:
                    raise refusal
                reached.cookies.take(target, answer.refused.headers)
                if not await is_sent_again(auth, asked, answer.refused, sent):
                    raise refusal
        if auth is not None:
            auth.on_response(asked, answer_of(101, Headers().get_all, sent))
        yield channel


@asynccontextmanager
async def _open_once(
    parameters: WebSocketServerParameters,
    limits: Limits,
    more: Mapping[str, str],
    answer: HandshakeAnswer,
    reached: Reached,
) -> AsyncGenerator[Channel]:
    # Not above: clients of other servers start sooner without it.
    from .._http._connection import Dialer
    from . import _guarded_stream, _websocket

    target = parameters.target
    names = {name.lower().encode() for name in more}
    headers = [field for field in await headers_from(parameters.headers) if field[0].lower() not in names]
    headers = list(reached.cookies.add_to(target, (*headers, *fields_of(more))))
    answer.sent, answer.hidden = headers, target.secrets
    dialer = Dialer(parameters.http, fastest_fields(), on_connected=reached.note)
    stream = await dialer.open_stream(target, tunnels=True)
    wire = StreamWire(stream)
    try:
        channel = _websocket.WebSocketChannel(
            limits,
            parameters.description,
            wire=wire,
            ping_interval=parameters.ping_interval,
            ping_timeout=parameters.ping_timeout,
        )
        channel.sent = headers

        async def connect(nursery: trio.Nursery, guarded: _guarded_stream.GuardedStream) -> Any:
            return await _websocket.propose(nursery, guarded, target.authority, target.path, headers, answer)

        async with _websocket.open_websocket_channel(channel, connect):
            yield channel
    finally:
        wire.cut()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(stream)
