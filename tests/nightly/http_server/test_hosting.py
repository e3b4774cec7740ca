"""HTTP over real sockets: who is let in, who is slow, who leaves, and how it all ends. Real time."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

pytestmark = [pytest.mark.usefixtures("host")]


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
async def test_of_many_servers_that_start_at_once_one_gets_the_unix_socket(tmp_path: Path) -> None:
    """They all find what a killed one has left; none takes away what another one has just made."""
    path = tmp_path / "mcp.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind(str(path))
    outcomes: list[str] = []
    program = (
        "import sys, trio; from trio_mcp import Server, serve_http\n"
        "from trio_mcp._hosts._listening import open_listeners\n"
        "async def main():\n"
        "    sys.stdin.readline()\n"
        "    try:\n"
        "        async with open_listeners(None, 0, sys.argv[1], 0o600):\n"
        "            print('listens', flush=True); sys.stdin.readline()\n"
        "    except OSError as error: print(error.strerror, flush=True)\n"
        "trio.run(main)\n"
    )
    with trio.fail_after(40):
        processes = [
            await trio.lowlevel.open_process(
                [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            for _ in range(4)
        ]
        for process in processes:
            assert process.stdin is not None
            await process.stdin.send_all(b"go\n")
        for process in processes:
            assert process.stdout is not None
            outcomes.append((await process.stdout.receive_some()).decode().strip())
        for process in processes:
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()
    assert sorted(outcomes) == ["another server listens there"] * 3 + ["listens"]
    assert not path.exists()
