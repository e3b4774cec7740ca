"""The bytes of one connection, and the requests in them: heads, how bodies are framed, bodies.

All hosts split the bytes of a connection with this, so they refuse the same, whatever parses the fields and
writes the answers.

    ConnectionIO ──> RequestBuffer ──> a head ──> read_head ──> how long the body is
                          └─────> what follows the head ──> body_reader ──> RequestBody, and what follows it

Spec: RFC 9112, sections 2.2 to 7.1.
"""

from __future__ import annotations

import abc
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar, Final, Protocol, TypeAlias, final

import attrs
import trio

from .._codec._jsonrpc import encode_error
from .._core._http1 import ChunkedReader, HeaderField, Headers, ReadFields, check_lines, closes, framing_of
from .._core._http_rules import HttpRefused, HttpServerSettings, audit_http, busy
from .._endpoint._call import SMALL, RequestLoans
from .._errors import LocalProtocolError
from .._logs import Log
from .._oauth._principal import ClientCertificate
from .._trio import LightParkingLot, behind, close, send_some

# The bytes of one connection, plain or over TLS, with a limit for clients that do not read.
#
# A plain socket is read and written without Trio's stream around it, which would cost a third of a small request:
# what the system takes at once is sent without waiting.


_log: Final = Log("trio_mcp.http")

READ_BYTES: Final = 64 * 1024

_SMALL_PIECE: Final = 4 * 1024
"""The size of a piece of a body, in bytes, below which its object weighs something beside them. Such pieces
become one; larger ones are copied only once, when the body is complete."""

READ_AHEAD: Final = 16 * 1024
"""Bytes that are read before they are wanted: of a body before its client is authenticated, and after a request
while it is served. A client that has sent more can go unnoticed meanwhile."""

STEP: Final = 64 * 1024
"""So many bytes have `send_timeout` to be taken: a slow reader need not take a whole answer in that time."""

TOO_MANY: Final = "too many connections are open (max_connections, max_connections_per_address)"

LINGER_SECONDS: Final = 2.0
"""How long a client may go on sending after the last answer, in seconds. Closing the connection with bytes unread
would make the client's system discard the answer."""


class ServedConnection(Protocol):
    """Serves one connection.

    Attributes:
        is_draining: Whether nothing new is to be served.
    """

    is_draining: bool

    async def serve(self) -> None:
        """Serve it until it ends."""


@attrs.define(eq=False)
class HostedSocket(abc.ABC):
    """The socket of a connection that a host has accepted.

    Args:
        client: The address of the client; `None` where there are no addresses.

    Attributes:
        client: The address of the client.
    """

    client: str | None

    @abc.abstractmethod
    async def start(self) -> None:
        """Prepare the connection before the first byte; over TLS, do the handshake.

        Raises:
            trio.BrokenResourceError: That has failed.
        """

    def refuse(self) -> None:
        """Close it at once, for there are too many. Where that needs no waiting, its client is told."""
        self.cut()

    @abc.abstractmethod
    def cut(self) -> None:
        """Close it at once. Tasks that wait for it find it broken, or at its end."""


@attrs.define(eq=False)
class ConnectionIO(HostedSocket):
    """A connection over HTTP. One task reads and one writes at a time.

    Args:
        client: The address of the client; `None` where there are no addresses.
        send_timeout: How long the client may take to read `STEP` bytes of what is sent, in seconds.

    Attributes:
        scheme: ``http`` or ``https``.
        sends_now: Whether `send_nowait` may be called.
    """

    scheme: ClassVar[str] = "http"
    sends_now: ClassVar[bool] = False
    _send_timeout: float

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate of the client; `None` if it has shown none."""
        return None

    @abc.abstractmethod
    async def receive(self, most: int = READ_BYTES) -> bytes:
        """Return the next bytes, at most so many; none once the client has closed. Cancelled, none are lost."""

    @abc.abstractmethod
    async def send(self, *parts: bytes) -> None:
        """Send all of them. Does not checkpoint if it is its turn, and the system takes all of it at once.

        Small parts are joined: who calls this need not do so. Cancelled, some of it may have been sent.

        Raises:
            trio.BrokenResourceError: The client does not read, or is gone.
        """

    def send_nowait(self, data: bytes) -> bool:
        """Send as much as the system takes now, if it is its turn; the next `send` begins with the rest.

        Returns whether all of it is sent. Only where `sends_now`.

        Raises:
            trio.BrokenResourceError: The client is gone.
        """
        raise NotImplementedError

    @abc.abstractmethod
    async def send_eof(self) -> None:
        """Close the sending direction. Fails silently."""

    @final
    async def linger(self) -> None:
        """Let the client read what was sent last, before it is closed."""
        await self.send_eof()
        with trio.move_on_after(LINGER_SECONDS):
            while await self.receive():
                pass

    def _too_slow(self) -> trio.BrokenResourceError:
        self.cut()
        return trio.BrokenResourceError(f"the client has not read for {self._send_timeout:g} s (send_timeout)")


@final
@attrs.define(eq=False)
class SocketIO(ConnectionIO):
    """A plain socket.

    Args:
        client: As for `ConnectionIO`.
        send_timeout: As for `ConnectionIO`.
        socket: The socket, which does not block.
    """

    sends_now = True
    _socket: socket.socket
    _rest: memoryview | None = attrs.field(default=None, init=False)  # of what `send_nowait` has begun to send

    async def start(self) -> None:
        with suppress(OSError):  # a Unix socket, or one that was cut
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await trio.lowlevel.checkpoint()

    async def receive(self, most: int = READ_BYTES) -> bytes:
        if self._socket.fileno() < 0:
            await trio.lowlevel.checkpoint()
            return b""  # it was cut; Trio cannot wait for a descriptor that is closed
        try:
            # Trio cannot wait for a socket that was closed meanwhile: it has no descriptor any more.
            while self._socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self._socket)
                try:
                    return self._socket.recv(most)
                except BlockingIOError:
                    pass
        except (OSError, trio.ClosedResourceError):
            return b""
        await trio.lowlevel.checkpoint()
        return b""

    async def send(self, *parts: bytes) -> None:
        size = sum(map(len, parts))
        if size <= SMALL and len(parts) > 1:  # joining what is greater would make a second copy
            parts = (b"".join(parts),)
        if self._rest is not None:
            try:
                await self._send_rest(self._rest)
            finally:
                self._rest = None
        sent = send_some(self._socket, *parts) if size else 0
        if sent < size:
            for part in behind(parts, sent):
                await self._send_rest(part)

    def send_nowait(self, data: bytes) -> bool:
        sent = send_some(self._socket, data)
        if sent == len(data):
            return True
        self._rest = memoryview(data)[sent:]
        return False

    async def _send_rest(self, rest: memoryview) -> None:
        self._check_open()
        sent = 0
        while sent < len(rest):
            await self._wait_room()
            self._check_open()  # then the rest is released
            sent += send_some(self._socket, rest[sent : sent + STEP])

    def _check_open(self) -> None:
        if self._socket.fileno() < 0:
            raise trio.BrokenResourceError("the connection was cut")

    async def _wait_room(self) -> None:
        with trio.move_on_after(self._send_timeout) as scope:
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except (OSError, trio.ClosedResourceError) as error:
                raise trio.BrokenResourceError("the connection was cut") from error
        if scope.cancelled_caught:
            raise self._too_slow()

    def refuse(self) -> None:
        with suppress(trio.BrokenResourceError):
            send_some(self._socket, encode_refusal(busy(503, TOO_MANY)))
        self.cut()

    async def send_eof(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        await trio.lowlevel.checkpoint()

    def cut(self) -> None:
        close(self._socket)
        if self._rest is not None:
            self._rest.release()  # at once: the task that was to send it runs later


@final
@attrs.define(eq=False)
class TlsIO(ConnectionIO):
    """A connection over TLS.

    Args:
        client: As for `ConnectionIO`.
        send_timeout: As for `ConnectionIO`.
        stream: The connection.
        handshake_timeout: How long the handshake may take, in seconds.
    """

    scheme = "https"
    _stream: trio.SSLStream[trio.SocketStream]
    _handshake_timeout: float
    _certificate: ClientCertificate | None = attrs.field(default=None, init=False)

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate of the client, if its chain was verified."""
        if self._certificate is None and (der := self._stream.getpeercert(binary_form=True)) is not None:
            fields = self._stream.getpeercert()
            if fields:  # they are empty where the chain was not verified
                self._certificate = ClientCertificate(der, fields)
        return self._certificate

    async def start(self) -> None:
        with trio.move_on_after(self._handshake_timeout) as scope:
            try:
                await self._stream.do_handshake()
            except trio.ClosedResourceError as error:
                raise trio.BrokenResourceError("the connection was cut") from error
        if scope.cancelled_caught:
            raise trio.BrokenResourceError(
                f"the TLS handshake took more than {self._handshake_timeout:g} s (message_timeout)"
            )

    async def receive(self, most: int = READ_BYTES) -> bytes:
        try:
            return bytes(await self._stream.receive_some(most))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    async def send(self, *parts: bytes) -> None:
        data = parts[0] if len(parts) == 1 else b"".join(parts)  # each part would be a record of its own
        with memoryview(data) as view:
            for at in range(0, len(data), STEP):
                with trio.move_on_after(self._send_timeout) as scope:
                    try:
                        await self._stream.send_all(view[at : at + STEP])
                    except trio.ClosedResourceError as error:
                        raise trio.BrokenResourceError("the connection was cut") from error
                if scope.cancelled_caught:
                    raise self._too_slow()

    async def send_eof(self) -> None:
        # Below TLS: its closing message would wait for the client's, and HTTP itself marks where an answer ends.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.transport_stream.send_eof()

    def cut(self) -> None:
        self._stream.transport_stream.socket.close()


CLOSE: Final = (b"connection", b"close")
CHUNKED: Final = (b"transfer-encoding", b"chunked")
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_EMPTY_LINE: Final = b"\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode("ascii")) for status in HTTPStatus
}
_ABSOLUTE: Final = re.compile(rb"(https?)://([^/?#]*)(.*)", re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n")


@final
@attrs.define
class RequestHead:
    """What the head of a request says.

    Attributes:
        method: Its method, as sent; methods are in capitals.
        target: A path and a query, or an asterisk; a scheme and a host before the path are removed.
        headers: Its fields.
        is_one_one: Whether its client speaks HTTP/1.1, and not 1.0.
        length: How long its body is; `None` for a body in chunks.
        keeps_alive: Whether another request may follow it.
        expects_continue: Whether its client sends the body only after ``100 Continue``.
    """

    method: str
    target: bytes
    headers: Headers
    is_one_one: bool
    length: int | None
    keeps_alive: bool
    expects_continue: bool


def read_head(data: bytes, read_fields: ReadFields) -> RequestHead:
    """Read the head of a request.

    Args:
        data: The head with the empty line at its end, and no other empty line.
        read_fields: Parses its fields.

    Raises:
        HttpRefused: It is malformed (400), or of another version of HTTP (505).
    """
    line = _LINE.match(data)
    if line is None:
        raise _bad("the request line cannot be read")
    try:
        check_lines(data)
        major, minor = line[3], line[4]
        if major != b"1" or minor > b"1":
            raise HttpRefused(505, f"HTTP/{int(major)}.{int(minor)} is not served; use HTTP/1.1")
        is_one_one = minor != b"0"
        headers = Headers(read_fields(data[line.end() :]))
        framing = framing_of(headers, is_one_one=is_one_one)
    except ValueError as error:
        raise _bad(str(error)) from error
    if headers.has_repeats or "host" not in headers:
        hosts = headers.get_all("host")
        if len(hosts) > 1 or (is_one_one and not hosts):
            raise _bad(f"Host is sent {len(hosts)} times; send it once")
    target = line[2]
    return RequestHead(
        line[1].decode("ascii"),
        target if target.startswith(b"/") else _path_in(line[1], target, headers),
        headers,
        is_one_one,
        None if framing == "chunked" else framing or 0,
        is_one_one and not closes(headers),
        is_one_one and (headers.get("expect") or "").lower() == "100-continue",
    )


def _path_in(method: bytes, target: bytes, headers: Headers) -> bytes:
    """Return the path and the query of a target that does not begin with a path (RFC 9112, section 3.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise _bad("the target is neither a path nor an http URL")
    # The target takes precedence over Host. Access is checked by Host, so they must agree.
    port = _DEFAULT_PORTS[found[1].decode("ascii").lower()]
    named, host = found[2].decode("ascii").lower(), (headers.get("host") or "").lower()
    if named.removesuffix(port) != host.removesuffix(port):
        raise _bad("the target and Host name different hosts")
    return found[3] if found[3].startswith(b"/") else b"/" + found[3]


def _bad(problem: str) -> HttpRefused:
    return HttpRefused(400, f"the head of the request cannot be read: {problem}")


@final
class RequestBuffer:
    """The bytes received that no request has taken yet. No byte is searched twice.

    Args:
        max_head_bytes: How large a head may be.
    """

    __slots__ = ("_buffer", "_has_skipped", "_limit", "_searched")

    def __init__(self, max_head_bytes: int) -> None:
        self._buffer = bytearray()
        self._limit = max_head_bytes
        self._has_skipped = False  # the empty line before the next head
        self._searched = 0  # bytes known not to contain the end of a head

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read before a request takes something."""
        return len(self._buffer) >= READ_AHEAD

    def add(self, data: bytes) -> None:
        """Append what was received."""
        self._buffer += data

    def take(self, size: int | None) -> bytes:
        """Remove and return at most `size` bytes; `None` for all."""
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def skip_empty_line(self) -> None:
        """Remove one empty line before a head: old clients send it behind a body (RFC 9112, section 2.2)."""
        if not self._has_skipped and self._buffer.startswith(_EMPTY_LINE):
            del self._buffer[: len(_EMPTY_LINE)]
            self._has_skipped, self._searched = True, 0

    def take_head(self, data: bytes) -> bytes | None:
        """Append what was received; remove and return the next head with the empty line at its end.

        Returns `None` while it is incomplete.

        Raises:
            HttpRefused: It is too large (431), or does not begin like a request (400).
        """
        buffer = self._buffer
        if (
            not buffer
            and 0 <= (end := data.find(_END_OF_HEAD)) <= self._limit - len(_END_OF_HEAD)
            and not data.startswith(_EMPTY_LINE)
        ):
            end += len(_END_OF_HEAD)  # as mostly: with the head behind which nothing was left
            if end < len(data):
                buffer += data[end:]
            self._has_skipped = False
            return data[:end]
        buffer += data
        self.skip_empty_line()
        end = buffer.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
        size = len(buffer) if end < 0 else end + len(_END_OF_HEAD)
        if size > self._limit:
            raise HttpRefused(431, f"a head of {size} bytes or more; {self._limit} are allowed")
        if end < 0:
            if _BARE_LF.search(buffer, max(0, self._searched - 1)):
                raise _bad("a line does not end with CRLF")
            self._searched = size
            begins_empty_line = not self._has_skipped and len(buffer) == 1 and buffer[0] == _EMPTY_LINE[0]
            if buffer and not (0x21 <= buffer[0] <= 0x7E or begins_empty_line):
                raise HttpRefused(400, "this is not an HTTP request")
            return None
        self._has_skipped, self._searched = False, 0
        data = bytes(buffer[:size])
        del buffer[:size]
        return data


@final
class LengthReader:
    """Reads a body of known length; its counterpart for chunks is `ChunkedReader`.

    Args:
        length: Its length in bytes.

    Attributes:
        is_complete: Whether all of the body was received.
        rest: What followed the body in the last piece.
    """

    __slots__ = ("_left", "is_complete", "rest")

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_complete = not length
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the part of a piece that belongs to the body."""
        piece = data[: self._left]
        self._left -= len(piece)
        self.is_complete = not self._left
        self.rest = data[len(piece) :]
        return piece


WHOLE: Final = LengthReader(0)
"""The reader of every body that came together with its head: it is complete, and never fed."""

BodyReader: TypeAlias = ChunkedReader | LengthReader


def body_reader(length: int | None) -> BodyReader:
    """Return a reader for a body of a length; `None` for one in chunks."""
    return ChunkedReader() if length is None else LengthReader(length)


@final
@attrs.define(eq=False, weakref_slot=False)
class RequestBody:
    """The body of one request while it arrives: bounded in size and in time, and counted against its client.

    Args:
        settings: How large it may be, and how long it may take.
        length: Its declared length in bytes; `None` if it has none.
        closing: Header fields of a refusal, which say that the connection ends, because the rest is not read.

    Attributes:
        is_complete: Whether all of it was received.
    """

    _settings: HttpServerSettings
    _length: int | None
    _closing: Sequence[HeaderField] = ()
    is_complete: bool = attrs.field(default=False, init=False)
    _parts: list[bytes | bytearray] = attrs.field(factory=list[bytes | bytearray], init=False)
    _size: int = attrs.field(default=0, init=False)
    _covered: int = attrs.field(default=SMALL, init=False)
    _loans: RequestLoans | None = attrs.field(default=None, init=False)
    _refusal: HttpRefused | None = attrs.field(default=None, init=False)
    _changed: LightParkingLot | None = attrs.field(default=None, init=False)
    _asked: LightParkingLot | None = attrs.field(default=None, init=False)
    _fetching: trio.CancelScope | None = attrs.field(default=None, init=False)

    @property
    def has_begun(self) -> bool:
        """Whether any of it was received."""
        return self._size > 0

    @property
    def has_failed(self) -> bool:
        """Whether it was refused, or cannot become complete."""
        return self._refusal is not None

    @property
    def is_too_large(self) -> bool:
        """Whether more was received than max_body_bytes."""
        return self._size > self._settings.max_body_bytes

    @property
    def is_ahead(self) -> bool:
        """Whether nothing more should be read before the endpoint asks for the body."""
        return self._size >= READ_AHEAD and self._loans is None and not self.is_complete

    @property
    def read_size(self) -> int:
        """How many bytes to read next: hardly more than are left of it, so that little of the next is kept.

        Of a large body several times as many as were received, so that there are few pieces. They take no memory
        before they come, and are counted at once.
        """
        if self._length is None or self.is_complete:
            return READ_AHEAD
        return max(READ_AHEAD, min(max(READ_BYTES, 4 * self._size), self._length - self._size))

    async def wait_asked(self) -> None:
        """Wait while `is_ahead`. Does not checkpoint if it is not."""
        while self.is_ahead:
            if self._asked is None:
                self._asked = LightParkingLot()
            await self._asked.park()

    def feed(self, data: bytes, *, is_complete: bool) -> None:
        """Append a piece. Nothing is kept of a body that is too large or has failed."""
        self._size += len(data)
        if self._size > self._settings.max_body_bytes or self._refusal is not None:
            self._parts.clear()
        elif self._parts and len(data) < _SMALL_PIECE:
            if not isinstance(last := self._parts[-1], bytearray):
                self._parts.append(last := bytearray())
            last += data
        elif data:
            self._parts.append(data)
        self.is_complete = is_complete
        if self._size > self._covered:
            self._cover()
        if self._changed is not None:
            self._wake()

    def _cover(self) -> None:
        """Borrow for what was received, in the name of its client."""
        if self._loans is not None and self._refusal is None and not self.is_too_large:
            try:
                self._covered = self._loans.grow_body(self._size)
            except HttpRefused as refused:
                self._refuse(copy(refused))  # the frames of where it was raised have a piece of the body

    def _refuse(self, refusal: HttpRefused) -> None:
        if self._refusal is None:
            self._refusal = refusal
        self._parts.clear()
        self._wake()

    def fail(self, problem: str) -> None:
        """Refuse it (400): what follows cannot be used."""
        self._refuse(HttpRefused(400, problem, self._closing))

    def end(self) -> None:
        """Note that nothing more will be received."""
        if not self.is_complete:
            self.fail("the client went away before its request was complete")

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.unpark_all()
        if self._fetching is not None:
            self._fetching.cancel(reason="the body is not read any further")

    def check_length(self) -> None:
        """Check the declared length.

        Raises:
            HttpRefused: It is too large (413).
        """
        if self._length is not None and self._length > self._settings.max_body_bytes:
            raise self._too_large(f"{self._length} bytes")

    async def read(self, loans: RequestLoans, fetch: Callable[[], Awaitable[object]] | None = None) -> bytes:
        """Wait for all of it; see `HttpCall.read_body`. Does not checkpoint if it is complete.

        Args:
            loans: The loans of the request, whose client is known by now.
            fetch: Waits for the next piece, and feeds it; `None` if another task does.

        Raises:
            HttpRefused: As `HttpCall.read_body`.
        """
        self._loans = loans
        if self.is_complete and self._size <= self._covered and self._refusal is None and len(self._parts) == 1:
            part = self._parts[0]
            if isinstance(part, bytes) and self._size <= self._settings.max_body_bytes:
                self._parts = []
                return part
        self.check_length()
        if self._asked is not None:
            self._asked.unpark_all()
        if self._size > self._covered:
            self._cover()
        if self._must_wait:
            with trio.move_on_after(self._settings.message_timeout) as scope:
                if fetch is not None:
                    self._fetching = scope
                else:
                    self._changed = LightParkingLot()
                    fetch = self._changed.park
                while self._must_wait:
                    await fetch()
            self._fetching = None
        if self.is_too_large:
            raise self._too_large(f"more than {self._settings.max_body_bytes} bytes")
        if self._refusal is not None:
            raise copy(self._refusal)  # frames that refer to their own error are a cycle
        if self.is_complete:
            parts, self._parts = self._parts, []
            return parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
        problem = f"the body did not arrive within {self._settings.message_timeout:g} s (message_timeout)"
        raise HttpRefused(408, problem, self._closing)

    @property
    def _must_wait(self) -> bool:
        return not (self.is_complete or self.has_failed or self.is_too_large)

    def _too_large(self, what: str) -> HttpRefused:
        problem = f"a body of {what}; max_body_bytes is {self._settings.max_body_bytes}"
        return HttpRefused(413, problem, self._closing)


def refusal_of(refused: HttpRefused, client: str | None) -> bytes:
    """Return the answer to bytes that are not a valid request, and log it. The connection ends with it."""
    _log.info("refused something from %s: %s", client, refused)
    audit_http(refused, None, None, client)
    return encode_refusal(refused)


def encode_refusal(refused: HttpRefused) -> bytes:
    """Return an answer with which the connection ends."""
    body = encode_error(None, refused.error)
    fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), CLOSE]
    return encode_head(refused.status, [*fields, *refused.headers]) + body


def encode_head(status: int, headers: Sequence[HeaderField]) -> bytes:
    """Return the head of an answer.

    Raises:
        LocalProtocolError: A field would end its line.
    """
    lines = [b"%b: %b\r\n" % field for field in headers]
    fields = b"".join(lines)
    if fields.count(b"\n") != len(lines) or fields.count(b"\r") != len(lines) or b"\0" in fields:
        raise LocalProtocolError("a header field of an answer contains a line end or a NUL")
    line = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"%b%b%b\r\n" % (line, _date(), fields)


_dates: Final[dict[int, bytes]] = {}


def _date() -> bytes:
    """Return the Date field (RFC 9110, section 6.6.1)."""
    now = int(time.time())
    line = _dates.get(now)
    if line is None:
        _dates.clear()
        line = _dates[now] = b"date: %b\r\n" % formatdate(now, usegmt=True).encode("ascii")
    return line
