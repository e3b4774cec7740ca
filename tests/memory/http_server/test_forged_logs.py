"""Whatever a client writes into the head or the body of a request: each record of the log is one printable line."""

from __future__ import annotations

import json
import logging
from typing import Final

import pytest
from http_raw import call_tool, modern, open_raw
from http_server_fixtures import EVERY_HOST
from shared.http_server_forged_logs import check, make_server

pytestmark = [pytest.mark.timeout(60)]

NASTY: Final = "x\n2026-01-01 INFO root: all is well\r\x1b[2J\x9b2J\x00\u2028\u202e"
ENCODED: Final = "".join(f"%{byte:02X}" for byte in NASTY.encode())


@EVERY_HOST
@pytest.mark.usefixtures("under")
async def test_what_is_posted_forges_no_record(caplog: pytest.LogCaptureFixture) -> None:
    """Names, ids, versions, cursors, arguments and what handlers say of them."""
    messages: list[object] = [
        call_tool(NASTY),
        modern(NASTY),
        modern("resources/read", uri=NASTY),
        modern("prompts/get", name=NASTY),
        modern("tools/list", cursor=NASTY),
        modern("tools/list", id=NASTY),
        {"jsonrpc": NASTY, "id": 1, "method": NASTY},
        {"jsonrpc": "2.0", "id": NASTY, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": NASTY, NASTY: NASTY},
        {"jsonrpc": "2.0", "method": NASTY},
        {"jsonrpc": "2.0", "id": NASTY, "result": {}},
        {"jsonrpc": "2.0", "id": NASTY, "error": {"code": 1, "message": NASTY, "data": NASTY}},
        NASTY.encode("utf-8", "surrogatepass"),
        json.dumps(NASTY).encode() + NASTY.encode(),
        [NASTY],
    ]
    with caplog.at_level(logging.DEBUG, "trio_mcp"):
        async with open_raw(make_server()) as raw:
            for message in messages:
                await raw.send(message, {"Mcp-Name": None, "Mcp-Method": None})
            failures = [
                await raw.send(call_tool("fail", reason=NASTY)),
                await raw.send(modern("resources/read", uri="orders://" + ENCODED.replace("%00", ""))),
            ]
    assert "failed" in failures[0].body.decode()
    assert failures[1].error["code"] == -32603
    assert sum(record.exc_info is not None for record in caplog.records) >= 2
    check(caplog, at_least=10)


@pytest.mark.usefixtures("under")
@EVERY_HOST
async def test_a_path_forges_no_record(caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests) -> None:
    """`%0a` in a path was a line break in the log, with whatever the client wanted behind it."""
    for method in ("GET", "POST", "DELETE", "PUT"):
        with subtests.test(method=method):
            caplog.clear()
            with caplog.at_level(logging.DEBUG, "trio_mcp"):
                async with open_raw(make_server()) as raw:
                    answer = await raw.send(method=method, path=f"/{ENCODED}")
            assert answer.status == 404
            check(caplog, at_least=1)
            assert "all is well" in caplog.text, "the path was not logged at all"
