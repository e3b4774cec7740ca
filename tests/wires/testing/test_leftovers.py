"""`assert_nothing_left`: what it finds, by name, and what it lets be."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from patient_clock import STILL

from trio_mcp import Server, open_client, serve_http
from trio_mcp.testing import assert_nothing_left


async def sleeper() -> None:
    await trio.sleep_forever()


async def test_a_process_is_found() -> None:
    """Also one that has ended and that nobody has waited for."""
    process = None
    with pytest.raises(AssertionError) as caught, assert_nothing_left():
        process = subprocess.Popen([sys.executable, "-c", "pass"])
    assert process is not None
    assert f"a process: {process.pid} (" in str(caught.value)
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the name of a process is looked at")
def test_a_process_that_has_ended_is_told_from_one_that_runs() -> None:
    """One has to be ended, the other one only to be waited for."""
    process = None
    found = pytest.raises(AssertionError, match=r"\(python\S*, which has ended and was not waited for\)")
    with found, assert_nothing_left():
        process = subprocess.Popen([sys.executable, "-c", "pass"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process is not None
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the name of a process is looked at")
def test_a_process_is_named_by_its_command() -> None:
    """Python is most of them."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "x" * 1_000]
    process = None
    with pytest.raises(AssertionError) as caught, assert_nothing_left():
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.read(1)  # it runs: just before, it has no command line yet
    assert process is not None
    process.communicate()
    assert f"a process: {process.pid} ({sys.executable} -c import sys; print(flush=True); sys.stdin" in str(
        caught.value
    )
    assert len(str(caught.value)) < 500


async def test_clients_and_servers_leave_nothing() -> None:
    """Over a network, with an open call."""
    server: Server[Any] = Server("short")
    server.tool(sleeper)
    with assert_nothing_left():
        async with trio.open_nursery() as nursery:
            urls: tuple[str, ...] = await nursery.start(partial(serve_http, server, port=0))
            async with open_client(urls[0]) as client, trio.open_nursery() as calls:
                calls.start_soon(client.call_tool, "sleeper")
                await trio.testing.wait_all_tasks_blocked(STILL)
                calls.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
