"""Processes that share a file of tokens, at an authorization server whose refresh tokens are good once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, final

import attrs
import pytest
import trio
from logging_in import log_in_at
from misbehaving import Misbehaving
from places import ROOT
from unmeasured import unmeasured

from trio_mcp import FileTokenStore, OAuth, Server, open_client, serve_http

PROGRAM = """
import sys, trio
from trio_mcp import FileTokenStore, OAuth, open_client

async def main():
    while await trio.to_thread.run_sync(sys.stdin.readline):
        auth = OAuth(
            store=FileTokenStore(sys.argv[2]), open_page=None, listen=False,
            redirect_uri="http://localhost:3000/callback",
        )
        async with open_client(sys.argv[1], auth=auth) as client:
            for _ in range(3):
                await client.call_tool("hello")
        print("called", flush=True)

trio.run(main)
"""


@final
@attrs.frozen
class Place:
    """A protected server, and the file with somebody's token for it."""

    url: str
    file: Path
    login: Misbehaving

    def start(self) -> subprocess.Popen[bytes]:
        """Start a process that makes calls for each line that it gets, and asks nobody to log in."""
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.url, str(self.file)],
            env={**unmeasured(), "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def expire(self) -> None:
        """Let the token in the file have ended, for all who read it."""
        store = FileTokenStore(self.file)
        (key,) = (key for key in kept(self.file) if key.startswith("token"))
        token = json.loads(await store.get(key) or "")
        assert token["expires_at"] > time.time()
        await store.set(key, json.dumps({**token, "expires_at": time.time() - 1}))


@asynccontextmanager
async def place(file: Path) -> AsyncGenerator[Place]:
    """Serve a protected server, and have somebody log in."""
    server: Server[Any] = Server("orders")

    @server.tool
    async def hello() -> str:
        return "hello"

    login = Misbehaving()
    auth = OAuth(
        store=FileTokenStore(file),
        open_page=log_in_at,
        listen=False,
        redirect_uri="http://localhost:3000/callback",
    )
    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    async with login.serving(), trio.open_nursery() as nursery:
        protected = login.protect(url, leeway=0.0)
        await nursery.start(partial(serve_http, server, port=port, http="lean", auth=protected))
        async with open_client(url, auth=auth) as client:
            await client.call_tool("hello")
        yield Place(url, file, login)
        nursery.cancel_scope.cancel()


def call(*processes: subprocess.Popen[bytes]) -> None:
    """Have processes make their calls, all at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()


async def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Wait until a process has ended."""
    _, errors = await trio.to_thread.run_sync(process.communicate, abandon_on_cancel=True)
    return process.returncode, errors.decode()[-2_000:]


def kept(file: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(file.read_text())["entries"]
    return value


async def test_processes_refresh_one_after_the_other(tmp_path: Path) -> None:
    """A refresh token that comes twice ends the login for all."""
    async with place(tmp_path / "tokens.json") as here:
        processes = [here.start() for _ in range(3)]
        for _ in range(4):
            await here.expire()
            call(*processes)
            for process in processes:
                assert process.stdout is not None
                said = await trio.to_thread.run_sync(process.stdout.readline)
                assert said == b"called\n", await ended(process)
        assert [await ended(process) for process in processes] == [(0, "")] * 3
        grants = here.login.grants
    assert grants["authorization_code"] == 1
    assert grants["refresh_token"] == 4, "once for all of them"
    assert sum(key.startswith("token") for key in kept(here.file)) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]


async def test_a_process_that_is_killed_in_a_refresh_leaves_the_file_to_the_others(tmp_path: Path) -> None:
    """It has the lock then, and a request is on its way."""
    async with place(tmp_path / "tokens.json") as here:
        await here.expire()
        for _ in range(2):
            here.login.misbehaviours.add("hanging-token-endpoint")
            asked = len(here.login.requests)
            victim = here.start()
            call(victim)
            while not any(each.path == "/token" for each in list(here.login.requests)[asked:]):
                await trio.sleep(0.02)
            assert any(each.suffix == ".lock" for each in tmp_path.iterdir()), "it holds the key"
            victim.send_signal(signal.SIGKILL)
            assert (await ended(victim))[0] == -signal.SIGKILL
            here.login.misbehaviours.clear()
        others = [here.start() for _ in range(2)]
        call(*others)
        assert [await ended(process) for process in others] == [(0, "")] * 2
        grants = here.login.grants
    assert grants["authorization_code"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize("n", range(3))
async def test_a_process_that_is_killed_anywhere_leaves_a_file_that_can_be_read(tmp_path: Path, n: int) -> None:
    """Whatever it was doing: what is there is whole, and nobody waits for its locks."""
    file = tmp_path / "tokens.json"
    program = """
import sys, trio
from trio_mcp import FileTokenStore

async def main():
    store = FileTokenStore(sys.argv[1])
    for n in range(100_000):
        async with store.exclusive("x"):
            await store.set(f"key {n % 50}", "v" * 2000)
            if n >= 5:
                print(n, flush=True)

trio.run(main)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(file)],
        env={**unmeasured(), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for done in range(1 + 20 * n):
        assert await trio.to_thread.run_sync(process.stdout.readline) == b"%d\n" % (5 + done)
    process.send_signal(signal.SIGKILL)
    await trio.to_thread.run_sync(process.wait)
    process.stdout.close()
    store = FileTokenStore(file)
    async with store.exclusive("x"):
        await store.set("after", "w")
    assert await store.get("after") == "w"
    assert await store.get("key 0") == "v" * 2000
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.json"]
