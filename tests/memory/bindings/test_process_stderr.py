"""`_stderr`: text cut into pieces, every kind of sink, and sinks that raise or get stuck."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import trio
import trio.testing
from inside_transports import (
    KEPT_LINE_LENGTH,
    KEPT_LINES,
    MAX_PIECE,
    Sink,
    StderrReader,
    TextPieces,
    check_sink,
    open_sink,
)

from trio_mcp import StderrSink

HANGS = 120
WRITTEN = b"one\n\ntwo \xe2\x82\xac\r\nthree \xff\nfour"
LINES = ["one", "", "two €", "three \ufffd", "four"]
TEXT = "\n".join(LINES)


def pieces_of(chunks: Sequence[bytes]) -> list[str]:
    pieces = TextPieces()
    return [piece for chunk in chunks for piece in pieces.feed(chunk)] + pieces.finish()


@pytest.mark.parametrize("size", [1, 2, 7, 4096])
def test_chunk_boundaries_do_not_matter(size: int) -> None:
    """Lines and characters are cut by the pipe as it likes; U+2028 and a lone CR end no line."""
    written = WRITTEN + "\n\u2028\x85\x0b".encode() + b"\r-\r\n"
    chunks = [written[i : i + size] for i in range(0, len(written), size)]
    expected = ["one\n", "\n", "two €\n", "three \ufffd\n", "four\n", "\u2028\x85\x0b\r-\n"]
    assert pieces_of(chunks) == expected


def test_character_cut_off_by_the_end_becomes_a_replacement() -> None:
    """What a dying process did not finish is shown as far as it goes."""
    assert pieces_of([b"x\xe2\x82"]) == ["x\ufffd"]


@pytest.mark.parametrize("size", [1000, MAX_PIECE, 10 * MAX_PIECE])
def test_line_without_end_comes_in_pieces(size: int) -> None:
    """Memory is bounded, and a progress bar is shown before it is full."""
    written = b"x" * (2 * MAX_PIECE + 5) + b"\nshort\n"
    chunks = [written[i : i + size] for i in range(0, len(written), size)]
    pieces = TextPieces()
    received: list[str] = []
    for chunk in chunks:
        received += pieces.feed(chunk)
    assert received == ["x" * MAX_PIECE, "x" * MAX_PIECE, "xxxxx\n", "short\n"]
    assert pieces.finish() == []


@asynccontextmanager
async def reading(
    sink: Sink, *, patience: float = 60
) -> AsyncGenerator[tuple[StderrReader, trio.abc.SendStream]]:
    """A reader at work, and the end that is written to."""
    send, receive = trio.testing.memory_stream_one_way_pair()
    reader = StderrReader(receive, sink, patience=patience, source="the test")
    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader.run)
            yield reader, send
            await send.aclose()


async def write_to(sink: StderrSink) -> StderrReader:
    async with open_sink(sink) as opened, reading(opened) as (reader, send):
        await send.send_all(WRITTEN)
    assert reader.delivered.is_set()
    assert reader.dropped_pieces == 0
    return reader


async def test_callable_gets_each_line_in_order() -> None:
    """Without line ends, the unfinished last one too, in Trio's thread."""
    lines: list[str] = []

    def take(line: str) -> None:
        assert trio.lowlevel.in_trio_task()
        lines.append(line)

    await write_to(take)
    assert lines == LINES


async def test_logger_gets_each_line_at_level_info(caplog: pytest.LogCaptureFixture) -> None:
    """Clients should not take what is written there for an error (2026-07-28, basic/transports/stdio)."""
    caplog.set_level(logging.INFO, logger="servers.weather")
    await write_to(logging.getLogger("servers.weather"))
    assert caplog.record_tuples == [("servers.weather", logging.INFO, line) for line in LINES]


@pytest.mark.parametrize("kind", [str, Path])
async def test_path_is_appended_to(kind: Callable[[Path], str | Path], tmp_path: Path) -> None:
    """So that a server that is started again does not wipe out why."""
    path = tmp_path / "log"
    path.write_text("before\n", encoding="utf-8")
    await write_to(kind(path))
    assert path.read_text(encoding="utf-8") == "before\n" + TEXT


def open_text(path: Path) -> IO[Any]:
    return path.open("w", encoding="utf-8", newline="\n")


def open_buffered(path: Path) -> IO[Any]:
    return path.open("wb")


def open_unbuffered(path: Path) -> IO[Any]:
    return path.open("wb", buffering=0)


@pytest.mark.parametrize("opened", [open_text, open_buffered, open_unbuffered])
async def test_file_gets_the_text_at_once_and_stays_open(
    opened: Callable[[Path], IO[Any]], tmp_path: Path
) -> None:
    """The file is the caller's; a log that lags behind is no help when things go wrong."""
    path = tmp_path / "log"
    with opened(path) as file:
        await write_to(file)
        assert path.read_text(encoding="utf-8") == TEXT
        assert not file.closed


class Wrapped:
    """A file in disguise, as temporary files are."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.written: list[str | bytes] = []

    def write(self, data: str | bytes) -> None:
        self.written.append(data)


@pytest.mark.parametrize(("mode", "expected"), [("w+b", TEXT.encode()), ("w+", TEXT)])
async def test_what_writes_like_a_file_gets_text_unless_its_mode_is_binary(
    mode: str, expected: str | bytes
) -> None:
    """Having `write` is enough; returning nothing from it and having no `flush` is all right."""
    file = Wrapped(mode)
    await write_to(file)
    assert file.written == [expected[:-4], expected[-4:]]


async def test_unbuffered_file_that_takes_little_gets_everything() -> None:
    """A raw file may take less than it is given."""

    class Small(io.RawIOBase):
        taken = b""

        def write(self, data: Any, /) -> int:
            self.taken += bytes(data[:3])
            return len(data[:3])

    file = Small()
    await write_to(file)
    assert file.taken == TEXT.encode()


async def test_our_standard_error_is_looked_up_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs and test runners replace `sys.stderr`."""
    ours = io.StringIO()
    monkeypatch.setattr(sys, "stderr", ours)
    await write_to(None)
    assert ours.getvalue() == TEXT


async def test_program_without_standard_error_loses_nothing_but_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pythonw` has none."""
    monkeypatch.setattr(sys, "stderr", None)
    reader = await write_to(None)
    assert reader.tail == tuple(LINES)


async def test_last_lines_are_kept_and_cut() -> None:
    """An error shows twenty lines of at most a thousand characters, however long a line was."""
    async with open_sink(os.devnull) as sink, reading(sink) as (reader, send):
        await send.send_all(b"".join(b"line %d\n" % number for number in range(100)))
        await send.send_all(b"x" * 3 * MAX_PIECE + b"\n" + b"end")
    assert reader.tail[:-2] == tuple(f"line {number}" for number in range(100 - KEPT_LINES + 2, 100))
    assert reader.tail[-2:] == ("x" * KEPT_LINE_LENGTH, "end")


async def test_sink_that_raises_is_reported_once_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """A bug in somebody's callback must not cost them the server."""
    calls: list[str] = []

    def fail(line: str) -> None:
        calls.append(line)
        raise RuntimeError("no room for this")

    async with open_sink(fail) as sink, reading(sink, patience=0.05) as (reader, send):
        for line in [b"one\n", b"two\n", b"three\n"]:
            await send.send_all(line)
            await trio.testing.wait_all_tasks_blocked()
    assert calls == ["one"]
    assert reader.tail == ("one", "two", "three")
    assert reader.dropped_pieces == 0
    (record,) = caplog.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)
    assert "the test" in record.getMessage()


class Terminal:
    """A text file whose writes wait while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.taken: list[str] = []

    def write(self, text: str) -> None:
        assert self.gate.wait(HANGS)
        self.taken.append(text)


class Alarm(logging.Handler):
    """Counts the warnings of the library, and can be waited for."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.rings = 0
        self.rang = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.rings += 1
        self.rang.set()


@pytest.fixture
def alarm() -> Generator[Alarm]:
    alarm = Alarm()
    logging.getLogger("trio_mcp").addHandler(alarm)
    yield alarm
    logging.getLogger("trio_mcp").removeHandler(alarm)


async def test_stuck_sink_loses_lines_and_may_recover(alarm: Alarm) -> None:
    """A terminal that was stopped must not stop the server that logs to it, and may be made to go on."""
    terminal = Terminal()
    async with open_sink(terminal) as sink, reading(sink, patience=0.5) as (reader, send):
        await send.send_all(b"1\n")
        await trio.testing.wait_all_tasks_blocked()
        await send.send_all(b"2\n")
        await alarm.rang.wait()
        await send.send_all(b"3\n3\n")
        await trio.testing.wait_all_tasks_blocked()
        assert reader.dropped_pieces == 3
        assert reader.tail == ("1", "2", "3", "3")
        terminal.gate.set()
        while len(terminal.taken) < 2:  # the thread is on its way back
            await send.send_all(b"4\n")
            await trio.testing.wait_all_tasks_blocked()
    assert terminal.taken[:2] == ["1\n", "4\n"]
    assert alarm.rings == 1


async def test_recovered_sink_is_waited_for_again(alarm: Alarm) -> None:
    """Having been stuck once is no reason to lose lines to every short delay from then on."""
    terminal = Terminal()
    async with open_sink(terminal) as sink, reading(sink, patience=0.5) as (reader, send):
        await send.send_all(b"1\n")
        await trio.testing.wait_all_tasks_blocked()
        await send.send_all(b"2\n")
        await alarm.rang.wait()
        terminal.gate.set()
        while len(terminal.taken) < 2:
            await send.send_all(b"3\n")
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked(0.1)
        dropped = reader.dropped_pieces
        terminal.gate.clear()
        await send.send_all(b"4\n")
        await trio.testing.wait_all_tasks_blocked()
        await send.send_all(b"5\n")
        await trio.testing.wait_all_tasks_blocked()
        terminal.gate.set()
    assert terminal.taken[-2:] == ["4\n", "5\n"]
    assert reader.dropped_pieces == dropped


async def test_failing_pipe_is_the_end_of_it() -> None:
    """What was read until then is kept."""

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    send, receive = trio.testing.memory_stream_one_way_pair()
    lines: list[str] = []
    async with open_sink(lines.append) as sink:
        reader = StderrReader(receive, sink, patience=1, source="the test")
        await send.send_all(b"one\ntwo")
        receive.receive_some_hook = None
        with trio.fail_after(HANGS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reader.run)
                await trio.testing.wait_all_tasks_blocked()
                receive.receive_some_hook = fail
                await send.send_all(b"!")
    assert lines == ["one", "two!"]
    assert reader.at_end.is_set()


@pytest.mark.parametrize("sink", [3, object(), b"bytes", ["list"]])
def test_what_cannot_be_a_sink_is_refused(sink: object) -> None:
    """Found when the parameters are made, not when the first line is lost."""
    with pytest.raises(TypeError, match="stderr must be"):
        check_sink(sink)


def test_asynchronous_sink_is_refused() -> None:
    """It would be called and never awaited."""

    async def take(_line: str) -> None:
        await trio.lowlevel.checkpoint()

    with pytest.raises(TypeError, match="async"):
        check_sink(take)
    with pytest.raises(TypeError, match="async"):
        check_sink(trio.wrap_file(io.StringIO()))
