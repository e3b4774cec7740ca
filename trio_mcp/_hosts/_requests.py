"""What arrives of a request: its head, how its body is framed, and the body. And the head of an answer.

All hosts split the bytes of a connection with this, so they refuse the same, whatever parses the fields and
writes the answers. Nothing here reads or writes a connection.

    bytes received ──> RequestBuffer ──> a head ──> read_head ──> how long the body is
                            └─────> what follows the head ──> body_reader ──> RequestBody, and what follows it

Spec: RFC 9112, sections 2.2 to 7.1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, TypeAlias, final

import attrs
import trio

from .._codec._jsonrpc import encode_error
from .._core._http1 import ChunkedReader, ReadFields, check_lines, closes, framing_of
from .._core._http_headers import HeaderField, Headers
from .._core._http_rules import HttpRefused, HttpServerSettings
from .._endpoint._call import SMALL, RequestLoans, gave_way
from .._errors import LocalProtocolError
from .._trio import LightParkingLot
from ._socket_io import READ_AHEAD, READ_BYTES

CLOSE: Final = (b"connection", b"close")

_END_OF_HEAD: Final = b"\r\n\r\n"
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

    __slots__ = ("_buffer", "_limit", "_searched")

    def __init__(self, max_head_bytes: int) -> None:
        self._buffer = bytearray()
        self._limit = max_head_bytes
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

    def take_head(self) -> bytes | None:
        """Remove and return the next head with the empty line at its end; `None` while it is incomplete.

        Raises:
            HttpRefused: It is too large (431), or does not begin like a request (400).
        """
        buffer = self._buffer
        end = buffer.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
        size = len(buffer) if end < 0 else end + len(_END_OF_HEAD)
        if size > self._limit:
            raise HttpRefused(431, f"a head of {size} bytes or more; max_head_bytes is {self._limit}")
        if end < 0:
            self._searched = size
            if buffer and not 0x21 <= buffer[0] <= 0x7E:
                raise HttpRefused(400, "this is not an HTTP request")
            return None
        self._searched = 0
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


BodyReader: TypeAlias = ChunkedReader | LengthReader


def body_reader(length: int | None) -> BodyReader:
    """Return a reader for a body of a length; `None` for one in chunks."""
    return ChunkedReader() if length is None else LengthReader(length)


@final
class RequestBody:
    """The body of one request while it arrives: bounded in size and in time, and counted against its client.

    Args:
        settings: How large it may be, and how long it may take.
        length: Its declared length in bytes; `None` if it has none.
        closing: Header fields of a refusal, which say that the connection ends, because the rest is not read.

    Attributes:
        is_complete: Whether all of it was received.
    """

    __slots__ = (
        "_asked",
        "_changed",
        "_closing",
        "_covered",
        "_data",
        "_length",
        "_limit",
        "_loans",
        "_refusal",
        "_size",
        "_timeout",
        "is_complete",
    )

    def __init__(
        self, settings: HttpServerSettings, length: int | None, closing: Sequence[HeaderField] = ()
    ) -> None:
        self._length = length
        self._limit = settings.max_body_bytes
        self._timeout = settings.body_timeout
        self._closing = closing
        self._data: bytes | bytearray = b""
        self._size = 0
        self._covered = SMALL
        self._loans: RequestLoans | None = None
        self._refusal: HttpRefused | None = None
        self._changed: LightParkingLot | None = None
        self._asked: LightParkingLot | None = None
        self.is_complete = False

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
        return self._size > self._limit

    @property
    def is_ahead(self) -> bool:
        """Whether nothing more should be read before the endpoint asks for the body."""
        return self._size >= READ_AHEAD and self._loans is None and not self.is_complete

    @property
    def read_size(self) -> int:
        """How many bytes to read next: hardly more than are left of it, so that little of the next is kept."""
        if self._length is None or self.is_complete:
            return READ_AHEAD
        return max(READ_AHEAD, min(READ_BYTES, self._length - self._size))

    async def wait_asked(self) -> None:
        """Wait while `is_ahead`. Does not checkpoint if it is not."""
        while self.is_ahead:
            if self._asked is None:
                self._asked = LightParkingLot()
            await self._asked.park()

    def feed(self, data: bytes, *, is_complete: bool) -> None:
        """Append a piece. Nothing is kept of a body that is too large or has failed."""
        self._size += len(data)
        if self._size > self._limit or self._refusal is not None:
            self._data = b""
        elif isinstance(self._data, bytearray):
            self._data += data
        elif self._data:
            self._data = bytearray(self._data)  # not a list: small pieces weigh more than their bytes
            self._data += data
        else:
            self._data = data
        self.is_complete = is_complete
        if self._size > self._covered:
            self._cover()
        if self._changed is not None:
            self._wake()

    def _cover(self) -> None:
        """Borrow for what was received, in the name of its client."""
        if self._loans is not None and self._refusal is None and self._size <= self._limit:
            try:
                self._covered = self._loans.grow_body(self._size, self._give_way)
            except HttpRefused as refused:
                self._refuse(refused)

    def _give_way(self) -> None:
        self._refuse(gave_way("the body that was received"))

    def _refuse(self, refusal: HttpRefused) -> None:
        if self._refusal is None:
            self._refusal = refusal
        self._data = b""
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

    def check_length(self) -> None:
        """Check the declared length.

        Raises:
            HttpRefused: It is too large (413).
        """
        if self._length is not None and self._length > self._limit:
            raise self._too_large(f"{self._length} bytes")

    async def read(self, loans: RequestLoans) -> bytes:
        """Wait for all of it; see `HttpCall.read_body`. Does not checkpoint if it is complete.

        Args:
            loans: The loans of the request, whose client is known by now.
        """
        self._loans = loans
        if self._asked is not None:
            self._asked.unpark_all()
        if self._size > self._covered:
            self._cover()
        if self._must_wait:
            self._changed = LightParkingLot()
            with trio.move_on_after(self._timeout):
                while self._must_wait:
                    await self._changed.park()
        if self.is_too_large:
            raise self._too_large(f"more than {self._limit} bytes")
        if self._refusal is not None:
            raise self._refusal
        if self.is_complete:
            data, self._data = self._data, b""
            return bytes(data)
        problem = f"the body did not arrive within {self._timeout:g} seconds (body_timeout)"
        raise HttpRefused(408, problem, self._closing)

    @property
    def _must_wait(self) -> bool:
        return not (self.is_complete or self.has_failed or self.is_too_large)

    def _too_large(self, what: str) -> HttpRefused:
        return HttpRefused(413, f"a body of {what}; max_body_bytes is {self._limit}", self._closing)


def encode_refusal(refused: HttpRefused) -> bytes:
    """Return the answer to bytes that are not a valid request. The connection ends with it."""
    body = encode_error(None, refused.error)
    fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), CLOSE]
    return encode_head(refused.status, fields) + body


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
