"""`open_process`: real processes, on the real clock, under deadlines that are only met if nothing hangs."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest
import trio
from children import has_children
from descriptors import open_files
from inside_transports import open_process
from places import PROGRAMS
from shared.bindings_process import (
    BRIEF,
    HANGS,
    LONG,
    PATIENT,
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


async def test_server_that_heeds_its_input_is_neither_asked_nor_killed(watched_by: str) -> None:
    """2026-07-28, basic/transports/stdio, "Shutdown": closing the input is the primary signal."""
    with trio.fail_after(HANGS):
        async with open_process(program("echo.py"), LONG) as process:
            await process.stdin.send_all(b"hello\n")
            assert await receive_line(process) == "hello"
        assert process.exit_status == 0
        assert not has_children()


@pytest.mark.spec("basic/transports/stdio", "Shutdown", revisions="2026-07-28")
@pytest.mark.parametrize("streams", ["keeps-streams", "closes-streams"])
async def test_server_that_ignores_everything_is_killed(streams: str, watched_by: str) -> None:
    """2026-07-28, basic/transports/stdio, "Shutdown": forced termination escalates to SIGKILL."""
    with trio.fail_after(HANGS):
        async with open_process(program("stubborn.py", streams), BRIEF) as process:
            await receive_line(process)
        assert process.exit_status == -signal.SIGKILL
        assert not has_children()


async def test_stopped_server_that_ignores_everything_is_killed() -> None:
    """Being stopped is no way to outlive the client."""
    with trio.fail_after(HANGS):
        async with open_process(program("stubborn.py"), BRIEF) as process:
            await receive_line(process)
            os.kill(process.pid, signal.SIGSTOP)
        assert process.exit_status == -signal.SIGKILL


async def test_descendant_left_behind_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    """Workers of a server that has exited may still clean up."""
    marker = tmp_path / "marker"
    with trio.fail_after(HANGS):
        params = program("orphaning.py", "in-our-group", PROGRAMS / "deaf.py", marker)
        async with open_process(params, PATIENT) as process:
            await receive_line(process)
            await process.stdin.send_all(b"!")
            assert await process.wait_exit() == 7
        assert marker.exists()


async def test_group_is_killed_at_once_where_its_number_cannot_be_kept(watched_by: str) -> None:
    """A program that ignores SIGCHLD has its children reaped by the kernel; signals could hit strangers later."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with trio.fail_after(HANGS):
            async with open_process(orphaning("in-our-group"), LONG) as process:
                descendant = open_pidfd(int(await receive_line(process)))
                await process.stdin.send_all(b"!")
                # The status is lost with the zombie, and 0 is what subprocess says then.
                assert await process.wait_exit() == 0
                await wait_gone(descendant)
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize(
    ("number", "fate"),
    [(signal.SIGKILL, "was killed by SIGKILL"), (signal.SIGRTMIN + 3, "was killed by signal 37")],
)
async def test_death_by_signal_is_a_negative_status(number: int, fate: str, watched_by: str) -> None:
    """A server that was killed, by the kernel for want of memory, say, is told from one that failed."""
    with trio.fail_after(HANGS):
        async with open_process(StdioServerParameters("cat"), LONG) as process:
            assert process.connection_lost().reason.endswith("has not exited")
            os.kill(process.pid, number)
            assert await process.wait_exit() == -number
            assert process.connection_lost().reason.endswith(fate)


async def test_process_that_cannot_be_killed_is_reported_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, watched_by: str
) -> None:
    """A server that runs as another user may be beyond us; that must not hold us for ever."""

    def refuse(_group: int, _number: int) -> None:
        raise PermissionError

    with trio.fail_after(HANGS):
        async with open_process(program("stubborn.py"), Limits(terminate_timeout=0.1)) as process:
            await receive_line(process)
            monkeypatch.setattr(os, "killpg", refuse)
        assert process.exit_status is None
        with pytest.raises(ConnectionLost, match="has not exited"):
            await process.wait_exit()
    assert f"(pid {process.pid}) could not be killed" in caplog.text
    # What the product could not do: end it, and reap it. Only then may the objects go that warn of it.
    os.kill(process.pid, signal.SIGKILL)
    assert await trio.to_thread.run_sync(os.waitpid, process.pid, 0) == (process.pid, signal.SIGKILL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del process
        gc.collect()


async def test_fifty_starts_leave_nothing(watched_by: str) -> None:
    """No descriptor, no process, no zombie, whichever way they end."""
    scripts = ["cat", "exit 3", "kill -9 $$", "sleep 600 & exec cat"]
    before = open_files()
    with trio.fail_after(2 * HANGS):
        for number in range(50):
            script = scripts[number % len(scripts)]
            async with open_process(StdioServerParameters("sh", ["-c", script]), BRIEF):
                pass
            with contextlib.suppress(ConnectionLost):
                async with open_process(StdioServerParameters("no-such-command-anywhere"), BRIEF):
                    pass
    assert not open_files() - before
    assert not has_children()
