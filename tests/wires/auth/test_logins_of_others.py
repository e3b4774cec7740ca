"""A login that another connection does, or another process: waited for, not charged, and nothing held meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
from logging_in import log_in_at
from oauth_script import CALLBACK
from places import ROOT
from unmeasured import unmeasured

from trio_mcp import (
    FileTokenStore,
    OAuth,
    Server,
    open_client,
    serve_http,
)
from trio_mcp.testing import AuthorizationServer

# Other processes.

PROGRAM = """
import sys, trio
from trio_mcp import FileTokenStore, OAuth, open_client

async def never(url):
    print("asked", flush=True)
    await trio.sleep_forever()

async def main():
    auth = OAuth(
        store=FileTokenStore(sys.argv[2]), open_page=never, listen=False,
        redirect_uri="http://localhost:3000/callback",
    )
    async with open_client(sys.argv[1], auth=auth, request_timeout=1.0) as client:
        print((await client.call_tool("hello")).text, flush=True)

trio.run(main)
"""


@asynccontextmanager
async def protected() -> AsyncGenerator[tuple[str, AuthorizationServer]]:
    server: Server[Any] = Server("orders")

    @server.tool
    async def hello() -> str:
        return "hello"

    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    url, login = f"http://127.0.0.1:{port}/mcp", AuthorizationServer()
    async with login.serving(), trio.open_nursery() as nursery:
        await nursery.start(partial(serve_http, server, port=port, http="lean", auth=login.protect(url)))
        yield url, login
        nursery.cancel_scope.cancel()


def start(url: str, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, str(file)],
        env={**unmeasured(), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_a_process_waits_for_the_login_of_another(tmp_path: Path) -> None:
    """It asks nobody itself meanwhile, and its clocks stand still."""
    file = tmp_path / "tokens.json"
    async with protected() as (url, login):
        other: list[subprocess.Popen[bytes]] = []

        async def log_in(page: str) -> str | None:
            asked = len(login.requests)
            other.append(start(url, file))
            while len(login.requests) == asked:
                await trio.sleep(0.05)  # until it has found out where a person would log in
            await trio.sleep(2.0)
            return await log_in_at(page)

        auth = OAuth(store=FileTokenStore(file), open_page=log_in, listen=False, redirect_uri=CALLBACK)
        async with open_client(url, auth=auth) as client:
            await client.call_tool("hello")
        out, errors = await trio.to_thread.run_sync(other[0].communicate, abandon_on_cancel=True)
    assert (out, errors.decode()[-2000:]) == (b"hello\n", "")
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]


async def test_a_process_that_is_killed_in_a_login_holds_nobody_up_for_long(tmp_path: Path) -> None:
    """Its note is good for 15 s, unless it says so again."""
    file = tmp_path / "tokens.json"
    async with protected() as (url, _):
        victim = start(url, file)
        assert victim.stdout is not None
        assert await trio.to_thread.run_sync(victim.stdout.readline) == b"asked\n"
        victim.kill()
        await trio.to_thread.run_sync(victim.communicate)
        kept: dict[str, Any] = json.loads(file.read_text())["entries"]
        (note,) = [key for key in kept if key.startswith("login")]
        said = json.loads(kept[note][0])
        assert 0 < said["until"] - time.time() <= 15
        store = FileTokenStore(file)
        await store.set(note, json.dumps({**said, "until": time.time() + 1}))
        asked: list[float] = []

        async def log_in(page: str) -> str | None:
            asked.append(time.time())
            return await log_in_at(page)

        auth = OAuth(store=store, open_page=log_in, listen=False, redirect_uri=CALLBACK)
        async with open_client(url, auth=auth, request_timeout=0.5) as client:
            await client.call_tool("hello")
    assert len(asked) == 1
