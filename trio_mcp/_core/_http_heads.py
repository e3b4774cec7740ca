"""What the heads of requests and of responses have in common, read strictly: lines, fields, framing. No I/O.

Fields are read with httptools where it is installed, else h11. Whatever reads them, the same is refused before
and after, and at least what h11 refuses: all that two readers may read differently, because a message can hide
between one that reads it this way and one that reads it that way.

Spec: RFC 9112, sections 2.2 to 6.3.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, final

from ._headers import HeaderField, Headers

__all__ = [
    "ReadFields",
    "check_lengths",
    "check_lines",
    "closes",
    "fastest_fields",
    "framing_of",
    "h11_fields",
    "httptools_fields",
]

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
