"""What the tests of sse share in several layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from inside_core import (
    SseEvent,
    SseReader,
    SseReceived,
)

ENDS: Final = 1024


def message(data: bytes, id: str = "") -> SseEvent:
    return SseEvent("message", data, id)


def read(chunks: Iterable[bytes], max_event: int = 10_000) -> list[SseReceived]:
    reader = SseReader(max_event)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def by_size(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))
