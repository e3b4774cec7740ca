"""The audit record of each refusal: over HTTP, over sockets, and of single messages."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
from http_raw import call_tool
from http_wire import head_for, serving
from line_sockets import KINDS, Kind, connect, serving_at

from trio_mcp import (
    Limits,
    Server,
    SocketServerSettings,
)

pytestmark = [pytest.mark.timeout(60)]


def make_server() -> Server[Any]:
    server: Server[Any] = Server("guarded", limits=Limits(max_inbound_requests=1, max_waiting_bytes=1))

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def stay() -> None:
        await trio.sleep_forever()

    return server


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> Generator[pytest.LogCaptureFixture]:
    """Every record names the server, whoever writes it."""
    caplog.set_level(logging.INFO, logger="trio_mcp.audit")
    yield caplog
    records = [record.__dict__ for record in caplog.get_records("call") if record.name == "trio_mcp.audit"]
    assert {record["server"] for record in records} == {"guarded"}
    assert None not in {record["transport"] for record in records}


def told(audited: pytest.LogCaptureFixture, *names: str) -> list[tuple[object, ...]]:
    found = [record for record in audited.records if record.name == "trio_mcp.audit"]
    return [tuple(record.__dict__[name] for name in names) for record in found]


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
