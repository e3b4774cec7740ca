"""The responses of one connection, one after the other: bytes in, heads and bodies out. No I/O.

What can be read in two ways is refused, since what one reads as a body another may take for the next response.

Spec: RFC 9112, sections 2.2 to 7.1.
"""

from __future__ import annotations

import re
from typing import Final, Literal, final

import attrs

from .._core._headers import Headers
from .._core._http_chunks import ChunkedReader
from .._core._http_heads import ReadFields, check_lines, closes, framing_of
from .._errors import ConnectionLost, RemoteProtocolError

__all__ = ["ResponseHead", "ResponseReader"]

MAX_INFORMATIONAL: Final = 32
"""Interim responses (1xx) before the real one. A server has no use for more than one or two."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: ([^\r\n]*))?\r\n")
_BEGINNING: Final = b"HTTP/1."
_END_OF_HEAD: Final = b"\r\n\r\n"
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")


@final
@attrs.define
class ResponseHead:
    """What the head of a response says.

    Attributes:
        status: The HTTP status.
        reason: The words after it; may be empty.
        headers: Its fields.
        framing: How long its body is, if that is said.
        keeps_alive: Whether another response may follow it.
    """

    status: int
    reason: str
    headers: Headers
    framing: int | Literal["chunked"] | None
    keeps_alive: bool


@final
class ResponseReader:
    """Reads the responses of one connection. Memory is bounded, as long as what is there is taken.

    Args:
        description: Who answers, for errors.
        max_head_bytes: The largest head.
        read_fields: Reads the fields of heads.

    Attributes:
        head: What the response says, once that is here.
        is_complete: Whether all of the response has come.
        has_surplus: Whether something came behind a response.
    """

    def __init__(self, description: str, max_head_bytes: int, read_fields: ReadFields) -> None:
        self._description = description
        self._max_head_bytes = max_head_bytes
        self._read_fields = read_fields
        self._buffer = bytearray()
        self._may_have_body = True
        self._searched = 0  # bytes of the buffer in which no head ends
        self._informational = 0
        self._chunks: ChunkedReader | None = None
        self._left: int | None = 0  # of a body with a length
        self._body = b""
        self.has_surplus = False
        self._is_tunnel = False
        self.head: ResponseHead | None = None
        self.is_complete = False

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
        self._chunks = None
        self._left = 0
        self._body = b""
        self.head = None
        self.is_complete = False

    def feed(self, data: bytes) -> None:
        """Take what comes next; nothing if nothing more will come.

        Raises:
            ConnectionLost: Something should have come.
            RemoteProtocolError: It is not HTTP/1.1, or a head that is too large.
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
        """Return what is here of the body and was not taken yet."""
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
                raise ValueError("it changes the protocol, which nobody has asked for")
            else:
                self._informational += 1
                if self._informational > MAX_INFORMATIONAL:
                    raise RemoteProtocolError(f"{self._description} sends interim responses without end")
        if buffer:
            rest = bytes(buffer)
            buffer.clear()
            self._feed_body(rest)

    def _check_incomplete(self) -> None:
        """Refuse at once what will never be a head, for whoever sends it may wait as well."""
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
