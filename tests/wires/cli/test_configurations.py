"""``install`` and ``config``: hosts' configurations, changed without losing anything, listed without secrets."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from commands import SHOP, Run
from inside_cli import HOSTS

PLACES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini": ".gemini/settings.json",
    "mcp-json": ".config/mcp/mcp.json",
}


def home() -> Path:
    """Return the home of the user in a test."""
    return Path(os.environ["HOME"])


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the places are those of Linux")
@pytest.mark.parametrize("host", HOSTS)
def test_install_writes_what_the_host_reads(run: Run, host: str) -> None:
    """And what it starts is the server."""
    done = run("install", SHOP, "--to", host, "--yes", "--env", "LEVEL=5", "--name", "my shop")
    assert (done.status, done.out) == (0, "")
    path = home() / PLACES[host]
    assert str(path) in done.err
    value = json.loads(path.read_text())
    member = "servers" if host == "vscode" else "mcpServers"
    (entry,) = value[member].values()
    assert list(value[member]) == ["my shop"]
    assert entry["env"] == {"LEVEL": "5"}
    assert entry.get("type") == ("stdio" if host in {"vscode", "claude-code"} else None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("call", "add", "a=20", "b=22", "--", entry["command"], *entry["args"]).out == "42\n"
