"""Server-sent events: the same events however the bytes are cut, at a cost that is bounded, and back to bytes."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Final

import pytest
from inside_core import (
    SseEvent,
    SseReader,
    SseReceived,
)
from kept import kept_by
from processor_time import costs_of
from shared.core_sse import ENDS, message

KIB: Final = 1024
MIB: Final = 1024 * KIB


def test_an_endless_line_costs_no_more_than_the_limit(subtests: pytest.Subtests) -> None:
    """Promise 10, for everything a line can be."""
    for size in (64, 4 * KIB, 64 * KIB):
        for field in (b":", b"data: ", b"id: ", b"event: ", b"unknown: ", b"unknown", b"retry: "):
            with subtests.test(size=size, field=field):
                limit = 64 * KIB
                source = b"x" * (size + 1)
                reader = SseReader(limit)
                fed = 0
                tracemalloc.start()
                try:
                    assert not reader.feed(field)
                    while fed <= limit + 2 * ENDS:
                        assert not reader.feed(source[:size])
                        fed += size
                    _, peak = tracemalloc.get_traced_memory()
                    kept = kept_by(SseReader)
                finally:
                    tracemalloc.stop()
                reader.feed(b"\n\n")
                assert read_after(reader) == [message(b"a")]
                assert kept < 16 * KIB
                assert peak < 3 * limit + 3 * size


def read_after(reader: SseReader) -> list[SseReceived]:
    return reader.feed(b"data: a\n\n")


def test_endless_empty_data_costs_no_more_than_the_limit() -> None:
    """Each line of it adds a newline, and nothing else."""
    reader = SseReader(10 * KIB)
    tracemalloc.start()
    try:
        for _ in range(100):
            assert not reader.feed(b"data\n" * 1000)
        kept = kept_by(SseReader)
    finally:
        tracemalloc.stop()
    assert kept < 64 * KIB


def test_what_was_searched_is_not_searched_again() -> None:
    """Feeding is linear: four times as many chunks cost about four times as much, not sixteen.

    They are small, so that it is the number of them that costs, and not memory that the machine's caches do not hold.
    """
    chunk = b"x" * 64

    def gather(chunks: int) -> None:
        reader = SseReader(64 * MIB)
        reader.feed(b"data: ")
        for _ in range(chunks):
            reader.feed(chunk)
        (event,) = reader.feed(b"\n\n")
        assert isinstance(event, SseEvent)
        assert event.data == chunk * chunks

    few, many = costs_of(partial(gather, 4 * KIB), partial(gather, 16 * KIB))
    assert many / few < 9, (few, many)


def test_many_events_in_one_chunk_are_cut_in_one_pass() -> None:
    """Four times as many events cost about four times as much, not sixteen."""

    def cut(events: int) -> None:
        assert len(SseReader(10).feed(b"data: {}\n\n" * events)) == events

    few, many = costs_of(partial(cut, 5_000), partial(cut, 20_000))
    assert many / few < 9, (few, many)
