"""`open_process`: real processes, on the real clock, under deadlines that are only met if nothing hangs."""

from __future__ import annotations

import signal
import sys

import pytest
import trio
from children import has_children, overlook_children
from inside_transports import ServerProcess, open_process
from places import PROGRAMS

from trio_mcp import Limits, StdioServerParameters

if sys.platform != "linux":
    pytest.skip("watches processes through pidfds and /proc", allow_module_level=True)
BRIEF = Limits(terminate_timeout=0.3)
BOUND = 2 * BRIEF.terminate_timeout + 1
HANGS = 120
"""Seconds after which a test has failed, on a machine that is busy with other things."""


def program(name: str, *args: object) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, [str(PROGRAMS / name), *map(str, args)])


async def receive_line(process: ServerProcess) -> str:
    await trio.lowlevel.checkpoint()
    line = b""
    while not line.endswith(b"\n"):
        chunk = await process.stdout.receive_some()
        assert chunk, f"the process ended its output after {line!r}; {process.stderr_tail}"
        line += chunk
    return line.decode().strip()


@pytest.fixture(autouse=True)
def _children_of_others() -> None:
    """Whatever other tests have left running for longer is theirs."""
    overlook_children()


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


async def test_cancelled_block_is_left_in_time() -> None:
    """The goodbye is shielded, but bounded."""
    process, seconds = await cancelled_block(program("stubborn.py"), BRIEF)
    assert seconds < BOUND
    assert process.exit_status == -signal.SIGKILL
    assert not has_children()
