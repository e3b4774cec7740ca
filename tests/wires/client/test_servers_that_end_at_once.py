"""Which servers are started a second time, without being asked `server/discover` first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trio_mcp import ConnectionLost, StdioServerParameters, open_client

NOTE = "import sys, json; open(sys.argv[1], 'a').write('started\\n');"
LEGACY = """
request = json.loads(sys.stdin.readline())
if request["method"] != "initialize":
    sys.exit(f"no handler for {request['method']}")
result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
sys.stdin.read()
"""
ASKED = "import select; select.select([0], [], []);"
"""Waits until there is something to read, and reads nothing."""

ENDS = {
    "with an error": ASKED + "sys.exit('no such database')",
    "as if nothing was wrong": ASKED,
    "with its input closed": "import os; os.close(0); sys.exit('no such database')",
}


def child(program: str, log: Path) -> StdioServerParameters:
    return StdioServerParameters(sys.executable, ["-c", NOTE + program, str(log)])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no system says what was read of a pipe")
@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS.keys())
async def test_a_server_that_reads_nothing_is_started_once(program: str, tmp_path: Path) -> None:
    """It would end in every era, and all that it writes would appear twice."""
    log = tmp_path / "starts"
    with pytest.raises(ConnectionLost, match="exited with status"):
        async with open_client(child(program, log)):
            raise AssertionError
    assert log.read_text() == "started\n"


async def test_a_server_that_exits_at_an_unknown_request_is_started_again(tmp_path: Path) -> None:
    """Some of the legacy era do so if the first is not `initialize`, with any status, and write nothing."""
    log = tmp_path / "starts"
    async with open_client(child(LEGACY, log)) as client:
        assert client.server_info is not None
        assert client.server_info.name == "old"
    assert log.read_text() == "started\n" * 2
