"""What lies ready to be written: in order, open to second thoughts, and none of it dearer because there is more."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from inside_peer import QueuedMessage
from processor_time import costs_of
from shared.peer_send_queue import answered, exchanges, open_queue, said

from trio_mcp import Outgoing


def withdraw_one_from_many(count: int) -> None:
    """One request has said much, and is given up."""
    queue = open_queue()
    (first, second) = exchanges(2)
    for number in range(count):
        queue.put(said(first, number))
        queue.put(said(second, number))
    queue.withdraw_all_of(first)
    assert queue.size == sum(len(b"%d" % number) for number in range(count))


def withdraw_many(count: int) -> None:
    """Many requests have said something, and are given up one after another, the last one first."""
    queue = open_queue()
    several = exchanges(count)
    for exchange in several:
        queue.put(said(exchange, 1))
    for exchange in reversed(several):
        queue.withdraw_all_of(exchange)
    assert not queue.size


def withdraw_answers(count: int) -> None:
    """Many requests are answered, and are given up before anybody has taken the answers."""
    queue = open_queue()
    for exchange in exchanges(count):
        queue.put(answered(exchange, 1))
    for id in reversed(range(count)):
        assert queue.withdraw_answer(id)


def withdraw_entries(count: int) -> None:
    """Many requests of ours are given up before they are written."""
    queue = open_queue()
    entries = [QueuedMessage(Outgoing(b"request")) for _ in range(count)]
    for entry in entries:
        queue.put(entry)
    for entry in reversed(entries):
        queue.withdraw(entry)


def write_in_pieces(count: int) -> None:
    """Much is written, a buffer at a time."""
    queue, message = open_queue(), Outgoing(bytes(60_000))
    for _ in range(count):
        queue.put(QueuedMessage(message))
    while first := queue.first():
        queue.remove_first(len(first), has_rest=False)


@pytest.mark.parametrize(
    "work", [withdraw_one_from_many, withdraw_many, withdraw_answers, withdraw_entries, write_in_pieces]
)
def test_what_is_taken_out_costs_no_more_where_much_lies(work: Callable[[int], None]) -> None:
    """Promise 3: a cancellation must not stop the event loop for a time that grows with what else there is."""
    few, many = costs_of(partial(work, 250), partial(work, 4_000), times=3)
    # Sixteen times as much: a search for each would cost 256 times as much.
    assert many / few < 64, (few, many)
