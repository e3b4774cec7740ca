"""The ASGI application on hosts that are not ours, unchanged: Hypercorn's Trio worker, and anycorn. Real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from http_raw import call_tool
from shared.http_server_other_hosts import Program

from trio_mcp import McpASGI

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("error", [OSError("gone"), BrokenPipeError(), trio.BrokenResourceError()])
async def test_a_host_that_says_by_an_error_that_nobody_reads(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """ASGI lets it raise that from `send`; a client that has left is nothing to log."""
    program = Program()
    app = McpASGI(program.server)
    messages = [{"type": "http.request", "body": json.dumps(call_tool("add", a=1, b=1)).encode()}]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/mcp",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"accept", b"application/json, text/event-stream"),
            (b"mcp-protocol-version", b"2026-07-28"),
            (b"mcp-method", b"tools/call"),
            (b"mcp-name", b"add"),
        ],
    }

    async def receive() -> Any:
        if not messages:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return messages.pop()

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    with trio.fail_after(10):
        async with app.running():
            await app(scope, receive, send)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
