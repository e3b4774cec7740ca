"""The requests of this side: every state, every event, and which of them cost a cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule
from inside_peer import Call, CallState, open_peer
from peers import Handlers
from wires import ScriptedChannel

from trio_mcp import Limits, RequestError

QUEUED, WRITTEN, ANSWERED, GIVEN_UP = CallState

Step = Callable[[Call], object]

give_up: Final[Step] = Call.give_up


def write(call: Call) -> None:
    call.mark_written(7)


def answer(call: Call) -> None:
    call.answer({"a": 1})


# How each state is reached, from the moment the request was made.
PATHS: Final[dict[str, tuple[CallState, tuple[Step, ...]]]] = {
    "queued": (QUEUED, ()),
    "written": (WRITTEN, (write,)),
    "answered": (ANSWERED, (write, answer)),
    "failed before it was written": (ANSWERED, (answer,)),
    "given up": (GIVEN_UP, (write, give_up)),
    "withdrawn": (GIVEN_UP, (give_up,)),
    "answered, then given up": (ANSWERED, (write, answer, give_up)),
    "given up twice": (GIVEN_UP, (write, give_up, give_up)),
}


def reach(name: str, method: str = "tools/call") -> Call:
    call = Call(1, method)
    state, steps = PATHS[name]
    for step in steps:
        step(call)
    assert call.state is state
    return call


@pytest.mark.parametrize("path", ["queued", "written"])
def test_a_request_that_is_waited_for_can_be_answered(path: str) -> None:
    """Also one that was never written: the connection may end before, and fail it."""
    call = reach(path)
    assert call.is_pending
    call.answer({})
    assert (call.state, call.result, call.error, call.is_pending) == (ANSWERED, {}, None, False)
    assert call.is_settled
    assert call.outcome() == {}


def test_an_error_settles_a_request() -> None:
    """An answer that is an error is an answer."""
    call = reach("written")
    before = call.is_settled
    error = RequestError(1, "no")
    call.answer(error)
    assert (call.state, call.result, call.error, call.is_pending) == (ANSWERED, None, error, False)
    assert (before, call.is_settled) == (False, True)
    with pytest.raises(RequestError):
        call.outcome()


def test_what_has_ended_cannot_go_on(subtests: pytest.Subtests) -> None:
    """An event that is not in the table of a state is a bug of ours, and shows itself."""
    rows: list[tuple[str, Step]] = [
        ("write", write),
        ("answer", answer),
    ]
    for path in ("answered", "failed before it was written", "given up", "withdrawn"):
        for name, step in rows:
            with subtests.test(name, path=path):
                call = reach(path)
                before = attrs.asdict(call, recurse=False)
                with pytest.raises(KeyError):
                    step(call)
                assert attrs.asdict(call, recurse=False) == before
                assert not call.is_pending


def test_nothing_is_written_twice() -> None:
    """The same."""
    call = reach("written")
    with pytest.raises(KeyError):
        call.mark_written(8)
    assert (call.state, call.number) == (WRITTEN, 7)


def test_which_given_up_requests_are_cancelled(subtests: pytest.Subtests) -> None:
    """The cancellation contract, promises 1 and 2: one cancellation after it was written, none otherwise."""
    rows: list[tuple[str, str, bool, CallState]] = [
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
        # Promise 1: exactly one cancellation.
        ("given up", "tools/call", False, GIVEN_UP),
        ("given up twice", "tools/call", False, GIVEN_UP),
        ("withdrawn", "tools/call", False, GIVEN_UP),
        ("answered, then given up", "tools/call", False, ANSWERED),
    ]
    for path, method, cancelled, state in rows:
        with subtests.test(path=path, method=method, cancelled=cancelled, state=state):
            call = reach(path, method)
            assert call.give_up() is cancelled
            assert (call.state, call.is_pending) == (state, False)


async def test_only_what_is_written_can_be_answered_by_the_peer(autojump_clock: trio.testing.MockClock) -> None:
    """An answer to anything else is a stray: late, repeated, or to a request that never went out.

    JSON-RPC 2.0, section 4: `1` and `"1"` are two ids; a peer that sends the other one sends a stray.
    """
    channel = ScriptedChannel()
    async with open_peer(channel, Handlers(), Limits()) as peer, trio.open_nursery() as nursery:
        channel.stop_reading()
        nursery.start_soon(peer.notify, "x/stuck")
        await trio.testing.wait_all_tasks_blocked()
        results: list[dict[str, Any]] = []

        async def ask() -> None:
            results.append(await peer.request("x/ask"))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        channel.say({"jsonrpc": "2.0", "id": 1, "result": {"is": "too early"}})
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().calls == 1
        channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        for id in ("1", 2, "", None):
            channel.say({"jsonrpc": "2.0", "id": id, "result": {"is": "for another"}})
        await trio.testing.wait_all_tasks_blocked()
        assert peer.statistics().calls == 1
        channel.say(
            {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "result": {"is": "late"}}
        )
        await trio.testing.wait_all_tasks_blocked()
        assert (results, peer.statistics().calls) == ([{}], 0)


async def test_no_id_is_used_twice(autojump_clock: trio.testing.MockClock) -> None:
    """2025-11-25, basic, "Requests": the id must not have been used before in the same session."""
    channel = ScriptedChannel()
    ids: list[object] = []
    async with open_peer(channel, Handlers(), Limits()) as peer, trio.open_nursery() as nursery:

        async def ask(seconds: float) -> None:
            with trio.move_on_after(seconds):
                await peer.request("x/ask", on_id=ids.append)

        for _ in range(5):
            nursery.start_soon(ask, 10)
            await ask(1)
    assert len(ids) == len(set(ids)) == 10
    assert all(isinstance(id, int) for id in ids)


async def test_an_answer_makes_room_for_another_request(autojump_clock: trio.testing.MockClock) -> None:
    """Promise 10: bounded by `Limits.max_outbound_requests`; what ends makes room, by whichever way."""
    channel = ScriptedChannel()
    ids: list[Any] = []
    async with (
        open_peer(channel, Handlers(), Limits(max_outbound_requests=2)) as peer,
        trio.open_nursery() as nursery,
    ):

        async def ask(seconds: float) -> None:
            with trio.move_on_after(seconds):
                await peer.request("x/ask", on_id=ids.append)

        nursery.start_soon(ask, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, 100)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, 100)
        await trio.testing.wait_all_tasks_blocked()
        assert ids == [1, 2], "the third waits"
        await trio.sleep(1.5)
        assert ids == [1, 2, 3], "the first was given up"
        nursery.start_soon(ask, 100)
        await trio.testing.wait_all_tasks_blocked()
        assert ids == [1, 2, 3], "the fourth waits"
        channel.say({"jsonrpc": "2.0", "id": 2, "result": {}})
        await trio.testing.wait_all_tasks_blocked()
        assert ids == [1, 2, 3, 4]
        nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class Model:
    """What a request of ours is, in the words of the contract."""

    call: Call
    written: bool = False
    ended: bool = False
    answered: bool = False
    cancellations: int = 0


class CallMachine(RuleBasedStateMachine):
    """Any order of events, against the contract."""

    models: Bundle[Model] = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[Model] = []

    @rule(target=models, method=st.sampled_from(["tools/call", "initialize", "ping"]))
    def open(self, method: str) -> Model:
        model = Model(Call(len(self.all), method))
        self.all.append(model)
        return model

    @rule(model=models)
    def write(self, model: Model) -> None:
        if model.written or model.ended:
            with pytest.raises(KeyError):
                model.call.mark_written(1)
        else:
            model.call.mark_written(1)
            model.written = True

    @rule(model=models, outcome=st.sampled_from([{}, {"a": 1}, RequestError(1, "no")]))
    def answer(self, model: Model, outcome: dict[str, Any] | Exception) -> None:
        if model.ended:
            with pytest.raises(KeyError):
                model.call.answer(outcome)
        else:
            model.call.answer(outcome)
            assert outcome in (model.call.result, model.call.error)
            model.ended = model.answered = True

    @rule(model=models)
    def give_up(self, model: Model) -> None:
        cancelled = model.call.give_up()
        assert cancelled == (model.written and not model.ended and model.call.method != "initialize")
        model.cancellations += cancelled
        model.ended = True

    @invariant()
    def the_contract_holds(self) -> None:
        for model in self.all:
            call = model.call
            assert model.cancellations <= 1
            assert not (model.cancellations and model.answered)
            assert call.is_settled == model.answered
            assert call.is_pending == (not model.ended)
            assert (call.state is WRITTEN) == (model.written and not model.ended)


TestCallMachine = CallMachine.TestCase
TestCallMachine.settings = settings(max_examples=settings().max_examples * 3 // 5, stateful_step_count=30)
