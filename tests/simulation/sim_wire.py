"""A wire in memory that does what wires do when they are at their worst, as a seed decides."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import trio

from trio_mcp import Channel, ConnectionLost, Incoming, Outgoing, Received

CAPACITY: Final = 8
"""Messages a direction holds before its sender blocks."""


class _Direction:
    """One way: messages in order, each with a latency, through a pipe that is short and may stop for a while."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.queue: deque[tuple[float, bytes]] = deque()
        self.changed = trio.lowlevel.ParkingLot()
        self.stalled_until = 0.0
        self.ended = False
        self.cut: str | None = None
        self.takes_at_once = rng.random() < 0.7

    def touch(self) -> None:
        self.changed.unpark_all()

    async def put(self, data: bytes) -> None:
        while len(self.queue) >= CAPACITY or trio.current_time() < self.stalled_until:
            self.check()
            with trio.move_on_at(
                self.stalled_until if trio.current_time() < self.stalled_until else float("inf")
            ):
                await self.changed.park()
        self.check()
        last = self.queue[-1][0] if self.queue else 0.0
        self.queue.append((max(last, trio.current_time() + self.rng.choice([0, 0, 0.001, 0.05, 1])), data))
        self.touch()

    def put_nowait(self, data: bytes) -> None:
        self.check()
        if len(self.queue) >= CAPACITY or trio.current_time() < self.stalled_until or self.rng.random() < 0.3:
            raise trio.WouldBlock
        last = self.queue[-1][0] if self.queue else 0.0
        self.queue.append((max(last, trio.current_time() + self.rng.choice([0, 0, 0.001, 0.05, 1])), data))
        self.touch()

    async def get(self) -> list[bytes]:
        while True:
            self.check()
            if self.queue:
                due = self.queue[0][0]
                if due <= trio.current_time():
                    break
                with trio.move_on_at(due):
                    await self.changed.park()
            elif self.ended:
                raise trio.EndOfChannel
            else:
                await self.changed.park()
        arrived: list[bytes] = []
        for _ in range(self.rng.randint(1, CAPACITY)):
            if not self.queue or self.queue[0][0] > trio.current_time():
                break
            arrived.append(self.queue.popleft()[1])
        self.touch()
        return arrived

    def check(self) -> None:
        if self.cut is not None:
            raise ConnectionLost(self.cut)


class SimChannel(Channel):
    """One end of the wire.

    Attributes:
        on_end: Called when nothing will be received any more.
    """

    def __init__(self, outgoing: _Direction, incoming: _Direction) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._rest: deque[bytes] = deque()  # begun to be taken at once, and not there yet
        self.on_end: Callable[[], object] = lambda: None

    async def receive(self) -> Sequence[Received]:
        await trio.lowlevel.checkpoint()
        try:
            return [Incoming(data) for data in await self._incoming.get()]
        except (trio.EndOfChannel, ConnectionLost):
            self.on_end()
            raise

    async def send(self, messages: Sequence[Outgoing]) -> None:
        await trio.lowlevel.checkpoint()
        self._rest.extend(message.data for message in messages)
        while self._rest:
            await self._outgoing.put(self._rest[0])
            self._rest.popleft()

    def send_nowait(self, messages: Sequence[Outgoing]) -> bool:
        assert not self._rest, "the rest comes first"
        if not self._outgoing.takes_at_once:
            raise trio.WouldBlock
        for index, message in enumerate(messages):
            try:
                self._outgoing.put_nowait(message.data)
            except trio.WouldBlock:
                if not index:
                    raise
                self._rest.extend(message.data for message in messages[index:])
                return False
        return True

    async def aclose(self) -> None:
        self._outgoing.ended = True
        self._outgoing.touch()
        await trio.lowlevel.checkpoint()


class SimWire:
    """The wire, and what can befall it."""

    def __init__(self, rng: random.Random) -> None:
        self._there, self._back = _Direction(rng), _Direction(rng)
        self.client_end = SimChannel(self._there, self._back)
        self.server_end = SimChannel(self._back, self._there)

    def stall(self, seconds: float, *, towards_server: bool) -> None:
        """Let nothing into one direction for a while."""
        direction = self._there if towards_server else self._back
        direction.stalled_until = max(direction.stalled_until, trio.current_time() + seconds)
        direction.touch()

    @property
    def takes_from_the_server(self) -> bool:
        """Whether what the server writes now goes anywhere."""
        is_stalled = trio.current_time() < self._back.stalled_until
        return self._back.cut is None and not is_stalled and len(self._back.queue) < CAPACITY

    @property
    def was_cut(self) -> bool:
        """Whether it broke."""
        return self._there.cut is not None

    def cut(self) -> None:
        """Break both directions; what is under way is lost."""
        for direction in (self._there, self._back):
            direction.cut = "the wire was cut"
            direction.touch()
