"""The heads of HTTP requests: bytes in, what they say out. Reads with httptools where it is installed, else h11.

Whatever reads the fields, the same is refused before and after, and at least what h11 refuses: all that two
readers may read differently, because a request can hide between a proxy that reads it one way and a server that
reads it another. No I/O.

Spec: RFC 9112, sections 2.2 to 6.3.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

import attrs
import h11

from .._core._headers import HeaderField, Headers
from .._core._http_admission import HttpRefused

__all__ = ["RequestHead", "fastest_fields", "h11_fields", "httptools_fields", "read_head"]

_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r\n")
_ALLOWED: Final = bytes([0x09, 0x0A, 0x0D, *range(0x20, 0x7F), *range(0x80, 0x100)])
_LENGTH_FIELD: Final = b"\r\ncontent-length:"
_LENGTH: Final = re.compile(r"[0-9]{1,18}")

ReadFields: TypeAlias = Callable[[bytes], Iterable[HeaderField]]
"""Reads the fields of a head, which ends with an empty line. Raises `ValueError`."""


@final
@attrs.define
class RequestHead:
    """What the head of a request says.

    Attributes:
        method: In capitals, or it is no method that anybody knows.
        target: What it is about, as it came.
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


def h11_fields(head: bytes) -> Iterable[HeaderField]:
    """Read the fields of a head with h11; see `ReadFields`."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(head)
    try:
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise ValueError(str(error)) from error
    if not isinstance(event, h11.Request):
        raise ValueError("it is not complete")
    _check_lengths(head.lower())
    return event.headers


def _check_lengths(head: bytes) -> None:
    """Refuse several equal lengths, of which h11 makes one."""
    at = head.find(_LENGTH_FIELD)
    if at >= 0:
        end = head.find(b"\r\n", at + 2)
        if b"," in head[at:end] or _LENGTH_FIELD in head[end:]:
            raise ValueError("Content-Length is there more than once")


def httptools_fields() -> ReadFields:
    """Return what reads fields with httptools; see `ReadFields`.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    import httptools

    def read(head: bytes) -> Iterable[HeaderField]:
        fields = _Fields()
        try:
            httptools.HttpRequestParser(fields).feed_data(head)
        except httptools.HttpParserUpgrade:
            pass  # nobody here changes the protocol; the request is answered as it is
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
    if data.translate(None, _ALLOWED):
        raise _bad("it contains control characters")
    if not data.count(b"\r\n") == data.count(b"\n") == data.count(b"\r"):
        raise _bad("a line does not end with CRLF")
    if b"\r\n " in data or b"\r\n\t" in data:
        raise _bad("a field goes on in the next line")
    major, minor = line[3], line[4]
    if major != b"1":
        raise HttpRefused(505, f"HTTP/{int(major)}.{int(minor)} is not spoken here, HTTP/1.1 is")
    try:
        headers = Headers(read_fields(data))
    except ValueError as error:
        raise _bad(str(error)) from error
    is_one_one = minor != b"0"
    if headers.has_repeats or "host" not in headers:
        hosts = headers.get_all("host")
        if len(hosts) > 1 or (is_one_one and not hosts):
            raise _bad(f"Host is there {len(hosts)} times")
    connection = headers.get("connection")
    closes = connection is not None and "close" in [each.strip() for each in connection.lower().split(",")]
    return RequestHead(
        line[1].decode("ascii"),
        line[2],
        headers,
        is_one_one,
        _length_of(headers, is_one_one=is_one_one),
        is_one_one and not closes,
        is_one_one and (headers.get("expect") or "").lower() == "100-continue",
    )


def _length_of(headers: Headers, *, is_one_one: bool) -> int | None:
    """Return how long the body is (RFC 9112, section 6.3); `None` if it comes in chunks."""
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise _bad("Transfer-Encoding and Content-Length are both there")
        if not is_one_one:
            raise _bad("HTTP/1.0 has no Transfer-Encoding")
        if coding.lower() != "chunked":
            raise _bad(f"Transfer-Encoding must be chunked, and is {coding[:100]!r}")
        return None
    if length is None:
        return 0
    if _LENGTH.fullmatch(length) is None:  # several are joined by commas, equal or not
        raise _bad(f"Content-Length cannot be read: {length[:100]!r}")
    return int(length)


def _bad(problem: str) -> HttpRefused:
    return HttpRefused(400, f"the head of the request cannot be read: {problem}")
