"""Connecting that is cut short, and connections that end in odd ways."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio
from shared.client_first_connecting import ENOUGH, serve, use_block, use_peer, use_task
from steps import cancelled_after_steps

from trio_mcp import (
    ConnectionLost,
    Limits,
    StdioServerParameters,
    open_client,
)

LEAVING_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(8)"], start_new_session=True)
sys.exit(3)
"""


@pytest.mark.parametrize("use", [use_block, use_task, serve, use_peer])
async def test_cancelled_at_every_step(use: Callable[[], Any]) -> None:
    """Promises 7 and 8: whenever it is cancelled, it ends at once and nothing of it is left.

    A task that shields itself while it is being started must not be left where nobody can end it.
    """
    before = trio.lowlevel.current_statistics().tasks_living
    for step in range(1, 400):
        # A shielded task that is left does not heed it: the test hangs here.
        with cancelled_after_steps(step) as scope, trio.fail_after(ENOUGH):
            await use()
        assert trio.lowlevel.current_statistics().tasks_living == before
        if not scope.cancel_called:
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import os, time; os.close(1); time.sleep(60)", "closed its output and has not exited"),
        # In a session of its own, so that nothing ends it before we do; with the pipes, so that there is no end.
        (LEAVING_A_CHILD, "exited with status 3"),
    ],
    ids=["output closed", "output inherited"],
)
async def test_half_an_end_is_an_end(code: str, problem: str) -> None:
    """Promise 7: a server that is gone answers nothing, even if another process still holds its pipes."""
    parameters = StdioServerParameters(sys.executable, ["-c", code])
    limits = Limits(connect_timeout=20, terminate_timeout=0.1)
    with trio.fail_after(7), pytest.raises(ConnectionLost, match=problem):
        async with open_client(parameters, limits=limits, revision="2025-11-25"):
            pass


async def test_the_exit_of_a_server_is_seen_while_a_silent_descendant_holds_its_pipe() -> None:
    """Promise 7: no end of output comes, and those who wait learn all the same how the process has ended."""
    code = """
import json, subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
for line in sys.stdin:
    request = json.loads(line)
    if request['method'] == 'ping': sys.exit(3)
    if 'id' not in request: continue
    result = {'protocolVersion': '2025-11-25', 'capabilities': {}, 'serverInfo': {'name': 'x', 'version': ''}}
    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)
"""
    parameters = StdioServerParameters(sys.executable, ["-c", code], restart=None)
    limits = Limits(terminate_timeout=0.5)
    with trio.fail_after(ENOUGH):
        async with open_client(parameters, limits=limits, revision="2025-11-25") as client:
            with pytest.raises(ConnectionLost, match="exited with status 3") as caught:
                await client.ping()
            assert caught.value.exit_status == 3
            with pytest.raises(ConnectionLost, match="exited with status 3"):
                await client.ping()


async def test_a_descendant_that_goes_on_talking_is_heard() -> None:
    """What the process has written is read to its end, also when somebody else writes it later."""
    child = (
        "import sys, json, time\n"
        "print('begun', file=sys.stderr, flush=True)\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if 'id' not in request: continue\n"
        "    result = {'protocolVersion': '2025-11-25', 'capabilities': {}, 'serverInfo': {'name': 'x', 'version': ''}}\n"
        "    time.sleep(0.4)\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
    )
    # It leaves when the other has begun: from then on nothing but the answers' own time goes by in silence.
    code = f"""
import subprocess, sys
subprocess.Popen([sys.executable, '-c', {child!r}], stderr=subprocess.PIPE).stderr.readline()
"""
    parameters = StdioServerParameters(sys.executable, ["-c", code])
    with trio.fail_after(ENOUGH):
        async with open_client(parameters, limits=Limits(terminate_timeout=1), revision="2025-11-25") as client:
            for _ in range(4):
                await client.ping()
