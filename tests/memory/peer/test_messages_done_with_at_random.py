"""Whatever is said in whatever order: in the end each message is done with once, and never twice."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, final

import pytest
import trio
import trio.testing
from inside_peer import Exchange, LongLived, open_peer
from peers import Handlers, cancelled, note, request
from wires import ScriptedChannel

from trio_mcp import ConnectionLost, Limits, Notification, Outgoing, RequestError, TooLarge

SEEDS: Final = 40
"""Per test; there are five."""

STEPS: Final = 25

TIGHT: Final = Limits(
    max_inbound_requests=2,
    max_waiting_bytes=1500,
    max_subscriptions=2,
    max_notifications=2,
    max_outbox_bytes=2000,
    slow_consumer_timeout=0.5,
    goodbye_timeout=0.5,
    drain_timeout=5,
)


@final
class Counting:
    """An origin that counts.

    Attributes:
        open: How much there is that goes on with its messages.
    """

    principal = None

    def __init__(self, messages: int, random: random.Random) -> None:
        self.open = messages
        self._random = random

    def hold(self) -> None:
        assert self.open > 0, "it is done with already"
        self.open += 1

    def done(self) -> None:
        assert self.open > 0, "it is done with already"
        self.open -= 1

    def keep_answer(self, size: int) -> None:
        assert self.open > 0, "it is done with already"
        if self._random.random() < 0.2:
            raise RequestError(-32000, "no room")


@final
class PiecemealChannel(ScriptedChannel):
    """A channel that takes messages at once, or a part of them, or none, as it comes."""

    def __init__(self, random: random.Random) -> None:
        super().__init__()
        self._random = random
        self._rest: list[Outgoing] = []

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        if self._rest or not self.reading.is_set():
            raise trio.WouldBlock
        how = self._random.randrange(3)
        if how == 0:
            raise trio.WouldBlock
        self._rest = list(messages[-1:]) if how == 1 else []
        return not self._rest

    async def send(self, messages: Sequence[Outgoing]) -> None:
        rest, self._rest = self._rest, []
        await super().send([*rest, *messages])


@final
class Program:
    """A peer whose other end says what comes to its mind.

    Attributes:
        origins: Those of all that was said.
    """

    def __init__(self, seed: int, *, at_once: bool) -> None:
        self.random = random.Random(seed)
        self.channel = PiecemealChannel(self.random) if at_once else ScriptedChannel()
        self.gate = trio.Event()
        self.origins: list[Counting] = []
        self.is_over = False

    def handlers(self) -> Handlers:
        async def wait(exchange: Exchange) -> dict[str, Any]:
            gate = self.gate
            await gate.wait()
            return {"text": "x" * 6000} if self.random.random() < 0.3 else {}

        async def stubborn(exchange: Exchange) -> dict[str, Any]:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.2)
            raise ValueError

        async def tell(exchange: Exchange) -> dict[str, Any]:
            await exchange.notify("x/news", {"text": "y" * 500})
            await trio.sleep(0.1)
            await exchange.notify("x/news", {"text": "y" * 500})
            return {}

        async def ask(exchange: Exchange) -> Mapping[str, Any]:
            with trio.move_on_after(0.3):
                return await exchange.ask("x/question")
            return {}

        async def large(exchange: Exchange) -> dict[str, Any]:
            return {"text": "x" * 5000}

        async def listen(exchange: Exchange) -> dict[str, Any]:
            await self.gate.wait()
            return {}

        async def notified(notification: Notification) -> None:
            if notification.method == "x/slow":
                await self.gate.wait()
            elif notification.method == "x/fails":
                raise ValueError

        waiting = {"wait": wait, "stubborn": stubborn, "tell": tell, "ask": ask, "large": large}
        handlers: dict[str, Any] = {**waiting, "answer": {}, "listen": LongLived(listen, lambda: None)}
        return Handlers(handlers, notified)

    def message(self) -> object:
        """Return one message."""
        id = self.random.randrange(6)
        methods = ["wait", "wait", "stubborn", "tell", "ask", "large", "answer", "listen", "unknown"]
        timeout = self.random.choice([None, None, None, 0, 100])
        kind = self.random.randrange(10)
        if kind < 4:
            return request(id, self.random.choice(methods), timeout, text="z" * self.random.choice([1, 600]))
        if kind < 6:
            return cancelled(id)
        return self.random.choice(
            [
                note("x/slow"),
                note("x/slow"),
                note("x/fails"),
                note("x/heard"),
                note("notifications/progress", progressToken=1, progress=1),
                {"jsonrpc": "2.0", "id": id, "result": {}},
                {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "what?"}},
                {"jsonrpc": "2.0", "id": id, "method": 3},
                {"jsonrpc": "2.0", "id": {}},
                7,
            ]
        )

    def say(self) -> None:
        """Say a few messages in one piece, or batches of them, or what nobody can read."""
        said = list[object]()
        for _ in range(self.random.randrange(1, 5)):
            kind = self.random.randrange(8)
            if kind < 5:
                said.append(self.message())
            elif kind < 7:
                said.append([self.message() for _ in range(self.random.choice([0, 1, 3, 12]))])
            else:
                head = b'{"jsonrpc":"2.0","id":%d,"method":"x' % self.random.randrange(6)
                said.append(self.random.choice([b"{no", TooLarge(10_000_000, head, b'"}')]))
        origin = Counting(len(said), self.random)
        self.origins.append(origin)
        self.channel.say_as(origin, *said)

    async def step(self) -> None:
        """Say something, or let something happen."""
        kind = self.random.randrange(12)
        if kind < 6:
            self.say()
        elif kind == 6:
            if self.channel.reading.is_set():
                self.channel.stop_reading()
        elif kind == 7:
            self.channel.reading.set()
        elif kind == 8:
            self.gate.set()
            self.gate = trio.Event()
        elif kind == 9 and self.origins:
            self.channel.lose(self.random.choice(self.origins))
        elif kind == 10:
            await trio.sleep(self.random.choice([0.05, 0.3, 1]))
        else:
            await trio.testing.wait_all_tasks_blocked()

    async def run(self) -> None:
        """Do a number of steps."""
        for _ in range(STEPS):
            await self.step()

    async def come_to_rest(self) -> None:
        """Let everything end."""
        for _ in range(20):
            self.channel.reading.set()
            self.gate.set()
            await trio.sleep(1)


@asynccontextmanager
async def programs(seed: int, *, at_once: bool) -> AsyncGenerator[tuple[Program, Any]]:
    program = Program(seed, at_once=at_once)
    async with open_peer(program.channel, program.handlers(), TIGHT) as peer:
        yield program, peer
    assert all(origin.open >= 0 for origin in program.origins)


@pytest.mark.parametrize("at_once", [False, True])
async def test_at_rest_everything_is_done_with(autojump_clock: object, *, at_once: bool) -> None:
    """The other end reads or does not, gives up what it has asked, and uses ids twice."""
    for seed in range(2 * SEEDS):
        async with programs(seed, at_once=at_once) as (program, _):
            await program.run()
            await program.come_to_rest()
            assert [origin.open for origin in program.origins] == [0] * len(program.origins), seed


async def test_after_a_drain_everything_is_done_with(autojump_clock: object) -> None:
    """What runs is stopped, and what waits is refused."""
    for seed in range(SEEDS):
        async with programs(seed, at_once=seed % 2 == 0) as (program, peer):
            await program.run()
            program.channel.reading.set()
            await peer.drain()
            await program.come_to_rest()
            assert [origin.open for origin in program.origins] == [0] * len(program.origins), seed


@pytest.mark.parametrize("how", ["hang up", "break", "leave"])
async def test_in_the_end_nothing_is_done_with_twice(autojump_clock: object, how: str) -> None:
    """What is left then is given back by who has made the origins."""
    for seed in range(SEEDS // 2):
        async with programs(seed, at_once=seed % 2 == 0) as (program, peer):
            await program.run()
            if how == "leave":
                peer.abort()
            else:
                program.channel.hang_up(ConnectionLost("it broke") if how == "break" else None)
            await program.come_to_rest()
