"""`TRIO_MCP_DEBUG=1` and the logger `trio_mcp.wire`: each message, on clients and on all servers; and nothing else."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing
from shared.peer_wire_log import WIRE, make_server

from trio_mcp import (
    Outgoing,
    memory_channel_pair,
)

pytestmark = pytest.mark.timeout(60)


async def test_what_is_no_json_is_shown_too(caplog: pytest.LogCaptureFixture) -> None:
    """It is what one looks for; and neither it nor what is nested too deeply ends the log."""
    caplog.set_level(logging.DEBUG, WIRE)
    ours, theirs = memory_channel_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_server().serve_channel, theirs)
        await ours.send([Outgoing(b"Listening"), Outgoing(b"[" * 100_000), Outgoing(b'{"password": 1}')])
        await trio.testing.wait_all_tasks_blocked()
        await ours.aclose()
    lines = [line.partition(": ")[2] for name, _, line in caplog.record_tuples if name == WIRE and line[0] == "<"]
    assert (lines[0], lines[-1]) == ("Listening", '{"password": "***"}')
    assert len(lines) == 3
