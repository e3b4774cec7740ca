"""The chunked coding of HTTP/1.1, read strictly: bytes in, bytes out. No I/O.

What two readers may read differently is refused, because a request can hide between a strict one and a lenient
one: each line ends with CRLF, a size is hexadecimal digits, and trailer fields, which nobody here has a use for,
are an error.

Spec: RFC 9112, section 7.1.
"""

from __future__ import annotations

import re
from typing import Final, final

__all__ = ["ChunkedReader"]

MAX_SIZE_LINE: Final = 1024
"""Bytes in the line before a chunk. Its extensions are nothing that anybody here understands."""

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?")


@final
class ChunkedReader:
    """Reads one body, from its first byte to its last. Memory is bounded, and nothing is looked at twice.

    Attributes:
        is_complete: Whether all of it has come.
        rest: What came behind it.
    """

    def __init__(self) -> None:
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
                raise ValueError(f"the line before a chunk is longer than {MAX_SIZE_LINE} bytes")
            return len(data)
        if self._is_last:
            if bytes(line) != b"\r\n":
                raise ValueError("there is something between the last chunk and the end")
            self.is_complete = True
        else:
            found = _SIZE.fullmatch(line, 0, len(line) - 2) if line.endswith(b"\r\n") else None
            if found is None:
                raise ValueError("the size of a chunk cannot be read")
            size = int(found[1], 16)
            self._is_last = not size
            self._left = size + 2 if size else 0
        line.clear()
        return end
