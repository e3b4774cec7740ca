"""`trio-mcp login` with a real browser, in which somebody agrees on the page of an authorization server."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Final

import pytest
import trio
from chromium import processes_with

from trio_mcp import Context, Server, serve_http
from trio_mcp.testing import AuthorizationServer

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Debian's browser"),
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed; see `make debian`"),
]

PRESS: Final = Path(__file__).parents[2] / "support" / "press.py"

ENOUGH: Final = 280
"""Seconds for a browser to start, on a machine that is busy with other things."""


async def test_a_person_agrees_in_a_browser_and_later_commands_are_logged_in(tmp_path: Path) -> None:
    login = AuthorizationServer(consent="asked")
    server: Server[Any] = Server("orders")

    @server.tool
    async def whoami(ctx: Context[Any]) -> str:
        assert ctx.principal is not None
        return ctx.principal.subject

    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    profile = tmp_path / "profile"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(tmp_path),
        "BROWSER": f"{sys.executable} {PRESS} {profile} %s",
    }

    async def run(*words: str, check: bool = True) -> CompletedProcess[bytes]:
        command = [sys.executable, "-m", "trio_mcp", *words]
        return await trio.run_process(
            command, env=environment, capture_stdout=True, capture_stderr=True, check=check
        )

    with trio.fail_after(ENOUGH):
        async with login.serving(), trio.open_nursery() as nursery:
            await nursery.start(partial(serve_http, server, port=port, auth=login.protect(url)))
            logged_in = await run("login", url)
            done = f"logged in at {url}, as far as it wants that; so are commands with --auth\n"
            assert logged_in.stdout.decode() == done
            pages = [(each.method, each.path) for each in login.requests]
            assert pages.count(("POST", "/consent")) == 1, "somebody has pressed the button"
            assert dict(login.grants) == {"authorization_code": 1}

            called = await run("call", url, "whoami", "--auth")
            assert called.stdout == b"ann\n"
            assert dict(login.grants) == {"authorization_code": 1}, "what was stored is used"

            assert (await run("logout", url)).stdout == f"logged out of {url}\n".encode()
            assert sum(each.path == "/revoke" for each in login.requests) >= 1
            assert (await run("logout", url, check=False)).returncode == 1
            nursery.cancel_scope.cancel()
        while processes_with(str(profile)):
            await trio.sleep(0.05)
