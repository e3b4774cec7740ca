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
        TypeError: It is no stream.
        ValueError: A fault is one of messages.
    """

    def __init__(self, stream: trio.abc.Stream, faults: Sequence[Fault] = ()) -> None:
        if not isinstance(stream, trio.abc.Stream):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise TypeError(
                f"FaultyStream wraps a trio.abc.Stream, not {type(stream).__name__}; Faulty wraps a Channel"
            )
        places = by_place(faults, OF_BYTES)
        super().__init__(faults)
        self._inner: Final = stream
        self._sending: Final = _Bytes(places["sent"])
        self._receiving: Final = _Bytes(places["received"])
        self._unread = b""  # received, and looked at for faults when it is asked for
        self._ready = b""
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
        while data and not self._sends_nothing:
            fault = self._sending.due()
            if fault is None:
                piece, data = self._sending.passed(data)
                await self._inner.send_all(piece)
                continue
            self._sending.begin(fault)
            self._note(fault)
            await self._pause(trio.current_time() + fault.pause)
            if fault.kind == "half_close":
                self._sends_nothing = True
                await _send_eof(self._inner)
            elif fault.kind in {"truncate", "reset"}:
                await self._lose()

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
            if self._ready:
                data, self._ready = self._ready[:max_bytes], self._ready[len(self._ready[:max_bytes]) :]
                return data
            if self._receives_nothing:
                return b""
            if not self._unread:
                self._unread = bytes(await self._inner.receive_some(max_bytes))
                self._receives_nothing = not self._unread
                continue
            fault = self._receiving.due()
            if fault is None:
                self._ready, self._unread = self._receiving.passed(self._unread)
                continue
            if self._due is None:
                self._note(fault)
                self._due = trio.current_time() + fault.pause
            await self._pause(self._due)
            self._due = None
            self._receiving.begin(fault)
            self._receives_nothing = fault.kind in {"half_close", "truncate"}
            if fault.kind == "truncate":
                self._sends_nothing = True
                await _send_eof(self._inner)
            elif fault.kind == "reset":
                await self._lose()

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


@final
class _Bytes:
    """The bytes of one direction, and their faults: the same ones, in whatever pieces they come."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults: Final = deque(faults)
        self._count = 0  # how many have come, also those that were lost, but none twice
        self._ends: Final = dict.fromkeys(("drop", "duplicate", "corrupt"), 0)  # up to which byte that goes on
        self._again = b""  # what is to come twice

    def due(self) -> Fault | None:
        """Return the fault that happens before the next byte."""
        return self._faults[0] if self._faults and self._faults[0].at <= self._count else None

    def begin(self, fault: Fault) -> None:
        """Let the fault that is due happen, as far as it changes bytes."""
        self._faults.popleft()
        if fault.kind in self._ends:
            self._ends[fault.kind] = max(self._ends[fault.kind], self._count + fault.size)

    def passed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what comes in place of bytes up to the next place where something changes, and the rest."""
        changes = [*self._ends.values(), *(fault.at for fault in self._faults)]
        size = min([len(data), *(place - self._count for place in changes if place > self._count)])
        is_lost, is_kept, is_wrong = (self._count < end for end in self._ends.values())
        piece, rest = data[:size], data[size:]
        self._count += size
        if is_kept:
            self._again += piece
        piece = b"" if is_lost else damaged(piece, 0, size) if is_wrong else piece
        if self._count >= self._ends["duplicate"]:
            piece, self._again = piece + self._again, b""
        return piece, rest


async def _send_eof(stream: trio.abc.Stream) -> None:
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
    else:
        await stream.aclose()
