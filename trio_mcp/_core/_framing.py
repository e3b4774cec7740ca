"""Framing of messages in a stream: lines (stdio) and server-sent events (HTTP). Bytes in, lines or events out.

No I/O; what a line or `data` holds is not looked at. However the bytes are cut, reading takes time linear in them
(nothing is searched twice) and memory bounded by the limit. What is too large is dropped but for its two ends, in
which the id of the message can be found; what follows it is read as usual.

Spec: 2026-07-28, basic/transports/stdio; HTML, "Server-sent events", sections "Parsing an event stream" and
"Interpreting an event stream".
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, TypeAlias, final

import attrs

KEPT_ENDS: Final = 1024
"""Bytes kept of either end of what is too large: enough to read the id of the message in it."""


def _without_mark(held: bytes, data: bytes) -> tuple[bytes | None, bytes]:
    """Return what may yet be part of a byte order mark (`None`: it is decided), and the data behind the mark."""
    data = held + data
    if data != codecs.BOM_UTF8 and codecs.BOM_UTF8.startswith(data):
        return data, b""
    return None, data.removeprefix(codecs.BOM_UTF8)


def _ends_of(begun: bytes, piece: bytes | memoryview) -> tuple[bytes, bytes]:
    """Return the ends of what was kept so far and of the piece that makes it too large."""
    head = bytes(begun[:KEPT_ENDS] + piece[:KEPT_ENDS])[:KEPT_ENDS]
    return head, bytes(begun[-KEPT_ENDS:] + piece[-KEPT_ENDS:])[-KEPT_ENDS:]


def _with_more(ends: tuple[bytes, bytes], piece: bytes | memoryview) -> tuple[bytes, bytes]:
    """Return the ends after one more piece."""
    head, tail = ends
    return head + piece[: KEPT_ENDS - len(head)], (tail + piece[-KEPT_ENDS:])[-KEPT_ENDS:]


LARGE_PIECE: Final = 4096
"""Bytes from which on a piece is kept as it came."""


@final
class _Bounded:
    """Bytes that are kept whole up to a limit; beyond it only their ends are kept.

    Large pieces are kept as they came and joined once. Small ones are gathered, because an object of one byte
    takes forty.

    Attributes:
        size: How many there were.
    """

    __slots__ = ("_ends", "_gathered", "_limit", "_pieces", "size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes | memoryview] = []
        self._gathered = bytearray()
        self._ends: tuple[bytes, bytes] | None = None
        self.size = 0

    def add(self, piece: bytes | memoryview) -> None:
        """Add what came next. What a view shows is not copied before all is joined."""
        self.size += len(piece)
        if self._ends is not None:
            self._ends = _with_more(self._ends, piece)
        elif self.size > self._limit:
            self._ends = _ends_of(self._joined(), piece)
            self._pieces.clear()
            self._gathered.clear()
        elif len(piece) >= LARGE_PIECE:
            self._keep_gathered()
            self._pieces.append(piece)
        else:
            self._gathered += piece
            if len(self._gathered) >= LARGE_PIECE:
                self._keep_gathered()

    def _keep_gathered(self) -> None:
        if self._gathered:
            self._pieces.append(bytes(self._gathered))
            self._gathered.clear()

    def _joined(self) -> bytes:
        if len(self._pieces) == 1 and not self._gathered:
            return bytes(self._pieces[0])
        return b"".join((*self._pieces, self._gathered))

    @property
    def kept(self) -> int:
        """How many bytes are kept."""
        return self.size if self._ends is None else len(self._ends[0]) + len(self._ends[1])

    @property
    def whole(self) -> bytes | None:
        """All of them; `None` if they were too many."""
        return self._joined() if self._ends is None else None

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """The first and the last of them."""
        assert self._ends is not None
        return self._ends

    def clear(self) -> None:
        """Begin again with nothing."""
        self._pieces.clear()
        self._gathered.clear()
        self._ends = None
        self.size = 0


# Lines.

_BLANK_LINES: Final = re.compile(rb"[ \t\n\r\v\f]*\n")


@final
@attrs.frozen
class OversizedLine:
    """A line that was longer than allowed. Only its ends were kept.

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
        # The beginning of the stream while it may be a part of a byte order mark; `None` once that is decided.
        self._mark: bytes | None = b""
        self._line = _Bounded(max_line)  # whose end has not come

    @property
    def held(self) -> int:
        """How many bytes are kept of the line whose end has not come."""
        return self._line.kept

    def drop(self) -> None:
        """Forget the line whose end has not come: the stream is not read on."""
        self._line.clear()

    def feed(self, data: bytes) -> list[bytes | OversizedLine]:
        """Take the next bytes of the stream and return the lines that are complete now."""
        if self._mark is not None:
            self._mark, data = _without_mark(self._mark, data)
        lines: list[bytes | OversizedLine] = []
        begin, end = 0, data.find(b"\n")
        while end >= 0:
            if self._line.size or end - begin > self._max_line:
                self._line.add(memoryview(data)[begin:end])  # without a copy, as the line ends with it
                self._end_line(lines)
            else:
                line = data[begin:end]
                if line and not line.isspace():
                    lines.append(line)
                # Many blank lines are skipped at once, as far as none of them can be too long.
                elif blank := _BLANK_LINES.match(data, end + 1, end + 1 + self._max_line):
                    end = blank.end() - 1
            begin = end + 1
            end = data.find(b"\n", begin)
        if begin < len(data):
            self._line.add(data[begin:] if begin else data)
        return lines

    def finish(self) -> list[bytes | OversizedLine]:
        """Return the last line if the stream ended without a newline after it."""
        lines: list[bytes | OversizedLine] = []
        self._line.add(self._mark or b"")
        self._mark = None
        self._end_line(lines)
        return lines

    def _end_line(self, lines: list[bytes | OversizedLine]) -> None:
        whole = self._line.whole
        if whole is None:
            lines.append(OversizedLine(self._line.size, *self._line.ends))
        elif whole and not whole.isspace():
            lines.append(whole)
        self._line.clear()


# Server-sent events.

MAX_RETRY_DIGITS: Final = 15
"""Digits of a `retry` that is read. More are thousands of years, and Python refuses to read very many."""


@final
@attrs.frozen
class SseEvent:
    """One event.

    Attributes:
        event: Its type, ``"message"`` by default.
        data: Its lines, joined by newlines.
        last_event_id: The last id when it was dispatched: its own, or the last one before it.
    """

    event: str
    data: bytes
    last_event_id: str = ""


@final
@attrs.frozen
class OversizedSseEvent:
    """An event that was larger than allowed. Only the ends of its data were kept.

    Attributes:
        event: Its type.
        size: How large its data was, in bytes.
        head: The first bytes.
        tail: The last bytes.
        last_event_id: The last id when it was dispatched.
    """

    event: str
    size: int
    head: bytes
    tail: bytes
    last_event_id: str = ""


SseReceived: TypeAlias = SseEvent | OversizedSseEvent


_DATA: Final = b"data:"

MAX_NAME: Final = 4096
"""How long an event's id or type may be, in bytes. A longer id is ignored: it would be sent back in a header."""

_FITS_IN_A_FIELD: Final = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
"""An id that can be sent back in a header field unchanged (RFC 9110, section 5.5)."""

# A hostile server can send a million lines in one read. A line costs a step in Python, so of data with very many
# lines those without meaning are removed first, by regular expressions, and the rest is read in pieces with
# checkpoints between them (`pieces_of`). Data with few lines, which is the usual case, pays only for the search.

MANY_LINES: Final = 64
"""Line ends of one kind, beyond which data has very many lines."""

PIECE: Final = 8192
"""Bytes of data with very many lines that are to be fed at once."""

_IGNORED: Final = re.compile(rb"\n(?:(?!(?:data|event|id|retry)[:\n])[^\n]++\n)++")
"""Comments, and fields that the specification does not know, after the end of a line."""

_BLANK: Final = re.compile(rb"\n{3,}")
"""The end of a line and more than one blank line: only the first dispatches anything."""


def _has_many_lines(data: bytes) -> bool:
    """Whether data has more than `MANY_LINES` ends of one kind. Searching for so many is faster than counting."""
    for end in (b"\n", b"\r"):
        place = -1
        for _ in range(MANY_LINES + 1):
            place = data.find(end, place + 1)
            if place < 0:
                break
        else:
            return True
    return False


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Cut data with very many lines into pieces, between which the reader should checkpoint."""
    if len(data) <= PIECE or not _has_many_lines(data):
        yield data
    else:
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]


@final
class SseReader:
    """Reads one event stream, from its first byte to its last.

    Lines end with CR, LF or CRLF, which may lie in two pieces; nothing else ends a line. A byte order mark at the
    very beginning is left out. An event that has no blank line behind it when the stream ends is dropped.

    Args:
        max_event: The largest data of an event that is kept, in bytes; the same holds for each other line.

    Attributes:
        messages: How many events with data were read; those without only give an id to resume after.
        retry: How long to wait before connecting again, in milliseconds, if the server has sent it.
    """

    def __init__(self, max_event: int) -> None:
        self._max_event = max_event
        self._mark: bytes | None = b""  # as in `LineReader`
        self._after_cr = False
        # The line whose end has not come. Of a `data` line that is too long by itself the event keeps the ends.
        self._line = bytearray()
        self._line_is_data = False  # its beginning is in the event's data already
        self._line_is_lost = False  # it is too long and not kept
        # The event whose end has not come.
        self._data: _Bounded | None = None
        self._event = ""
        self._id = ""
        self._last_event_id = ""
        self.retry: int | None = None
        self.messages = 0

    @property
    def last_event_id(self) -> str:
        """The last event id that was committed by a blank line; used to resume.

        Empty if there is none, or if it cannot be sent in a header field, which is where the server expects it.
        """
        return self._last_event_id if _FITS_IN_A_FIELD.fullmatch(self._last_event_id) else ""

    @property
    def size(self) -> int:
        """How many bytes are kept of the event whose end has not come."""
        return len(self._line) + (0 if self._data is None else self._data.kept)

    def feed(self, data: bytes) -> list[SseReceived]:
        """Take the next bytes of the stream and return the events that are complete now."""
        if not data:
            return []
        if self._mark is not None:
            self._mark, data = _without_mark(self._mark, data)
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        events: list[SseReceived] = []
        if _has_many_lines(data):
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if self._line or self._line_is_data or self._line_is_lost:
                piece, _, data = data.partition(b"\n")
                self._end_line(piece, events)
            # Without lines that have no meaning: all end with LF, and the first byte begins one.
            data = _BLANK.sub(b"\n\n", _IGNORED.sub(b"\n", b"\n" + data))[1:]
        if len(data) > LARGE_PIECE and b"\r" not in data:  # searching it is ten times as fast as splitting it
            start = 0
            while (end := data.find(b"\n", start)) >= 0:
                self._end_line(data[start:end], events)
                start = end + 1
            if start < len(data):
                self._keep(data[start:])
            return events
        # `bytes.splitlines` knows exactly the three line ends of an event stream; `str.splitlines` knows more.
        for piece in data.splitlines(keepends=True):
            if not piece.endswith((b"\n", b"\r")):
                self._keep(piece)  # the last one
            else:
                self._end_line(piece[: -2 if piece.endswith(b"\r\n") else -1], events)
        return events

    def _keep(self, piece: bytes) -> None:
        """Take a part of a line whose end has not come."""
        if self._line_is_data:
            self._add_data(piece)
        elif not self._line_is_lost:
            self._line += piece
            if len(self._line) > len(_DATA) and self._line.startswith(_DATA):
                # Whatever follows in this line is data, so it need not be kept twice.
                self._begin_data()
                self._add_data(bytes(self._line[len(_DATA) :]).removeprefix(b" "))
                self._line_is_data = True
                self._line = bytearray()
            elif len(self._line) > self._max_event and not _DATA.startswith(self._line):
                self._line_is_lost = True
                self._line = bytearray()

    def _end_line(self, piece: bytes, events: list[SseReceived]) -> None:
        if self._line_is_data:
            self._add_data(piece)
        elif not self._line_is_lost:
            line = bytes(self._line) + piece if self._line else piece
            if line:
                self._take_line(line)
            else:
                self._dispatch(events)
        self._line_is_data = self._line_is_lost = False
        self._line = bytearray()

    def _take_line(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if colon:
            value = value.removeprefix(b" ")
        if name == b"data":
            self._begin_data()
            self._add_data(value)
        elif len(line) > self._max_event:
            pass  # dropped, also where it came in one piece
        elif name == b"event":
            self._event = value[:MAX_NAME].decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = "" if len(value) > MAX_NAME else value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self.retry = int(value)

    def _begin_data(self) -> None:
        if self._data is None:
            self._data = _Bounded(self._max_event)
        else:
            self._data.add(b"\n")

    def _add_data(self, piece: bytes) -> None:
        assert self._data is not None
        self._data.add(piece)

    def _dispatch(self, events: list[SseReceived]) -> None:
        """Read a blank line: it commits the id, and dispatches the event if that has data."""
        self._last_event_id = self._id
        if (data := self._data) is not None:
            self.messages += bool(data.size)
            kind = self._event or "message"
            whole = data.whole
            if whole is not None:
                events.append(SseEvent(kind, whole, self._last_event_id))
            else:
                events.append(OversizedSseEvent(kind, data.size, *data.ends, self._last_event_id))
        self._data = None
        self._event = ""


_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


def _checked(name: str, value: str, forbidden: str) -> bytes:
    for character in forbidden:
        if character in value:
            raise ValueError(f"the {name} of an event cannot contain {character!r}: {value!r}")
    return value.encode("utf-8")


def encode_sse_event(
    data: bytes | None = None, *, event: str | None = None, id: str | None = None, retry: int | None = None
) -> bytes:
    """Return the bytes of one event.

    Args:
        data: Its data; lines may end with CR, LF or CRLF, and all are read back as LF. Without data (`None`)
            nothing is dispatched, but `id` and `retry` count. Empty data is an event.
        event: Its type, if not ``message``.
        id: The id with which a client can resume after it.
        retry: How many milliseconds the client is to wait before it connects again.

    Raises:
        ValueError: The type or the id contains what would end its line, the id a NUL, or `retry` is negative.
    """
    is_plain = event is None and id is None and retry is None
    if is_plain and data is not None and not (b"\n" in data or b"\r" in data):
        return b"data: %b\n\n" % data  # as most are
    parts: list[bytes] = []
    if event is not None:
        parts.append(b"event: %b\n" % _checked("type", event, "\r\n"))
    if id is not None:
        parts.append(b"id: %b\n" % _checked("id", id, "\r\n\0"))
    if retry is not None:
        if retry < 0:
            raise ValueError(f"retry is a number of milliseconds, not {retry}")
        parts.append(b"retry: %d\n" % retry)
    if data is not None:
        # JSON without newlines is one line; looking for them is a tenth of splitting.
        lines = _LINE_END.split(data) if b"\n" in data or b"\r" in data else (data,)
        parts.extend(b"data: %b\n" % line for line in lines)
    parts.append(b"\n")
    return b"".join(parts)


def encode_sse_comment(text: str = "") -> bytes:
    """Return the bytes of a comment, which keeps a connection alive and is not an event.

    Raises:
        ValueError: The text has more than one line.
    """
    return b":%b\n\n" % (b" " + _checked("comment", text, "\r\n") if text else b"")
