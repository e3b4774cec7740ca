"""Wires on which things go wrong, by script or by seed: of messages, and of bytes."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal, cast

import pytest
import trio
import trio.testing
from shared.testing_faults import END, LOST, message, pieces

from trio_mcp import (
    Channel,
    ConnectionLost,
    Incoming,
    Outgoing,
    RemoteProtocolError,
    Server,
    StreamChannel,
    memory_channel_pair,
    open_client,
)
from trio_mcp.testing import ChannelTests, Fault, Faulty, FaultyStream, assert_nothing_left, scripted_client


async def sent_and_received(
    sender: Channel, receiver: Channel, count: int, seconds: float = 100
) -> list[tuple[float, object]]:
    """Send so many messages, one by one, and return what comes in which time: numbers, bytes that are no JSON, ends."""
    found: list[tuple[float, object]] = []
    begin = trio.current_time()

    async def send() -> None:
        with suppress(ConnectionLost, trio.ClosedResourceError):
            for number in range(1, count + 1):
                await sender.send([Outgoing(message(number))])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        with trio.move_on_after(seconds):
            while True:
                try:
                    received = await receiver.receive()
                except trio.EndOfChannel:
                    found.append((round(trio.current_time() - begin, 3), END))
                    break
                except ConnectionLost:
                    found.append((round(trio.current_time() - begin, 3), LOST))
                    break
                for one in received:
                    assert isinstance(one, Incoming)
                    try:
                        value = json.loads(one.data)["n"]
                    except ValueError:
                        value = one.data
                    found.append((round(trio.current_time() - begin, 3), value))
        nursery.cancel_scope.cancel()
    return found


CASES: list[tuple[Fault, list[tuple[float, object]]]] = [
    (Fault("drop", "sent", 2), [(0, 1), (0, 3), (0, 4)]),
    (Fault("duplicate", "sent", 2), [(0, 1), (0, 2), (0, 2), (0, 3), (0, 4)]),
    (Fault("reorder", "sent", 2), [(0, 1), (0, 3), (0, 2), (0, 4)]),
    (Fault("delay", "sent", 2), [(0, 1), (1, 2), (1, 3), (1, 4)]),
    (Fault("delay", "sent", 2, seconds=7.5), [(0, 1), (7.5, 2), (7.5, 3), (7.5, 4)]),
    (Fault("stall", "sent", 3), [(0, 1), (0, 2)]),
    (Fault("corrupt", "sent", 2), [(0, 1), (0, b'{"n\xa2:2}'), (0, 3), (0, 4)]),
    (Fault("truncate", "sent", 2, size=3), [(0, 1), (0, b'{"n'), (0, 3), (0, 4)]),
    (Fault("half_close", "received", 3), [(0, 1), (0, 2), (0, END)]),
    (Fault("reset", "sent", 3), [(0, 1), (0, 2), (0, END)]),
    (Fault("reset", "received", 3), [(0, 1), (0, 2), (0, LOST)]),
    (Fault("drop", "sent", 99), [(0, 1), (0, 2), (0, 3), (0, 4)]),
]


async def test_each_fault_of_a_message(subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock) -> None:
    """At the message that was named, and nowhere else; what waits does so on Trio's clock."""

    async def check(
        direction: Literal["sent", "received"], fault: Fault, expected: list[tuple[float, object]]
    ) -> None:
        if fault.kind in {"half_close", "reset"} and fault.direction != direction:
            return
        one, other = memory_channel_pair()
        sender: Channel = one
        receiver: Channel = other
        if direction == "sent":
            sender = Faulty(one, [fault])
        else:
            fault = Fault(fault.kind, "received", fault.at, seconds=fault.seconds, size=fault.size)
            receiver = Faulty(other, [fault])
        assert await sent_and_received(sender, receiver, 4) == expected

    for direction in ("sent", "received"):
        for fault, expected in CASES:
            with subtests.test(direction=direction, fault=fault, expected=expected):
                await check(direction, fault, expected)


async def test_neighbours_come_after_the_next_one_each(autojump_clock: trio.testing.MockClock) -> None:
    """The first one after the second, which comes after the third."""
    one, other = memory_channel_pair()
    faults = [Fault("reorder", "sent", 1), Fault("reorder", "sent", 2)]
    assert await sent_and_received(Faulty(one, faults), other, 4) == [(0, 3), (0, 2), (0, 1), (0, 4)]


async def test_several_faults_of_one_message(autojump_clock: trio.testing.MockClock) -> None:
    """One after another."""
    one, other = memory_channel_pair()
    faults = [Fault("delay", "sent", 2, seconds=3), Fault("duplicate", "sent", 2), Fault("drop", "sent", 3)]
    assert await sent_and_received(Faulty(one, faults), other, 4) == [(0, 1), (3, 2), (3, 2), (3, 4)]


async def test_a_stalled_wire_can_be_closed(autojump_clock: trio.testing.MockClock) -> None:
    """Who waits learns that this side has closed it."""
    one, other = memory_channel_pair()
    faulty = Faulty(other, [Fault("stall", "received", 1)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.send, [Outgoing(message(1))])

        async def receive() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await faulty.receive()

        nursery.start_soon(receive)
        await trio.sleep(5)
        await faulty.aclose()


async def test_a_cancelled_receive_loses_nothing_that_is_late(autojump_clock: trio.testing.MockClock) -> None:
    """It is still late then, by as much as was left."""
    one, other = memory_channel_pair()
    faulty = Faulty(other, [Fault("delay", "received", 1, seconds=10)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.send, [Outgoing(message(1))])
        with trio.move_on_after(4) as scope:
            await faulty.receive()
        assert scope.cancelled_caught
        await faulty.receive()
    assert trio.current_time() == pytest.approx(10)


class TestWithoutFaults(ChannelTests):
    """Nothing else is wrong with it."""

    @asynccontextmanager
    async def open_pair(self) -> AsyncGenerator[tuple[Channel, Channel]]:
        one, other = memory_channel_pair()
        yield Faulty(one), Faulty(other)


def counting() -> Server[Any]:
    server: Server[Any] = Server("counting")

    @server.tool
    async def count(to: int) -> int:
        return to

    return server


@asynccontextmanager
async def served(wrap: Callable[[Channel], Channel]) -> AsyncGenerator[Channel]:
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(counting().serve_channel, theirs)
        yield wrap(ours)
        nursery.cancel_scope.cancel()


async def test_a_client_meets_them(autojump_clock: trio.testing.MockClock) -> None:
    """A lost answer is a deadline of the caller's; the next call is answered."""
    faults = [Fault("drop", "received", 2)]
    async with (
        served(lambda channel: Faulty(channel, faults)) as channel,
        open_client(channel, revision="2026-07-28") as client,
    ):
        with pytest.raises(trio.TooSlowError), trio.fail_after(200):
            await client.call_tool("count", {"to": 1})
        assert await client.call_tool("count", {"to": 2}, returns=int) == 2
    assert trio.current_time() == pytest.approx(200, abs=5)


async def test_faults_by_seed_are_the_same_each_time(
    subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what repeats them is printed. No call is answered wrongly, and none waits for ever."""

    async def check(seed: int) -> None:
        outcomes: list[list[str]] = []
        for _ in range(2):
            outcome: list[str] = []
            async with served(lambda channel: Faulty.random(channel, seed, rate=0.1)) as channel:
                with suppress(ConnectionLost, RemoteProtocolError):  # already the handshake
                    async with open_client(channel, revision="2025-11-25") as client:
                        for number in range(20):
                            try:
                                with trio.fail_after(30):
                                    assert await client.call_tool("count", {"to": number}, returns=int) == number
                                outcome.append("answered")
                            except AssertionError:
                                raise
                            except Exception as error:
                                outcome.append(type(error).__name__)
            outcomes.append(outcome)
        assert outcomes[0] == outcomes[1]
        printed = capsys.readouterr().err.splitlines()
        assert printed[: len(printed) // 2] == printed[len(printed) // 2 :]
        assert printed[0] == f"faults by seed {seed}: Faulty.random(channel, {seed}, …) repeats them"
        assert all(line.startswith(f"  seed {seed}: Fault(") for line in printed[1 : len(printed) // 2])

    for seed in range(20):
        with subtests.test(seed=seed):
            await check(seed)


async def test_a_seed_that_nobody_has_chosen_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a failure can be repeated; also as a script."""
    one, _ = memory_channel_pair()
    faulty = Faulty.random(one)
    assert Faulty.random(one, faulty.seed).faults == faulty.faults
    assert eval(repr(faulty.faults), {"Fault": Fault}) == faulty.faults
    assert f"seed {faulty.seed}:" in capsys.readouterr().err
    assert Faulty.random(one, 1, rate=0).faults == ()
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        Faulty.random(one, 1, rate=7)


OF_BYTES: list[tuple[Fault, list[tuple[float, bytes | str]]]] = [
    (Fault("split", "sent", 3), [(0, b"abc"), (0, b"defgh")]),
    (Fault("split", "sent", 3, seconds=2), [(0, b"abc"), (2, b"defgh")]),
    (Fault("delay", "sent", 0), [(1, b"abcdefgh")]),
    (Fault("stall", "sent", 5), [(0, b"abcde")]),
    (Fault("drop", "sent", 2, size=3), [(0, b"ab"), (0, b"fgh")]),
    (Fault("duplicate", "sent", 2, size=3), [(0, b"ab"), (0, b"cdecdefgh")]),
    (Fault("corrupt", "sent", 2, size=2), [(0, b"ab"), (0, b"\xe3\xe4efgh")]),
    (Fault("half_close", "sent", 4), [(0, b"abcd"), (0, END)]),
    (Fault("truncate", "sent", 4), [(0, b"abcd"), (0, END)]),
    (Fault("reset", "received", 4), [(0, b"abcd"), (0, LOST)]),
    (Fault("split", "sent", 99), [(0, b"abcdefgh")]),
]


async def test_each_fault_of_bytes(subtests: pytest.Subtests, autojump_clock: trio.testing.MockClock) -> None:
    """At the byte that was named."""

    async def check(
        direction: Literal["sent", "received"], fault: Fault, expected: list[tuple[float, bytes | str]]
    ) -> None:
        if fault.kind == "reset" and direction == "sent":
            return
        fault = Fault(fault.kind, direction, fault.at, seconds=fault.seconds, size=fault.size)
        found = [
            piece
            for piece in await pieces([fault], b"abcdefgh", direction)
            if piece[1] != "broken for the sender"
        ]
        # Whether neighbouring pieces come as one is the stream's affair.
        assert _joined(found) == _joined(expected)
        if fault.kind in {"split", "delay"} and fault.seconds:
            assert found == expected

    for direction in ("sent", "received"):
        for fault, expected in OF_BYTES:
            with subtests.test(direction=direction, fault=fault, expected=expected):
                await check(direction, fault, expected)


def _joined(found: list[tuple[float, bytes | str]]) -> list[tuple[float, bytes | str]]:
    joined: list[tuple[float, bytes | str]] = []
    for time, piece in found:
        if joined and isinstance(piece, bytes) and isinstance(joined[-1][1], bytes) and joined[-1][0] == time:
            joined[-1] = time, joined[-1][1] + piece
        else:
            joined.append((time, piece))
    return joined


@pytest.mark.parametrize("kind", ["split", "drop", "duplicate", "corrupt", "half_close", "truncate", "reset"])
async def test_the_same_bytes_are_hit_in_whatever_pieces_they_come(
    kind: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """A socket gives what it has: a script, or a seed, does the same all the same."""
    data = bytes(range(26))
    faults = [Fault(kind, "received", 5, size=7), Fault("corrupt", "received", 20, size=2)]
    found = set[bytes]()
    for size in (26, 1, 3, 7):
        for max_bytes in (None, 1, 4):
            one, other = trio.testing.memory_stream_pair()
            faulty, got = FaultyStream(one, faults), b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_send_in_pieces, other, data, size)
                with suppress(trio.BrokenResourceError):
                    while piece := await faulty.receive_some(max_bytes):
                        got += piece
                nursery.cancel_scope.cancel()
            found.add(got)
    for size in (26, 1, 3, 7):
        one, other = trio.testing.memory_stream_pair()
        sent = [Fault(fault.kind, "sent", fault.at, size=fault.size) for fault in faults]
        with suppress(trio.BrokenResourceError):
            await _send_in_pieces(FaultyStream(one, sent), data, size)
        found.add(await _all_of(other))
    assert len(found) == 1
    (got,) = found
    twice = {"split": data, "drop": data[:5] + data[12:], "duplicate": data[:12] + data[5:]}
    twice["corrupt"] = data[:5] + bytes(byte ^ 0x80 for byte in data[5:12]) + data[12:]
    whole = twice.get(kind, data[:5])
    assert got == (whole if kind not in twice else whole[:-6] + b"\x94\x95" + whole[-4:])


async def _send_in_pieces(stream: trio.abc.HalfCloseableStream, data: bytes, size: int) -> None:
    with suppress(trio.BrokenResourceError):
        for at in range(0, len(data), size):
            await stream.send_all(data[at : at + size])
            await trio.testing.wait_all_tasks_blocked()
        await stream.send_eof()


async def _all_of(stream: trio.abc.ReceiveStream) -> bytes:
    got = b""
    with suppress(trio.BrokenResourceError), trio.move_on_after(10):
        while piece := await stream.receive_some():
            got += piece
    return got


async def test_split_bytes_come_as_pieces(autojump_clock: trio.testing.MockClock) -> None:
    """That is what a reader of messages must be able to bear."""
    found = await pieces([Fault("split", "received", at) for at in range(1, 8)], b"abcdefgh", "received")
    assert [piece for _, piece in found] == [b"%c" % byte for byte in b"abcdefgh"]


async def test_a_torn_message_is_no_message(autojump_clock: trio.testing.MockClock) -> None:
    """A peer that dies in the middle of an answer: the caller learns that the connection is lost."""
    one, other = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counting().serve_channel, StreamChannel(other, other))
        faulty = FaultyStream(one, [Fault("truncate", "received", 400)])
        async with open_client(StreamChannel(faulty, faulty), revision="2025-11-25") as client:
            with pytest.raises(ConnectionLost), trio.fail_after(60):
                while True:
                    await client.call_tool("count", {"to": 10**30})
        nursery.cancel_scope.cancel()


async def test_streams_by_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """The same faults each time."""
    one, _ = trio.testing.memory_stream_pair()
    assert FaultyStream.random(one, 5).faults == FaultyStream.random(one, 5).faults != ()
    assert "FaultyStream.random(stream, 5, …) repeats them" in capsys.readouterr().err


async def test_a_faultless_stream_is_a_stream() -> None:
    """By Trio's own measure."""

    async def make() -> tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]:
        one, other = trio.testing.memory_stream_pair()
        return FaultyStream(one), FaultyStream(other)

    await trio.testing.check_half_closeable_stream(make, None)


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: Fault("explode", "sent", 1), "kind must be one of delay,"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Fault("drop", "up", 1), "direction must be 'sent' or 'received'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: Fault("drop", "sent", -1), "at must be at least 0"),
    (lambda: Fault("drop", "sent", 1, size=-1), "size must be at least 0"),
    (lambda: Fault("delay", "sent", 1, seconds=math.nan), "seconds"),
    (lambda: Faulty(memory_channel_pair()[0], [Fault("split", "sent", 1)]), "is none of delay,"),
    (lambda: Faulty(memory_channel_pair()[0], [Fault("half_close", "sent", 1)]), "use FaultyStream beneath it"),
    (lambda: FaultyStream(trio.testing.memory_stream_pair()[0], [Fault("reorder", "sent", 1)]), "is none of"),
    (
        lambda: Faulty(memory_channel_pair()[0], [Fault("drop", "sent", 0)]),
        "never happen: messages are counted from 1",
    ),
    (lambda: Faulty(memory_channel_pair()[0], ["drop"]), "is a Fault, not 'drop'"),  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    (lambda: Faulty.random(memory_channel_pair()[0], 1, kinds=[]), "kinds must be some of delay, "),
    (lambda: Faulty.random(memory_channel_pair()[0], 1, kinds=["split"]), r"reset, not \['split'\]"),
    (lambda: Faulty.random(memory_channel_pair()[0], 1, kinds="drop"), "reset, not 'drop'"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: FaultyStream.random(trio.testing.memory_stream_pair()[0], 1, kinds=["reorder"]), "kinds must be"),
    (
        lambda: Faulty(cast("Any", trio.testing.memory_stream_pair()[0])),
        "a Channel, not StapledStream; FaultyStream",
    ),
    (
        lambda: FaultyStream(cast("Any", memory_channel_pair()[0])),
        "Stream, not MemoryChannel; Faulty wraps a Channel",
    ),
]


async def test_mistakes_are_told(subtests: pytest.Subtests) -> None:
    """With the name of what is wrong."""
    for mistake, problem in MISTAKES:
        with (
            subtests.test(mistake=mistake, problem=problem),
            pytest.raises((ValueError, TypeError), match=problem),
        ):
            mistake()


async def test_nothing_is_left_of_a_reset() -> None:
    """The channel beneath is closed with it."""
    with assert_nothing_left():
        opening: AbstractAsyncContextManager[Any] = served(lambda c: Faulty(c, [Fault("reset", "sent", 2)]))
        with suppress(ConnectionLost, ExceptionGroup):
            async with opening as channel, scripted_client(channel) as peer:
                await peer.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})
                await peer.say({"jsonrpc": "2.0", "id": 2, "method": "ping"})
