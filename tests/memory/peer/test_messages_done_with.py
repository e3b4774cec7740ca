"""An origin is told once that a message is done with: when its answer is written, or there will be none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast, final

import pytest
import trio
import trio.testing
from inside_peer import Exchange, Peer, open_peer
from peers import Handlers, cancelled, note, request
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits, Notification, RequestError, TooLarge

USUAL: Final = Limits()

kept: list[object] = []
"""What handlers keep for ever."""


@final
class Counting:
    """An origin that counts.

    Attributes:
        open: How much there is that goes on with its messages.
    """

    principal = None

    def __init__(self, messages: int) -> None:
        self.open = messages

    def hold(self) -> None:
        assert self.open, "it is done with already"
        self.open += 1

    def done(self) -> None:
        assert self.open, "it is done with already"
        self.open -= 1


@final
class Talk:
    """A connection to one end whose handlers wait at a gate."""

    def __init__(self) -> None:
        self.channel = ScriptedChannel()
        self.gate = trio.Event()
        self.peer: Peer

    async def say(self, *messages: object) -> Counting:
        """Say something, and return its origin when all have done what they can."""
        origin = Counting(len(messages))
        self.channel.say_as(origin, *messages)
        await trio.testing.wait_all_tasks_blocked()
        return origin

    async def open_gate(self) -> None:
        self.gate.set()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def open_talk(limits: Limits = USUAL) -> AsyncGenerator[Talk]:
    talk = Talk()

    async def at_once(exchange: Exchange) -> dict[str, Any]:
        kept.append(exchange)
        await trio.lowlevel.checkpoint()
        return {}

    async def wait(exchange: Exchange) -> dict[str, Any]:
        kept.append(exchange)
        await talk.gate.wait()
        return {}

    async def refuse(exchange: Exchange) -> Mapping[str, Any]:
        raise RequestError(-32602, "invalid params")

    async def fail(exchange: Exchange) -> Mapping[str, Any]:
        raise ValueError

    async def tell(exchange: Exchange) -> dict[str, Any]:
        await exchange.notify("x/news")
        return {}

    async def notified(notification: Notification) -> None:
        if notification.method == "x/slow":
            await talk.gate.wait()
        elif notification.method == "x/fails":
            raise ValueError

    handlers: dict[str, Any] = {
        "at once": at_once,
        "wait": wait,
        "refuse": refuse,
        "fail": fail,
        "tell": tell,
        "answer": {},
    }
    async with open_peer(talk.channel, Handlers(handlers, notified), limits) as talk.peer:
        await trio.testing.wait_all_tasks_blocked()
        yield talk


GREAT: Final = TooLarge(10_000_000, b'{"jsonrpc":"2.0","id":1,"method":"x', b'"}')
GREAT_ANSWER: Final = TooLarge(10_000_000, b'{"jsonrpc":"2.0","id":1,"result":{"', b'"}}')
ANSWER: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": 5, "result": {}}
COSTLY: Final = b'{"jsonrpc":"2.0","id":1,"method":"answer","params":{"a":[' + b"[]," * 3_000_000 + b"[]]}}"


@pytest.mark.parametrize(
    "message",
    cast(
        "list[object]",
        [
            request(1, "at once"),
            request(1, "answer"),
            request(1, "tell"),
            request(1, "refuse"),
            request(1, "fail"),
            request(1, "unknown"),
            {"jsonrpc": "2.0", "id": 1, "method": 3},
            {"jsonrpc": "2.0", "id": {}, "method": "at once"},
            {"jsonrpc": "2.0"},
            7,
            note("x/heard"),
            note("x/fails"),
            note("notifications/progress", progressToken=1, progress=1),
            note("notifications/progress", progressToken=1, progress="much"),
            cancelled(77),
            note("notifications/cancelled"),
            ANSWER,
            {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "what?"}},
            {"jsonrpc": "2.0", "id": 5, "result": 3},
            b"{not JSON",
            b'{"result": not JSON, "id": 5}',
            GREAT,
            GREAT_ANSWER,
            COSTLY,
            [],
            [note("x/heard")] * 2_000,
            [ANSWER] * 2_000,
            [request(1, "at once"), request(2, "answer"), request(3, "refuse"), request(3, "fail"), 7],
            [note("x/heard"), note("x/fails"), note("notifications/progress"), cancelled(5)],
            [ANSWER, ANSWER],
            [7],
            [{"jsonrpc": "2.0", "id": 5, "result": 3}, {"jsonrpc": "2.0", "method": 3}],
        ],
    ),
    ids=lambda message: str(message)[:50],
)
async def test_what_was_taken_is_done_with(message: object) -> None:
    """Whatever it was, and whatever refers to it still."""
    async with open_talk() as talk:
        origin = await talk.say(message)
        assert origin.open == 0
        again = await talk.say(message, message)
        assert again.open == 0


@pytest.mark.parametrize("is_batch", [False, True])
async def test_a_request_is_done_with_when_its_answer_is_written(*, is_batch: bool) -> None:
    """Not before; and of a batch, when the array of all answers is."""
    async with open_talk() as talk:
        messages = [request(1, "wait"), request(2, "at once"), request(3, "wait")]
        origin = await talk.say(*([messages] if is_batch else messages))
        assert origin.open == (1 if is_batch else 2)
        talk.channel.stop_reading()
        await talk.open_gate()
        assert origin.open == (1 if is_batch else 2)
        talk.channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert origin.open == 0


async def test_a_cancelled_request_is_done_with_when_its_handler_has_ended() -> None:
    """It gets no answer."""
    async with open_talk() as talk:
        origin = await talk.say(request(1, "wait"), request(2, "wait"))
        other = await talk.say(cancelled(1))
        assert (origin.open, other.open) == (1, 0)
        await talk.say(cancelled(2))
        assert (origin.open, talk.channel.sent) == (0, [])


async def test_a_request_whose_time_is_over_is_done_with(autojump_clock: object) -> None:
    """Its caller does not give it up, and is answered in the end; be it over before it begins."""
    async with open_talk() as talk:
        origin = await talk.say(request(1, "wait", timeout_ms=0), request(2, "wait", timeout_ms=10))
        await trio.sleep(60)
        assert (origin.open, len(talk.channel.sent)) == (0, 2)


async def test_a_request_that_is_cancelled_while_it_waits_is_done_with() -> None:
    """Unstarted, it has nothing that could end."""
    async with open_talk(Limits(max_inbound_requests=1)) as talk:
        first = await talk.say(request(1, "wait"))
        origin = await talk.say(request(2, "wait"), [request(3, "wait")])
        assert (origin.open, talk.peer.statistics().waiting) == (2, 2)
        await talk.say(cancelled(2), cancelled(3))
        assert (first.open, origin.open) == (1, 0)
        await talk.open_gate()
        assert first.open == 0


async def test_a_request_whose_answer_is_withdrawn_is_done_with() -> None:
    """Its caller gives it up while the answer waits to be written: alone, or as one or the last of a batch."""
    async with open_talk() as talk:
        talk.channel.stop_reading()
        stuck = await talk.say(request(1, "answer"))
        origin = await talk.say(request(2, "at once"), [request(3, "answer"), request(4, "answer")])
        assert (stuck.open, origin.open) == (1, 2)
        await talk.say(cancelled(2), cancelled(3))
        assert (stuck.open, origin.open) == (1, 1)
        await talk.say(cancelled(4))
        assert (stuck.open, origin.open) == (1, 0)
        talk.channel.reading.set()
        await trio.testing.wait_all_tasks_blocked()
        assert (stuck.open, origin.open) == (0, 0)


async def test_a_batch_of_which_all_were_given_up_is_done_with() -> None:
    async with open_talk() as talk:
        origin = await talk.say([request(1, "wait"), request(2, "answer")])
        await talk.say(cancelled(2))
        assert origin.open == 1
        await talk.say(cancelled(1))
        assert (origin.open, talk.channel.sent) == (0, [])


async def test_requests_that_are_too_many_are_done_with_when_that_is_written(autojump_clock: object) -> None:
    """Some wait, and others are refused."""
    limits = Limits(max_inbound_requests=1, max_waiting_bytes=1, slow_consumer_timeout=0.5)
    async with open_talk(limits) as talk:
        origin = await talk.say(*(request(id, "wait") for id in range(4)))
        await trio.sleep(1)
        assert origin.open == 2
        await talk.open_gate()
        assert origin.open == 0


async def test_notifications_are_done_with_when_they_were_handled_or_dropped(autojump_clock: object) -> None:
    """One is being handled, as many as may wait do, and the oldest of those is dropped for one more."""
    limits = Limits(max_notifications=2, slow_consumer_timeout=0.5)
    async with open_talk(limits) as talk:
        slow = await talk.say(note("x/slow"))
        origin = await talk.say(note("x/slow"), [note("x/heard")], note("x/fails"), note("x/heard"))
        await trio.sleep(1)
        assert talk.peer.statistics().dropped_notifications == 2
        assert (slow.open, origin.open) == (1, 2)
        await talk.open_gate()
        assert (slow.open, origin.open) == (0, 0)


async def test_a_batch_is_answered_before_its_notifications_are_handled() -> None:
    """They last by themselves."""
    async with open_talk() as talk:
        origin = await talk.say([note("x/slow"), request(1, "answer"), note("x/slow")])
        assert ([each["id"] for each in talk.channel.sent], origin.open) == ([1], 2)
        await talk.open_gate()
        assert origin.open == 0


@pytest.mark.parametrize("how", ["hang up", "break", "leave"])
async def test_after_the_end_nothing_is_told_twice(how: str) -> None:
    """While requests run, wait, and have answers that wait; whoever made the origin gives back what is left."""
    async with open_talk(Limits(max_inbound_requests=1)) as talk:
        talk.channel.stop_reading()
        written = await talk.say(request(1, "answer"))
        queued = await talk.say(request(2, "answer"), b"{", [request(3, "answer")], note("x/slow"))
        running = await talk.say(request(4, "wait"))
        waiting = await talk.say(request(5, "wait"), [request(6, "answer"), request(7, "wait")])
        if how != "leave":
            talk.channel.hang_up(ConnectionLost("it broke") if how == "break" else None)
            await trio.testing.wait_all_tasks_blocked()
        talk.gate.set()
        talk.peer.abort()
    for origin in (written, queued, running, waiting):
        assert origin.open >= 0
    kept.clear()
