"""The requests of the other side: which run, which wait, which are refused, and what they may weigh."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from inside_core import WAITING_OVERHEAD, Admission, InboundTable
from inside_wire import most_weight

from trio_mcp import Limits, RequestId

RUN, WAIT, DUPLICATE = Admission

Table = InboundTable[str, str]


def make_table(*, max_running: int = 2, max_running_bytes: int = 100, max_waiting_bytes: int = 1000) -> Table:
    return Table(
        Limits(
            max_inbound_requests=max_running,
            max_inbound_bytes=max_running_bytes,
            max_waiting_bytes=max_waiting_bytes,
        )
    )


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
    """Promise 10: `Limits.max_inbound_bytes`; a single request may be larger, or it would never be served."""
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
        max_inbound_requests=1,
        max_inbound_bytes=10,
        max_waiting_bytes=10,
        max_subscriptions=3,
        max_subscription_bytes=100,
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
    assert (table.all_running(), table.all_long_lived()) == (("two", "one"), ("one",))
    table.finish(1)
    assert table.admit(3) is WAIT, "what has stood makes no room"
    table.finish(2)
    assert table.admit(1) is RUN


def test_as_many_are_long_lived_as_may_be() -> None:
    """Promise 10: `Limits.max_subscriptions` counts places, `Limits.max_subscription_bytes` weighs."""
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


IDS = st.sampled_from([1, 2, 3, 4, 5, "1", "2"])
SIZES = st.integers(0, 60)


ORIGINS: list[list[int] | None] = [None, [], []]
"""Where requests come from. Two that are equal are two, and nobody asks for their hash."""


class InboundMachine(RuleBasedStateMachine):
    """Any order of events, against two plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.table: InboundTable[object, object] = InboundTable(
            Limits(max_inbound_requests=3, max_inbound_bytes=100, max_waiting_bytes=3 * WAITING_OVERHEAD)
        )
        self.origins: dict[RequestId, list[int]] = {}
        self.running: list[tuple[RequestId, object, int]] = []
        self.waiting: list[tuple[RequestId, object, int]] = []

    def has_room(self) -> bool:
        return len(self.running) < 3 and sum(size for _, _, size in self.running) < 100

    @rule(id=IDS, size=SIZES, origin=st.sampled_from(ORIGINS))
    def receive(self, id: RequestId, size: int, origin: list[int] | None) -> None:
        admission = self.table.admit(id)
        request = object()
        if id in [known for known, _, _ in self.running + self.waiting]:
            assert admission is DUPLICATE
        elif self.has_room() and not self.waiting:
            assert admission is RUN
            self.table.run(id, request, size, origin)
            self.running.append((id, request, size))
            self.came_from(id, origin)
        else:
            assert admission is WAIT
            self.table.wait(id, request, size, origin)
            self.waiting.append((id, request, size))
            self.came_from(id, origin)

    def came_from(self, id: RequestId, origin: list[int] | None) -> None:
        self.origins.pop(id, None)
        if origin is not None:
            self.origins[id] = origin

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.running))
        self.table.finish(entry[0])
        self.running.remove(entry)

    @rule(size=SIZES)
    def start_waiting(self, size: int) -> None:
        request = self.table.next_waiting()
        if not self.waiting or not self.has_room():
            assert request is None
            return
        id, expected, _ = self.waiting.pop(0)
        assert request is expected
        self.table.run(id, request, size, self.origins.get(id))
        self.running.append((id, request, size))

    @rule(id=IDS)
    def cancel(self, id: RequestId) -> None:
        entry = next((entry for entry in self.waiting if entry[0] == id), None)
        assert self.table.cancel_waiting(id) is (None if entry is None else entry[1])
        if entry is not None:
            self.waiting.remove(entry)

    @rule()
    def forget(self) -> None:
        assert self.table.forget_waiting() == tuple((id, request) for id, request, _ in self.waiting)
        self.waiting.clear()

    @invariant()
    def the_table_knows_what_the_lists_know(self) -> None:
        assert (self.table.running, self.table.waiting) == (len(self.running), len(self.waiting))
        assert self.table.all_running() == tuple(request for _, request, _ in self.running)
        entered = [id for id, _, _ in self.running + self.waiting]
        for origin in ORIGINS[1:]:
            ids = [id for id in entered if self.origins.get(id) is origin]
            assert sorted(map(repr, self.table.all_from(origin))) == sorted(map(repr, ids))
        running = {id: request for id, request, _ in self.running}
        for id in (1, 2, 3, 4, 5, "1", "2", 6):
            assert self.table.get_running(id) is running.get(id)
        weight = sum(size + WAITING_OVERHEAD for _, _, size in self.waiting)
        assert self.table.is_overfull == (weight > 3 * WAITING_OVERHEAD)


TestInboundMachine = InboundMachine.TestCase
TestInboundMachine.settings = settings(max_examples=settings().max_examples * 3 // 5, stateful_step_count=40)
