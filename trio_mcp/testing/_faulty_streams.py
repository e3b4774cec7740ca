"""Faults of bytes, beneath any protocol: see `Fault`."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, Self, final

import trio

from ._faults import (
    BYTES,
    OF_BYTES,
    Fault,
    FaultKind,
    WithFaults,
    begin_by_seed,
    by_place,
    check_chances,
    damaged,
    random_faults,
)


@final
class FaultyStream(WithFaults[Fault], trio.abc.HalfCloseableStream):
    """A byte stream on which things go wrong, byte by byte, by script.

    It wraps either end of any two-way stream: a socket, `trio.StapledStream`, a pair in memory::

        one, other = trio.testing.memory_stream_pair()
        faulty = FaultyStream(one, [Fault("split", "sent", 10), Fault("half_close", "received", 300)])
        channel = StreamChannel(faulty, faulty)

    Args:
        stream: The stream that works. It is closed with this one.
        faults: What goes wrong.

    Attributes:
        faults: What goes wrong.

    Raises:
        ValueError: A fault is one of messages.
    """

    def __init__(self, stream: trio.abc.Stream, faults: Sequence[Fault] = ()) -> None:
        places = by_place(faults, OF_BYTES)
        super().__init__(faults)
        self._inner: Final = stream
        self._sending: Final = deque(places["sent"])
        self._receiving: Final = deque(places["received"])
        self._sent = 0  # bytes of the user's, also those that were lost
        self._received = 0
        self._unread = b""
        self._due: float | None = None  # when the fault is over that holds up what is received
        self._sends_nothing = False  # what is sent is lost
        self._receives_nothing = False  # the end was received
        self._is_lost = False
        self._closed = trio.Event()

    @classmethod
    def random(
        cls,
        stream: trio.abc.Stream,
        seed: int | None = None,
        *,
        rate: float = 0.0005,
        kinds: Collection[FaultKind] = OF_BYTES,
    ) -> Self:
        """Wrap a stream on which things go wrong at random, but the same things each time for one seed.

        Prints the seed to standard error, which pytest shows of a test that fails, and each fault as it happens.

        Args:
            stream: The stream that works.
            seed: The seed. Default: one that nobody has chosen.
            rate: At how many bytes something goes wrong, from 0 to 1, of the first 100,000 of each direction.
            kinds: What goes wrong.
        """
        check_chances(rate, kinds, OF_BYTES)
        seed = begin_by_seed(seed, "FaultyStream.random(stream, {seed}, …)")
        sized = {"corrupt", "drop", "duplicate"}
        faulty = cls(stream, random_faults(seed, kinds, range(BYTES), rate, sized))
        faulty._seed = seed
        return faulty

    # What is sent.

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; see `trio.abc.SendStream.send_all`."""
        self._check_open()
        data = bytes(data)
        await trio.lowlevel.checkpoint()
        while data:
            if self._sends_nothing:
                return
            fault = self._sending[0] if self._sending else None
            if fault is None or fault.at >= self._sent + len(data):
                await self._pass_on(data)
                return
            before_it = max(0, fault.at - self._sent)
            before, data = data[:before_it], data[before_it:]
            await self._pass_on(before)
            self._sending.popleft()
            self._note(fault)
            await self._pause(trio.current_time() + fault.pause)
            match fault.kind:
                case "drop":
                    self._sent += len(data[: fault.size])
                    data = data[fault.size :]
                case "duplicate":
                    await self._inner.send_all(data[: fault.size])
                case "corrupt":
                    data = damaged(data, 0, fault.size)
                case "half_close":
                    self._sends_nothing = True
                    await _send_eof(self._inner)
                case "truncate" | "reset":
                    await self._lose()
                case _:
                    pass

    async def _pass_on(self, data: bytes) -> None:
        if data:
            await self._inner.send_all(data)
            self._sent += len(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until bytes may be sent; see `trio.abc.SendStream`."""
        self._check_open()
        await self._inner.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """End what is sent, in good order; see `trio.abc.HalfCloseableStream`."""
        self._check_open()
        await _send_eof(self._inner)

    # What is received.

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive bytes; see `trio.abc.ReceiveStream.receive_some`. Cancelled, it has lost none."""
        await trio.lowlevel.checkpoint()
        while True:
            self._check_open()
            if self._receives_nothing:
                return b""
            if not self._unread:
                self._unread = bytes(await self._inner.receive_some(max_bytes))
                if not self._unread:
                    self._receives_nothing = True
                    continue
            fault = self._receiving[0] if self._receiving else None
            count = len(self._unread) if fault is None else min(len(self._unread), fault.at - self._received)
            if max_bytes is not None:
                count = min(count, max_bytes)
            if count > 0:
                data, self._unread = self._unread[:count], self._unread[count:]
                self._received += count
                return data
            assert fault is not None
            if self._due is None:
                self._note(fault)
                self._due = trio.current_time() + fault.pause
            await self._pause(self._due)
            self._due = None
            self._receiving.popleft()
            await self._go_wrong(fault)

    async def _go_wrong(self, fault: Fault) -> None:
        match fault.kind:
            case "drop":
                self._received += len(self._unread[: fault.size])
                self._unread = self._unread[fault.size :]
            case "duplicate":
                twice = self._unread[: fault.size]
                self._received -= len(twice)  # places are counted without what comes twice
                self._unread = twice + self._unread
            case "corrupt":
                self._unread = damaged(self._unread, 0, fault.size)
            case "half_close":
                self._receives_nothing = True
            case "truncate":
                self._receives_nothing = self._sends_nothing = True
                await _send_eof(self._inner)
            case "reset":
                await self._lose()
            case _:
                await trio.lowlevel.checkpoint()

    # How it ends.

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise trio.ClosedResourceError("the stream is closed")
        if self._is_lost:
            raise trio.BrokenResourceError("the connection was lost: a fault of the test")

    async def _pause(self, until: float) -> None:
        with trio.move_on_at(until):
            await self._closed.wait()
        self._check_open()

    async def _lose(self) -> None:
        self._is_lost = True
        await trio.aclose_forcefully(self._inner)
        self._check_open()

    async def aclose(self) -> None:
        """Close the stream; see `trio.abc.AsyncResource.aclose`."""
        self._closed.set()
        await self._inner.aclose()


async def _send_eof(stream: trio.abc.Stream) -> None:
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
    else:
        await stream.aclose()
