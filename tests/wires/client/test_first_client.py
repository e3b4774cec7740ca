"""A client and what it is told, asked and refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from wires import wait_lost

from trio_mcp import (
    ConnectionLost,
    RemoteProtocolError,
    RestartPolicy,
    StdioServerParameters,
    open_client,
)

LEGACY = "2025-11-25"


async def test_a_server_that_is_another_when_it_comes_back_is_given_up(tmp_path: Any) -> None:
    """It died, was started again, and refused the handshake: that is the reason everybody is told."""
    flag = tmp_path / "started"
    code = (
        "import sys, json, os, pathlib\n"
        f"flag = pathlib.Path({str(flag)!r})\n"
        "is_second = flag.exists()\n"
        "flag.touch()\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if 'id' not in request: continue\n"
        "    if request['method'] == 'x/die': os._exit(1)\n"
        "    version = '1999-01-01' if is_second else '2025-11-25'\n"
        "    result = {'protocolVersion': version, 'capabilities': {}, 'serverInfo': {'name': 'x', 'version': ''}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
    )
    policy = RestartPolicy(first_delay=0.01, max_restarts=2)
    parameters = StdioServerParameters(sys.executable, ["-c", code], restart=policy)
    async with open_client(parameters, revision=LEGACY) as client:
        await client.set_log_level("debug")
        with pytest.raises(ConnectionLost):
            await client.request("x/die")
        lost = await wait_lost(client.ping)
        assert "could not be restored: initialize: the server wants to speak 1999-01-01" in lost.reason
        assert isinstance(lost.__cause__, RemoteProtocolError)
