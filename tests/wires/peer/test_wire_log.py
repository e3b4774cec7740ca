"""`TRIO_MCP_DEBUG=1` and the logger `trio_mcp.wire`: each message, on clients and on all servers; and nothing else."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from shared.peer_wire_log import WIRE, make_server

from trio_mcp import (
    open_client,
    serve_http,
    serve_tcp,
    serve_websocket,
)


@asynccontextmanager
async def served(how: str) -> AsyncGenerator[Any]:
    """Serve, and yield what a client is opened on."""
    if how == "memory":
        yield make_server()
        return
    serve: dict[str, Any] = {
        "hypercorn": partial(serve_http, http="hypercorn"),
        "lean": partial(serve_http, http="lean"),
        "websocket": serve_websocket,
        "tcp": serve_tcp,
    }
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve[how], make_server(), port=0))
        yield url
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("how", ["memory", "hypercorn", "lean", "websocket", "tcp"])
async def test_both_sides_show_each_message(how: str, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """Once each, in order, with the other side's name, and without secrets."""
    caplog.set_level(logging.DEBUG, WIRE)
    frames: list[tuple[str, Any]] = []
    async with served(how) as target:
        client: Any
        async with open_client(
            target, revision=revision, on_frame=lambda way, data: frames.append((way, json.loads(data)))
        ) as client:
            await client.call_tool("login", {"password": "hunter2"}, on_progress=print)
    shown = [line for name, _, line in caplog.record_tuples if name == WIRE]
    assert "hunter2" not in str(shown)
    assert any('"password": "***"' in line for line in shown)
    sent = [message["method"] for way, message in frames if way == "sent"]
    received = [message for way, message in frames if way == "received"]
    client_name = shown[0].removeprefix("--> ").partition(": {")[0]
    of_client = [line for line in shown if line[4:].startswith(f"{client_name}: ")]
    of_server = [line for line in shown if line not in of_client]
    for arrow, count in (("-->", len(sent)), ("<--", len(received))):
        assert sum(line.startswith(arrow) for line in of_client) == count
    for arrow, count in (("<--", len(sent)), ("-->", len(received))):
        assert sum(line.startswith(arrow) for line in of_server) == count
    call = next(line for line in of_server if '"tools/call"' in line)
    assert call.startswith("<-- ")
    assert "notifications/progress" in str(of_server)


@pytest.mark.parametrize("how", ["memory", "lean"])
async def test_who_has_not_asked_for_it_gets_nothing(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Messages are long and may be private: a program with every logger at DEBUG has not asked for them."""
    caplog.set_level(logging.DEBUG)
    async with served(how) as target, open_client(target) as client:
        await client.call_tool("login", {"password": "hunter2"})
    assert not [name for name, _, _ in caplog.record_tuples if name == WIRE]


def test_an_environment_variable_shows_it_on_standard_error() -> None:
    """Also for programs that configure no logging, or their own; each message once."""
    program = """
import logging, trio, trio_mcp
logging.basicConfig(level=logging.DEBUG, format="own %(name)s")
async def main():
    async with trio_mcp.open_client(trio_mcp.Server("x")) as client:
        await client.ping()
trio.run(main)
"""
    shown: dict[str, str] = {}
    for value in ("1", "0", ""):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRIO_MCP_DEBUG": value}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        shown[value] = done.stderr
    assert shown["1"].count('"method": "server/discover"') == 4
    assert shown["1"].count(" --> the server in this process: ") == 2
    assert "own trio_mcp.wire" not in shown["1"]
    assert "server/discover" not in shown["0"] + shown[""]
