"""Load: a server process, and as many connections as one likes that ask it all sorts of things and check every answer.

``python tests/nightly/support/http_load.py --minutes 4`` shows how many calls were answered and what the server weighs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import h11
import trio

__all__ = ["CONNECTIONS", "Load", "LoadedServer", "running_server"]

CONNECTIONS: Final = 64

_PROGRAM: Final = """
import logging, sys, trio
from functools import partial
from trio_mcp import Context, HttpServerSettings, Server, run_until_signal, serve_http

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
server = Server("loaded")

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def report(count: int, ctx: Context) -> str:
    async with ctx.progress(total=count) as progress:
        for _ in range(count):
            await progress.advance()
            await trio.sleep(0.001)
    return "x" * 2_000

napping = 0

@server.tool
async def nap(seconds: float) -> str:
    global napping
    napping += 1
    try:
        await trio.sleep(seconds)
    finally:
        napping -= 1
    return "rested"

@server.tool
async def count_naps() -> int:
    return napping

settings = HttpServerSettings(max_requests_per_principal=1_000)
run_until_signal(partial(serve_http, server, port=0, http=sys.argv[1], settings=settings))
print("left", flush=True)
"""


class LoadedServer:
    """A server process.

    Attributes:
        process: The process.
        port: Where it listens.
        said: What it has logged but for its start: nothing, if all is well.
    """

    def __init__(self, process: trio.Process, port: int) -> None:
        self.process = process
        self.port = port
        self.said = b""

    def weight(self) -> int:
        """Return the bytes of memory that are the process's alone. On Linux."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
        return int(line.split()[1]) * 1024


@asynccontextmanager
async def running_server(http: str = "hypercorn") -> AsyncGenerator[LoadedServer]:
    """Run the server while the block runs. Killed, if it has not ended by then."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", _PROGRAM, http], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        out = b""
        while b"/mcp\n" not in out:
            data = await process.stdout.receive_some()
            assert data, out.decode()
            out += data
        port = int(out.partition(b"serving at http://127.0.0.1:")[2].partition(b"/")[0])
        server = LoadedServer(process, port)

        async def listen() -> None:
            assert process.stdout is not None
            while data := await process.stdout.receive_some():
                server.said += data

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            yield server
            nursery.cancel_scope.cancel()
    finally:
        if process.poll() is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


class _Connection:
    """A kept connection; answers are checked by who asks."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT)

    async def ask(
        self, message: Mapping[str, Any] | None, headers: Mapping[str, str], method: str = "POST"
    ) -> tuple[int, dict[str, str], list[dict[str, Any]]]:
        """Return status, header fields and messages of the answer."""
        await self.begin(message, headers, method)
        status, fields, body = 0, dict[str, str](), b""
        while not isinstance(event := self._h11.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                self._h11.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Response):
                status = event.status_code
                fields = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                raise AssertionError(event)
        self._h11.start_next_cycle()
        if fields.get("content-type") == "text/event-stream":
            found = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
            return status, fields, [json.loads(data) for data in found if data.strip()]
        return status, fields, [json.loads(body)] if body else []

    async def begin(self, message: Mapping[str, Any] | None, headers: Mapping[str, str], method: str) -> None:
        """Send a request."""
        body = b"" if message is None else json.dumps(message).encode()
        fields = {
            "Host": "localhost",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = h11.Request(method=method, target="/mcp", headers=list(fields.items()))
        parts = [self._h11.send(head), self._h11.send(h11.Data(data=body)), self._h11.send(h11.EndOfMessage())]
        await self.stream.send_all(b"".join(part or b"" for part in parts))


def _call(id: int, name: str, _token: int | None = None, **arguments: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    }
    if _token is not None:
        meta["progressToken"] = _token
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def _modern(name: str) -> dict[str, str]:
    return {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}


def _text(message: Mapping[str, Any]) -> str:
    text: str = message["result"]["content"][0]["text"]
    return text


class Load:
    """Asks, over many connections at once.

    Attributes:
        answers: How many requests were answered as they should be.
        given_up: How many were left without waiting for their answer.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._ids = 0
        self.answers = 0
        self.given_up = 0

    async def run(self, goes_on: Callable[[], object], connections: int = CONNECTIONS) -> None:
        """Ask for as long as one should. Raises whatever is not as it should be."""
        async with trio.open_nursery() as nursery:
            for number in range(connections):
                nursery.start_soon(self._ask, number, goes_on)

    async def _ask(self, number: int, goes_on: Callable[[], object]) -> None:
        turn = number
        while goes_on():
            async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
                connection = _Connection(stream)
                while goes_on():
                    turn += 1
                    if turn % 61 == 0:
                        await connection.begin(_call(self._id(), "nap", seconds=60), _modern("nap"), "POST")
                        self.given_up += 1
                        break
                    if turn % 23 == 0:
                        await self._session(connection)
                    elif turn % 5 == 0:
                        await self._report(connection)
                    else:
                        await self._add(connection)

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    async def _add(self, connection: _Connection) -> None:
        id = self._id()
        status, _, (message,) = await connection.ask(_call(id, "add", a=id, b=1), _modern("add"))
        assert (status, message["id"], _text(message)) == (200, id, str(id + 1))
        self.answers += 1

    async def _report(self, connection: _Connection) -> None:
        id = self._id()
        status, _, messages = await connection.ask(_call(id, "report", _token=id, count=3), _modern("report"))
        *progress, result = messages
        assert (status, result["id"], _text(result)) == (200, id, "x" * 2_000)
        assert [each["params"]["progressToken"] for each in progress] == [id] * len(progress)
        assert progress[-1]["params"]["progress"] == 3
        self.answers += 1

    async def _session(self, connection: _Connection) -> None:
        """A whole session of the legacy era."""
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "load", "version": "1"},
        }
        id = self._id()
        begin = {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": hello}
        status, fields, (message,) = await connection.ask(begin, {})
        assert (status, message["id"], message["result"]["protocolVersion"]) == (200, id, "2025-11-25")
        mine = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": fields["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await connection.ask(ready, mine))[0] == 202
        id = self._id()
        params = {"name": "add", "arguments": {"a": id, "b": 2}}
        call = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        status, _, messages = await connection.ask(call, mine)
        assert (status, messages[-1]["id"], _text(messages[-1])) == (200, id, str(id + 2))
        assert (await connection.ask(None, mine, "DELETE"))[0] == 204
        self.answers += 4

    async def wait_napping(self, count: int) -> None:
        """Wait until so many naps have arrived at the server."""
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
            connection, found = _Connection(stream), 0
            while found < count:
                call = _call(self._id(), "count_naps")
                _, _, (message,) = await connection.ask(call, _modern("count_naps"))
                found = int(_text(message))

    async def nap(self, seconds: float) -> str:
        """Ask for something that takes a while; return what came."""
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
            connection = _Connection(stream)
            await self._add(connection)
            status, _, (message,) = await connection.ask(
                _call(self._id(), "nap", seconds=seconds), _modern("nap")
            )
            assert status == 200
            return _text(message)


def _for_seconds(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() < until


async def _main(minutes: float, http: str) -> None:
    async with running_server(http) as server:
        load = Load(server.port)
        began = time.monotonic()
        before, seconds = 0, 15.0
        print(f"{CONNECTIONS} connections; the server weighs {server.weight() / 2**20:.1f} MiB")
        while time.monotonic() - began < 60 * minutes:
            await load.run(_for_seconds(seconds))
            rate = (load.answers - before) / seconds
            before = load.answers
            print(
                f"{time.monotonic() - began:5.0f} s  {load.answers:8} answers  {rate:6.0f}/s  "
                f"{load.given_up:6} given up  {server.weight() / 2**20:6.1f} MiB"
            )
        answers: list[str] = []

        async def nap() -> None:
            answers.append(await load.nap(1.0))

        async with trio.open_nursery() as nursery:
            for _ in range(CONNECTIONS):
                nursery.start_soon(nap)
            await load.wait_napping(CONNECTIONS)
            asked = time.monotonic()
            server.process.terminate()
            status = await server.process.wait()
        took = time.monotonic() - asked
        rested = answers.count("rested")
        print(f"SIGTERM: {rested} of {CONNECTIONS} calls answered; exit {status} after {took:.2f} s")
        print(server.said.decode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--http", choices=["hypercorn", "lean"], default="hypercorn")
    options = parser.parse_args()
    trio.run(_main, options.minutes, options.http)
