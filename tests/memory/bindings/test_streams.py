"""Lines over pipes and sockets: what is written without waiting, and what is read without looking first."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncGenerator

import pytest
import trio
import trio.testing
from inside_base import READ_BYTES

from trio_mcp import ConnectionLost, Incoming, Outgoing, StreamChannel

if sys.platform == "win32":
    pytest.skip("Windows has no such descriptors", allow_module_level=True)

LONG = b'{"text":"%s"}' % (b"x" * 3_000_000)


@pytest.fixture
async def pipe() -> AsyncGenerator[tuple[StreamChannel, StreamChannel]]:  # noqa: ASYNC910 - a fixture
    """Two ends of a connection over pipes."""
    to_far, from_near = os.pipe()[::-1]
    to_near, from_far = os.pipe()[::-1]
    descriptors = [trio.lowlevel.FdStream(fd) for fd in (from_far, to_far, from_near, to_near)]
    near = StreamChannel(descriptors[0], descriptors[1], max_message_bytes=4_000_000, description="far")
    far = StreamChannel(descriptors[2], descriptors[3], max_message_bytes=4_000_000, description="near")
    yield near, far
    for stream in descriptors:
        stream.close()


def data_of(received: object) -> bytes:
    assert isinstance(received, Incoming)
    return received.data


async def receive_all(channel: StreamChannel, count: int) -> list[bytes]:
    messages: list[bytes] = []
    while len(messages) < count:
        messages += map(data_of, await channel.receive())
    return messages


async def test_what_fits_is_written_at_once(pipe: tuple[StreamChannel, StreamChannel]) -> None:
    """No task and no turn of the event loop takes part."""
    near, far = pipe
    assert near.send_nowait([Outgoing(b"1"), Outgoing(b"[2]")])
    assert near.send_nowait([Outgoing(b"3")])
    assert await receive_all(far, 3) == [b"1", b"[2]", b"3"]


async def test_what_does_not_fit_is_finished_before_anything_else(
    pipe: tuple[StreamChannel, StreamChannel],
) -> None:
    """Promise 6: no message is torn, and none overtakes the rest of another."""
    near, far = pipe
    assert not near.send_nowait([Outgoing(b"1"), Outgoing(LONG)])
    with pytest.raises(trio.WouldBlock):
        near.send_nowait([Outgoing(b"too early")])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send, [Outgoing(b"3")])
        assert await receive_all(far, 3) == [b"1", LONG, b"3"]
    assert near.send_nowait([Outgoing(b"4")])
    assert await receive_all(far, 1) == [b"4"]


@pytest.mark.parametrize("free", [0, 1, 2, 1000, 1023, 1024, 1025, 1026])
async def test_a_large_message_is_finished_wherever_the_pipe_was_full(
    pipe: tuple[StreamChannel, StreamChannel], free: int
) -> None:
    """Its end and its newline are written apart from the rest."""
    near, far = pipe
    near.send_nowait([Outgoing(LONG)])  # which widens the pipe
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send, ())
        assert await receive_all(far, 1) == [LONG]
    before = b"x" * 4095
    room = 0
    with pytest.raises(trio.WouldBlock):
        while near.send_nowait([Outgoing(before)]):
            room += 1
    assert await receive_all(far, room) == [before] * room
    line = LONG[: room * 4096 + 1024 - free]
    is_written = near.send_nowait([Outgoing(line)])
    async with trio.open_nursery() as nursery:
        if not is_written:
            nursery.start_soon(near.send, ())
        assert await receive_all(far, 1) == [line]
    assert near.send_nowait([Outgoing(b"2")])
    assert await receive_all(far, 1) == [b"2"]


async def test_many_lines_behind_a_long_one_come_piece_by_piece(
    pipe: tuple[StreamChannel, StreamChannel],
) -> None:
    """So that other tasks get their turn."""
    near, far = pipe
    assert not near.send_nowait([Outgoing(LONG)])  # which widens the pipe
    count = 100_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send, [Outgoing(b"x" * READ_BYTES + b"\n1" * count)])
        assert data_of(*await far.receive()) == LONG
        while count:
            received = await far.receive()
            assert len(received) <= READ_BYTES // 2
            count -= sum(data_of(one) == b"1" for one in received)


async def test_the_rest_can_be_written_alone(pipe: tuple[StreamChannel, StreamChannel]) -> None:
    """With nothing more to say."""
    near, far = pipe
    assert not near.send_nowait([Outgoing(LONG)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(near.send, ())
        assert await receive_all(far, 1) == [LONG]


async def test_a_full_pipe_takes_nothing(pipe: tuple[StreamChannel, StreamChannel]) -> None:
    """And says so."""
    near, far = pipe
    count = 0
    line = b"x" * 4095  # with its newline a page, so that the pipe is filled without a rest
    with pytest.raises(trio.WouldBlock):
        while near.send_nowait([Outgoing(line)]):
            count += 1
    assert count > 1
    assert await receive_all(far, count) == [line] * count


async def test_a_pipe_that_nobody_reads_is_a_lost_connection() -> None:
    """It is said as by `send`."""
    read, write = os.pipe()
    os.close(read)
    stream = trio.lowlevel.FdStream(write)
    channel = StreamChannel(trio.testing.MemoryReceiveStream(), stream, description="nobody")
    with pytest.raises(ConnectionLost, match="writing to nobody failed"):
        channel.send_nowait([Outgoing(b"1")])
    stream.close()
    with pytest.raises(trio.ClosedResourceError):
        channel.send_nowait([Outgoing(b"1")])


async def test_closing_here_wakes_who_reads(pipe: tuple[StreamChannel, StreamChannel]) -> None:
    """And who reads afterwards is told the same."""
    near, _ = pipe

    async def read() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await near.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        await near.aclose()
    with trio.testing.assert_checkpoints():
        await read()


async def test_reading_is_a_checkpoint_and_ends_with_the_stream(
    pipe: tuple[StreamChannel, StreamChannel],
) -> None:
    """Even if there is something already; cancelled, it has taken nothing."""
    near, far = pipe
    assert near.send_nowait([Outgoing(b"1")])
    with trio.CancelScope() as scope:
        scope.cancel()
        await far.receive()
    assert scope.cancelled_caught
    with trio.testing.assert_checkpoints():
        assert await receive_all(far, 1) == [b"1"]
    await near.aclose()
    with pytest.raises(trio.EndOfChannel):
        await far.receive()


async def test_streams_without_descriptors_are_written_by_who_waits() -> None:
    """Nothing is taken of them at once."""
    ours, theirs = trio.testing.memory_stream_pair()
    channel = StreamChannel(ours, ours, description="memory")
    with pytest.raises(trio.WouldBlock):
        channel.send_nowait([Outgoing(b"1")])
    await channel.send([Outgoing(b"1"), Outgoing(b"2")])
    assert await theirs.receive_some() == b"1\n2\n"


async def test_sockets_are_like_pipes() -> None:
    """TCP and Unix sockets; both directions."""
    first, second = socket.socketpair()
    near_stream = trio.SocketStream(trio.socket.from_stdlib_socket(first))
    far_stream = trio.SocketStream(trio.socket.from_stdlib_socket(second))
    near = StreamChannel(near_stream, near_stream, max_message_bytes=4_000_000, description="far")
    far = StreamChannel(far_stream, far_stream, max_message_bytes=4_000_000, description="near")
    assert near.send_nowait([Outgoing(b"1")])
    assert await receive_all(far, 1) == [b"1"]
    async with trio.open_nursery() as nursery:
        if not far.send_nowait([Outgoing(LONG), Outgoing(b"2")]):
            nursery.start_soon(far.send, ())
        assert await receive_all(near, 2) == [LONG, b"2"]
    await near.aclose()
    with pytest.raises(trio.EndOfChannel):
        await far.receive()
    await far.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await near.receive()


@pytest.mark.skipif(sys.platform != "linux", reason="pipes are as wide as they are")
@pytest.mark.parametrize("nowait", [False, True])
async def test_a_pipe_is_widened_for_long_messages_alone(*, nowait: bool) -> None:
    """Its two ends then wake each other once for a message, not for each piece of it; an idle one costs nothing."""
    if sys.platform == "linux":
        import fcntl

        read_end, write_end = os.pipe()
        async with trio.lowlevel.FdStream(read_end) as reader, trio.lowlevel.FdStream(write_end) as writer:
            near = StreamChannel(_nothing_comes(), writer, description="far")
            far = StreamChannel(reader, writer, description="near")
            usual = fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ)
            await near.send([Outgoing(b"1")])
            assert await receive_all(far, 1) == [b"1"]
            assert fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ) == usual
            long = b'"%s"' % (b"x" * 3 * usual)
            if nowait:
                assert near.send_nowait([Outgoing(long)])
            else:
                await near.send([Outgoing(long)])
            assert await receive_all(far, 1) == [long]
            assert fcntl.fcntl(write_end, fcntl.F_GETPIPE_SZ) > 3 * usual


def _nothing_comes() -> trio.abc.ReceiveStream:
    return trio.testing.memory_stream_one_way_pair()[1]


class Endless(trio.abc.ReceiveStream):
    """A peer whose bytes are always there already, so that reading never waits."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.reads = 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes:  # noqa: ASYNC124 - as if it were there
        self.reads += 1
        assert self.reads < 10_000, "nobody else has run meanwhile"
        return self._data

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("data", [b"\n" * 65_536, b" \n\r\n", b" " * 100])
async def test_blank_lines_without_end_let_others_run(data: bytes) -> None:
    """Nothing comes of them, so nothing was returned, and no deadline of the whole program passed meanwhile."""
    sender, _ = trio.testing.memory_stream_one_way_pair()
    channel = StreamChannel(Endless(data), sender)
    with trio.move_on_after(0.01) as scope:
        await channel.receive()
    assert scope.cancelled_caught
