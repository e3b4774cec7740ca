"""The witness, a server process that writes down what becomes of its handlers, and clients of it over pipes and sockets."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import trio
from http_process import HttpProcess
from http_tap import HttpLog, open_http_tap
from lines import LEGACY, MODERN
from places import PROGRAMS
from tape import Tape
from typing_extensions import Unpack

from trio_mcp import Client, ClientOptions, HttpServerParameters, StdioServerParameters, open_client

__all__ = ["DUPLEX", "ENOUGH", "HTTP_LINES", "SCRIPT", "SOCKET_LINES", "WEBSOCKET_LINES", "Diary", "Witness"]

SCRIPT: Final = PROGRAMS / "witness.py"
HTTP_LINES: Final = (("http", LEGACY), ("http", MODERN), ("sse", "2024-11-05"))
SOCKET_LINES: Final = (("tcp", LEGACY), ("tcp", MODERN), ("unix", LEGACY), ("unix", MODERN))
WEBSOCKET_LINES: Final = (("websocket", LEGACY), ("websocket", MODERN))
DUPLEX: Final = frozenset({"stdio", "tcp", "unix", "websocket"})
"""Bindings with one wire for everything, where a goodbye is a message."""
ENOUGH: Final = 280
"""Seconds in which anything here is over, on a machine that is busy with other things."""


@final
class Diary:
    """What the server process has written down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    async def wait_for(self, line: str) -> None:
        with trio.fail_after(ENOUGH):
            while line not in self.lines:
                await trio.sleep(0.01)


@final
class Witness:
    """A server process: one for each client over its pipes, or one at a port.

    Attributes:
        binding: How it is connected.
        revision: What is spoken.
        diary: What it writes down.
        tape: What its client has sent and received.
        log: What went over HTTP.
    """

    def __init__(self, binding: str, revision: str, diary: Diary, process: HttpProcess | None) -> None:
        self.binding = binding
        self.revision = revision
        self.diary = diary
        self.tape = Tape()
        self.log = HttpLog()
        self._process = process

    @property
    def process(self) -> HttpProcess:
        """The one at a port."""
        assert self._process is not None
        return self._process

    def parameters(self) -> StdioServerParameters:
        """Say how one is started whose pipes are spoken through."""
        coverage = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
        env = {"DIARY": str(self.diary.path), **coverage}
        return StdioServerParameters(sys.executable, [str(SCRIPT)], env=env, stderr=lambda _: None)

    @asynccontextmanager
    async def open(self, **options: Unpack[ClientOptions]) -> AsyncGenerator[Client]:
        """Connect a client."""
        options["revision"] = self.revision
        options["on_frame"] = self.tape
        with trio.fail_after(ENOUGH):
            if self.binding == "stdio":
                async with open_client(self.parameters(), **options) as client:
                    yield client
                return
            if self.binding == "websocket":
                async with open_client(f"ws://127.0.0.1:{self.process.port}/mcp", **options) as client:
                    yield client
                return
            if self.binding in {"tcp", "unix"}:
                async with open_client(self.process.url, **options) as client:
                    yield client
                return
            options["era"] = "sse" if self.binding == "sse" else "auto"
            async with open_http_tap(self.process.port, self.log) as port:
                url = f"http://127.0.0.1:{port}/{'sse' if self.binding == 'sse' else 'mcp'}"
                async with open_client(HttpServerParameters(url, restart=None), **options) as client:
                    yield client

    def goodbyes(self) -> Counter[Any]:
        """Return how often each request was given up, on the wire, in the way of the wire."""
        if self.binding in DUPLEX:
            return self.tape.goodbyes()
        if self.revision == MODERN:
            assert not self.log.told()
            return self.log.left()
        return self.log.told_of(self.tape, is_sse=self.binding == "sse")

    def requests(self) -> set[Any]:
        """Return the ids of the requests that the server has, as far as the wire tells."""
        return set(self.tape.requests()) if self.binding in DUPLEX else self.log.requests()

    async def wait_alone(self) -> None:
        """Wait until a server at a port has no more open than when it started: no socket, and what that served."""
        with trio.fail_after(ENOUGH):
            while self._process is not None and self._process.files() > self._process.files_at_start:
                await trio.sleep(0.01)
