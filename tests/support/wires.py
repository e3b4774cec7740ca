"""Wires that misbehave, and peers that follow a script."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import trio
from tape import messages_in

from trio_mcp import (
    Channel,
    ConnectionLost,
    Incoming,
    MemoryChannel,
    Origin,
    OriginGone,
    Outgoing,
    Received,
    TooLarge,
)


class ScriptedChannel(Channel):
    """A channel whose other end is the test: it reads what was sent, and says what it likes.

    Attributes:
        sent: What was sent, decoded.
        reply: Says what the other end answers to a message, if anything.
        reading: Set while the other end reads; while it does not, sending blocks.
    """

    def __init__(self, reply: Callable[[dict[str, Any]], object] | None = None) -> None:
        self.sent: list[Any] = []
        self.reply = reply
        self._to_us: deque[Received | Exception] = deque()
        self._something = trio.lowlevel.ParkingLot()
        self.reading = trio.Event()
        self.reading.set()
        self.closed = False

    @property
    def description(self) -> str:
        return "the scripted peer"

    def stop_reading(self) -> None:
        """From now on what is sent stays stuck."""
        self.reading = trio.Event()

    def say(self, *messages: object) -> None:
        """Let the other end say something: messages as plain JSON, bytes as they are, or what was too large."""
        for message in messages:
            if isinstance(message, TooLarge):
                self._to_us.append(message)
                continue
            data = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
            self._to_us.append(Incoming(data))
        self._something.unpark_all()

    def say_as(self, origin: Origin, *messages: object) -> None:
        """Let somebody in particular at the other end say something; see `say`."""
        self._to_us.extend(
            attrs.evolve(message, origin=origin)
            if isinstance(message, TooLarge)
            else Incoming(message if isinstance(message, bytes) else json.dumps(message).encode(), origin)
            for message in messages
        )
        self._something.unpark_all()

    def lose(self, origin: Origin) -> None:
        """Let somebody in particular at the other end go."""
        self._to_us.append(OriginGone(origin))
        self._something.unpark_all()

    def hang_up(self, error: Exception | None = None) -> None:
        """Let the other end go: in an orderly way, or with an error."""
        self._to_us.append(error or trio.EndOfChannel())
        self._something.unpark_all()

    async def receive(self) -> Sequence[Received]:
        while not self._to_us:
            await self._something.park()
        await trio.lowlevel.checkpoint()
        received: list[Received] = []
        while self._to_us:
            item = self._to_us[0]
            if isinstance(item, Exception):
                if received:
                    break
                raise item
            received.append(item)
            self._to_us.popleft()
        return received

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self.reading.wait()
        await trio.lowlevel.checkpoint()
        for message in messages:
            for one in messages_in(message.data):
                self.sent.append(one)
                answer = None if self.reply is None else self.reply(one)
                if answer is not None:
                    self.say(answer)

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


def modern_server(
    handle: Callable[[dict[str, Any]], object] | None = None,
) -> Callable[[dict[str, Any]], object]:
    """Return a script for a modern server: it answers discovery, and `handle` decides about everything else."""

    def reply(message: dict[str, Any]) -> object:
        if message.get("method") == "server/discover":
            result: dict[str, Any] = {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {},
            }
            return answer(message, {**result, "ttlMs": 0, "cacheScope": "private"})
        return None if handle is None else handle(message)

    return reply


def answer(request: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the message that answers a request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def refusal(request: dict[str, Any], code: int, message: str, **data: object) -> dict[str, Any]:
    """Return the message that answers a request with an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request["id"], "error": error}


class BlockableChannel(Channel):
    """A channel in memory whose reading can be stopped: the other end's writes then block."""

    def __init__(self, inner: MemoryChannel) -> None:
        self._inner = inner
        self.reading = trio.Event()
        self.reading.set()

    async def receive(self) -> Sequence[Received]:
        received = await self._inner.receive()
        await self.reading.wait()
        return received

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await self._inner.send(messages)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def wait_lost(call: Callable[[], Awaitable[object]]) -> ConnectionLost:
    """Return the `ConnectionLost` that a call ends with."""
    try:
        await call()
    except ConnectionLost as lost:
        return lost
    raise AssertionError("the call went through")
