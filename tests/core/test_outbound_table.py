"""The requests this side makes: every state, every event, and who is told that one is given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from inside_core import OutboundRequest, OutboundState, OutboundTable

from trio_mcp import RequestError

QUEUED, WRITTEN, ANSWERED, GIVEN_UP = OutboundState

Step = Callable[[OutboundTable, OutboundRequest], object]

write: Final[Step] = OutboundTable.mark_written
give_up: Final[Step] = OutboundTable.give_up


def answer(table: OutboundTable, request: OutboundRequest) -> None:
    table.answer(request, {"a": 1})


# How each state is reached, from the moment the request was entered.
PATHS: Final[dict[str, tuple[OutboundState, tuple[Step, ...]]]] = {
    "queued": (QUEUED, ()),
    "written": (WRITTEN, (write,)),
    "answered": (ANSWERED, (write, answer)),
    "failed before it was written": (ANSWERED, (answer,)),
    "given up": (GIVEN_UP, (write, give_up)),
    "withdrawn": (GIVEN_UP, (give_up,)),
    "answered, then given up": (ANSWERED, (write, answer, give_up)),
    "given up twice": (GIVEN_UP, (write, give_up, give_up)),
}


def reach(name: str, method: str = "tools/call") -> tuple[OutboundTable, OutboundRequest]:
    table = OutboundTable(10)
    request = table.open(method)
    state, steps = PATHS[name]
    for step in steps:
        step(table, request)
    assert request.state is state
    return table, request


@pytest.mark.parametrize("path", ["queued", "written"])
def test_a_request_that_is_waited_for_can_be_answered(path: str) -> None:
    """Also one that was never written: the connection may end before, and fail it."""
    table, request = reach(path)
    table.answer(request, {})
    assert (request.state, request.result, request.error, len(table)) == (ANSWERED, {}, None, 0)
    assert request.is_settled


def test_an_error_settles_a_request() -> None:
    """An answer that is an error is an answer."""
    table, request = reach("written")
    assert not request.is_settled
    error = RequestError(1, "no")
    table.answer(request, error)
    assert (request.state, request.result, request.error, len(table)) == (ANSWERED, None, error, 0)
    assert request.is_settled


@pytest.mark.parametrize("path", ["answered", "failed before it was written", "given up", "withdrawn"])
@pytest.mark.parametrize("step", [write, answer], ids=["write", "answer"])
def test_what_has_ended_cannot_go_on(path: str, step: Step) -> None:
    """A pair of state and event that is not in the table is a bug of ours, and shows itself."""
    table, request = reach(path)
    before = attrs.asdict(request)
    with pytest.raises(KeyError):
        step(table, request)
    assert attrs.asdict(request) == before
    assert len(table) == 0


def test_nothing_is_written_twice() -> None:
    """The same."""
    table, request = reach("written")
    with pytest.raises(KeyError):
        table.mark_written(request)
    assert (request.state, len(table)) == (WRITTEN, 1)


@pytest.mark.parametrize(
    ("path", "method", "told", "state"),
    [
        ("written", "tools/call", True, GIVEN_UP),
        ("written", "ping", True, GIVEN_UP),
        ("written", "server/discover", True, GIVEN_UP),
        # 2025-11-25, basic/utilities/cancellation: `initialize` must not be cancelled.
        ("written", "initialize", False, GIVEN_UP),
        # Promise 2: nothing for nothing.
        ("queued", "tools/call", False, GIVEN_UP),
        ("queued", "initialize", False, GIVEN_UP),
        ("answered", "tools/call", False, ANSWERED),
        ("failed before it was written", "tools/call", False, ANSWERED),
        # Promise 1: exactly one goodbye.
        ("given up", "tools/call", False, GIVEN_UP),
        ("given up twice", "tools/call", False, GIVEN_UP),
        ("withdrawn", "tools/call", False, GIVEN_UP),
        ("answered, then given up", "tools/call", False, ANSWERED),
    ],
)  # fmt: skip
def test_who_is_told_that_a_request_is_given_up(path: str, method: str, told: bool, state: OutboundState) -> None:
    """The cancellation contract, promises 1 and 2: one word after it was written, none otherwise."""
    table, request = reach(path, method)
    assert table.give_up(request) is told
    assert (request.state, len(table)) == (state, 0)


@pytest.mark.parametrize("path", PATHS)
def test_only_what_is_written_can_be_answered_by_the_peer(path: str) -> None:
    """An answer to anything else is a stray: late, repeated, or to a request that never went out."""
    table, request = reach(path)
    assert (table.get(request.id) is request) == (path == "written")


def test_ids_are_integers_and_nothing_else() -> None:
    """JSON-RPC 2.0, section 4: `1` and `"1"` are two ids; a peer that sends the other one is a stray."""
    table, request = reach("written")
    assert request.id == 1
    assert table.get("1") is None
    assert table.get(None) is None
    assert table.get(2) is None
    assert table.get("") is None


def test_no_id_is_used_twice() -> None:
    """2025-11-25, basic, "Requests": the id must not have been used before in the same session."""
    table = OutboundTable(10)
    ids: list[object] = []
    for _ in range(5):
        kept, dropped = table.open("a"), table.open("b")
        table.give_up(dropped)
        ids += [kept.id, dropped.id]
    assert len(set(ids)) == len(ids)


def test_the_table_says_when_it_is_full() -> None:
    """Promise 10: bounded by `Limits.max_outbound_requests`; whoever ends makes room."""
    table = OutboundTable(2)
    fullness: list[bool] = []
    first = table.open("a")
    fullness.append(table.is_full)
    second = table.open("b")
    fullness.append(table.is_full)
    table.give_up(first)
    fullness.append(table.is_full)
    table.open("c")
    table.mark_written(second)
    fullness.append(table.is_full)
    table.answer(second, {})
    fullness.append(table.is_full)
    assert fullness == [False, True, False, True, False]


@attrs.define(eq=False)
class Model:
    """What a request of ours is, told in the words of the contract."""

    request: OutboundRequest
    written: bool = False
    ended: bool = False
    answered: bool = False
    goodbyes: int = 0


class OutboundMachine(RuleBasedStateMachine):
    """Any order of events, against the contract."""

    models: Bundle[Model] = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.table = OutboundTable(3)
        self.all: list[Model] = []

    @rule(target=models, method=st.sampled_from(["tools/call", "initialize", "ping"]))
    def open(self, method: str) -> Model:
        model = Model(self.table.open(method))
        self.all.append(model)
        return model

    @rule(model=models)
    def write(self, model: Model) -> None:
        if model.written or model.ended:
            with pytest.raises(KeyError):
                self.table.mark_written(model.request)
        else:
            self.table.mark_written(model.request)
            model.written = True

    @rule(model=models, outcome=st.sampled_from([{}, {"a": 1}, RequestError(1, "no")]))
    def answer(self, model: Model, outcome: dict[str, Any] | Exception) -> None:
        if model.ended:
            with pytest.raises(KeyError):
                self.table.answer(model.request, outcome)
        else:
            self.table.answer(model.request, outcome)
            assert outcome in (model.request.result, model.request.error)
            model.ended = model.answered = True

    @rule(model=models)
    def give_up(self, model: Model) -> None:
        told = self.table.give_up(model.request)
        assert told == (model.written and not model.ended and model.request.method != "initialize")
        model.goodbyes += told
        model.ended = True

    @invariant()
    def the_contract_holds(self) -> None:
        pending = [model for model in self.all if not model.ended]
        assert len(self.table) == len(pending)
        assert self.table.is_full == (len(pending) >= 3)
        for model in self.all:
            request = model.request
            assert model.goodbyes <= 1
            assert not (model.goodbyes and model.answered)
            assert request.is_settled == model.answered
            assert (self.table.get(request.id) is request) == (model.written and not model.ended)


TestOutboundMachine = OutboundMachine.TestCase
TestOutboundMachine.settings = settings(max_examples=60, stateful_step_count=30)
