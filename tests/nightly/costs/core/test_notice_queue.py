"""Notifications in order, and which of them goes when there is no room."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

import pytest
from processor_time import costs_of
from shared.core_notice_queue import drain, make_queue


def flood(keys: Sequence[Hashable | None]) -> None:
    """Fill a queue, let as many more come as it holds, and empty it."""
    queue = make_queue(*keys)
    for number, key in enumerate(keys):
        queue.drop()
        queue.push(key, number, 10)
    assert len(drain(queue)) == len(keys)


@pytest.mark.parametrize("kind", ["different", "series", "repeated"])
def test_making_room_costs_no_more_in_a_long_queue(kind: str) -> None:
    """A flood of notifications and a slow consumer must not take the processor, however long the queue may be."""

    def keys(size: int) -> list[Hashable | None]:
        if kind == "series":
            return [None] * size
        return [f"file:///{number if kind == 'different' else number % (size // 2)}" for number in range(size)]

    short, long = costs_of(*(partial(flood, keys(size)) for size in (250, 4_000)))
    # Sixteen times as much. To look at each that waits would cost 256 times as much.
    assert long / short < 64, (short, long)
