"""What the tests of audit records share in several layers."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import pytest
import trio

from trio_mcp import (
    Limits,
    Server,
)


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
