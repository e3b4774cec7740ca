"""Newline framing: bytes in, lines out (2026-07-28, basic/transports/stdio).

Costs time linear in what is fed and memory bounded by the limit, however the bytes are cut: nothing that was
searched is searched again. No I/O; what a line holds is not looked at.
"""

from __future__ import annotations

import codecs
from typing import Final, final

import attrs

__all__ = ["LineReader", "OversizedLine"]

KEPT_ENDS: Final = 1024
"""Bytes kept of either end of a line that is too long: enough to read the id of the message in it."""

LARGE_PIECE: Final = 4096
"""Bytes from which on a piece of a line is kept as it came."""


@final
@attrs.frozen
class OversizedLine:
    """A line that was longer than allowed and is gone but for its ends.

    Attributes:
        size: How long it was, in bytes.
        head: Its first bytes.
        tail: Its last bytes.
    """

    size: int
    head: bytes
    tail: bytes


@final
class LineReader:
    """Cuts a stream of bytes into lines.

    Blank lines are left out, a byte order mark at the very beginning too. A carriage return before the
    newline stays: it is white space to JSON.

    Args:
        max_line: The longest line that is kept, in bytes, without its newline.
    """

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        # What may still turn out to be a byte order mark, and the whole of it may; `None` once that is known.
        self._mark: bytes | None = b""
        # Of the line that has no end yet: its bytes, or only its ends once it is too long, and its size. Large
        # pieces are kept as they came and joined once; small ones are gathered, for a piece of one byte weighs
        # forty.
        self._pieces: list[bytes] = []
        self._gathered = bytearray()
        self._ends: tuple[bytes, bytes] | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes of the stream and return the lines that are complete now."""
        if self._mark is not None:
            data = self._mark + data
            if data != codecs.BOM_UTF8 and codecs.BOM_UTF8.startswith(data):
                self._mark = data
                return []
            self._mark = None
            data = data.removeprefix(codecs.BOM_UTF8)
        lines: list[bytes | OversizedLine] = []
        begin, end = 0, data.find(b"\n")
        while end >= 0:
            if self._size or end - begin > self._max_line:
                self._keep(data[begin:end])
                self._end_line(lines)
            else:
                line = data[begin:end]
                if line and not line.isspace():
                    lines.append(line)
            begin = end + 1
            end = data.find(b"\n", begin)
        self._keep(data[begin:] if begin else data)
        return lines

    def finish(self) -> list[bytes | OversizedLine]:
        """Return the last line if the stream ended without a newline after it."""
        lines: list[bytes | OversizedLine] = []
        self._keep(self._mark or b"")
        self._mark = None
        self._end_line(lines)
        return lines

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._ends is not None:
            head, tail = self._ends
            head += piece[: KEPT_ENDS - len(head)]
            self._ends = head, (tail + piece[-KEPT_ENDS:])[-KEPT_ENDS:]
        elif self._size > self._max_line:
            begun = self._begun()
            self._ends = (
                (begun[:KEPT_ENDS] + piece[:KEPT_ENDS])[:KEPT_ENDS],
                (begun[-KEPT_ENDS:] + piece[-KEPT_ENDS:])[-KEPT_ENDS:],
            )
            self._pieces.clear()
            self._gathered.clear()
        elif len(piece) >= LARGE_PIECE and not self._gathered:
            self._pieces.append(piece)
        else:
            self._gathered += piece
            if len(self._gathered) >= LARGE_PIECE:
                self._pieces.append(bytes(self._gathered))
                self._gathered.clear()

    def _begun(self) -> bytes:
        if len(self._pieces) == 1 and not self._gathered:
            return self._pieces[0]
        return b"".join((*self._pieces, self._gathered))

    def _end_line(self, lines: list[bytes | OversizedLine]) -> None:
        if self._ends is not None:
            lines.append(OversizedLine(self._size, *self._ends))
        elif self._size and (line := self._begun()) and not line.isspace():
            lines.append(line)
        self._pieces.clear()
        self._gathered.clear()
        self._ends = None
        self._size = 0
