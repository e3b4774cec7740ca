"""Requests as bytes: where one begins and ends, what its head says, and the head of an answer. No I/O.

Every host takes the bytes of a connection apart by what is here, so the same is refused whatever reads the fields
and writes the answers.

    what has come ──> RequestBuffer ──> a head ──> read_head ──> how long the body is
                            └─────> what comes behind it ──> body_reader ──> the body, and what is behind it

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

from .._codec._jsonrpc import encode_error
from .._core._http1 import ChunkedReader, ReadFields, check_lines, closes, framing_of
from .._core._http_headers import HeaderField, Headers
from .._core._http_rules import HttpRefused
from .._errors import LocalProtocolError
from ._wires import READ_AHEAD

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
        method: In capitals, or it is no method that anybody knows.
        target: What it is about: a path and a query, or an asterisk; without a scheme and a host before that.
        headers: Its fields.
        is_one_one: Whether its sender speaks HTTP/1.1, and not 1.0.
        length: How long its body is; `None` for a body in chunks.
        keeps_alive: Whether another request may follow it.
        expects_continue: Whether its sender waits with the body until it is asked for it.
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
        data: The head, with the empty line at its end, which is the only one.
        read_fields: Reads its fields.

    Raises:
        HttpRefused: It is none, or nothing that is served.
    """
    line = _LINE.match(data)
    if line is None:
        raise _bad("the request line cannot be read")
    try:
        check_lines(data)
        major, minor = line[3], line[4]
        if major != b"1" or minor > b"1":
            raise HttpRefused(505, f"HTTP/{int(major)}.{int(minor)} is not spoken here, HTTP/1.1 is")
        is_one_one = minor != b"0"
        headers = Headers(read_fields(data[line.end() :]))
        framing = framing_of(headers, is_one_one=is_one_one)
    except ValueError as error:
        raise _bad(str(error)) from error
    if headers.has_repeats or "host" not in headers:
        hosts = headers.get_all("host")
        if len(hosts) > 1 or (is_one_one and not hosts):
            raise _bad(f"Host is there {len(hosts)} times")
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
    """Return the path and the query of a target that is none of its own (RFC 9112, section 3.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise _bad("the target is no path and no URL")
    # It counts more than Host. Who is let in is seen from Host, so they must agree.
    port = _DEFAULT_PORTS[found[1].decode("ascii").lower()]
    named, host = found[2].decode("ascii").lower(), (headers.get("host") or "").lower()
    if named.removesuffix(port) != host.removesuffix(port):
        raise _bad("the target and Host name different hosts")
    return found[3] if found[3].startswith(b"/") else b"/" + found[3]


def _bad(problem: str) -> HttpRefused:
    return HttpRefused(400, f"the head of the request cannot be read: {problem}")


@final
class RequestBuffer:
    """What has come over a connection and is not of the request that is being read. Nothing is searched twice.

    Args:
        max_head_bytes: The largest head.
    """

    __slots__ = ("_buffer", "_limit", "_searched")

    def __init__(self, max_head_bytes: int) -> None:
        self._buffer = bytearray()
        self._limit = max_head_bytes
        self._searched = 0  # bytes in which no head ends

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def is_full(self) -> bool:
        """Whether no more should be read before something is taken."""
        return len(self._buffer) >= READ_AHEAD

    def add(self, data: bytes) -> None:
        """Keep what has come."""
        self._buffer += data

    def take(self, size: int | None) -> bytes:
        """Return so many bytes, or as many as there are; `None` for all."""
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def take_head(self) -> bytes | None:
        """Return the next head with the empty line at its end; `None` if it is not here yet.

        Raises:
            HttpRefused: It is too large (431), or will never be one (400).
        """
        buffer = self._buffer
        end = buffer.find(_END_OF_HEAD, max(0, self._searched - len(_END_OF_HEAD)))
        size = len(buffer) if end < 0 else end + len(_END_OF_HEAD)
        if size > self._limit:
            raise HttpRefused(431, f"a head of {size} bytes or more; max_head_bytes is {self._limit}")
        if end < 0:
            self._searched = size
            if buffer and not 0x21 <= buffer[0] <= 0x7E:
                raise HttpRefused(400, "this is not HTTP")
            return None
        self._searched = 0
        data = bytes(buffer[:size])
        del buffer[:size]
        return data


@final
class LengthReader:
    """Reads a body whose length is known, as `ChunkedReader` does one in chunks.

    Args:
        length: How long it is.

    Attributes:
        is_complete: Whether all of it has come.
        rest: What came behind it.
    """

    __slots__ = ("_left", "is_complete", "rest")

    def __init__(self, length: int) -> None:
        self._left = length
        self.is_complete = not length
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take what comes next, and return what it holds of the body."""
        piece = data[: self._left]
        self._left -= len(piece)
        self.is_complete = not self._left
        self.rest = data[len(piece) :]
        return piece


BodyReader: TypeAlias = ChunkedReader | LengthReader


def body_reader(length: int | None) -> BodyReader:
    """Return what reads a body of a length; `None` for one in chunks."""
    return ChunkedReader() if length is None else LengthReader(length)


def encode_refusal(refused: HttpRefused) -> bytes:
    """Return the answer to what is no request that could be served. The connection ends with it."""
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
    """Return the field that says what time it is (RFC 9110, section 6.6.1)."""
    now = int(time.time())
    line = _dates.get(now)
    if line is None:
        _dates.clear()
        line = _dates[now] = b"date: %b\r\n" % formatdate(now, usegmt=True).encode("ascii")
    return line
