"""Answers to batches that a client gives up and does not read: what that costs, what is kept, and what is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from costs import calls_of, steps_of
from hypothesis import given
from hypothesis import strategies as st
from inside_peer import BatchReply, QueuedMessage, SendQueue, Several
from inside_wire import encode_batch

from trio_mcp import Outgoing

Gathering = Several[str | int, BatchReply]


def answer(id: str | int, size: int = 60) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": "x" * size}).encode()


def gather(queue: SendQueue, gathering: Gathering, *ids: str | int, size: int = 60) -> BatchReply:
    """Gather the answers to a batch which is not complete: `close` it."""
    reply = BatchReply(queue, None, 100_000_000, gathering)
    for id in ids:
        reply.expect()
        reply.add(answer(id, size), id)
    return reply


def written(queue: SendQueue) -> list[Any]:
    """Take everything out; return the ids in each message."""
    taken: list[Any] = []
    while first := queue.first():
        for entry in first:
            parts: Any = json.loads(entry.message.data)
            taken.append([part["id"] for part in parts] if entry.message.data[:1] == b"[" else parts["id"])
        queue.remove_first(len(first), has_rest=False)
    assert queue.size == 0
    return taken


def give_up_queued(count: int) -> None:
    """All but one of many answers are given up while the array of them waits to be written."""
    queue = SendQueue(1_000_000_000, lambda: None)
    gather(queue, Gathering(), *range(count)).close()
    for id in reversed(range(1, count)):
        assert queue.withdraw_answer(id)
    assert written(queue) == [[0]]


def give_up_gathered(count: int) -> None:
    """All but one of many answers are given up before their batch is complete."""
    queue, gathering = SendQueue(1_000_000_000, lambda: None), Gathering()
    reply = gather(queue, gathering, *range(count))
    for id in reversed(range(1, count)):
        assert gathering.pop(id) == {reply: None}
        reply.leave_out(id)
    reply.close()
    assert written(queue) == [[0]]
    assert gathering == {}


def give_up_duplicates(count: int) -> None:
    """Many batches have an answer with one id, which was refused each time, and one with their own."""
    queue = SendQueue(1_000_000_000, lambda: None)
    for number in range(count):
        gather(queue, Gathering(), "same", number).close()
    assert queue.withdraw_answer("same")
    assert not queue.withdraw_answer("same")
    assert written(queue) == [[number] for number in range(count)]


@pytest.mark.parametrize("work", [give_up_queued, give_up_gathered, give_up_duplicates])
def test_what_is_given_up_costs_as_much_as_there_is(work: Callable[[int], None]) -> None:
    """Promise 3: all others were gone through, and encoded again, for each answer that was given up."""
    few, many = steps_of(partial(work, 500)), steps_of(partial(work, 1_000))
    assert many < 2.1 * few, (few, many)


@pytest.mark.parametrize(("work", "encoded"), [(give_up_queued, 2), (give_up_gathered, 1)])
def test_the_rest_of_a_batch_is_encoded_once(work: Callable[[int], None], encoded: int) -> None:
    """When it is complete, and when what is left of it is taken to be written."""
    assert calls_of(partial(work, 1_000), encode_batch) == encoded


def test_what_a_batch_keeps_is_counted_until_it_is_taken() -> None:
    """Promise 3: the queue counts the bytes that it keeps, and what it takes out is what it has counted."""
    queue = SendQueue(1_000_000_000, lambda: None)
    gather(queue, Gathering(), 1, 2, 3).close()
    whole = queue.size
    assert whole == len(encode_batch([answer(id) for id in (1, 2, 3)]))
    assert queue.withdraw_answer(2)
    assert queue.size <= whole
    (entry,) = queue.first()
    assert entry.message.data == encode_batch([answer(1), answer(3)])
    assert entry.message.answers == (1, 3)
    assert queue.size == len(entry.message.data), "what was given up is kept no longer"
    assert queue.withdraw_answer(1), "the transport could not take it, and there is time to give up more"
    (entry,) = queue.first()
    assert entry.message.data == encode_batch([answer(3)])
    assert queue.withdraw_answer(3)
    assert (queue.first(), queue.size) == ([], 0)


def test_what_is_given_up_first_makes_room_in_the_batch() -> None:
    """`max_message_bytes` is for what is sent."""
    queue, gathering = SendQueue(1_000_000_000, lambda: None), Gathering()
    reply = BatchReply(queue, None, 2 * len(answer(1)), gathering)
    for id in (1, 2, 3):
        reply.expect()
        reply.add(answer(id), id)
        if id == 2:
            reply.leave_out(1)
    reply.close()
    (entry,) = queue.first()
    assert entry.message.data == encode_batch([answer(2), answer(3)])


def test_a_batch_keeps_its_place() -> None:
    """Promise 4: what was put behind it does not overtake it because a part of it was given up."""
    queue = SendQueue(1_000_000_000, lambda: None)
    gather(queue, Gathering(), 1, 2).close()
    queue.put(QueuedMessage(Outgoing(answer(3), answers=(3,))))
    assert queue.withdraw_answer(1)
    assert written(queue) == [[2], 3]


def test_a_batch_behind_much_else_is_not_encoded_before_its_turn() -> None:
    """A client that reads a little between two cancellations makes no work either."""

    def work() -> None:
        queue = SendQueue(1_000_000_000, lambda: None)
        for _ in range(100):
            queue.put(QueuedMessage(Outgoing(bytes(60_000))))
        gather(queue, Gathering(), *range(101)).close()
        for id in range(100):
            assert queue.withdraw_answer(id)
            queue.remove_first(len(queue.first()), has_rest=False)
        assert written(queue) == [[100]]

    assert calls_of(work, encode_batch) == 2


@pytest.mark.parametrize("is_complete", [False, True])
def test_two_answers_with_one_id_are_both_found(is_complete: bool) -> None:
    """A request whose id is taken is refused under that id: in the same batch, and in another one."""
    queue, gathering = SendQueue(1_000_000_000, lambda: None), Gathering()
    one, other = gather(queue, gathering, 1, 2, 1), gather(queue, gathering, 1, 3)
    if is_complete:
        one.close()
        other.close()
        assert queue.withdraw_answer(1)
        assert not queue.withdraw_answer(1)
    else:
        assert set(gathering[1]) == {one, other}
        for reply in gathering.pop(1):
            reply.leave_out(1)
        one.close()
        other.close()
    assert gathering == {}
    assert written(queue) == [[2], [3]]


def test_a_batch_that_is_complete_leaves_what_another_one_gathers() -> None:
    """Two of them have an answer with the same id, and one of them is sent."""
    queue, gathering = SendQueue(1_000_000_000, lambda: None), Gathering()
    one, other = gather(queue, gathering, 1), gather(queue, gathering, 1, 2)
    one.close()
    assert gathering == {1: {other: None}, 2: {other: None}}


@pytest.mark.parametrize("taken", [False, True], ids=["at once", "after it was handed over in vain"])
def test_nothing_is_left_of_a_batch_of_which_all_is_given_up(taken: bool) -> None:
    """JSON-RPC 2.0, section 6: an empty array is never sent."""
    queue = SendQueue(1_000_000_000, lambda: None)
    gather(queue, Gathering(), 1, 2, 2).close()
    for id in (1, 2):
        assert queue.withdraw_answer(id)
        if taken and id == 1:
            assert len(queue.first()) == 1
    assert not queue.withdraw_answer(2)
    assert (queue.first(), queue.size) == ([], 0)


def test_the_answer_to_what_has_no_id_stays() -> None:
    """What could not be read cannot be given up."""
    queue = SendQueue(1_000_000_000, lambda: None)
    reply = BatchReply(queue, None, 1_000, Gathering())
    for id in (None, 1, None):
        reply.expect()
        reply.add(json.dumps({"id": id}).encode(), id)
    reply.close()
    assert queue.withdraw_answer(1)
    assert written(queue) == [[None, None]]


steps = st.lists(
    st.tuples(st.sampled_from(["batch", "give up", "give up", "hand over", "write"]), st.integers(0, 4)),
    max_size=30,
)


@given(steps)
def test_it_does_what_encoding_at_once_would_do(steps: list[tuple[str, int]]) -> None:
    """Whatever is answered, given up and written, and in whatever order."""
    queue = SendQueue(1_000_000_000, lambda: None)
    model: list[list[int]] = []
    for step, number in steps:
        match step:
            case "batch":
                ids = [number, 4, 4, number + 1]
                gather(queue, Gathering(), *ids).close()
                model.append(ids)
            case "give up":
                found = any(number in ids for ids in model)
                assert queue.withdraw_answer(number) is found
                model = [left for ids in model if (left := [id for id in ids if id != number])]
            case "write":
                queue.remove_first(min(number, len(queue.first())), has_rest=False)
                del model[:number]
            case _:
                pass
        if step != "give up":
            sent = [sorted(part["id"] for part in json.loads(entry.message.data)) for entry in queue.first()]
            assert sent == [sorted(ids) for ids in model]
            assert queue.size == sum(len(entry.message.data) for entry in queue.first())
    assert queue.size >= sum(len(encode_batch([answer(id) for id in ids])) for ids in model)
