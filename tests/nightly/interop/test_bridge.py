"""``trio-mcp bridge`` between clients and servers of other implementations, each of an era that the other lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from environments import INSPECTOR, PYTHON_1_2, PYTHON_1_30, PYTHON_2_3, node
from listening import open_listener
from test_inspector import LAUNCHER
from their_clients import HANGS, TheirClient
from their_servers import HTTP_SERVERS, STDIO_SERVERS

import trio_mcp
from trio_mcp import Revision

FIXTURE: Final = Path(__file__).with_name("fixture_server.py")
TREE: Final = str(Path(trio_mcp.__file__).parents[1])
BRIDGE: Final = (
    sys.executable,
    "-c",
    # These clients start servers with a clean environment.
    f"import sys, runpy; sys.path.insert(0, {TREE!r}); runpy.run_module('trio_mcp', run_name='__main__')",
    "bridge",
    "stdio",
)
MODERN: Final = Revision.V2026_07_28
OLD: Final = TheirClient(
    environment=PYTHON_1_2,
    program="python_1_0.py",
    agreed=Revision.V2024_11_05,
    shows_progress=False,
    has_structured=False,
)


@pytest.fixture(scope="module", params=["ours", "official"])
def modern(request: pytest.FixtureRequest) -> Generator[str]:
    """The URL of a server of the modern era: one of ours that speaks nothing else, and the official SDK's."""
    with ExitStack() as stack:
        if request.param == "ours":
            more = {"FIXTURE_REVISIONS": str(MODERN)}
            command: Sequence[str | Path] = (sys.executable, FIXTURE, "streamable-http")
            listener = stack.enter_context(open_listener(command, more=more))
        else:
            (server,) = (
                server
                for server in HTTP_SERVERS
                if server.id == f"{PYTHON_2_3.name}-python_2_mcpserver-streamable-http"
            )
            listener = stack.enter_context(server.open_listener())
        yield listener.url("streamable-http")


async def inspect(era: str, question: str, *target: str) -> dict[str, Any]:
    """Ask the Inspector one question through a bridge."""
    INSPECTOR.require()
    told = ["--cli", "--format", "json", "--quiet", "--protocol-era", era, "--method", *question.split()]
    with trio.fail_after(HANGS):
        done = await trio.run_process(
            [node(), LAUNCHER, *told, "--", *BRIDGE, *target],
            cwd=INSPECTOR.directory,
            capture_stdout=True,
            capture_stderr=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    printed: dict[str, Any] = json.loads((done.stdout or done.stderr).splitlines()[0])
    return printed


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_over_stdio_reaches_a_modern_server_over_http(era: str, modern: str) -> None:
    """2026-07-28, basic/versioning: the proxy speaks what the client speaks."""
    printed = await inspect(era, "tools/list", modern)
    assert "add" in [tool["name"] for tool in printed["result"]["tools"]]
    printed = await inspect(era, "tools/call --tool-name add --tool-arg a=1 b=2", modern)
    assert printed["result"]["content"][0]["text"] == "3"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_reaches_a_process_of_the_legacy_era(era: str) -> None:
    """A program behind ``--``, of an SDK that knows no other era."""
    (server,) = (server for server in STDIO_SERVERS if server.id == f"{PYTHON_1_30.name}-python_1_fastmcp")
    printed = await inspect(era, "tools/call --tool-name add --tool-arg a=1 b=2", "--", *server.command)
    assert printed["result"]["content"][0]["text"] == "3"


async def test_an_old_client_over_stdio_uses_a_modern_server_of_ours(tmp_path: Path) -> None:
    """2024-11-05 before 2026-07-28: calls, errors, large results, many at once, log messages."""
    more = {"FIXTURE_REVISIONS": str(MODERN)}
    with open_listener((sys.executable, FIXTURE, "streamable-http"), more=more) as listener:
        url = listener.url("streamable-http")
        with trio.fail_after(HANGS):
            done = await trio.run_process(
                [*OLD.command, str(tmp_path / "marker"), *BRIDGE, url],
                cwd=OLD.environment.directory,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    findings = {line["finding"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert findings["agreed"] == {"revision": "2024-11-05", "server": "fixture"}
    assert findings["add"] == {"error": False, "text": "3"}
    assert findings["echo"]["text"] == "Grüße, 世界 🌍 \u2028 \n"
    assert findings["divide"] == {"error": True, "text": "b must not be 0"}
    assert findings["big"]
    assert findings["crowd"] == [str(2 * number) for number in range(50)]
    assert findings["logged"] == ["one", "two"]
    assert findings["closed"]


async def test_an_old_client_over_stdio_uses_a_modern_server_of_the_official_sdk(tmp_path: Path) -> None:
    """The same client, which here ends at the first tool that this server does not have."""
    (server,) = (
        server for server in HTTP_SERVERS if server.id == f"{PYTHON_2_3.name}-python_2_mcpserver-streamable-http"
    )
    with server.open_listener() as listener, trio.fail_after(HANGS):
        done = await trio.run_process(
            [*OLD.command, str(tmp_path / "marker"), *BRIDGE, listener.url("streamable-http")],
            cwd=OLD.environment.directory,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    findings = {line["finding"]: line["value"] for line in map(json.loads, done.stdout.splitlines())}
    assert findings["agreed"] == {"revision": "2024-11-05", "server": "python high-level"}
    assert findings["tools"] == server.tools
    assert findings["add"] == {"error": False, "text": "3"}
