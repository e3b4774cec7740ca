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

import pytest
import trio
from logging_in import log_in_at
from oauth_script import CALLBACK
from patient_clock import pass_time
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
import sys, trio, trio.testing
from trio_mcp import FileTokenStore, Limits, OAuth, open_client

class Store(FileTokenStore):
    # Each look for the login of another takes its time: more than requests have, but for the two with which the
    # waiting begins.
    looks = 0

    async def get(self, key):
        if key.startswith("login"):
            self.looks += 1
            if self.looks > 2:
                trio.lowlevel.current_clock().jump(100_000)
            print("looked", flush=True)
        return await super().get(key)

async def never(url):
    print("asked", flush=True)
    await trio.sleep_forever()

async def main():
    auth = OAuth(
        store=Store(sys.argv[2]), open_page=never, listen=False,
        redirect_uri="http://localhost:3000/callback",
    )
    limits = Limits(connect_timeout=1_000, discover_timeout=1_000)
    async with open_client(sys.argv[1], auth=auth, limits=limits, request_timeout=1_000) as client:
        print((await client.call_tool("hello")).text, flush=True)

trio.run(main, clock=trio.testing.MockClock(rate=1))
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


async def wait_said(process: subprocess.Popen[bytes], *lines: bytes) -> None:
    """Wait until a process has said what is expected of it, and nothing else."""
    assert process.stdout is not None
    for line in lines:
        assert await trio.to_thread.run_sync(process.stdout.readline) == line


async def test_a_process_waits_for_the_login_of_another(tmp_path: Path) -> None:
    """It asks nobody itself meanwhile, and its clocks stand still."""
    file = tmp_path / "tokens.json"
    async with protected() as (url, _):
        other: list[subprocess.Popen[bytes]] = []

        async def log_in(page: str) -> str | None:
            other.append(start(url, file))
            await wait_said(other[0], *[b"looked\n"] * 5)
            return await log_in_at(page)

        auth = OAuth(store=FileTokenStore(file), open_page=log_in, listen=False, redirect_uri=CALLBACK)
        async with open_client(url, auth=auth) as client:
            await client.call_tool("hello")
        (process,) = other
        assert process.stdout is not None
        said = (await trio.to_thread.run_sync(process.stdout.read)).splitlines()
        _, errors = await trio.to_thread.run_sync(process.communicate)
    assert (set(said) - {b"looked"}, errors.decode()[-2000:]) == ({b"hello"}, "")
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]


async def test_a_process_that_is_killed_in_a_login_holds_nobody_up_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note is good for 15 s, unless it says so again."""
    file = tmp_path / "tokens.json"
    async with protected() as (url, _):
        began = time.time()
        victim = start(url, file)
        await wait_said(victim, b"looked\n", b"asked\n")
        victim.kill()
        await trio.to_thread.run_sync(victim.communicate)
        kept: dict[str, Any] = json.loads(file.read_text())["entries"]
        (note,) = [key for key in kept if key.startswith("login")]
        said = json.loads(kept[note][0])
        assert began <= said["until"] - 15 <= time.time()
        store, get = FileTokenStore(file), FileTokenStore.get
        looked: list[bool] = []
        asked: list[int] = []

        async def look(self: FileTokenStore, key: str) -> str | None:
            if key == note:
                looked.append(is_good := len(looked) < 3)
                await self.set(note, json.dumps({**said, "until": time.time() + (10 if is_good else -1)}))
                if 1 < len(looked) <= 4:  # it waits
                    await pass_time(100)  # more than a request has
            return await get(self, key)

        async def log_in(page: str) -> str | None:
            asked.append(len(looked))
            return await log_in_at(page)

        monkeypatch.setattr(FileTokenStore, "get", look)
        auth = OAuth(store=store, open_page=log_in, listen=False, redirect_uri=CALLBACK)
        async with open_client(url, auth=auth, request_timeout=30) as client:
            await client.call_tool("hello")
    assert looked[:4] == [True, True, True, False]
    assert len(asked) == 1
    assert asked[0] >= 4
