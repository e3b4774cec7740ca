"""Newline framing: the same lines however the bytes are cut, at a cost that is bounded."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Final

import pytest
from inside_core import LineReader, OversizedLine
from kept import kept_by
from processor_time import costs_of

KIB: Final = 1024
MIB: Final = 1024 * KIB
ENDS: Final = 1024
"""What is promised to be left of either end of a line that is too long, in bytes."""


@pytest.mark.parametrize("size", [3, 64, 4 * KIB, 64 * KIB])
def test_an_endless_line_costs_no_more_than_the_limit(size: int) -> None:
    """Promise 10: the buffer is bounded by `max_line`, also against a peer that sends a few bytes at a time."""
    limit = 64 * KIB
    source = b"x" * (size + 1)
    reader = LineReader(limit)
    fed = 0
    tracemalloc.start()
    try:
        while fed <= limit + 2 * ENDS:
            assert not reader.feed(source[:size])  # a new object each time, as from a socket
            fed += size
        _, peak = tracemalloc.get_traced_memory()
        kept = kept_by(LineReader)
    finally:
        tracemalloc.stop()
    assert reader.feed(b"\na\n") == [OversizedLine(fed, b"x" * ENDS, b"x" * ENDS), b"a"]
    assert kept < 16 * KIB
    assert peak < 3 * limit + 3 * size


def test_what_was_searched_is_not_searched_again() -> None:
    """Feeding is linear: four times as many chunks cost about four times as much, not sixteen.

    They are small, so that it is the number of them that costs, and not memory that the machine's caches do not hold.
    """
    chunk = b"x" * 64

    def gather(chunks: int) -> None:
        reader = LineReader(64 * MIB)
        for _ in range(chunks):
            reader.feed(chunk)
        (line,) = reader.feed(b"\n")
        assert line == chunk * chunks

    few, many = costs_of(partial(gather, 4 * KIB), partial(gather, 16 * KIB))
    assert many / few < 9, (few, many)


def test_many_lines_in_one_chunk_are_cut_in_one_pass() -> None:
    """The same for lines that come at once."""

    def cut(lines: int) -> None:
        assert LineReader(10).feed(b"{}\n" * lines) == [b"{}"] * lines

    few, many = costs_of(partial(cut, 5_000), partial(cut, 20_000))
    assert many / few < 9, (few, many)


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"\t \n"])
def test_blank_lines_are_not_looked_at_one_by_one(blank: bytes) -> None:
    """A megabyte of them costs less than an eighth of that in lines with something in them."""

    def skip() -> None:
        assert LineReader(16 * MIB).feed(blank * (MIB // len(blank))) == []

    def cut() -> None:
        assert LineReader(16 * MIB).feed(b"{}\n" * 50_000) == [b"{}"] * 50_000

    blanks, lines = costs_of(skip, cut)
    assert blanks < lines, (blanks, lines)
