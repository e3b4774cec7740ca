"""HTTP/1.1 as both ends read it: the lines, fields and framing of a head, and the chunked coding. No I/O.

What two readers may read differently is refused, because a proxy and we would then disagree where a message ends
(request smuggling). First lines, and where a head ends in a stream, belong to the client and the hosts.

Spec: RFC 9112, sections 2.2 to 6.3 and 7.1.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, final

from ._http_headers import HeaderField, Headers

# Heads: their fields, and what follows from these.
#
# httptools or h11 read the field lines; the first line of a head is read by the caller. Both libraries read whole
# messages only, so the fields are given to them behind a forged first line, always that of a response. One reader
# thus serves requests and responses, and the libraries are kept from deciding anything else: a response with
# status 200 gives no field another meaning, while a request line would bring their own rules about Host, methods
# and upgrades. This is worth it because httptools reads fields in C, and h11 knows every rule about them.
#
# What keeps it safe: `check_lines` comes before and refuses what the two libraries read differently (bare line
# feeds, folded lines, control characters), `framing_of` comes after and decides the length of the body from the
# fields alone, never from the library. Without either, a head could pass that h11 alone would refuse.

_ALLOWED: Final = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_LENGTH_FIELD: Final = b"\ncontent-length:"
_FIRST_LINE: Final = b"HTTP/1.1 200 OK\r\n"

ReadFields: TypeAlias = Callable[[bytes], Iterable[HeaderField]]
"""Reads all lines of a head but the first, down to the empty one. Raises `ValueError`."""


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
    """Refuse several equal lengths, of which h11 makes one.

    Args:
        lines: All lines but the first.

    Raises:
        ValueError: Content-Length occurs more than once.
    """
    lines = b"\n" + lines.lower()
    at = lines.find(_LENGTH_FIELD)
    if at >= 0:
        end = lines.find(b"\n", at + 1)
        if b"," in lines[at:end] or _LENGTH_FIELD in lines[end:]:
            raise ValueError("Content-Length occurs more than once")


def httptools_fields() -> ReadFields:
    """Return a function that reads fields with httptools; see `ReadFields`.

    Raises:
        ModuleNotFoundError: httptools is not installed.
    """
    import httptools

    def read(lines: bytes) -> Iterable[HeaderField]:
        fields = _Fields()
        try:
            httptools.HttpResponseParser(fields).feed_data(_FIRST_LINE + lines)
        except httptools.HttpParserUpgrade:
            pass  # a connection is never upgraded here; the fields were read
        except httptools.HttpParserError as error:
            raise ValueError(str(error)) from error
        if not fields.is_complete:
            raise ValueError("it is not complete")
        return fields.fields

    return read


@final
class _Fields:
    """Collects what httptools reads; httptools calls the methods."""

    __slots__ = ("fields", "is_complete")

    def __init__(self) -> None:
        self.fields: list[HeaderField] = []
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def fastest_fields() -> ReadFields:
    """Return the fastest reader that is installed."""
    return h11_fields if importlib.util.find_spec("httptools") is None else httptools_fields()


def check_lines(head: bytes) -> None:
    """Check that a head is made of lines that end with CRLF and hold no control characters.

    Raises:
        ValueError: A line does not, or holds one, or goes on in the next line.
    """
    if head.translate(None, _ALLOWED):
        raise ValueError("it contains control characters")
    if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
        raise ValueError("a line does not end with CRLF")
    if b"\r\n " in head or b"\r\n\t" in head:
        raise ValueError("a field goes on in the next line")


def closes(headers: Headers) -> bool:
    """Whether a message is the last on its connection by its own declaration (RFC 9112, section 9.6)."""
    connection = headers.get("connection")
    return connection is not None and "close" in [each.strip() for each in connection.lower().split(",")]


def framing_of(headers: Headers, *, is_one_one: bool) -> int | Literal["chunked"] | None:
    """Return the declared length of a body, ``"chunked"``, or `None` for neither (RFC 9112, section 6.3).

    Args:
        headers: The fields of the message.
        is_one_one: Whether the message is HTTP/1.1, and not 1.0.

    Raises:
        ValueError: The length is declared in more than one way, or cannot be read.
    """
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise ValueError("a message may not have both Transfer-Encoding and Content-Length")
        if not is_one_one:
            raise ValueError("HTTP/1.0 has no Transfer-Encoding")
        if coding.lower() != "chunked":
            raise ValueError(f"Transfer-Encoding must be chunked, not {coding[:100]!r}")
        return "chunked"
    if length is None:
        return None
    if _LENGTH.fullmatch(length) is None:  # several are joined by commas, equal or not
        raise ValueError(f"Content-Length must be one number of at most 18 digits, not {length[:100]!r}")
    return int(length)


# Chunks. Their extensions and trailer fields are read and ignored; they may not change a message's meaning.

MAX_SIZE_LINE: Final = 1024
"""Bytes in the line before a chunk, with its extensions, and in one trailer field."""

MAX_TRAILER_BYTES: Final = 16 * 1024
"""Bytes in all trailer fields together."""

MAX_FRAMING_BYTES: Final = 64 * 1024
"""Bytes of size lines and line ends that a request may have, besides an eighth of its data. No client needs more.

Reading a chunk of one byte takes as long as reading a chunk of thousands of bytes.
"""

MAX_FRAMING_OF_RESPONSE: Final = 1024 * 1024
"""The same for a response, besides twice its data: a long-lived stream of short events has very many chunks."""

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?")
_PADDED_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[\t ]*|;[\t\x20-\x7e]*)")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n")


@final
class ChunkedReader:
    """Reads one body, from its first byte to its last. Memory is bounded, and nothing is read twice.

    Args:
        of_response: Whether blanks may follow a size, with which some servers pad it, and chunks may be short.

    Attributes:
        is_complete: Whether the whole body was read.
        rest: The bytes behind the body.
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
        """Take the next bytes and return the data of the body in them.

        Raises:
            ValueError: They break the chunked coding, or a bound.
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
                    raise ValueError("a chunk is longer than its size")
                at += len(found)
                self._left -= len(found)
            else:
                at = self._read_line(data, at)
        if self.is_complete:
            self.rest = data[at:]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_line(self, data: bytes, at: int) -> int:
        """Read a line: a size, a trailer field, or the empty one at the end. Return where the next begins."""
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
                raise ValueError("after the last chunk, trailer fields are too large or cannot be read")
        else:
            found = self._size.fullmatch(line, 0, len(line) - 2) if line.endswith(b"\r\n") else None
            if found is None:
                raise ValueError("the size of a chunk must be 1 to 16 hexadecimal digits and end with CRLF")
            size = int(found[1], 16)
            self._is_last = not size
            self._left = size + 2 if size else 0
            self._count(size, len(line) + 2)
        line.clear()
        return end

    def _count(self, data: int, framing: int) -> None:
        """Count the declared size of a chunk, and the bytes around it."""
        self._data_bytes += data
        self._framing_bytes += framing
        if self._is_response:
            most = MAX_FRAMING_OF_RESPONSE + 2 * self._data_bytes
        else:
            most = MAX_FRAMING_BYTES + self._data_bytes // 8
        if self._framing_bytes > most:
            raise ValueError(
                f"its chunks are too short: {self._framing_bytes} bytes around {self._data_bytes} bytes of data"
            )
