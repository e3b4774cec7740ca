"""Programs that hang, wherever that is, and what ends them: signals, and the end of input. Processes: real time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from http_wire import request_for
from places import PROGRAMS
from raw import modern

from trio_mcp import Shutdown, run_until_signal

PROGRAM = PROGRAMS / "hanging.py"
TRANSPORTS = pytest.mark.parametrize("transport", ["stdio", "hypercorn", "lean"])
FOR_EVER = 1_000
"""Seconds that no test has: what waits for so long is not what ends the program."""
SOON = 0.2
TERM, INT = signal.SIGTERM, signal.SIGINT
BOTH = pytest.mark.parametrize("number", [TERM, INT], ids=["SIGTERM", "SIGINT"])


class Hanging:
    """The program."""

    def __init__(self, process: trio.Process, diary: Path) -> None:
        self.process = process
        self.stderr = bytearray()
        self._diary = diary

    @property
    def lines(self) -> list[str]:
        """What has become of it so far."""
        return self._diary.read_text().splitlines()

    async def wait_line(self, line: str) -> None:
        """Wait until something has happened."""
        while line not in self.lines:
            assert self.process.poll() is None, (self.lines, bytes(self.stderr).decode())
            await trio.sleep(0.01)

    async def wait_heard(self) -> None:
        """Wait until a signal that was sent has been heard, so that another one is another one."""
        mask = sum(1 << (number - 1) for number in (TERM, INT))
        status = Path(f"/proc/{self.process.pid}/status")
        while any(
            int(line.split()[1], 16) & mask
            for line in status.read_text().splitlines()
            if line.startswith(("SigPnd", "ShdPnd"))
        ):
            await trio.sleep(0.005)
        await trio.sleep(0.05)  # Python hears it a moment later

    async def send(self, *numbers: signal.Signals) -> None:
        """Send signals, one after the other."""
        for number in numbers:
            self.process.send_signal(number)
            await self.wait_heard()

    async def end_input(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()


@asynccontextmanager
async def hanging(
    tmp_path: Path, transport: str, where: str, *, tool: str | None = None, **limits: float
) -> AsyncGenerator[Hanging]:
    """Run the program until it hangs."""
    diary = tmp_path / "diary"
    diary.touch()
    bounds = {"drain_timeout": FOR_EVER, "goodbye_timeout": FOR_EVER, "lifespan_timeout": FOR_EVER, **limits}
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(
            [sys.executable, str(PROGRAM), transport, where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "DIARY": str(diary), "LIMITS": json.dumps(bounds)},
        )
        program = Hanging(process, diary)
        connection: trio.SocketStream | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read_stderr, program)
                if tool is not None:
                    connection = await _call(process, transport, tool)
                yield program
                nursery.cancel_scope.cancel()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout, process.stderr, connection):
                    if stream is not None:
                        await stream.aclose()


async def _read_stderr(program: Hanging) -> None:
    assert program.process.stderr is not None
    async for data in program.process.stderr:
        program.stderr += data


async def _call(process: trio.Process, transport: str, tool: str) -> trio.SocketStream | None:
    """Call a tool, and do not wait for an answer."""
    request = modern(1, "tools/call", name=tool, arguments={})
    assert process.stdin is not None
    if transport == "stdio":
        await process.stdin.send_all(json.dumps(request).encode() + b"\n")
        return None
    stream = await trio.open_tcp_stream("127.0.0.1", await _port(process))
    await stream.send_all(request_for(request))
    return stream


async def _port(process: trio.Process) -> int:
    assert process.stdout is not None
    said = b""
    while b"\n" not in said:
        said += await process.stdout.receive_some()
    return int(said.decode().split(":")[2].split("/")[0])


async def begin(program: Hanging, transport: str) -> None:
    """Wait until it serves, for what happens when it ends."""
    if transport == "stdio":
        assert program.process.stdin is not None
        assert program.process.stdout is not None
        await program.process.stdin.send_all(json.dumps(modern(0, "server/discover")).encode() + b"\n")
        await program.process.stdout.receive_some()
    else:
        await _port(program.process)


@TRANSPORTS
@BOTH
async def test_one_signal_ends_a_lifespan_that_hangs_while_it_is_entered(
    transport: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Nobody is served yet, so there is nothing to finish."""
    async with hanging(tmp_path, transport, "entering") as program:
        await program.wait_line("hangs entering")
        await program.send(number)
        assert await program.process.wait() == (130 if number == INT else 0)
    assert program.lines == ["hangs entering", "cancelled entering"]
    assert b"Traceback" not in program.stderr


@TRANSPORTS
@pytest.mark.parametrize("second", [TERM, INT])
async def test_the_second_signal_ends_a_lifespan_that_hangs_while_it_is_left(
    transport: str, second: signal.Signals, tmp_path: Path
) -> None:
    """The first one lets it take its time."""
    async with hanging(tmp_path, transport, "leaving") as program:
        await begin(program, transport)
        await program.send(TERM)
        await program.wait_line("hangs leaving")
        assert program.lines == ["hangs leaving"]
        await program.send(second)
        assert await program.process.wait() == (130 if second == INT else 0)
    assert program.lines == ["hangs leaving", "cancelled leaving"]
    assert b"Traceback" not in program.stderr


@TRANSPORTS
async def test_an_interrupted_lifespan_has_some_time_to_clean_up(transport: str, tmp_path: Path) -> None:
    """SIGINT cancels what is being served at once; what has to be awaited to clean up still can be."""
    async with hanging(tmp_path, transport, "sleeping", tool="sleep") as program:
        await program.wait_line("hangs sleeping")
        await program.send(INT)
        assert await program.process.wait() == 130
    assert program.lines == ["hangs sleeping", "cancelled sleeping", "left"]


@TRANSPORTS
async def test_an_interrupted_lifespan_that_hangs_is_cancelled(transport: str, tmp_path: Path) -> None:
    """goodbye_timeout: SIGINT says what a second signal says."""
    async with hanging(tmp_path, transport, "leaving", goodbye_timeout=SOON) as program:
        await begin(program, transport)
        await program.send(INT)
        assert await program.process.wait() == 130
    assert program.lines == ["hangs leaving", "cancelled leaving"]


@TRANSPORTS
@pytest.mark.parametrize("numbers", [(TERM, TERM, TERM), (INT, INT, INT)])
@pytest.mark.parametrize("tool", ["tidy", "shielded", "loop"])
async def test_the_third_signal_ends_the_process_whatever_it_does(
    tool: str, numbers: tuple[signal.Signals, ...], transport: str, tmp_path: Path
) -> None:
    """Handlers that shield themselves, or their cleanup, or block the event loop, cannot be cancelled."""
    hang = {"tidy": "tidying"}.get(tool, tool)
    async with hanging(tmp_path, transport, hang, tool=tool) as program:
        await program.wait_line(f"hangs {hang}")
        await program.send(*numbers[:2])
        assert program.process.poll() is None
        program.process.send_signal(numbers[2])
        assert await program.process.wait() == -numbers[2]
        while b"the third signal" not in program.stderr:
            await trio.sleep(0.01)


@TRANSPORTS
async def test_the_third_signal_ends_a_lifespan_that_shields_itself(transport: str, tmp_path: Path) -> None:
    """Before anybody is served."""
    async with hanging(tmp_path, transport, "shielded-entering") as program:
        await program.wait_line("hangs shielded-entering")
        await program.send(TERM, TERM)
        assert program.process.poll() is None
        program.process.send_signal(TERM)
        assert await program.process.wait() == -TERM


async def test_the_third_signal_ends_a_program_that_hangs_after_serving(tmp_path: Path) -> None:
    """Until then it is on its way out, and must not look killed."""
    async with hanging(tmp_path, "stdio", "exiting") as program:
        await begin(program, "stdio")
        await program.send(TERM)
        await program.wait_line("hangs exiting")
        await program.send(TERM)
        assert program.process.poll() is None
        program.process.send_signal(TERM)
        assert await program.process.wait() == -TERM


def test_without_a_signal_they_mean_what_they_meant_before() -> None:
    """A program may go on after serving."""

    async def serve(*, shutdown: Shutdown) -> None:
        await trio.lowlevel.checkpoint()

    before = signal.getsignal(TERM), signal.getsignal(INT)
    run_until_signal(serve)
    assert (signal.getsignal(TERM), signal.getsignal(INT)) == before


async def test_the_third_signal_does_not_wait_for_standard_error(tmp_path: Path) -> None:
    """Who keeps it open and does not read it would hold up the end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    diary = tmp_path / "diary"
    diary.touch()
    env = {**os.environ, "DIARY": str(diary), "LIMITS": "{}"}
    command = [sys.executable, str(PROGRAM), "stdio", "shielded-entering"]
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stderr=writing, env=env)
        try:
            program = Hanging(process, diary)
            await program.wait_line("hangs shielded-entering")
            await program.send(TERM, TERM)
            process.send_signal(TERM)
            assert await process.wait() == -TERM
        finally:
            process.kill()
            assert process.stdin is not None
            await process.stdin.aclose()
            os.close(reading)
            os.close(writing)


@TRANSPORTS
@BOTH
async def test_a_thread_that_hangs_holds_up_no_signal(
    transport: str, number: signal.Signals, tmp_path: Path
) -> None:
    """SIGTERM gives it its time, SIGINT none; the process does not wait for it."""
    async with hanging(tmp_path, transport, "thread", tool="thread", drain_timeout=SOON) as program:
        await program.wait_line("hangs thread")
        await program.send(number)
        assert await program.process.wait() == (130 if number == INT else 0)
    assert program.lines == ["hangs thread", "left"]


# The end of input.


async def test_the_end_of_input_ends_a_lifespan_that_hangs_while_it_is_entered(tmp_path: Path) -> None:
    """drain_timeout: the client is gone, whatever it has written before."""
    async with hanging(tmp_path, "stdio", "entering", tool="sleep", drain_timeout=SOON) as program:
        await program.wait_line("hangs entering")
        await program.end_input()
        assert await program.process.wait() == 0
    assert program.lines == ["hangs entering", "cancelled entering"]
    assert b"Traceback" not in program.stderr


async def test_the_end_of_input_ends_a_lifespan_that_hangs_while_it_is_left(tmp_path: Path) -> None:
    """lifespan_timeout: perhaps nobody is left who could send a signal."""
    async with hanging(tmp_path, "stdio", "leaving", lifespan_timeout=SOON) as program:
        await program.end_input()
        assert await program.process.wait() == 0
    assert program.lines == ["hangs leaving", "cancelled leaving"]
    assert b"was cancelled, because it took too long to end" in program.stderr


async def test_a_signal_after_the_end_of_input_ends_a_lifespan_that_hangs_while_it_is_left(
    tmp_path: Path,
) -> None:
    """It is the second reason to end, as for handlers: a client that has closed its input will kill next."""
    async with hanging(tmp_path, "stdio", "leaving") as program:
        await program.end_input()
        await program.wait_line("hangs leaving")
        await program.send(TERM)
        assert await program.process.wait() == 0
    assert program.lines == ["hangs leaving", "cancelled leaving"]


async def test_what_was_asked_before_the_lifespan_was_entered_is_answered(tmp_path: Path) -> None:
    """``server < requests``: the input ends long before the server serves, and nothing of it is lost."""
    requests = [modern(n, "tools/call", name="sleep", arguments={}) for n in range(200)]
    async with hanging(tmp_path, "stdio", "nowhere") as program:
        assert program.process.stdin is not None
        assert program.process.stdout is not None
        await program.process.stdin.send_all(b"".join(json.dumps(each).encode() + b"\n" for each in requests))
        await program.end_input()
        answers = bytearray()
        async for data in program.process.stdout:
            answers += data
        assert await program.process.wait() == 0
    assert sorted(json.loads(line)["id"] for line in answers.splitlines()) == list(range(200))
