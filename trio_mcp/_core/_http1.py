"""What the heads of requests and of responses have in common, read strictly: lines, fields, framing. No I/O.

Fields are read with httptools where it is installed, else h11. Whatever reads them, the same is refused before
and after, and at least what h11 refuses: all that two readers may read differently, because a message can hide
between one that reads it this way and one that reads it that way.

Spec: RFC 9112, sections 2.2 to 6.3.

The chunked coding of HTTP/1.1, read strictly: bytes in, bytes out. No I/O.

What two readers may read differently is refused, because a message can hide between a strict one and a lenient
one: each line ends with CRLF, and a size is hexadecimal digits. Nobody here has a use for trailer fields: they
are passed over, and what they say of the message, or of another one, counts for nothing.

Spec: RFC 9112, section 7.1.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, final

from ._http_headers import HeaderField, Headers

_ALLOWED: Final = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_LENGTH_FIELD: Final = b"\ncontent-length:"
_FIRST_LINE: Final = b"HTTP/1.1 200 OK\r\n"
"""Makes a head of some fields, and changes the meaning of none."""

ReadFields: TypeAlias = Callable[[bytes], Iterable[HeaderField]]
"""Reads the lines behind the first one, down to the empty one. Raises `ValueError`."""


def h11_fields(lines: bytes) -> Iterable[HeaderField]:
    """Read fields with h11; see `ReadFields`."""
    import h11

    connection = h11.Connection(h11.CLIENT)
    connection.receive_data(_FIRST_LINE + lines)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise ValueError(str(error)) from error
    if not isinstance(event, h11.Response):
        raise ValueError("it is not complete")
    check_lengths(lines)
    return event.headers


def check_lengths(lines: bytes) -> None:
    """Look for several equal lengths, of which h11 makes one.

    Args:
        lines: All lines but the first.

    Raises:
        ValueError: There are.
    """
    lines = b"\n" + lines.lower()
    at = lines.find(_LENGTH_FIELD)
    if at >= 0:
        end = lines.find(b"\n", at + 1)
        if b"," in lines[at:end] or _LENGTH_FIELD in lines[end:]:
            raise ValueError("Content-Length is there more than once")


def httptools_fields() -> ReadFields:
    """Return what reads fields with httptools; see `ReadFields`.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    import httptools

    def read(lines: bytes) -> Iterable[HeaderField]:
        fields = _Fields()
        try:
            httptools.HttpResponseParser(fields).feed_data(_FIRST_LINE + lines)
        except httptools.HttpParserUpgrade:
            pass  # nobody here changes the protocol
        except httptools.HttpParserError as error:
            raise ValueError(str(error)) from error
        if not fields.is_complete:
            raise ValueError("it is not complete")
        return fields.fields

    return read


@final
class _Fields:
    """Takes what httptools reads."""

    __slots__ = ("fields", "is_complete")

    def __init__(self) -> None:
        self.fields: list[HeaderField] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def fastest_fields() -> ReadFields:
    """Return the fastest that is installed."""
    return h11_fields if importlib.util.find_spec("httptools") is None else httptools_fields()


def check_lines(head: bytes) -> None:
    """Look at what a head is made of: lines that end with CRLF and with nothing else, without control characters.

    Raises:
        ValueError: It is something else.
    """
    if head.translate(None, _ALLOWED):
        raise ValueError("it contains control characters")
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
        raise ValueError("a line does not end with CRLF")
    if b"\r\n " in head or b"\r\n\t" in head:
        raise ValueError("a field goes on in the next line")


def closes(headers: Headers) -> bool:
    """Whether a message says that it is the last on its connection (RFC 9112, section 9.6)."""
    connection = headers.get("connection")
    return connection is not None and "close" in [each.strip() for each in connection.lower().split(",")]


def framing_of(headers: Headers, *, is_one_one: bool) -> int | Literal["chunked"] | None:
    """Return how long the body is, if that is said (RFC 9112, section 6.3).

    Args:
        headers: What the message says.
        is_one_one: Whether it is HTTP/1.1, and not 1.0.

    Raises:
        ValueError: It is said in more than one way, or in none that can be read.
    """
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise ValueError("Transfer-Encoding and Content-Length are both there")
        if not is_one_one:
            raise ValueError("HTTP/1.0 has no Transfer-Encoding")
        if coding.lower() != "chunked":
            raise ValueError(f"Transfer-Encoding must be chunked, and is {coding[:100]!r}")
        return "chunked"
    if length is None:
        return None
    if _LENGTH.fullmatch(length) is None:  # several are joined by commas, equal or not
        raise ValueError(f"Content-Length cannot be read: {length[:100]!r}")
    return int(length)


MAX_SIZE_LINE: Final = 1024
"""Bytes in the line before a chunk, whose extensions nobody here understands, and in one trailer field."""

MAX_TRAILER_BYTES: Final = 16 * 1024
"""Bytes in all trailer fields together."""

MAX_FRAMING_BYTES: Final = 64 * 1024
"""What may stand around the chunks of a request, besides an eighth of what is in them: more than people send.

Reading a chunk of one byte takes as long as reading thousands of bytes in one.
"""

MAX_FRAMING_OF_RESPONSE: Final = 1024 * 1024
"""The same of a response, besides twice what is in it: streams of short events last long."""

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?")
_PADDED_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[\t ]*|;[\t\x20-\x7e]*)")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n")


@final
class ChunkedReader:
    """Reads one body, from its first byte to its last. Memory is bounded, and nothing is looked at twice.

    Args:
        of_response: Whether blanks may follow a size, with which some servers pad it, and chunks may be short.

    Attributes:
        is_complete: Whether all of it has come.
        rest: What came behind it.
    """

    def __init__(self, *, of_response: bool = False) -> None:
        self._size = _PADDED_SIZE if of_response else _SIZE
        self._is_response = of_response
        self._data_bytes = 0
        self._framing_bytes = 0
        self._trailer_left = MAX_TRAILER_BYTES
        self._line = bytearray()
        self._left = 0  # of the chunk that is being read, with the CRLF behind it
        self._is_last = False
        self.is_complete = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take what comes next, and return what it holds of the body.

        Raises:
            ValueError: It is not coded as it should be.
        """
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.is_complete:
            if self._left > 2:
                parts.append(data[at : at + self._left - 2])
                at += len(parts[-1])
                self._left -= len(parts[-1])
            elif self._left:
                expected = b"\r\n"[-self._left :]
                found = data[at : at + self._left]
                if not expected.startswith(found):
                    raise ValueError("a chunk is longer than it says")
                at += len(found)
                self._left -= len(found)
            else:
                at = self._read_line(data, at)
        if self.is_complete:
            self.rest = data[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_line(self, data: bytes, at: int) -> int:
        """Read a line with a size, or the empty one at the end. Returns where the next begins."""
        line = self._line
        end = data.find(b"\n", at, at + MAX_SIZE_LINE + 1 - len(line)) + 1
        line += data[at : end or at + MAX_SIZE_LINE + 1 - len(line)]
        if not end:
            if len(line) > MAX_SIZE_LINE:
                raise ValueError(f"the line before or behind a chunk is longer than {MAX_SIZE_LINE} bytes")
            return len(data)
        if self._is_last:
            self._trailer_left -= len(line)
            if bytes(line) == b"\r\n":
                self.is_complete = True
            elif self._trailer_left < 0 or not _TRAILER.fullmatch(line):
                raise ValueError("there is something between the last chunk and the end")
        else:
            found = self._size.fullmatch(line, 0, len(line) - 2) if line.endswith(b"\r\n") else None
            if found is None:
                raise ValueError("the size of a chunk cannot be read")
            size = int(found[1], 16)
            self._is_last = not size
            self._left = size + 2 if size else 0
            self._count(size, len(line) + 2)
        line.clear()
        return end

    def _count(self, data: int, framing: int) -> None:
        """Count what a chunk holds, or says that it will, and what stands around it."""
        self._data_bytes += data
        self._framing_bytes += framing
        if self._is_response:
            most = MAX_FRAMING_OF_RESPONSE + 2 * self._data_bytes
        else:
            most = MAX_FRAMING_BYTES + self._data_bytes // 8
        if self._framing_bytes > most:
            around = f"{self._framing_bytes} bytes stand around {self._data_bytes} bytes of data"
            raise ValueError(f"its chunks are too short: {around}")
