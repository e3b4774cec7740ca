"""Faults of a wire, by script or by seed: of messages on any channel, and of bytes on any stream.

What goes wrong over HTTP is in `_http_faults`.
"""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar, final, get_args

import attrs
import trio

from .._absent import ABSENT
from .._channel import Channel, Incoming, Origin, Outgoing, Received
from .._codec._jsonrpc import Notification, RequestId
from .._errors import ConnectionLost
from .._limits import check_seconds, check_whole

FaultKind: TypeAlias = Literal[
    "delay", "stall", "drop", "duplicate", "reorder", "corrupt", "truncate", "split", "half_close", "reset"
]
Direction: TypeAlias = Literal["sent", "received"]
"""Which way: what this end sends, or what it receives."""

OF_MESSAGES: Final[tuple[FaultKind, ...]] = (
    "delay", "stall", "drop", "duplicate", "reorder", "corrupt", "truncate", "half_close", "reset",
)  # fmt: skip
OF_BYTES: Final[tuple[FaultKind, ...]] = (
    "delay", "stall", "drop", "duplicate", "corrupt", "truncate", "split", "half_close", "reset",
)  # fmt: skip

SECONDS: Final = 1.0
"""How long a delay lasts, if the fault does not say."""

RATE: Final = 0.05
"""How many messages in a hundred have a fault, by seed, divided by a hundred."""

MESSAGES: Final = 1_000
"""Up to which message of each direction a seed makes faults."""

BYTES: Final = 100_000
"""Up to which byte of each direction a seed makes faults."""

_DAMAGE: Final = 0x80
"""What a byte is changed by: it is then no ASCII, and JSON in UTF-8 is broken."""

_Fault = TypeVar("_Fault")


@final
@attrs.frozen(repr=False)
class Fault:
    """One thing that goes wrong in one direction of a connection.

    ================  ======================================  ===========================================
    kind              of a message (`Faulty`)                 of bytes (`FaultyStream`)
    ================  ======================================  ===========================================
    ``"delay"``       it, and all behind it, come             as much later, from byte ``at`` on
                      ``seconds`` later
    ``"stall"``       it, and all behind it, do not come      the same, from byte ``at`` on
                      for ``seconds``, by default never
    ``"drop"``        it is lost                              ``size`` bytes are lost
    ``"duplicate"``   it comes twice                          ``size`` bytes come twice
    ``"reorder"``     it comes after the next one             –
    ``"corrupt"``     ``size`` bytes in its middle are wrong  ``size`` bytes are wrong
    ``"truncate"``    only its first ``size`` bytes come      byte ``at`` and all behind it are lost, and the
                                                              connection ends
    ``"split"``       –                                       what is before byte ``at`` comes by itself, and
                                                              the rest ``seconds`` later, by default at once
    ``"half_close"``  the direction ends before it, only      the direction ends before byte ``at``
                      for what is received
    ``"reset"``       the connection is lost before it        the same, before byte ``at``
    ================  ======================================  ===========================================

    The same bytes are hit in whatever pieces they are sent and received. Bytes that come twice do so when all
    ``size`` of them have come.

    Args:
        kind: What goes wrong.
        direction: In which direction, as the end that is wrapped sees it.
        at: Where: the number of the message, from 1; or how many bytes come before it.
        seconds: How long, on Trio's clock.
        size: How many bytes.

    Raises:
        ValueError: There is no such kind or direction, or a number is out of bounds.
    """

    kind: FaultKind
    direction: Direction
    at: int
    seconds: float | None = attrs.field(default=None, kw_only=True)
    size: int = attrs.field(default=1, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise ValueError(f"kind must be one of {', '.join(get_args(FaultKind))}, not {self.kind!r}")
        if self.direction not in get_args(Direction):
            raise ValueError(f"direction must be 'sent' or 'received', not {self.direction!r}")
        check_whole("at", self.at, at_least=0)
        check_whole("size", self.size, at_least=0)
        if self.seconds is not None:
            check_seconds("seconds", self.seconds)

    @property
    def pause(self) -> float:
        """How long it holds up what is behind it, in seconds."""
        if self.seconds is not None:
            return self.seconds
        return {"delay": SECONDS, "stall": math.inf}.get(self.kind, 0.0)

    def __repr__(self) -> str:
        more = "" if self.seconds is None else f", seconds={self.seconds!r}"
        more += "" if self.size == 1 else f", size={self.size!r}"
        return f"Fault({self.kind!r}, {self.direction!r}, {self.at!r}{more})"


def random_faults(
    seed: int, kinds: Collection[FaultKind], places: Iterable[int], rate: float, sized: Collection[str]
) -> list[Fault]:
    """Return the faults that a seed makes.

    Args:
        seed: The seed.
        kinds: What goes wrong.
        places: Where it may.
        rate: At how many of the places it does.
        sized: Of which kinds the size counts.
    """
    dice = random.Random(seed)
    ordered = sorted(kinds)
    faults: list[Fault] = []
    for at in places:
        for direction in get_args(Direction):
            if dice.random() >= rate:
                continue
            kind = dice.choice(ordered)
            if kind == "half_close" and direction == "sent":
                direction = "received"  # noqa: PLW2901 - see `Fault`
            seconds = round(dice.uniform(0, SECONDS), 3) if kind in {"delay", "stall", "split"} else None
            size = dice.randrange(1, 32) if kind in sized else 1
            faults.append(Fault(kind, direction, at, seconds=seconds, size=size))
    return faults


def check_chances(rate: float, kinds: Collection[str], possible: Collection[str]) -> None:
    """Check in how many places something goes wrong, and what.

    Raises:
        ValueError: It is no share of them, or nothing that can go wrong.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be from 0 to 1, not {rate!r}")
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(possible):
        raise ValueError(f"kinds must be some of {', '.join(possible)}, not {kinds!r}")


def begin_by_seed(seed: int | None, how_to_repeat: str) -> int:
    """Print the seed, or one that nobody has chosen, and how to repeat what goes wrong by it; return it."""
    seed = random.randrange(2**32) if seed is None else seed
    sys.stderr.write(f"faults by seed {seed}: {how_to_repeat.format(seed=seed)} repeats them\n")
    return seed


class WithFaults(Generic[_Fault]):
    """What goes wrong, and what has gone wrong so far. By seed that is printed to standard error."""

    def __init__(self, faults: Iterable[_Fault]) -> None:
        self.faults: tuple[_Fault, ...] = tuple(faults)
        self._seed: int | None = None
        self._happened: list[_Fault] = []

    @property
    def seed(self) -> int | None:
        """By which seed the faults were made, if by one."""
        return self._seed

    @property
    def happened(self) -> tuple[_Fault, ...]:
        """What has gone wrong so far, in order; as `faults` of another one it is a script that does the same."""
        return tuple(self._happened)

    def _note(self, fault: _Fault) -> None:
        self._happened.append(fault)
        if self._seed is not None:
            sys.stderr.write(f"  seed {self._seed}: {fault!r}\n")


def by_place(faults: Sequence[Fault], kinds: Collection[FaultKind]) -> dict[Direction, list[Fault]]:
    for fault in faults:
        if not isinstance(fault, Fault):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise TypeError(f"what goes wrong is a Fault, not {fault!r}")
        if fault.kind not in kinds:
            raise ValueError(f"{fault!r} is none of {', '.join(kinds)}")
    ordered = sorted(faults, key=lambda fault: fault.at)
    return {way: [fault for fault in ordered if fault.direction == way] for way in get_args(Direction)}


def damaged(data: bytes, at: int, size: int) -> bytes:
    return data[:at] + bytes(byte ^ _DAMAGE for byte in data[at : at + size]) + data[at + size :]


@final
class Faulty(WithFaults[Fault], Channel):
    """A channel on which things go wrong, message by message, by script.

    It wraps either end of any channel::

        faults = [Fault("drop", "sent", 3), Fault("delay", "received", 2)]
        async with open_client(Faulty(channel, faults)) as client:

    What is sent later waits in `send`, so a slow wire is felt as one. A message that was to come after the next
    one stays away if there is no next one. A lost message is lost: put a deadline around a call.

    Args:
        channel: The channel that works. It is closed with this one.
        faults: What goes wrong.

    Attributes:
        faults: What goes wrong.

    Raises:
        TypeError: It is no channel.
        ValueError: A fault is one of bytes, is before the first message, or half closes what is sent, which no
            channel can.
    """

    def __init__(self, channel: Channel, faults: Sequence[Fault] = ()) -> None:
        if not isinstance(channel, Channel):  # pyright: ignore[reportUnnecessaryIsInstance] - users err
            raise TypeError(f"Faulty wraps a Channel, not {type(channel).__name__}; FaultyStream wraps bytes")
        places = by_place(faults, OF_MESSAGES)
        for fault in faults:
            if fault.at < 1:
                raise ValueError(f"{fault!r} would never happen: messages are counted from 1")
        if any(fault.kind == "half_close" for fault in places["sent"]):
            raise ValueError("a channel cannot half close what it sends: use FaultyStream beneath it")
        super().__init__(faults)
        self._inner: Final = channel
        self.transport: str = channel.transport
        self._sent: Final = _Messages(places["sent"], self._note)
        self._received: Final = _Messages(places["received"], self._note)
        self._closed = trio.Event()
        self._lost: ConnectionLost | None = None
        # What was received and is not due yet; an error is the end, and stays.
        self._due: deque[tuple[float, Received | Exception]] = deque()

    @classmethod
    def random(
        cls,
        channel: Channel,
        seed: int | None = None,
        *,
        rate: float = RATE,
        kinds: Collection[FaultKind] = OF_MESSAGES,
    ) -> Self:
        """Wrap a channel on which things go wrong at random, but the same things each time for one seed.

        Prints the seed to standard error, which pytest shows of a test that fails, and each fault as it happens.

        Args:
            channel: The channel that works.
            seed: The seed. Default: one that nobody has chosen.
            rate: For how many messages something goes wrong, from 0 to 1, up to the thousandth of each direction.
            kinds: What goes wrong. A delay, and a stall, is one second at most.
        """
        check_chances(rate, kinds, OF_MESSAGES)
        seed = begin_by_seed(seed, "Faulty.random(channel, {seed}, …)")
        places = range(1, MESSAGES + 1)
        faulty = cls(channel, random_faults(seed, kinds, places, rate, {"corrupt", "truncate"}))
        faulty._seed = seed
        return faulty

    @property
    def description(self) -> str:
        """The other end, for errors and logs."""
        return self._inner.description

    # What is sent.

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, as far as the faults let them go; see `Channel.send`."""
        self._check_open()
        out: list[Outgoing] = []
        for message in messages:
            parts, pause, end = self._sent.passed(message)
            if pause or end is not None:
                await self._pass_on(out)
                out = []
                await self._pause(trio.current_time() + pause)
            if end is not None:
                raise await self._lose()
            out += parts
        await self._pass_on(out)

    async def _pass_on(self, messages: Sequence[Outgoing]) -> None:
        try:
            await self._inner.send(messages) if messages else await trio.lowlevel.checkpoint()
        except trio.ClosedResourceError:
            self._check_open()
            raise

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise trio.ClosedResourceError(f"the channel to {self.description} is closed")
        if self._lost is not None:
            raise self._lost

    async def _pause(self, until: float) -> None:
        """Wait until a time, unless the channel is closed before."""
        with trio.move_on_at(until):
            await self._closed.wait()
        self._check_open()

    async def _lose(self) -> ConnectionLost:
        """Lose the connection, in both directions."""
        if self._lost is None:
            self._lost = ConnectionLost(f"the connection to {self.description} was reset: a fault of the test")
            with trio.CancelScope() as scope:
                scope.cancel(reason="the connection is reset")  # it is closed all the same, and waits for nobody
                await self._inner.aclose()
        return self._lost

    # What is received.

    async def receive(self) -> Sequence[Received]:
        """Wait for messages, as the faults let them come; see `Channel.receive`."""
        while True:
            self._check_open()
            ready: list[Received] = []
            while self._due and self._due[0][0] <= trio.current_time():
                item = self._due[0][1]
                if isinstance(item, Exception):
                    break
                ready.append(item)
                self._due.popleft()
            if ready:
                await trio.lowlevel.cancel_shielded_checkpoint()
                return ready
            if not self._due:
                try:
                    self._take(await self._inner.receive())
                except (trio.ClosedResourceError, trio.EndOfChannel):
                    self._check_open()  # the connection was lost here meanwhile
                    raise
                continue
            until, item = self._due[0]
            await self._pause(until)  # cancelled, it is still there
            if isinstance(item, ConnectionLost):
                raise await self._lose()
            if isinstance(item, Exception):
                await trio.lowlevel.checkpoint()
                raise trio.EndOfChannel

    def _take(self, received: Sequence[Received]) -> None:
        # No checkpoint: what was received is kept, or is returned.
        until = trio.current_time()
        for one in received:
            if not isinstance(one, Incoming):
                self._due.append((until, one))
                continue
            parts, pause, end = self._received.passed(one)
            until += pause
            if end is not None:
                error = ConnectionLost("reset") if end.kind == "reset" else trio.EndOfChannel()
                self._due.append((until, error))
                return
            self._due.extend((until, part) for part in parts)

    # The rest.

    def has_room(self, origin: Origin | None) -> bool:
        """Whether more messages may be sent; see `Channel.has_room`."""
        return self._inner.has_room(origin)

    async def wait_room(self, origin: Origin | None) -> None:
        """Wait until there is room; see `Channel.wait_room`."""
        await self._inner.wait_room(origin)

    def reading_ahead(self, on_end: Callable[[], object], max_bytes: int) -> AbstractAsyncContextManager[None]:
        """Read before `receive` is called; see `Channel.reading_ahead`."""
        return self._inner.reading_ahead(on_end, max_bytes)

    def call_on_release(self, released: Callable[[RequestId, float | None], object]) -> None:
        """Have a function called; see `Channel.call_on_release`."""
        self._inner.call_on_release(released)

    def give_up(self, request_id: RequestId, reason: str | None) -> Notification | None:
        """Cancel a request; see `Channel.give_up`."""
        return self._inner.give_up(request_id, reason)

    def withdraw_answer(self, request_id: RequestId) -> bool:
        """Send an answer no more; see `Channel.withdraw_answer`."""
        return self._inner.withdraw_answer(request_id)

    def explain_unusable(self, data: bytes, problem: str) -> str:
        """Say what else is wrong; see `Channel.explain_unusable`."""
        return self._inner.explain_unusable(data, problem)

    def explain_silence(self) -> str:
        """Say why nothing may have come; see `Channel.explain_silence`."""
        return self._inner.explain_silence()

    def about_to_close(self) -> None:
        """Wait for no more than the wire; see `Channel.about_to_close`."""
        self._inner.about_to_close()

    async def aclose(self) -> None:
        """Close the channel beneath, and wake who waits; see `Channel.aclose`."""
        self._closed.set()
        await self._inner.aclose()


@final
class _Messages:
    """The faults of one direction of a channel, and how many messages there were."""

    def __init__(self, faults: Sequence[Fault], note: Callable[[Fault], object]) -> None:
        self._faults: Final = deque(faults)
        self._note: Final = note
        self._count = 0
        self._held: list[Any] = []  # what comes after the next one

    def passed(self, message: Any) -> tuple[list[Any], float, Fault | None]:
        """Return what comes in place of a message, after how many seconds, and the fault that ends it all."""
        self._count += 1
        pause, parts, is_held = 0.0, [message], False
        while self._faults and self._faults[0].at == self._count:
            fault = self._faults.popleft()
            self._note(fault)
            pause += fault.pause
            match fault.kind:
                case "drop":
                    parts = []
                case "duplicate":
                    parts *= 2
                case "reorder":
                    is_held = True
                case "corrupt":
                    parts = [_evolved(one, damaged(one.data, len(one.data) // 2, fault.size)) for one in parts]
                case "truncate":
                    parts = [_evolved(part, part.data[: fault.size]) for part in parts]
                case "half_close" | "reset":
                    return [], pause, fault
                case _:
                    pass
        parts, self._held = [*parts, *self._held], []
        if is_held:
            parts, self._held = [], parts
        return parts, pause, None


def _evolved(message: Any, data: bytes) -> Any:
    more = {"value": ABSENT} if isinstance(message, Incoming) else {}
    return attrs.evolve(message, data=data, **more)
