"""Standard streams that no event loop can wait for are read and written by threads, in good order and in bad."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from inside_transports import _ThreadedReceiveStream, open_stdio_channel

from trio_mcp import ConnectionLost, Incoming, Limits, Outgoing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the test itself needs POSIX")


@contextmanager
def standard_streams(stdin: int, stdout: int) -> Generator[None]:
    """Put other descriptors in the places of standard input and output."""
    kept = os.dup(0), os.dup(1)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    try:
        yield
    finally:
        for place, descriptor in enumerate(kept):
            os.dup2(descriptor, place)
            os.close(descriptor)


@pytest.fixture
def requests(tmp_path: Path) -> Generator[int]:
    path = tmp_path / "requests"
    path.write_bytes(b'{"a":1}\n\n' + b'{"b":"%b"}\n' % (b"x" * 200_000) + b'{"c":3}')
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def answers(tmp_path: Path) -> Generator[int]:
    descriptor = os.open(tmp_path / "answers", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


async def test_files_are_read_to_their_end_and_written_whole(requests: int, answers: int) -> None:
    received: list[bytes] = []
    with trio.fail_after(20), standard_streams(requests, answers):
        async with open_stdio_channel(Limits()) as channel:
            assert os.read(0, 1) == b"", "standard input is empty for everybody else"
            with pytest.raises(trio.EndOfChannel):
                while True:
                    for message in await channel.receive():
                        assert isinstance(message, Incoming)
                        received.append(message.data)
            for size in (1, 300_000):
                await channel.send([Outgoing(b"y" * size), Outgoing(b"z")])
    assert [len(data) for data in received] == [7, 200_008, 7]
    os.lseek(answers, 0, os.SEEK_SET)
    with os.fdopen(os.dup(answers), "rb") as file:
        assert file.read() == b"y\nz\n" + b"y" * 300_000 + b"\nz\n"


async def test_a_file_that_cannot_be_read_is_a_lost_connection(tmp_path: Path, answers: int) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a directory is no file that can be read
    with trio.fail_after(20), standard_streams(descriptor, answers):
        async with open_stdio_channel(Limits()) as channel:
            with pytest.raises(ConnectionLost, match=r"reading from the client .* failed"):
                await channel.receive()
    os.close(descriptor)


async def test_a_full_device_is_a_lost_connection(requests: int) -> None:
    """The error says what the system said."""
    full = os.open("/dev/full", os.O_WRONLY)
    with trio.fail_after(20), standard_streams(requests, full):
        async with open_stdio_channel(Limits()) as channel:
            with pytest.raises(ConnectionLost, match=os.strerror(errno.ENOSPC)):
                await channel.send([Outgoing(b"{}")])
    os.close(full)


async def test_nothing_is_done_after_closing(requests: int, answers: int) -> None:
    """Least of all on a descriptor that may be somebody else's by now."""
    with trio.fail_after(20), standard_streams(requests, answers):
        async with open_stdio_channel(Limits()) as channel:
            await channel.aclose()
            await channel.aclose()
            with pytest.raises(trio.ClosedResourceError):
                await channel.receive()
            with pytest.raises(trio.ClosedResourceError):
                await channel.send([Outgoing(b"{}")])


async def test_a_read_that_never_ends_can_be_left() -> None:
    """The thread is left behind. It holds up neither a cancellation nor the end."""
    reading, writing = os.pipe()
    stream = _ThreadedReceiveStream(reading)
    with trio.move_on_after(0.05) as scope:
        await stream.receive_some()
    assert scope.cancelled_caught
    os.write(writing, b"x")  # lets the thread go before its descriptor is somebody else's
    with trio.fail_after(20):
        await trio.to_thread.run_sync(os.close, writing)
        assert await stream.receive_some() in {b"", b"x"}
        await stream.aclose()
