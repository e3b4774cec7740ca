"""Processes that serve one server with one store, behind nginx or each by itself. Real processes, real time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import quote

import attrs
import trio
from http_raw import Raw, call_tool
from inside_http import open_http_client, parse_target
from nginx import Nginx, blocks, replaced, running_nginx
from places import PROGRAMS
from redis_server import Redis, free_port, running_redis
from worker_group import ENOUGH, text_of

from trio_mcp import HttpServerParameters, HttpSettings

__all__ = ["Member", "Note", "StoreGroup", "open_store_group"]

PROGRAM: Final = PROGRAMS / "store_program.py"
UPSTREAM: Final = "server unix:/run/orders/mcp.sock;"
UNWANTED: Final = (
    "# server 127.0.0.1:8000;  # over TCP",
    "keepalive 32;",
    "keepalive_timeout 60s;  # less than idle_timeout: nginx closes first, and no request meets a closed door",
    "limit_conn addresses 100;",
    "limit_req zone=addresses_rate burst=100 nodelay;",
)
"""What the page has against floods, and to keep connections: one that is kept would bring a client back to a process."""


@final
class Member:
    """One of the processes; it can end, and be started again at the same socket.

    Args:
        path: Its socket.
        options: How it serves.
        temporary: Where it has its files for temporary things.

    Attributes:
        path: Its socket.
        errors: The file of its standard error, of all its lives.
        lives: The ids of the processes it was, the last one first.
        killed: Which of them were killed.
    """

    def __init__(self, path: Path, options: dict[str, Any], temporary: Path) -> None:
        self.path = path
        self.errors = path.with_suffix(".log")
        self.lives: list[int] = []
        self.killed: set[int] = set()
        self._options = {**options, "unix_path": str(path)}
        self._temporary = temporary
        self._process: trio.Process | None = None

    @property
    def url(self) -> str:
        return f"http+unix://{quote(str(self.path), safe='')}/mcp"

    @property
    def pid(self) -> int:
        """Which process it is, or was last."""
        return self.lives[0]

    @property
    def status(self) -> int | None:
        """With what status it has ended; `None` while it runs."""
        assert self._process is not None
        return self._process.poll()

    async def start(self) -> None:
        """Start it; return when clients can connect."""
        with self.errors.open("a") as stderr:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-W", "error", str(PROGRAM), json.dumps(self._options)],
                stderr=stderr,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(self._temporary)},
            )
        self._process = process
        self.lives.insert(0, process.pid)
        with trio.fail_after(ENOUGH):
            while not _listens(self.path):
                assert process.poll() is None, self.said()
                await trio.sleep(0.02)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, and return its status; by SIGKILL, if it takes too long."""
        assert self._process is not None
        if number != signal.SIGKILL:
            self.send_signal(number)
            with trio.move_on_after(ENOUGH):
                return await self._process.wait()
        self.killed.add(self.pid)
        self._process.kill()
        return await self._process.wait()

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Raw]:
        """Open a client whose requests come to this process."""
        async with open_http_client() as client:
            yield Raw(client, parse_target(self.url))

    def said(self) -> str:
        """Return what it has said on standard error."""
        return self.errors.read_text()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as attempt:
        return attempt.connect_ex(str(path)) == 0


@attrs.frozen
class Note:
    """What a handler has noted: what happened, of which call, in which process."""

    event: str
    token: str
    pid: int


@final
@attrs.frozen
class StoreGroup:
    """The processes, and what is around them.

    Attributes:
        kind: What they share: ``"sqlite"``, ``"redis"``, or with ``"workers"`` nothing; then there is one member,
            which is two processes by itself.
        folder: Where everything is; its name is short.
        members: The processes.
        nginx: What distributes requests to them; `None` if nothing does.
        redis: Their Redis; `None` if they have none.
        temporary: Where they have their files for temporary things.
    """

    kind: str
    folder: Path
    members: Sequence[Member]
    nginx: Nginx | None
    redis: Redis | None
    temporary: Path

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Raw]:
        """Open a client whose requests come to any of them."""
        assert self.nginx is not None
        async with open_http_client(HttpSettings(ssl_context=self.nginx.context())) as client:
            yield Raw(client, parse_target(self.nginx.url))

    async def aim(self, raw: Raw, number: int) -> None:
        """Let the next request through nginx come to a member, by its number. It is one after the other's turn."""
        if len(self.members) == 2:
            other = self.members[1 - number].pid
            with trio.fail_after(ENOUGH):
                while text_of(await raw.send(call_tool("who"))) != str(other):
                    pass

    def parameters(self, user: str | None = None) -> HttpServerParameters:
        """Return what `open_client` takes, for clients whose requests come to any of them."""
        assert self.nginx is not None
        headers = {} if user is None else {"X-User": user}
        return HttpServerParameters(
            self.nginx.url, headers=headers, http=HttpSettings(ssl_context=self.nginx.context())
        )

    def notes(self, token: str | None = None) -> list[Note]:
        """Return what handlers have noted, of one call or of all."""
        path = self.folder / "notes"
        words = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        found = [Note(event, of, int(pid)) for event, of, pid in words]
        return [each for each in found if token in (None, each.token)]

    def events(self, token: str) -> Counter[str]:
        """Return what has happened to a call, and how often."""
        return Counter(each.event for each in self.notes(token))

    async def wait_event(self, token: str, event: str) -> None:
        """Wait until that has happened to a call."""
        with trio.fail_after(ENOUGH):
            while not self.events(token)[event]:
                await trio.sleep(0.02)

    def gate(self, name: str) -> Path:
        """Return the path of a file that is not there yet, for handlers that wait for it."""
        return self.folder / f"gate-{name}"

    def said(self) -> str:
        """Return what all have said on standard error."""
        return "".join(member.said() for member in self.members)

    def left(self) -> list[str]:
        """Return what files there are of them, beside those of the store, which is to stay."""
        places = [*self.temporary.rglob("*"), *self.folder.glob("*.sock"), *self.folder.glob("orders.db*")]
        return sorted(str(each.relative_to(self.folder)) for each in places if each.name != "orders.db")


def _configuration(sockets: Sequence[Path], balance: str) -> str:
    """Return the configuration of the page for several sockets, with nothing that keeps a client at one of them."""
    page = replaced(blocks("nginx")[0], dict.fromkeys(UNWANTED, ""))
    # One that is not there now is asked again with the next request.
    servers = " ".join(f"server unix:{path} max_fails=0;" for path in sockets)
    return replaced(page, {UPSTREAM: f"{balance} {servers}"})


@contextmanager
def _short_folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # a short path, as sockets need
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def open_store_group(
    kind: str, *, members: int = 2, nginx: bool = True, balance: str = "", **options: Any
) -> AsyncGenerator[StoreGroup]:
    """Serve in several processes while the block runs; kill what is left of them.

    Args:
        kind: What they share; see `StoreGroup`.
        members: How many there are.
        nginx: Whether there is one in front.
        balance: How nginx distributes requests, in its words: one after the other by default, or ``"random;"``.
        **options: See the program.
    """
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_short_folder())
        port = free_port()
        running = running_redis("--port", str(port)) if kind == "redis" else nullcontext()
        redis = stack.enter_context(running)
        where = str(folder / "orders.db") if redis is None else f"redis://127.0.0.1:{port}/0"
        temporary = folder / "tmp"
        temporary.mkdir()
        options |= {"store": kind, "where": where, "notes": str(folder / "notes")}
        names = "abcdefgh"[: 1 if kind == "workers" else members]
        each = [Member(folder / f"{name}.sock", options, temporary) for name in names]
        stack.push_async_callback(_end_all, each)
        for member in each:
            await member.start()
        front: Nginx | None = None
        if nginx:
            (folder / "nginx").mkdir()
            configuration = _configuration([member.path for member in each], balance)
            front = await stack.enter_async_context(running_nginx(folder / "nginx", configuration))
        yield StoreGroup(kind, folder, each, front, redis, temporary)


async def _end_all(members: Sequence[Member]) -> None:
    """End what runs still: in good order, then by force."""
    with trio.CancelScope(shield=True):
        for member in members:
            if member.lives:
                member.send_signal(signal.SIGCONT)
                member.send_signal(signal.SIGTERM)
        for member in members:
            if member.lives:
                with trio.move_on_after(30):
                    await member.end()
                    continue
                await member.end(signal.SIGKILL)
