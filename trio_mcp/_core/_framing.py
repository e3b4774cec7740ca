"""Newline framing: bytes in, lines out (2026-07-28, basic/transports/stdio).

Costs time linear in what is fed and memory bounded by the limit, however the bytes are cut: nothing that was
searched is searched again. No I/O; what a line holds is not looked at.

Server-sent events: bytes in, events out, and events to bytes. No I/O; what `data` holds is not looked at.

Reading costs time linear in what is fed and memory bounded by the limit, however the bytes are cut: nothing that
was searched is searched again. An event that is too large costs only itself.

Spec: HTML, "Server-sent events", sections "Parsing an event stream" and "Interpreting an event stream".
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final, TypeAlias, final

import attrs

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


"""Bytes kept of either end of an event that is too large: enough to read the id of the message in it."""

MAX_RETRY_DIGITS: Final = 15
"""More milliseconds than this many digits can say are thousands of years, and Python refuses to read them."""


@final
@attrs.frozen
class SseEvent:
    """One event.

    Attributes:
        event: Its type, ``"message"`` unless it says otherwise.
        data: Its lines, joined by newlines.
        last_event_id: The id that was in force when it was dispatched: its own, or the last one before it.
    """

    event: str
    data: bytes
    last_event_id: str = ""


@final
@attrs.frozen
class OversizedSseEvent:
    """An event that was larger than allowed and is gone but for the ends of its data.

    Attributes:
        event: Its type.
        size: How large its data was, in bytes.
        head: The first bytes.
        tail: The last bytes.
        last_event_id: The id that was in force when it was dispatched.
    """

    event: str
    size: int
    head: bytes
    tail: bytes
    last_event_id: str = ""


SseReceived: TypeAlias = SseEvent | OversizedSseEvent


@final
class _Bounded:
    """Bytes that are kept whole up to a limit, and of which only the ends are kept beyond it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._ends: tuple[bytes, bytes] | None = None
        self.size = 0

    def add(self, piece: bytes | bytearray) -> None:
        self.size += len(piece)
        if self._ends is not None:
            head, tail = self._ends
            head += piece[: KEPT_ENDS - len(head)]
            self._ends = head, (tail + piece[-KEPT_ENDS:])[-KEPT_ENDS:]
        elif self.size <= self._limit:
            self._kept += piece
        else:
            self._ends = (
                bytes(self._kept[:KEPT_ENDS] + piece[:KEPT_ENDS])[:KEPT_ENDS],
                bytes(self._kept[-KEPT_ENDS:] + piece[-KEPT_ENDS:])[-KEPT_ENDS:],
            )
            self._kept = bytearray()

    @property
    def kept(self) -> int:
        """How many bytes are kept."""
        return len(self._kept)

    @property
    def whole(self) -> bytes | None:
        return None if self._ends is not None else bytes(self._kept)

    @property
    def ends(self) -> tuple[bytes, bytes]:
        assert self._ends is not None
        return self._ends


_DATA: Final = b"data:"

MAX_NAME: Final = 4096
"""How long an event's id or type may be, in bytes. A longer id is none: it would be sent back in a header."""

_FITS_IN_A_FIELD: Final = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
"""What an id is that can be sent back in a header as it is (RFC 9110, section 5.5)."""

MANY_LINES: Final = 64
"""Among more lines than this those that mean nothing are left out at once, before each costs a step."""

PIECE: Final = 8192
"""How many bytes of what has very many lines are to be fed at once."""

_IGNORED: Final = re.compile(rb"\n(?:(?!(?:data|event|id|retry)[:\n])[^\n]++\n)++")
"""Comments, and fields that nobody knows, after the end of a line."""

_BLANK: Final = re.compile(rb"\n{3,}")
"""The end of a line and more than one blank line: only the first dispatches anything."""


def _has_many_lines(data: bytes) -> bool:
    """Whether there are more than `MANY_LINES` of one kind. To search for so many is faster than to count."""
    for end in (b"\n", b"\r"):
        place = -1
        for _ in range(MANY_LINES + 1):
            place = data.find(end, place + 1)
            if place < 0:
                break
        else:
            return True
    return False


def _without_idle_lines(lines: bytes) -> bytes:
    """Leave out lines that mean nothing. All lines end with LF; the first byte begins one."""
    return _BLANK.sub(b"\n\n", _IGNORED.sub(b"\n", b"\n" + lines))[1:]


def pieces_of(data: bytes) -> Iterator[bytes]:
    """Cut what has so many lines that reading them takes long, so that others have their turn in between."""
    if len(data) <= PIECE or not _has_many_lines(data):
        yield data
    else:
        for start in range(0, len(data), PIECE):
            yield data[start : start + PIECE]


@final
class SseReader:
    """Reads one event stream, from its first byte to its last.

    Lines end with CR, LF or CRLF, which may lie in two pieces; nothing else ends a line. A byte order mark at the
    very beginning is left out. What the stream ends with before a blank line is no event.

    Args:
        max_event: The largest data of an event that is kept, in bytes; the same holds for each other line.
    """

    def __init__(self, max_event: int) -> None:
        self._max_event = max_event
        self._mark: bytes | None = (
            b""  # what may still turn out to be a byte order mark; `None` once that is known
        )
        self._after_cr = False
        # The line that has no end yet. Of a `data` line that is too long by itself the event keeps the ends.
        self._line = bytearray()
        self._line_is_data = False  # its beginning has gone into the event's data already
        self._line_is_lost = False  # it is too long, and nothing that is kept
        # The event that has no end yet.
        self._data: _Bounded | None = None
        self._event = ""
        self._id = ""
        self._last_event_id = ""
        self._retry: int | None = None
        self._messages = 0

    @property
    def messages(self) -> int:
        """How many events there have been that hold anything; those that only prime for resuming do not."""
        return self._messages

    @property
    def last_event_id(self) -> str:
        """The id to resume after: the last one that a blank line has put into force.

        Empty if there is none, or if no header field can hold it: events can be told apart by any id, but it is a
        header that says after which of them to go on.
        """
        return self._last_event_id if _FITS_IN_A_FIELD.fullmatch(self._last_event_id) else ""

    @property
    def retry(self) -> int | None:
        """How long to wait before connecting again, in milliseconds, if the stream has said so."""
        return self._retry

    @property
    def size(self) -> int:
        """How many bytes are kept of the event that has no end yet."""
        return len(self._line) + (0 if self._data is None else self._data.kept)

    def feed(self, data: bytes) -> list[SseReceived]:
        """Take the next bytes of the stream and return the events that are complete now."""
        if not data:
            return []
        if self._mark is not None:
            data = self._mark + data
            if data != codecs.BOM_UTF8 and codecs.BOM_UTF8.startswith(data):
                self._mark = data
                return []
            self._mark = None
            data = data.removeprefix(codecs.BOM_UTF8)
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        events: list[SseReceived] = []
        if _has_many_lines(data):
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if self._line or self._line_is_data or self._line_is_lost:
                piece, _, data = data.partition(b"\n")
                self._end_line(piece, events)
            data = _without_idle_lines(data)
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
                # From here on it is data whatever follows, so it need not be kept twice.
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
            pass  # however it was cut
        elif name == b"event":
            self._event = value[:MAX_NAME].decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = "" if len(value) > MAX_NAME else value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
            self._retry = int(value)

    def _begin_data(self) -> None:
        if self._data is None:
            self._data = _Bounded(self._max_event)
        else:
            self._data.add(b"\n")

    def _add_data(self, piece: bytes) -> None:
        assert self._data is not None
        self._data.add(piece)

    def _dispatch(self, events: list[SseReceived]) -> None:
        """A blank line: what there is of an event is one, if it has data. Its id counts in any case."""
        self._last_event_id = self._id
        if (data := self._data) is not None:
            self._messages += bool(data.size)
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
        data: Its data; lines may end with CR, LF or CRLF, and all are read back as LF. `None` is no data: nothing
            is dispatched, but `id` and `retry` count. Empty data is an event.
        event: Its type, if not ``message``.
        id: The id from which a client can resume after it.
        retry: How many milliseconds the client is to wait before it connects again.

    Raises:
        ValueError: The type or the id contains what would end its line, the id a NUL, or `retry` is negative.
    """
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
    """Return the bytes of a comment: a sign of life that is no event.

    Raises:
        ValueError: The text has more than one line.
    """
    return b":%b\n\n" % (b" " + _checked("comment", text, "\r\n") if text else b"")
