"""The requests of the other side: which run, which wait, which are refused, and what they may weigh."""

from __future__ import annotations

import pytest
from inside_core import WAITING_OVERHEAD
from inside_wire import most_weight
from shared.core_inbound_table import DUPLICATE, RUN, WAIT, Table, make_table

from trio_mcp import Limits, RequestId


def test_as_many_run_as_may() -> None:
    """Promise 10: `Limits.max_inbound_requests`."""
    table = make_table(max_running=2)
    assert table.admit(1) is RUN
    table.run(1, "one", 10)
    assert table.admit(2) is RUN
    table.run(2, "two", 10)
    assert table.admit(3) is WAIT
    table.finish(1)
    assert table.admit(3) is RUN


def test_as_much_runs_as_may() -> None:
    """Promise 10: 4 times `Limits.max_message_bytes`; a single request may be larger, or it would never be served."""
    table = make_table(max_running=10, max_running_bytes=100)
    assert table.admit(1) is RUN
    table.run(1, "one", 99)
    assert table.admit(2) is RUN
    table.run(2, "two", 1000)
    assert table.admit(3) is WAIT
    table.finish(1)
    assert table.admit(3) is WAIT
    table.finish(2)
    assert table.admit(3) is RUN
    table.run(3, "three", 100)
    assert table.admit(4) is WAIT


def test_what_runs_is_weighed_when_it_leaves_no_room() -> None:
    """Promise 10: what a text may weigh at most is a guess that spares counting, and refuses nobody."""
    table = make_table(max_running=10, max_running_bytes=2_000)
    text, lists = b'"' + b"x" * 500 + b'"', b"[" + b"[]," * 170 + b"[]]"
    table.run(1, "one", most_weight(len(text)), data=text)
    assert table.admit(2) is RUN
    table.run(2, "two", most_weight(len(lists)), data=lists)
    assert table.admit(3) is WAIT
    table.finish(2)
    assert table.admit(3) is RUN
    table.finish(1)
    table.run(3, "three", 1_999)
    assert table.admit(4) is RUN
    table.run(4, "four", 1)
    assert table.admit(5) is WAIT


def long_lived_table() -> Table:
    limits = Limits(
        max_message_bytes=200,
        max_inbound_requests=1,
        max_waiting_bytes=10,
        max_subscriptions=3,
    )
    return Table(limits)


def test_long_lived_requests_take_no_place_of_others() -> None:
    """Promise 10: `Limits.max_subscriptions` is apart from `Limits.max_inbound_requests`."""
    table = long_lived_table()
    table.run_long_lived(1, "one", 1, 60)
    assert (table.running, table.long_lived, table.waiting) == (0, 1, 0)
    assert table.admit(2) is RUN
    table.run(2, "two", 10)
    assert table.admit(3) is WAIT
    assert table.admit(1) is DUPLICATE
    assert table.get_running(1) == "one"
    assert table.all_running() == ("two", "one")
    table.finish(1)
    assert table.admit(3) is WAIT, "what has stood makes no room"
    table.finish(2)
    assert table.admit(1) is RUN


def test_as_many_are_long_lived_as_may_be() -> None:
    """Promise 10: `Limits.max_subscriptions` counts places, half of `Limits.max_message_bytes` weighs."""
    table = long_lived_table()
    assert table.has_room_for_long_lived(3, 100)
    assert not table.has_room_for_long_lived(4, 1)
    assert not table.has_room_for_long_lived(1, 101)
    table.run_long_lived(1, "one", 2, 60)
    assert table.has_room_for_long_lived(1, 40)
    assert not table.has_room_for_long_lived(2, 40)
    assert not table.has_room_for_long_lived(1, 41)
    table.finish(1)
    assert table.has_room_for_long_lived(3, 100)


def test_requests_that_wait_are_not_overtaken() -> None:
    """Requests start in the order in which they came."""
    table = make_table(max_running=1)
    table.run(1, "one", 1)
    for id in (2, 3):
        assert table.admit(id) is WAIT
        table.wait(id, f"waiting {id}", 1)
    table.finish(1)
    assert table.admit(4) is WAIT, "there is room, but 2 and 3 were first"
    table.wait(4, "waiting 4", 1)
    order: list[str] = []
    while (request := table.next_waiting()) is not None:
        order.append(request)
        table.run(99, request, 1)
        assert table.next_waiting() is None, "there is no room"
        table.finish(99)
    assert order == ["waiting 2", "waiting 3", "waiting 4"]


@pytest.mark.parametrize("where", ["running", "waiting"])
def test_an_id_in_use_is_refused(where: str) -> None:
    """2025-11-25, basic, "Requests": an id must not be used twice; two answers could not be told apart."""
    table = make_table(max_running=1)
    table.run(1, "one", 1)
    table.wait("1", "another", 1)
    id: RequestId = 1 if where == "running" else "1"
    assert table.admit(id) is DUPLICATE
    assert (table.running, table.waiting) == (1, 1)
    if where == "running":
        table.finish(1)
        assert table.next_waiting() == "another"
    else:
        table.cancel_waiting("1")
        table.finish(1)
    assert table.admit(id) is RUN, "once answered, or given up, an id is free"


def test_one_and_the_string_one_are_two_ids() -> None:
    """JSON-RPC 2.0, section 4."""
    table = make_table()
    table.run(1, "one", 1)
    assert table.admit("1") is RUN
    assert table.get_running("1") is None
    table.run("1", "other", 1)
    assert (table.get_running(1), table.get_running("1")) == ("one", "other")
    assert table.all_running() == ("one", "other")


def test_too_much_waiting_asks_to_stop_reading() -> None:
    """Promise 10: `Limits.max_waiting_bytes`, with what each costs beside its own bytes, or tiny ones were free."""
    table = make_table(max_running=1, max_waiting_bytes=2 * WAITING_OVERHEAD)
    fullness: list[bool] = []
    table.run(0, "zero", 1)
    table.wait(1, "one", 0)
    table.wait(2, "two", 0)
    fullness.append(table.is_overfull)
    table.wait(3, "three", 0)
    fullness.append(table.is_overfull)
    table.cancel_waiting(2)
    fullness.append(table.is_overfull)
    table.wait(4, "four", 1)
    fullness.append(table.is_overfull)
    table.finish(0)
    assert table.next_waiting() == "one"
    fullness.append(table.is_overfull)
    table.run(1, "one", 1)
    table.cancel_waiting(3)
    fullness.append(table.is_overfull)
    assert fullness == [False, True, False, True, True, False]


def test_one_that_waits_can_be_taken_back() -> None:
    """2025-11-25, basic/utilities/cancellation: unknown ids, and those that run, are not its business."""
    table = make_table(max_running=1)
    table.run(1, "one", 1)
    table.wait(2, "two", 1)
    assert table.cancel_waiting(1) is None
    assert table.cancel_waiting("2") is None
    assert table.cancel_waiting(2) == "two"
    assert table.cancel_waiting(2) is None
    assert (table.running, table.waiting) == (1, 0)


def test_what_waits_can_be_forgotten_at_once() -> None:
    """When serving ends, each of them still gets an answer, so the ids come along."""
    table = make_table(max_running=1, max_waiting_bytes=1)
    table.run(1, "one", 1)
    table.wait("b", "second", 1)
    table.wait("a", "third", 1)
    assert table.forget_waiting() == (("b", "second"), ("a", "third"))
    assert table.forget_waiting() == ()
    assert (table.running, table.waiting, table.is_overfull) == (1, 0, False)


def test_finishing_what_does_not_run_is_a_bug() -> None:
    """And shows itself: a request that is finished twice was answered twice."""
    table = make_table()
    table.run(1, "one", 1)
    table.finish(1)
    with pytest.raises(KeyError):
        table.finish(1)
