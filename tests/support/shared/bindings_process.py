"""What the tests of process share in several layers."""

from __future__ import annotations

import errno
import os
import sys

import pytest
import trio
from children import overlook_children
from inside_transports import ServerProcess, open_process
from places import PROGRAMS

from trio_mcp import Limits, StdioServerParameters

open_pidfd = os.pidfd_open  # as it is before a test takes it away

BRIEF = Limits(terminate_timeout=0.3)

PATIENT = Limits(terminate_timeout=1)

LONG = Limits(terminate_timeout=60)

HANGS = 120
"""Seconds after which a test has failed, on a machine that is busy with other things."""


def program(name: str, *args: object) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, [str(PROGRAMS / name), *map(str, args)])


def orphaning(place: str, *args: str) -> StdioServerParameters:
    return program("orphaning.py", place, PROGRAMS / "stubborn.py", *args)


async def receive_line(process: ServerProcess) -> str:
    await trio.lowlevel.checkpoint()
    line = b""
    while not line.endswith(b"\n"):
        chunk = await process.stdout.receive_some()
        assert chunk, f"the process ended its output after {line!r}; {process.stderr_tail}"
        line += chunk
    return line.decode().strip()


async def wait_gone(pidfd: int) -> None:
    """Wait for the end of a process that is not ours to reap, and close its pidfd."""
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


def refuse_pidfds(_pid: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.fixture(autouse=True)
def _children_of_others() -> None:
    """Whatever other tests have left running for longer is theirs."""
    overlook_children()


@pytest.fixture(params=["pidfd", "thread"])
def watched_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to see an exit: a kernel that has pidfds, and one that does not."""
    by: str = request.param
    if by == "thread":
        monkeypatch.setattr(os, "pidfd_open", refuse_pidfds)
    return by


async def cancelled_block(params: StdioServerParameters, limits: Limits) -> tuple[ServerProcess, float]:
    """Cancel a block as soon as the server is ready, and say how long it took to leave it."""
    left: list[tuple[ServerProcess, float]] = []
    with trio.fail_after(HANGS), trio.CancelScope() as scope:
        async with open_process(params, limits) as process:
            await receive_line(process)
            scope.cancel()
            left.append((process, trio.current_time()))
            await trio.sleep_forever()
    assert scope.cancelled_caught
    ((process, started),) = left
    return process, trio.current_time() - started
