"""The cancellation contract with a real server process and the real clock: what only a process can show.

Every sentence of it, over every transport, is in `tests/memory/matrix/test_cancellation_contract.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio
from witness_lines import ENOUGH

from trio_mcp import Limits, StdioServerParameters, open_client


async def test_a_process_that_does_not_read_holds_nobody(tmp_path: Path) -> None:
    """Promise 3: a 0.5 s deadline is over within 1.5 s, twice in a row, and so is a cancellation; and so is leaving."""
    deaf = tmp_path / "deaf.py"
    deaf.write_text(
        "import json, sys, time\n"
        "m = json.loads(sys.stdin.readline())\n"
        'r = {"supportedVersions": ["2026-07-28"], "capabilities": {}}\n'
        'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)\n'
        "time.sleep(600)\n"
    )
    limits = Limits(goodbye_timeout=0.3, terminate_timeout=0.3)
    parameters = StdioServerParameters(sys.executable, [str(deaf)])
    with trio.fail_after(ENOUGH):
        async with open_client(parameters, limits=limits) as client:

            async def stuck() -> None:
                await client.request("x/y", {"text": "x" * 300_000})

            for _ in range(2):
                begin = trio.current_time()
                with trio.move_on_after(0.5) as scope:
                    await stuck()
                assert scope.cancelled_caught
                assert trio.current_time() - begin < 1.5
            begin = trio.current_time()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(stuck)
                    await trio.sleep(0.5)
                    scope.cancel()
            assert trio.current_time() - begin < 1.5
            begin = trio.current_time()
        assert trio.current_time() - begin < 3
