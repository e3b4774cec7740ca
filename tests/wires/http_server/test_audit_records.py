"""The audit record of each refusal: over HTTP, over sockets, and of single messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from http_raw import call_tool
from http_wire import head_for, serving
from line_sockets import KINDS, Kind, connect, serving_at
from shared.http_server_audit_records import audited as audited
from shared.http_server_audit_records import make_server, told

from trio_mcp import (
    SocketServerSettings,
)


@pytest.mark.usefixtures("host")
async def test_what_is_no_http_is_recorded(audited: pytest.LogCaptureFixture) -> None:
    """400, from the host itself, with the address; and 421 where the Host is another's."""
    async with serving(make_server()) as served:
        for head in (b"\x1b[2J\r\n\r\n", head_for(2, {"Host": "evil.example"})):
            async with served.wire() as wire:
                await wire.stream.send_all(head + b"{}")
                await wire.stream.send_eof()
                async for _ in wire.stream:
                    pass
    found = told(audited, "event", "status", "client")
    assert [(event, status) for event, status, _ in found] == [("http", 400), ("http", 421)]
    assert all(client is not None for _, _, client in found)


@KINDS
async def test_another_protocol_at_a_socket_is_recorded(
    kind: Kind, tmp_path: Path, audited: pytest.LogCaptureFixture
) -> None:
    """The connection is cut; the record says by whom it was made."""
    async with serving_at(kind, make_server(), tmp_path) as url, connect(url) as line:
        await line.stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await line.wait_end()
    ((event, reason, transport, client),) = told(audited, "event", "reason", "transport", "client")
    assert (event, transport) == ("connection", kind)
    assert "GET / HTTP" in str(reason)
    assert client is not None


async def test_connections_beyond_the_limit_are_recorded(
    tmp_path: Path, audited: pytest.LogCaptureFixture
) -> None:
    """By address: one that works is not cut for another."""
    settings = SocketServerSettings(max_connections_per_address=1)
    async with serving_at("tcp", make_server(), tmp_path, settings) as url, connect(url) as first:
        await first.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        stay = call_tool("stay")
        await first.send(stay)
        await first.receive()
        async with connect(url) as second:
            await second.wait_end()
    ((event, limit, client),) = told(audited, "event", "limit", "client")
    assert (event, client) == ("connection", "127.0.0.1")
    assert "max_connections_per_address" in str(limit)
