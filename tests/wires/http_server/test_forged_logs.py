"""Whatever a client writes into the head or the body of a request: each record of the log is one printable line."""

from __future__ import annotations

import logging
from typing import Final

import pytest
from http_wire import head_for, serving
from shared.http_server_forged_logs import check, make_server

HEADS: Final = [
    head_for(2, {"Host": "x\x9b2J\xa0"}),
    head_for(2, {"Origin": "http://x\x9b2J"}),
    head_for(2, {"Content-Type": "text/\x9b2J"}),
    head_for(2, {"Accept": "\x9b2J"}),
    head_for(2, {"MCP-Protocol-Version": "\x9b2J"}),
    head_for(2, {"Mcp-Session-Id": "\x9b2J"}),
    head_for(2, {"Mcp-Method": "\x9b2J", "MCP-Protocol-Version": "2026-07-28"}),
    head_for(2, {"Transfer-Encoding": "\x9b2J"}),
    head_for(2, {"Host": "a\x1b[2Jb"}),
    head_for(2, method="P\x1b[2JT"),
    head_for(2, method="P\x9bT"),
    b"\x1b[2J\r\n\r\n",
    b"GET /\x1b[2J HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


@pytest.mark.usefixtures("host")
async def test_a_head_forges_no_record(caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read is told in the log, perhaps in its own words."""
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        async with serving(make_server()) as served:
            for head in HEADS:
                async with served.wire() as wire:
                    await wire.stream.send_all(head + b"{}")
                    await wire.stream.send_eof()
                    async for _ in wire.stream:
                        pass
    check(caplog, at_least=3)
