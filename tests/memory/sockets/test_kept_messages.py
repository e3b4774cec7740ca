"""What a connection over a socket keeps of messages: until they are done with, whatever refers to them then."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast, final

import pytest
import trio
import trio.testing
from inside_core import Pool
from inside_endpoint import ConnectionLimits, ServedChannel, StreamSocket
from raw import modern

from trio_mcp import Context, Limits, Server

KIB = 1024
USUAL = Limits()
GREAT = "x" * 300 * KIB

remembered: list[Context] = []
"""What a handler keeps for ever."""


@final
class Watched:
    """What is told whether the connection rests, in place of `ConnectionLimits`."""

    def __init__(self) -> None:
        self.rests = True

    def work(self, _: object) -> None:
        self.rests = False

    def rest(self, _: object) -> None:
        assert not self.rests
        self.rests = True

    def begin(self, _: object) -> None:
        pass


@final
class Served:
    """A connection, and its client's end of it."""

    def __init__(self, most: int, limits: Limits) -> None:
        self.gate = trio.Event()
        self.stream, stream = trio.testing.memory_stream_pair()
        self.sending = stream.send_stream
        self.is_cut = False
        self.pool = Pool("max_kept_bytes", most)
        self.watched = Watched()
        self.server = Server("kept", limits=limits)
        socket = SimpleNamespace(
            stream=stream, transport="tcp", client="1.2.3.4", principal=None, client_key="1.2.3.4", cut=self._cut
        )
        self.channel = ServedChannel(
            cast("StreamSocket", socket),
            cast("ConnectionLimits[StreamSocket]", self.watched),
            self.pool,
            60.0,
            limits.max_message_bytes,
            60.0,
        )
        self._define(self.server)

    def _cut(self) -> None:
        self.is_cut = True

    def _define(self, server: Server[Any]) -> None:
        @server.tool
        async def echo(text: str, ctx: Context) -> str:
            remembered.append(ctx)
            return text

        @server.tool
        async def wait(text: str, ctx: Context) -> str:
            remembered.append(ctx)
            await self.gate.wait()
            return "done"

    async def say(self, *messages: object) -> None:
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        await self.stream.send_all(b"\n".join([*lines, b""]))
        await trio.testing.wait_all_tasks_blocked()

    def is_at_rest(self) -> bool:
        """Whether it rests, and nothing is lent."""
        assert self.watched.rests is not bool(self.pool.lent)
        return self.watched.rests


@asynccontextmanager
async def serving(most: int = 1024 * KIB * KIB, limits: Limits = USUAL) -> AsyncGenerator[Served]:
    served = Served(most, limits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.server.serve_channel, served.channel)  # noqa: ASYNC113 - it is waited for
        await trio.testing.wait_all_tasks_blocked()
        yield served
        nursery.cancel_scope.cancel()
    assert not served.pool.lent
    remembered.clear()


def call(id: int, tool: str, text: str = GREAT) -> dict[str, Any]:
    return modern(id, "tools/call", name=tool, arguments={"text": text})


def give_up(id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize(
    "message",
    [
        call(1, "echo"),
        call(1, "unknown"),
        modern(1, "x/unknown", text=GREAT),
        modern(1, "tools/call", name=3, arguments={"text": GREAT}),
        {"jsonrpc": "2.0", "method": "x/news", "params": {"text": GREAT}},
        {"jsonrpc": "2.0", "id": 1, "result": {"text": GREAT}},
        b'{"text": "' + GREAT.encode(),
        [call(1, "echo"), call(2, "echo")],
    ],
    ids=range(8),
)
async def test_it_rests_when_a_message_is_done_with(message: object) -> None:
    """Though a handler keeps its context, which refers to the message, for ever."""
    async with serving() as served:
        for _ in range(2):
            await served.say(message)
            with trio.move_on_after(0):
                await served.stream.receive_some()
            assert served.is_at_rest()


async def test_it_rests_when_the_last_request_is_done_with() -> None:
    """One is given up, one waits for a place and is given up, and the others are answered."""
    async with serving(limits=Limits(max_inbound_requests=3)) as served:
        await served.say(*(call(id, "wait") for id in range(4)))
        await served.say(call(4, "wait"))
        assert served.pool.lent > 5 * len(GREAT)
        await served.say(give_up(4), give_up(0))
        served.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert served.is_at_rest()


async def test_an_answer_counts_until_it_is_written() -> None:
    """Its client does not read, and then does."""
    async with serving() as served:
        stuck = trio.Event()

        async def send_slowly() -> None:
            stuck.set()
            await served.gate.wait()

        served.sending.send_all_hook = send_slowly
        await served.say(call(1, "echo"))
        assert stuck.is_set()
        assert served.pool.lent > 2 * len(GREAT)
        served.gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert served.is_at_rest()


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_when_it_ends_everything_is_given_back(how: str, autojump_clock: object) -> None:
    """While a request runs, one waits for a place, and an answer to be written."""
    async with serving(limits=Limits(max_inbound_requests=2)) as served:
        served.sending.send_all_hook = trio.sleep_forever
        await served.say(call(1, "echo"), call(2, "wait"), call(3, "wait"), call(4, "wait"))
        assert served.pool.lent > 5 * len(GREAT)
        if how == "close":
            await served.stream.send_stream.aclose()
            await trio.sleep(60)
            assert not served.pool.lent


async def test_what_lasts_keeps_nothing_of_what_came_with_it() -> None:
    """A subscription, or a slow call, kept the answers to all calls that were read in one piece with it."""
    async with serving() as served, trio.open_nursery() as nursery:

        @served.server.tool
        async def large() -> str:
            return GREAT

        async def read() -> None:
            while await served.stream.receive_some():
                pass

        nursery.start_soon(read)
        listen = modern(1, "subscriptions/listen", notifications={"toolsListChanged": True})
        slow, great = call(2, "wait", "x"), modern(3, "tools/call", name="large", arguments={})
        await served.say(listen, great, slow)
        assert (served.pool.lent, served.watched.rests) == (0, False)
        assert served.channel._kept < 8 * KIB
        await served.say(give_up(1), give_up(2))
        assert served.is_at_rest()
        nursery.cancel_scope.cancel()


# At random.

STORM = Limits(
    max_inbound_requests=3,
    max_waiting_bytes=300 * KIB,
    max_notifications=2,
    slow_consumer_timeout=0.5,
    goodbye_timeout=0.5,
    max_message_bytes=4096 * KIB,
)


def anything(chance: random.Random) -> object:
    """Return a message, small or large, of any kind; ids are used again."""
    id, text = chance.randrange(8), chance.choice(["t", "t" * 5 * KIB, GREAT])
    if chance.random() < 0.7:
        return chance.choice([call(id, chance.choice(["echo", "wait", "nap", "unknown"]), text), give_up(id)])
    listen = modern(id, "subscriptions/listen", notifications={"toolsListChanged": True})
    return chance.choice(
        [
            {"jsonrpc": "2.0", "method": "x/news", "params": {"text": text}},
            {"jsonrpc": "2.0", "id": id, "result": {"text": text}},
            {"jsonrpc": "2.0", "id": id, "method": 2, "text": text},
            b'{"text": "' + text.encode(),
            b"{" + b"t" * 5000 * KIB,
            [call(1, "echo", text), call(2, "wait", text)],
            listen,
        ]
    )


async def say_anything(seed: int) -> None:
    """Say a lot, let its client read fast or slowly, and check what is lent in the end."""
    chance, pause = random.Random(seed), 0.0
    async with serving(1024 * KIB * KIB if seed % 2 else 3072 * KIB, STORM) as served:

        async def send_slowly() -> None:
            await trio.sleep(pause)

        @served.server.tool
        async def nap(text: str) -> str:
            await trio.sleep(chance.random())
            if chance.random() < 0.3:
                raise ValueError
            return text

        async def read() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await served.stream.receive_some():
                    pass

        served.sending.send_all_hook = send_slowly
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                for _ in range(30):
                    pause = chance.choice([0, 0, 0.3])
                    await served.say(*(anything(chance) for _ in range(chance.randrange(1, 5))))
                    await trio.sleep(chance.choice([0, 0.1, 1]))
                pause = 0
                served.gate.set()
                await served.say(*map(give_up, range(8)))
                await trio.sleep(60)
                assert served.is_cut or served.is_at_rest(), seed
            nursery.cancel_scope.cancel()


async def test_at_rest_nothing_is_lent_whatever_was_said(autojump_clock: object) -> None:
    """There is room for all of it, or for little."""
    for seed in range(12):
        await say_anything(seed)
