"""Requests as they are sent, and responses as they arrive: bytes in, heads and decoded bodies out. No I/O.

What can be read in two ways is refused, since what one reader takes for a body another may take for the next
response.

Spec: RFC 9112, sections 2.2 to 7.1.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Literal, Protocol, final

import attrs
import trio

from .._channel import AnswerClock
from .._core._http1 import ChunkedReader, HeaderField, Headers, ReadFields, check_lines, closes, framing_of
from .._errors import ConnectionLost, LocalProtocolError, RemoteProtocolError
from .._printable import excerpt
from .._version import __version__
from ._target import HttpTarget

_OURS: Final = (
    (b"user-agent", b"User-Agent: trio-mcp/%b\r\n" % __version__.encode("ascii")),
    (b"accept-encoding", b"Accept-Encoding: identity\r\n"),
)
"""Fields that are sent unless the request has them."""

_FRAMING: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"upgrade"))
"""Fields that the request and the connection determine."""

_FIRST_LINE: Final = re.compile(rb"[A-Z]{1,32} [\x21-\x7e]+ HTTP/1\.1\r\n")
_VISIBLE: Final = rb"[\x21-\x7e\x80-\xff]"
_FIELD: Final = rb"[!#$%%&'*+\-.^_`|~0-9A-Za-z]+: (?:%b(?:[\x20-\x7e\t\x80-\xff]*%b)?)?\r\n" % (
    _VISIBLE,
    _VISIBLE,
)
_FIELDS: Final = re.compile(rb"(?:%b)*" % _FIELD)
_ONE_FIELD: Final = re.compile(_FIELD)


@final
@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request.

    Attributes:
        method: In capitals.
        target: The URL.
        headers: Its fields, but for `Host`, `Content-Length` and those of the connection.
        body: Its body.
        on_sent: Called before its last bytes are sent, since from then on the server may have all of it, with a
            function that ends the connection for the server at once, and does not wait. Whoever calls that
            cancels the request as well, or closes its response.
        clocks: What stands still while a person must be asked before it can be sent.
        has_auth: Whether an `Auth` was asked to authorize it.
    """

    method: str
    target: HttpTarget
    headers: Sequence[HeaderField] = attrs.field(default=(), repr=False)  # they hold credentials
    body: bytes = attrs.field(default=b"", repr=False)
    on_sent: Callable[[Callable[[], object]], object] | None = attrs.field(default=None, eq=False, repr=False)
    clocks: Sequence[AnswerClock] = attrs.field(default=(), eq=False, repr=False)
    has_auth: bool = attrs.field(default=False, eq=False, repr=False)


def encode_head(request: HttpRequest, through_proxy: Sequence[HeaderField] | None = None) -> bytes:
    """Return all of a request that goes before its body.

    Args:
        request: The request.
        through_proxy: Fields for a proxy that forwards single requests. Then the first line has the whole URL.

    Raises:
        LocalProtocolError: The bytes would not be exactly one request of HTTP/1.1.
    """
    target, headers, body = request.target, request.headers, request.body
    chosen = {name.lower() for name, _ in headers}
    if not _FRAMING.isdisjoint(chosen):
        names = b", ".join(sorted(_FRAMING & chosen)).decode("ascii")
        raise LocalProtocolError(
            f"the request to {target.address} sets {names}, which the library sets; leave it out"
        )
    where = target.path if through_proxy is None else target.url
    first_line = b"%b %b HTTP/1.1\r\n" % (request.method.encode(), where.encode())
    host = (b"Host", target.authority.encode())
    fields = [b"%b: %b\r\n" % field for field in (host, *(through_proxy or ()), *headers)]
    lines = b"".join(fields)
    # All fields in one match, which is many times as fast. A line break in a field would make two valid ones of
    # it.
    if not _FIRST_LINE.fullmatch(first_line) or not _FIELDS.fullmatch(lines) or lines.count(b"\n") != len(fields):
        raise LocalProtocolError(f"the request to {target.address} is not HTTP: {_fault_in(first_line, fields)}")
    ours = b"".join([line for name, line in _OURS if name not in chosen])
    length = b""
    if body or request.method not in ("GET", "HEAD", "DELETE"):
        length = b"Content-Length: %d\r\n" % len(body)
    return b"".join((first_line, lines, ours, length, b"\r\n"))


def _fault_in(first_line: bytes, fields: Sequence[bytes]) -> str:
    """Return the fault, without values, which may be credentials."""
    for field in fields:
        if not _ONE_FIELD.fullmatch(field):
            return f"the header field {field.partition(b': ')[0]!r} has characters that no field may have"
    return f"it begins with {first_line!r}"


SMALL: Final = 4096
"""Pieces of a body that are shorter than this, in bytes, are joined."""


class BodySource(Protocol):
    """The body of a response, as it arrives."""

    async def receive_some(self) -> bytes:
        """Wait for some of it; nothing once it is complete."""
        ...

    async def aclose(self) -> None:
        """Release its connection, whether or not it is complete."""
        ...


DECODED_AT_ONCE: Final = 64 * 1024
"""How many bytes of a compressed body come out of it at once: a bomb is as large as it is read, and no larger."""

_ENCODED_AT_ONCE: Final = 16 * 1024

_WINDOW: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}


@final
class Decoder:
    """Decodes one body (RFC 9110, section 8.4.1): what servers and balancers compress although nobody asked.

    Args:
        coding: `Content-Encoding`.
        description: The server, for errors.

    Attributes:
        is_within: Whether the body cannot end here.

    Raises:
        RemoteProtocolError: The coding is not known.
    """

    def __init__(self, coding: str, description: str) -> None:
        self._coding = coding.strip().lower()
        self._description = description
        self._inflating: Any = None
        self._brotli: Any = None
        self.is_within = False
        if self._coding == "br":
            with suppress(ImportError):
                module: Any = import_module("brotli")
                self._brotli = module.Decompressor()
                if not hasattr(self._brotli, "can_accept_more_data"):  # before 1.2 nothing limits what comes out
                    self._brotli = None
        if self._brotli is None and self._coding not in _WINDOW:
            raise RemoteProtocolError(
                f"{description} answered with Content-Encoding {excerpt(coding.encode())}, which was not asked "
                "for and cannot be read: gzip, deflate and identity can, br with the package brotli from 1.2 on"
            )

    def feed(self, data: bytes) -> tuple[bytes, bytes, bool]:
        """Take a piece of the body. Returns what it stands for, or the beginning of that, and what to feed next.

        Returns:
            At most `DECODED_AT_ONCE` bytes; what was not read of `data`; whether more comes out even so.

        Raises:
            RemoteProtocolError: It is not so encoded.
        """
        try:
            if self._brotli is not None:
                out: bytes = self._brotli.process(data, output_buffer_limit=DECODED_AT_ONCE)
                self.is_within = not self._brotli.is_finished()
                return out, b"", not self._brotli.can_accept_more_data()
            if self._inflating is None:
                # Some servers leave out the head that "deflate" has; some compress in several members.
                is_bare = self._coding == "deflate" and data[0] & 15 != zlib.DEFLATED
                self._inflating = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else _WINDOW[self._coding])
            inflating = self._inflating
            out = inflating.decompress(data, DECODED_AT_ONCE)
        except Exception as error:
            # The boundary of a decoder: it costs the response that it reads.
            raise RemoteProtocolError(
                f"{self._description} answered with a body that is not {self._coding}: {error}"
            ) from error
        self.is_within = not inflating.eof
        if inflating.eof:
            self._inflating = None
            return out, inflating.unused_data, False
        return out, inflating.unconsumed_tail, len(out) == DECODED_AT_ONCE


def decoded_excerpt(headers: Headers, body: bytes, description: str) -> bytes:
    """Return the beginning of a body whose beginning is here; nothing of what cannot be decoded."""
    coding = headers.get("content-encoding", "identity")
    if not body or coding.lower() == "identity":
        return body
    with suppress(RemoteProtocolError):
        return Decoder(coding, description).feed(body)[0]
    return b""


@final
class DecodedBody:
    """The body of a response, decoded as it arrives, and no faster than it is read.

    Args:
        source: The body as it arrives.
        coding: `Content-Encoding`.
        description: The server, for errors.
    """

    def __init__(self, source: BodySource, coding: str, description: str) -> None:
        self._source = source
        self._coding = coding
        self._description = description
        self._decoder: Decoder | None = None
        self._encoded = self._piece = b""
        self._read = 0  # of what is encoded
        self._has_more = False

    async def receive_some(self) -> bytes:
        """Wait for some of it; see `HttpResponse.receive_some`."""
        while True:
            if self._piece or self._has_more or self._read < len(self._encoded):
                await trio.lowlevel.checkpoint()  # a little may become very much
            else:
                self._encoded, self._read = await self._source.receive_some(), 0
                if not self._encoded:
                    if self._decoder is not None and self._decoder.is_within:
                        raise RemoteProtocolError(
                            f"{self._description} answered with a compressed body that ends early"
                        )
                    return b""
            decoder = self._decoder = self._decoder or Decoder(self._coding, self._description)
            if not self._piece and not self._has_more:
                self._piece = self._encoded[self._read : self._read + _ENCODED_AT_ONCE]
                self._read += _ENCODED_AT_ONCE
            data, self._piece, self._has_more = decoder.feed(self._piece)
            if data:
                return data

    async def aclose(self) -> None:
        """Release its connection."""
        await self._source.aclose()


@final
@attrs.define(eq=False)
class HttpResponse:
    """The response to one request: its head has arrived; the caller receives the body, and closes it.

    As a context manager it closes itself. Closing it before the body is complete ends the connection, which is
    how the server learns that the rest is not read.

    Attributes:
        request: The request, after redirects.
        status: The HTTP status.
        reason: The words after it; may be empty.
        headers: Its header fields.
    """

    request: HttpRequest
    status: int
    headers: Headers
    _source: BodySource
    reason: str = attrs.field(default="", kw_only=True)

    async def __aenter__(self) -> HttpResponse:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        await self._source.aclose()

    def decoded(self) -> HttpResponse:
        """Return the same response with its body as it was before it was encoded, if it is."""
        coding = self.headers.get("content-encoding")
        if coding is None or coding.lower() == "identity":
            return self
        return attrs.evolve(self, source=DecodedBody(self._source, coding, self.request.target.address))

    async def aclose(self) -> None:
        """Release its connection. A checkpoint only if that ends the connection."""
        await self._source.aclose()

    async def receive_some(self) -> bytes:
        """Wait for the next bytes of the body; nothing once it is complete. Cancelled, nothing is lost.

        Raises:
            ConnectionLost: The connection ended in the middle of it.
            RemoteProtocolError: What came is not HTTP.
        """
        return await self._source.receive_some()

    async def read(
        self, max_bytes: int, limit: str = "max_bytes", *, hold: Callable[[int], Awaitable[object]] | None = None
    ) -> bytes:
        """Wait for the whole body.

        Args:
            max_bytes: The largest body that is accepted.
            limit: The setting with that, for the error.
            hold: Called with how many bytes of it are kept, before more is read.

        Raises:
            RemoteProtocolError: It is larger than `max_bytes`.
            Others: As `receive_some`.
        """
        length = self.headers.get("content-length")
        parts: list[bytes] = []
        small = bytearray()  # a piece of one byte alone would take forty
        size = 0
        if length is None or not length.isdigit() or int(length[:20]) <= max_bytes:
            while data := await self.receive_some():
                size += len(data)
                if size > max_bytes:
                    break
                if hold is not None:
                    await hold(size)
                if len(data) >= SMALL and not small:
                    parts.append(data)
                    continue
                small += data
                if len(small) >= SMALL:
                    parts.append(bytes(small))
                    small.clear()
            else:
                return parts[0] if len(parts) == 1 and not small else b"".join((*parts, small))
        raise RemoteProtocolError(
            f"{self.request.target.address} answered with more than {max_bytes} bytes ({limit})"
        )

    async def read_excerpt(self, max_bytes: int) -> bytes:
        """Wait for the beginning of the body, or all of it. The rest is not read.

        Raises:
            Like `receive_some`.
        """
        body = bytearray()
        while len(body) < max_bytes and (data := await self.receive_some()):
            body += data
        return bytes(body[:max_bytes])


class HttpTransport(Protocol):
    """Sends requests and returns their responses."""

    async def send(self, request: HttpRequest, *, urgent: bool = False) -> HttpResponse:
        """Send a request and wait for the head of its response, which the caller must close.

        Args:
            request: What to send.
            urgent: Whether it must not wait for others to finish, because they may be waiting for it.

        Raises:
            ConnectionLost: The server cannot be reached, or closed the connection.
            LocalProtocolError: The request is not valid. Nothing was sent.
            RemoteProtocolError: The response is not HTTP.
        """
        ...


MAX_INFORMATIONAL: Final = 32
"""Interim responses (1xx) before the final one. A server needs no more than one or two."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([^\r\n]*))?\r\n")
_BEGINNING: Final = b"HTTP/1."
_END_OF_HEAD: Final = b"\r\n\r\n"
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")


@final
@attrs.define
class ResponseHead:
    """The head of a response.

    Attributes:
        status: The HTTP status.
        reason: The words after it; may be empty.
        headers: Its fields.
        framing: How long its body is; `None` if that is not declared.
        keeps_alive: Whether another response may follow it.
    """

    status: int
    reason: str
    headers: Headers
    framing: int | Literal["chunked"] | None
    keeps_alive: bool


@final
class ResponseReader:
    """Reads the responses of one connection. Memory is bounded, as long as the body is taken.

    Args:
        description: The server, for errors.
        max_head_bytes: The largest head.
        read_fields: Reads the fields of heads.

    Attributes:
        head: The head of the response, once it has arrived.
        is_complete: Whether all of the response has arrived.
        has_surplus: Whether bytes arrived behind a response.
    """

    def __init__(self, description: str, max_head_bytes: int, read_fields: ReadFields) -> None:
        self._description = description
        self._max_head_bytes = max_head_bytes
        self._read_fields = read_fields
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer in which no head ends
        self.has_surplus = False
        self.begin("GET")

    @property
    def expected(self) -> int:
        """How many bytes will come of a body whose length was declared."""
        return self._left or 0

    @property
    def is_reusable(self) -> bool:
        """Whether the next response will begin where this one has ended."""
        return (
            self.is_complete
            and self.head is not None
            and self.head.keeps_alive
            and self._left is not None
            and not self.has_surplus
        )

    def begin(self, method: str) -> None:
        """Expect the response to a request."""
        self._may_have_body = method != "HEAD"
        self._is_tunnel = method == "CONNECT"
        self._informational = 0
        self._chunks: ChunkedReader | None = None
        self._left: int | None = 0  # of a body with a length; `None` until the connection ends
        self._body = b""
        self.head: ResponseHead | None = None
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes; ``b""`` if the connection has ended.

        Raises:
            ConnectionLost: It ended before the response was complete.
            RemoteProtocolError: They are not HTTP/1.1, or a head that is too large.
        """
        try:
            if not data:
                self._end()
            elif self.head is None:
                self._feed_head(data)
            else:
                self._feed_body(data)
        except ValueError as error:
            raise RemoteProtocolError(f"{self._description} does not speak HTTP/1.1: {error}") from error

    def take(self) -> bytes:
        """Return the bytes of the body that have arrived and were not taken yet."""
        data, self._body = self._body, b""
        return data

    def hung_up(self) -> ConnectionLost:
        """Return the error for a connection that has ended too early."""
        where = "place of" if self.head is None else "the middle of"
        return ConnectionLost(f"{self._description} closed the connection in {where} a response")

    def _end(self) -> None:
        if self.head is None or self._left is not None:
            raise self.hung_up()
        self.is_complete = True

    def _feed_head(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while self.head is None:
            end = buffer.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
            size = len(buffer) if end < 0 else end + len(_END_OF_HEAD)
            if size > self._max_head_bytes:
                raise RemoteProtocolError(
                    f"{self._description} sent a head of {size} bytes; max_head_bytes is {self._max_head_bytes}"
                )
            if end < 0:
                self._check_incomplete()
                return
            self._searched = 0
            head = _read_head(bytes(buffer[:size]), self._read_fields)
            del buffer[:size]
            if head.status >= 200:
                self._begin_body(head)
            elif head.status == 101:
                raise ValueError("it changes the protocol (101), which was not requested")
            else:
                self._informational += 1
                if self._informational > MAX_INFORMATIONAL:
                    raise RemoteProtocolError(
                        f"{self._description} sent more than {MAX_INFORMATIONAL} interim responses"
                    )
        if buffer:
            rest = bytes(buffer)
            buffer.clear()
            self._feed_body(rest)

    def _check_incomplete(self) -> None:
        """Refuse at once what will never be a head: its sender may be waiting for us."""
        buffer = self._buffer
        beginning = buffer[: len(_BEGINNING)]
        if not _BEGINNING.startswith(beginning):
            raise ValueError(f"it begins with {bytes(beginning)!r}")
        if _BARE_LF.search(buffer, max(0, self._searched - 1)):
            raise ValueError("a line does not end with CRLF")
        self._searched = len(buffer)

    def _begin_body(self, head: ResponseHead) -> None:
        self.head = head
        if head.status in (204, 304) or not self._may_have_body or (self._is_tunnel and head.status < 300):
            self.is_complete = True
        elif head.framing == "chunked":
            self._chunks = ChunkedReader(of_response=True)
        else:
            self._left = head.framing
            self.is_complete = self._left == 0

    def _feed_body(self, data: bytes) -> None:
        if self.is_complete:
            self.has_surplus = True
            return
        if self._chunks is not None:
            piece = self._chunks.feed(data)
            self.is_complete = self._chunks.is_complete
            self.has_surplus = bool(self._chunks.rest)
        elif self._left is None:
            piece = data
        else:
            piece = data[: self._left]
            self._left -= len(piece)
            self.is_complete = not self._left
            self.has_surplus = len(piece) < len(data)
        self._body = self._body + piece if self._body else piece


def _read_head(data: bytes, read_fields: ReadFields) -> ResponseHead:
    """Read a head, down to the empty line. Raises `ValueError`."""
    line = _STATUS_LINE.match(data)
    if line is None:
        raise ValueError(f"it begins with {data[:20]!r}")
    check_lines(data)
    headers = Headers(read_fields(data[line.end() :]))
    is_one_one = line[1] != b"0"
    return ResponseHead(
        int(line[2]),
        (line[3] or b"").decode("latin-1"),
        headers,
        framing_of(headers, is_one_one=is_one_one),
        is_one_one and not closes(headers),
    )
