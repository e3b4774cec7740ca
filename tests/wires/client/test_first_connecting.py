"""Connecting that is cut short, and connections that end in odd ways."""

from __future__ import annotations

import sys

import pytest
import trio
from shared.client_first_connecting import ENOUGH

from trio_mcp import (
    ConnectionLost,
    RequestError,
    RestartPolicy,
    StdioServerParameters,
    open_client,
)


async def test_a_server_that_refused_a_log_level_can_be_restored() -> None:
    """What it refused once is not asked of it each time it comes back."""
    code = (
        "import sys, json, os\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    if 'id' not in request: continue\n"
        "    if request['method'] == 'x/die': os._exit(1)\n"
        "    answer = {'jsonrpc': '2.0', 'id': request['id']}\n"
        "    if request['method'] == 'logging/setLevel':\n"
        "        answer['error'] = {'code': -32601, 'message': 'no logging here'}\n"
        "    else:\n"
        "        answer['result'] = {'protocolVersion': '2025-11-25', 'capabilities': {},\n"
        "                            'serverInfo': {'name': 'x', 'version': ''}}\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    restart = RestartPolicy(first_delay=0.01, max_restarts=2)
    parameters = StdioServerParameters(sys.executable, ["-c", code], restart=restart)
    with trio.fail_after(ENOUGH):
        async with open_client(parameters, revision="2025-11-25") as client:
            with pytest.raises(RequestError, match="no logging here"):
                await client.set_log_level("debug")
            with pytest.raises(ConnectionLost):
                await client.request("x/die")
            await client.ping()
