"""Server-sent events: the same events however the bytes are cut, at a cost that is bounded, and back to bytes."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from inside_core import (
    OversizedSseEvent,
    SseReader,
    pieces_of,
)
from shared.core_sse import by_size, read


def test_many_lines_of_data_count_together() -> None:
    """Not one of them is too long."""
    (event,) = read([b"data: 0123456789\n" * 10 + b"\n"], 100)
    assert isinstance(event, OversizedSseEvent)
    assert event.size == 109


IDLE_LINES: Final = [
    b":",
    b": a comment",
    b"",
    b"foo: x",
    b"foo",
    b"database: 1",
    b"ids",
    b" data: x",
    b"data",
    b"data: x",
]
LINES: Final = st.sampled_from(
    [*IDLE_LINES, b"id: 5", b"id", b"event: e", b"retry: 7", b"data: " + b"y" * 30, b"z" * 30]
)


@given(
    lines=st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]), st.integers(1, 40)), max_size=25),
    size=st.integers(1, 700),
)
def test_many_lines_read_like_few(lines: list[tuple[bytes, bytes, int]], size: int) -> None:
    """What means nothing is left out of many lines at once, and not of few: both read the same."""
    wire = b"".join((line + end) * times for line, end, times in lines)
    one, other = SseReader(20), SseReader(20)
    alone = [event for place in range(len(wire)) for event in one.feed(wire[place : place + 1])]
    assert [event for piece in by_size(wire, size) for event in other.feed(piece)] == alone
    assert read([wire], 20) == alone
    assert (one.last_event_id, one.retry, one.size, one.messages) == (
        other.last_event_id,
        other.retry,
        other.size,
        other.messages,
    )


def test_what_has_very_many_lines_is_cut() -> None:
    """So that others have their turn; a large message in one line is not."""
    assert [*pieces_of(b"data: " + b"x" * 100_000 + b"\n\n")] == [b"data: " + b"x" * 100_000 + b"\n\n"]
    pieces = [*pieces_of(b"data\n" * 20_000)]
    assert b"".join(pieces) == b"data\n" * 20_000
    assert max(map(len, pieces)) <= 8192
