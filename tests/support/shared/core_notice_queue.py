"""What the tests of notice queue share in several layers."""

from __future__ import annotations

from collections.abc import Hashable

from inside_core import NotificationQueue


def make_queue(
    *keys: Hashable | None, max_length: int = 100, max_bytes: int = 1_000_000
) -> NotificationQueue[int]:
    """Return a queue of numbered notices with these keys, of ten bytes each."""
    queue = NotificationQueue[int](max_length, max_bytes)
    for number, key in enumerate(keys):
        queue.push(key, number, 10)
    return queue


def drain(queue: NotificationQueue[int]) -> list[int]:
    return [queue.pop() for _ in range(len(queue))]
