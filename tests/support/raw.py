"""A server process spoken to by hand, line by line, to say what no client would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

__all__ = ["META", "RawServer", "initialize", "modern", "raw_server"]

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def modern(id: object, method: str, **params: object) -> dict[str, Any]:
    """Return a request of 2026-07-28."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}


def initialize(revision: str) -> dict[str, Any]:
    """Return the request that begins a connection of the legacy era, with id 0."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


class RawServer:
    """The process and its pipes."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._buffer = bytearray()
        self.stderr = bytearray()

    async def send(self, *messages: object) -> None:
        """Write messages, as JSON or as the bytes they are, a line each."""
        assert self.process.stdin is not None
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        await self.process.stdin.send_all(b"".join(line + b"\n" for line in lines))

    async def receive(self) -> Any:
        """Read one message.

        Raises:
            EOFError: The server has closed its output.
        """
        assert self.process.stdout is not None
        while b"\n" not in self._buffer:
            data = await self.process.stdout.receive_some()
            if not data:
                raise EOFError(bytes(self._buffer))
            self._buffer += data
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return json.loads(bytes(line))

    async def receive_all(self) -> list[Any]:
        """Read messages until the server closes its output."""
        messages: list[Any] = []
        while True:
            try:
                messages.append(await self.receive())
            except EOFError as end:
                assert end.args == (b"",), "half a message at the end"
                return messages

    async def close_input(self) -> None:
        """Say that nothing more will be said."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def drain_stderr(self) -> None:
        """Read what the server says on its standard error."""
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.stderr += data


@asynccontextmanager
async def raw_server(
    script: str | os.PathLike[str], *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 30
) -> AsyncGenerator[RawServer]:
    """Run a Python program with pipes for its standard streams, and make sure that it is gone afterwards."""
    command: Sequence[str] = [sys.executable, str(script), *arguments]
    with trio.fail_after(seconds):
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        server = RawServer(process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.drain_stderr)
                yield server
                with trio.move_on_after(5):
                    await process.wait()
                nursery.cancel_scope.cancel()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout, process.stderr):
                    assert stream is not None
                    await stream.aclose()
