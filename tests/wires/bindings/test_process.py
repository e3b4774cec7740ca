"""`open_process`: real processes, on the real clock, under deadlines that are only met if nothing hangs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO

import attrs
import pytest
import trio
import trio.testing
from children import has_children
from inside_transports import open_process
from places import PROGRAMS
from shared.bindings_process import (
    BRIEF,
    HANGS,
    LONG,
    PATIENT,
    cancelled_block,
    open_pidfd,
    orphaning,
    program,
    receive_line,
    wait_gone,
)
from shared.bindings_process import _children_of_others as _children_of_others
from shared.bindings_process import watched_by as watched_by

from trio_mcp import ConnectionLost, Limits, StdioServerParameters

if sys.platform != "linux":
    pytest.skip("watches processes through pidfds and /proc", allow_module_level=True)
SAYS_GOODBYE = "import sys; print(1, flush=True); sys.stdin.read(); print('goodbye', file=sys.stderr)"


def code(source: str, *args: object) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, ["-c", source, *map(str, args)])


@pytest.mark.spec("basic/transports/stdio", "Shutdown", revisions="2026-07-28")
async def test_server_that_ignores_its_input_is_asked_and_may_clean_up(tmp_path: Path, watched_by: str) -> None:
    """SIGTERM comes before SIGKILL, so that handlers and `finally` blocks run."""
    marker = tmp_path / "marker"
    with trio.fail_after(HANGS):
        async with open_process(program("deaf.py", marker), PATIENT) as process:
            await receive_line(process)
        assert process.exit_status == 5
        assert marker.read_text(encoding="utf-8") == "cleaned up"


async def test_stopped_server_may_clean_up(tmp_path: Path) -> None:
    """A stopped process gets SIGTERM only when it goes on, so it is made to go on."""
    marker = tmp_path / "marker"
    with trio.fail_after(HANGS):
        async with open_process(program("deaf.py", marker), PATIENT) as process:
            await receive_line(process)
            os.kill(process.pid, signal.SIGSTOP)
        assert process.exit_status == 5
        assert marker.exists()


@pytest.mark.parametrize("streams", ["keeps-streams", "closes-streams"])
async def test_no_descendant_survives_a_server_that_has_exited(streams: str, watched_by: str) -> None:
    """The group is killed whatever became of its leader, and who holds the pipes does not hold up the end."""
    with trio.fail_after(HANGS):
        async with open_process(orphaning("in-our-group", streams), BRIEF) as process:
            descendant = open_pidfd(int(await receive_line(process)))
            await process.stdin.send_all(b"!")
            assert await process.wait_exit() == 7
        assert process.exit_status == 7
        await wait_gone(descendant)
        assert not has_children()


async def test_descendant_may_clean_up_after_its_leader(tmp_path: Path) -> None:
    """A shell that runs a server dies of SIGTERM at once; the server still gets its time."""
    marker = tmp_path / "marker"
    script = '"$0" "$1" "$2"; true'
    with trio.fail_after(HANGS):
        wrapper = StdioServerParameters(
            "sh", ["-c", script, sys.executable, str(PROGRAMS / "deaf.py"), str(marker)]
        )
        async with open_process(wrapper, PATIENT) as process:
            await receive_line(process)
        assert process.exit_status == -signal.SIGTERM
        assert marker.exists()


async def test_server_without_standard_error_is_asked_too(tmp_path: Path) -> None:
    """That its standard error is at its end does not mean that it is gone."""
    marker = tmp_path / "marker"
    script = 'exec "$0" "$1" "$2" 2>&-'
    with trio.fail_after(HANGS):
        wrapper = StdioServerParameters(
            "sh", ["-c", script, sys.executable, str(PROGRAMS / "deaf.py"), str(marker)]
        )
        async with open_process(wrapper, PATIENT) as process:
            await receive_line(process)
        assert process.exit_status == 5
        assert marker.exists()


async def test_descendant_out_of_reach_does_not_hold_up_the_end() -> None:
    """A daemon in a session of its own may keep our pipe for standard error open for as long as it likes."""
    with trio.fail_after(HANGS):
        async with open_process(orphaning("in-its-own-session"), BRIEF) as process:
            daemon = int(await receive_line(process))
            pidfd = open_pidfd(daemon)
            await process.stdin.send_all(b"!")
            assert await process.wait_exit() == 7
        assert not has_children()
        os.kill(daemon, signal.SIGKILL)
        await wait_gone(pidfd)


async def test_exit_does_not_end_the_block_and_keeps_the_number_taken(watched_by: str) -> None:
    """An unreaped leader cannot be confused with a stranger when its group is killed at the end."""
    with trio.fail_after(HANGS):
        async with open_process(code("raise SystemExit(3)"), LONG) as process:
            assert await process.wait_exit() == 3
            assert process.exit_status == 3
            await trio.testing.wait_all_tasks_blocked()
            assert has_children()
        assert not has_children()


async def test_nothing_is_signalled_once_the_number_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's group may have it by then."""
    from inside_transports import ProcessTree

    def refuse(_group: int, _number: int) -> None:
        pytest.fail("a stranger was signalled")

    with trio.fail_after(HANGS):
        tree = await ProcessTree.start("cat", (), env={"PATH": os.defpath}, cwd=None)
        async with tree.stdin, tree.stdout, tree.stderr:
            tree.kill()
            assert await tree.wait_exit() == -signal.SIGKILL
            assert tree.release() == -signal.SIGKILL
            monkeypatch.setattr(os, "killpg", refuse)
            tree.kill()
            tree.ask_to_exit()


async def test_last_words_come_with_the_exit() -> None:
    """Why a server did not start is in its traceback, so whoever learns of the exit can show it."""
    with trio.fail_after(HANGS):
        async with open_process(code("import no_such_module_anywhere"), LONG) as process:
            assert await process.wait_exit() == 1
            assert process.stderr_tail[-1] == "ModuleNotFoundError: No module named 'no_such_module_anywhere'"
            assert await process.stdout.receive_some() == b""
            error = process.connection_lost()
    assert error.exit_status == 1
    assert error.stderr == process.stderr_tail
    assert error.reason == f"stdio server {sys.executable!r} (pid {process.pid}) exited with status 1"


async def test_last_words_of_a_descendant_come_with_the_exit_if_they_come_soon() -> None:
    """The interpreter that failed may be the child of a wrapper that has exited already."""
    script = "exec 3<&0; { read line <&3; echo late >&2; } & exit 3"
    with trio.fail_after(HANGS):
        async with open_process(StdioServerParameters("sh", ["-c", script]), LONG) as process:
            await wait_gone(open_pidfd(process.pid))
            await process.stdin.send_all(b"\n")
            assert await process.wait_exit() == 3
            assert process.stderr_tail == ("late",)


async def test_flood_on_standard_error_stalls_nothing() -> None:
    """2024-11-05 on: a server may log as much as it likes, whether or not somebody reads its output."""
    flood = "import sys; line = b'x' * 1023 + b'\\n'; [sys.stderr.buffer.write(line) for _ in range(50 * 1024)]"
    with trio.fail_after(2 * HANGS):
        params = attrs.evolve(code(f"print('not read'); {flood}"), stderr=os.devnull)
        async with open_process(params, LONG) as process:
            assert await process.wait_exit() == 0
            assert process.statistics().stderr_bytes == 50 * 1024 * 1024
            assert process.stderr_tail == ("x" * 1_000,) * 20


async def test_slow_sink_has_had_everything_when_the_block_is_left() -> None:
    """The last words are the ones that matter."""
    taken: list[str] = []

    class Slow:
        def write(self, text: str) -> None:
            time.sleep(0.05)
            taken.append(text)

    with trio.fail_after(HANGS):
        async with open_process(attrs.evolve(code(SAYS_GOODBYE), stderr=Slow()), LONG) as process:
            await receive_line(process)
    assert taken == ["goodbye\n"]


@pytest.fixture
def unread_pipe() -> Generator[BinaryIO]:
    """The write end of a pipe that nobody reads."""
    read_end, write_end = os.pipe()
    # The read end is closed first, so that a thread that is stuck in a write comes back.
    with os.fdopen(write_end, "wb", buffering=0) as file, os.fdopen(read_end, "rb"):
        yield file


async def test_stuck_sink_does_not_hold_up_the_server_nor_the_end(unread_pipe: BinaryIO) -> None:
    """Our standard error may be a pipe that nobody reads."""
    flood = "import sys; [sys.stderr.write('x' * 99 + '\\n') for _ in range(10_000)]"
    limits = Limits(terminate_timeout=60, slow_consumer_timeout=0.1)
    with trio.fail_after(HANGS):
        async with open_process(attrs.evolve(code(flood), stderr=unread_pipe), limits) as process:
            assert await process.wait_exit() == 0
            await process.aclose()
            assert process.statistics().stderr_bytes == 1_000_000
            assert 0 < process.statistics().stderr_dropped <= 10_000


async def test_environment_is_not_inherited_but_for_what_programs_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our secrets are not a server's business."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("LC_FUNCTION", "() { :; }")

    async def environment_of(params: StdioServerParameters) -> set[str]:
        output = b""
        async with open_process(params, LONG) as process:
            async for chunk in process.stdout:
                output += chunk
        return set(output.decode().splitlines())

    with trio.fail_after(HANGS):
        little = await environment_of(StdioServerParameters("env", env={"GREETING": "hello"}))
        everything = await environment_of(StdioServerParameters("env", inherit_env=True))
    assert {"GREETING=hello", "LC_TIME=C", f"PATH={os.environ['PATH']}"} <= little
    assert not [line for line in little if line.startswith(("SECRET_TOKEN", "LC_FUNCTION"))]
    assert {"SECRET_TOKEN=hunter2", "LC_FUNCTION=() { :; }"} <= everything


async def test_server_starts_in_its_directory(tmp_path: Path) -> None:
    """`cwd` is a path of any kind."""
    with trio.fail_after(HANGS):
        async with open_process(StdioServerParameters("pwd", ["-P"], cwd=tmp_path), LONG) as process:
            assert await receive_line(process) == str(tmp_path)


def not_there(_directory: Path) -> StdioServerParameters:
    return StdioServerParameters("no-such-command-anywhere")


def not_executable(directory: Path) -> StdioServerParameters:
    (directory / "server").write_text("#!/bin/sh\n", encoding="utf-8")
    return StdioServerParameters(str(directory / "server"))


def no_program(directory: Path) -> StdioServerParameters:
    (directory / "server").write_bytes(b"\x7fELF")
    (directory / "server").chmod(0o700)
    return StdioServerParameters(str(directory / "server"))


def no_such_directory(directory: Path) -> StdioServerParameters:
    return StdioServerParameters("cat", cwd=directory / "nowhere")


def no_place_for_stderr(directory: Path) -> StdioServerParameters:
    return StdioServerParameters("cat", stderr=directory / "nowhere" / "log")


def no_interpreter(directory: Path) -> StdioServerParameters:
    script = directory / "server"
    script.write_bytes(b"#!/bin/sh\r\necho\r\n")
    script.chmod(0o755)
    return StdioServerParameters("./server", cwd=directory)


def with_its_arguments(_: Path) -> StdioServerParameters:
    return StdioServerParameters("no-such-python x.py --fast")


def with_its_secrets(_: Path) -> StdioServerParameters:
    return StdioServerParameters(
        "KEY=hush /no/desktop_assistant_server --api-key hush --token=hush Bearer hush x.py"
    )


SECRETS_APART = "StdioServerParameters('KEY=…', ['/no/desktop_assistant_server', '--api-key', '…', '--token=…', 'Bearer', '…', 'x.py'])"
ARGUMENTS_APART = "StdioServerParameters('no-such-python', ['x.py', '--fast'])?"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (not_there, ["'no-such-command-anywhere'", "command not found"]),
        (
            with_its_arguments,
            ["'no-such-python x.py --fast': command not found; did you mean", ARGUMENTS_APART],
        ),
        (
            with_its_secrets,
            ["'KEY=… /no/desktop_assistant_server --api-key … --token=… Bearer … x.py'", SECRETS_APART],
        ),
        (not_executable, ["server'", "Permission denied"]),
        (no_program, ["server'", "Exec format error"]),
        (no_interpreter, ["'./server': its interpreter '/bin/sh\\r' is not there"]),
        (no_such_directory, ["'cat'", "directory", "nowhere'", "No such file or directory"]),
        (no_place_for_stderr, ["nowhere/log'", "standard error", "No such file or directory"]),
    ],
)
async def test_failure_to_start_names_the_command_and_the_cause(
    params: Callable[[Path], StdioServerParameters], words: list[str], tmp_path: Path
) -> None:
    """The commonest mistake of all is a wrong command, and it is made by people who read the message."""
    with trio.fail_after(HANGS), pytest.raises(ConnectionLost) as caught:
        async with open_process(params(tmp_path), LONG):
            pytest.fail("it started")
    assert [word for word in words if word not in caught.value.reason] == []
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.exit_status is None
    assert not has_children()


async def test_error_in_the_block_comes_out_as_itself() -> None:
    """That there is a nursery inside is nobody's business."""
    error = ValueError("mine")
    with trio.fail_after(HANGS), pytest.raises(ValueError, match="mine") as caught:
        async with open_process(StdioServerParameters("cat"), LONG):
            raise error
    assert caught.value is error
    assert error.__context__ is None
    assert not has_children()


async def test_group_in_the_block_is_not_wrapped_in_another() -> None:
    """The block's own nurseries raise groups, and handlers outside expect those."""
    with trio.fail_after(HANGS), pytest.RaisesGroup(KeyError, OSError, match="mine"):
        async with open_process(StdioServerParameters("cat"), LONG):
            raise ExceptionGroup("mine", [KeyError(), OSError()])


async def test_cancelled_block_still_hears_the_last_words() -> None:
    """The servants outlive the block: what a server says while it is being ended is not lost."""
    lines: list[str] = []
    process, _seconds = await cancelled_block(attrs.evolve(code(SAYS_GOODBYE), stderr=lines.append), LONG)
    assert process.exit_status == 0
    assert lines == ["goodbye"]
    assert process.stderr_tail == ("goodbye",)


async def test_closing_early_ends_the_process_once() -> None:
    """`aclose` is idempotent, checkpoints every time, and two tasks may call it at once."""
    with trio.fail_after(HANGS):
        async with open_process(StdioServerParameters("cat"), LONG) as process:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.aclose)
                nursery.start_soon(process.aclose)
            assert process.exit_status == 0
            with trio.testing.assert_checkpoints():
                await process.aclose()
            with trio.testing.assert_checkpoints():
                assert await process.wait_exit() == 0
            with pytest.raises(trio.ClosedResourceError):
                await process.stdin.send_all(b"x")
            with pytest.raises(trio.ClosedResourceError):
                await process.stdout.receive_some()


async def test_closing_wakes_who_waits_for_the_process(watched_by: str) -> None:
    """Nobody waits for ever, on any of its ends."""
    with trio.fail_after(HANGS):
        async with open_process(program("stubborn.py"), BRIEF) as process:
            await receive_line(process)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(process.wait_exit)
                nursery.start_soon(process.aclose)
                assert await process.stdout.receive_some() == b""


async def test_two_processes_do_not_share_their_ends() -> None:
    """The end of one is not held open by the other."""
    with trio.fail_after(HANGS):
        async with (
            open_process(StdioServerParameters("cat"), LONG) as first,
            open_process(StdioServerParameters("cat"), LONG) as second,
        ):
            await first.aclose()
            assert first.exit_status == 0
            assert second.exit_status is None
            await second.stdin.send_all(b"still here\n")
            assert await receive_line(second) == "still here"
