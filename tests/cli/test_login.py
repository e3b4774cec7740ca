"""Logging in from a terminal: the browser, the file of tokens, and what later commands make of it."""

from __future__ import annotations

import importlib
import socket
import stat
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
from commands import Run
from hypercorn.config import Config
from oauth_script import ProtectedScript

BROWSER = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
"""


@pytest.fixture
def script() -> Generator[ProtectedScript]:
    """Return a protected server, which a thread of this process serves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = ProtectedScript(origin=f"http://127.0.0.1:{listener.getsockname()[1]}")
        config = Config()
        config.bind = [f"fd://{listener.fileno()}"]
        config.errorlog = config.accesslog = None
        done: list[trio.Event] = []
        tokens: list[trio.lowlevel.TrioToken] = []
        ready = threading.Event()

        async def main() -> None:
            done.append(trio.Event())
            tokens.append(trio.lowlevel.current_trio_token())
            ready.set()
            hypercorn: Any = importlib.import_module("hypercorn.trio")  # whose types are not all known
            await hypercorn.serve(script, config, shutdown_trigger=done[0].wait)

        thread = threading.Thread(target=trio.run, args=(main,))
        thread.start()
        ready.wait()
        try:
            yield script
        finally:
            tokens[0].run_sync_soon(done[0].set)
            thread.join()
            listener.detach()


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the browser of this machine be one that logs in at once."""
    program = tmp_path / "browser.py"
    program.write_text(BROWSER)
    monkeypatch.setenv("BROWSER", f"{sys.executable} {program} %s")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("browser")
@pytest.mark.skipif(sys.platform != "linux", reason="where files of users are depends on the system")
def test_a_login_is_kept_for_later_commands_until_it_is_forgotten(
    run: Run, script: ProtectedScript, tmp_path: Path
) -> None:
    refused = run("ping", script.url)
    assert refused.status == 4
    assert "--auth" in refused.err

    logged_in = run("login", script.url)
    assert (logged_in.status, logged_in.out) == (
        0,
        "the server has answered; commands with --auth are logged in\n",
    )
    assert f"{script.origin}/authorize?" in logged_in.err
    file = tmp_path / "home" / ".local" / "state" / "trio-mcp" / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    called = run("call", script.url, "reserve", "--auth")
    assert (called.status, called.out, called.err) == (0, "done\n", "")
    assert len(script.pages) == 1

    logged_out = run("logout", script.url)
    assert (logged_out.status, logged_out.out) == (0, f"logged out of {script.url}\n")
    assert [each.form["token"] for each in script.at("/revoke")] == ["refresh-1"]
    assert "access-1" not in file.read_text()
    assert run("logout", script.url).status == 1


def test_only_servers_at_urls_have_logins(run: Run) -> None:
    done = run("login", "--", "some-server")
    assert done.status == 2
    assert "over HTTP" in done.err
