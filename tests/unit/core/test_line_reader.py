"""Newline framing: the same lines however the bytes are cut, at a cost that is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inside_core import LineReader, OversizedLine

BOM: Final = b"\xef\xbb\xbf"
ENDS: Final = 1024
"""What is promised to be left of either end of a line that is too long, in bytes."""

Line = bytes | OversizedLine


def read(chunks: Iterable[bytes], max_line: int) -> list[Line]:
    """Return all lines of a stream that ends after the last chunk."""
    reader = LineReader(max_line)
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    return lines + reader.finish()


def by_size(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def oversized(line: bytes) -> OversizedLine:
    return OversizedLine(len(line), line[:ENDS], line[-ENDS:])


LONG: Final = bytes(range(0x30, 0x7F)) * 40

CASES: Final[list[tuple[bytes, int, list[Line]]]] = [
    (b"", 10, []),
    (b"\n", 10, []),
    (b"a", 10, [b"a"]),
    (b"a\n", 10, [b"a"]),
    (b"a\nb", 10, [b"a", b"b"]),
    (b"a\nb\n", 10, [b"a", b"b"]),
    (b"\n\na\n\n\nb\n\n", 10, [b"a", b"b"]),
    # White space is no line, at the end neither.
    (b" \t\n\r\n \r\na\n  ", 10, [b"a"]),
    # A carriage return stays, and counts.
    (b"a\r\nb\r\n", 10, [b"a\r", b"b\r"]),
    (b"a\rb\n", 10, [b"a\rb"]),
    # Only the newline ends a line.
    (b"a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\0g\n", 40, [b"a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\0g"]),
    (b"\xff\xfe\n\0\n", 10, [b"\xff\xfe", b"\0"]),
    # A byte order mark goes at the very beginning, once.
    (BOM + b"a\n" + BOM + b"b\n", 10, [b"a", BOM + b"b"]),
    (BOM + BOM + b"a\n", 10, [BOM + b"a"]),
    (BOM + b"\na\n", 10, [b"a"]),
    (BOM, 10, []),
    (BOM + b"0123456789\n", 10, [b"0123456789"]),
    (b"\n" + BOM + b"a\n", 10, [BOM + b"a"]),
    (BOM[:2] + b"a\n", 10, [BOM[:2] + b"a"]),
    (BOM[:2], 10, [BOM[:2]]),
    # The limit is the longest line that is kept.
    (b"0123456789\n0123456789", 10, [b"0123456789", b"0123456789"]),
    (b"0123456789\r\n", 10, [oversized(b"0123456789\r")]),
    (b"0123456789x\na\n", 10, [oversized(b"0123456789x"), b"a"]),
    (b"0123456789x", 10, [oversized(b"0123456789x")]),
    (b"a\n" + LONG + b"\nb\n" + LONG, 2000, [b"a", oversized(LONG), b"b", oversized(LONG)]),
    (LONG + b"\n", len(LONG), [LONG]),
    (LONG + b"\n", len(LONG) - 1, [oversized(LONG)]),
    (LONG + b"\n", 100, [oversized(LONG)]),
    (b" " * 11 + b"\na\n", 10, [oversized(b" " * 11), b"a"]),
    # Many blank lines are skipped together, and not beyond one that is too long.
    (b"\n" * 50 + b" \n" * 50 + b"  a\n\n" + b" \r\n" * 9, 10, [b"  a"]),
    (b"\n" * 9 + b" " * 10 + b"\n" + b" " * 11 + b"\n\nb", 10, [oversized(b" " * 11), b"b"]),
]


def test_chunk_boundaries_do_not_matter(subtests: pytest.Subtests) -> None:
    """A pipe cuts where it likes: whole, byte by byte, and in between (2026-07-28, basic/transports/stdio)."""
    for wire, max_line, lines in CASES:
        with subtests.test(wire=wire, max_line=max_line):
            for size in (10**6, 1000, 7, 3, 2, 1):
                assert read(by_size(wire, size), max_line) == lines, f"in pieces of {size} bytes"


PIECES: Final = st.lists(
    st.sampled_from([b"\n", b"\r\n", b" ", b"a", b"\xc3\xa9", b"0123456789", b"x" * 1100, BOM, BOM[:1], BOM[1:], b"\0"]),
    max_size=12,
).map(b"".join)  # fmt: skip


@given(PIECES, st.lists(st.integers(0, 3000), max_size=8), st.integers(1, 2400))
@example(BOM + b"a\n", [1], 10)
@example(b"0123456789ab\n", [5, 11], 10)
def test_any_cut_gives_the_same_lines(wire: bytes, cuts: list[int], max_line: int) -> None:
    """As above, against a reading of the whole by simpler means."""
    expected: list[Line] = [
        line if len(line) <= max_line else oversized(line)
        for line in wire.removeprefix(BOM).split(b"\n")
        if len(line) > max_line or line.strip()
    ]
    assert read([wire], max_line) == expected
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    chunks = [wire[start:end] for start, end in pairwise(places)]
    assert read(chunks, max_line) == expected


def test_a_line_is_given_out_with_its_newline() -> None:
    """A peer that waits for an answer sends nothing more."""
    reader = LineReader(10)
    assert reader.feed(b"a") == []
    assert reader.feed(b"\nb") == [b"a"]
    assert reader.feed(b"") == []
    assert reader.feed(b"\n") == [b"b"]
    assert reader.finish() == []


def test_the_end_of_the_stream_is_told_once() -> None:
    """A last line without newline is a line; there is not another one."""
    reader = LineReader(10)
    assert reader.feed(b"a\nb") == [b"a"]
    assert reader.finish() == [b"b"]
    assert reader.finish() == []


@pytest.mark.parametrize("overlap", [0, 1, 1000])
def test_the_ends_of_an_oversized_line_are_its_ends(overlap: int) -> None:
    """The id of the message in it is looked for in both; they may overlap."""
    line = bytes(n % 240 + 11 for n in range(2 * ENDS - overlap))
    for size in (1, 1023, 1024, 1025, len(line)):
        assert read(by_size(line, size), len(line) - 1) == [oversized(line)]
