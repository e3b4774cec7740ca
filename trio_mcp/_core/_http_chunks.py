"""The chunked coding of HTTP/1.1, read strictly: bytes in, bytes out. No I/O.

What two readers may read differently is refused, because a message can hide between a strict one and a lenient
one: each line ends with CRLF, and a size is hexadecimal digits. Nobody here has a use for trailer fields: they
are passed over, and what they say of the message, or of another one, counts for nothing.

Spec: RFC 9112, section 7.1.
"""

from __future__ import annotations

import re
from typing import Final, final

__all__ = ["ChunkedReader"]

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
