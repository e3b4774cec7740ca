"""The access record of each request, in every cell of the matrix."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from lines import open_line
from transports import carried

from trio_mcp import RequestError, Server

TRANSPORTS = {"stdio", "http", "websocket", "tcp", "tls", "unix", "memory"}


def make_server() -> tuple[Server[Any], trio.Event]:
    server: Server[Any] = Server("recorded")
    begun = trio.Event()

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def stay() -> None:
        begun.set()
        await trio.sleep_forever()

    return server, begun


@carried()
async def test_each_request_is_one_access_record(
    binding: str, revision: str, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool, the outcome, the revision, the time and the size, whatever it came over."""
    caplog.set_level(logging.INFO, logger="trio_mcp.access")
    server, begun = make_server()
    async with open_line(server, binding, revision) as line:
        client = line.client
        await client.call_tool("echo", {"text": "hello"})
        assert (await client.call_tool("echo", {"text": 5})).is_error
        with pytest.raises(RequestError):
            await client.call_tool("no\nsuch outcome=result")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "stay")
            await begun.wait()
            nursery.cancel_scope.cancel()
        await client.call_tool("echo", {"text": "last"})
    found = [each.__dict__ for each in caplog.records if each.__dict__["server"] == "recorded"]
    calls = [each for each in found if each["method"] == "tools/call"]
    calls.sort(
        key=lambda each: bool(each["outcome"] == "cancelled")
    )  # its handler may end after the next request
    assert [(each["target"], each["outcome"], each["code"]) for each in calls] == [
        ("echo", "result", None),
        ("echo", "tool error", None),
        (r"no\nsuch outcome=result", "error", -32602),
        ("echo", "result", None),
        ("stay", "cancelled", None),
    ]
    assert {each["revision"] for each in calls} <= {revision, "2025-11-25", "2026-07-28"}
    assert {each["transport"] for each in found} <= TRANSPORTS | {"custom"}
    assert all(0 <= each["duration"] < 60 for each in found)
    assert [each["bytes"] is None for each in calls] == [False, False, False, False, True]
    assert not any("\n" in record.getMessage() for record in caplog.records)
