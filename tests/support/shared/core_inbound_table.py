"""What the tests of inbound table share in several layers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from inside_core import WAITING_OVERHEAD, Admission, InboundTable

from trio_mcp import Limits, RequestId

RUN, WAIT, DUPLICATE = Admission

Table = InboundTable[str, str]


def make_table(*, max_running: int = 2, max_running_bytes: int = 100, max_waiting_bytes: int = 1000) -> Table:
    return Table(
        Limits(
            max_inbound_requests=max_running,
            max_message_bytes=max_running_bytes // 4,
            max_waiting_bytes=max_waiting_bytes,
        )
    )


IDS = st.sampled_from([1, 2, 3, 4, 5, "1", "2"])

SIZES = st.integers(0, 60)

ORIGINS: list[list[int] | None] = [None, [], []]
"""Where requests come from. Two that are equal are two, and nobody asks for their hash."""


class InboundMachine(RuleBasedStateMachine):
    """Any order of events, against two plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.table: InboundTable[object, object] = InboundTable(
            Limits(max_inbound_requests=3, max_message_bytes=25, max_waiting_bytes=3 * WAITING_OVERHEAD)
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
