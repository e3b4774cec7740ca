"""Serves a file of 8 MiB to clients that ask for it, and read nothing; prints the most memory that it had, in MiB.

``unread_files.py http 100`` has a hundred clients; ``unread_files.py tcp 100`` one, with a hundred requests.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import trio

from trio_mcp import Server, serve_http, serve_tcp

KEY = "io.modelcontextprotocol/"
META: dict[str, Any] = {f"{KEY}protocolVersion": "2026-07-28", f"{KEY}clientCapabilities": {}}
PARAMS = {"uri": "file:///large", "_meta": META | {f"{KEY}clientInfo": {"name": "a", "version": "1"}}}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": PARAMS}).encode()
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\n"
    "Mcp-Name: file:///large\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n"
).encode()


def most_memory() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10


async def ask(port: int, number: int) -> trio.socket.SocketType:
    """Ask for the file, wait for the beginning of the answer, and leave the rest."""
    asking = trio.socket.socket()
    await asking.bind((f"127.0.0.{number % 50 + 2}", 0))
    await asking.connect(("127.0.0.1", port))
    await asking.send(HEAD + BODY)
    assert await asking.recv(12) in {b"HTTP/1.1 200", b"HTTP/1.1 429", b"HTTP/1.1 503"}
    return asking


async def ask_over_tcp(address: str, count: int) -> None:
    """Ask often on one connection, and wait until nothing more is done."""
    _, _, port = address.rpartition(":")
    asking = await trio.open_tcp_stream("127.0.0.1", int(port))
    for id in range(count):
        await asking.send_all(BODY.replace(b'"id": 1', b'"id": %d' % id) + b"\n")
    before = -1
    while (now := most_memory()) != before:
        before = now
        await trio.sleep(1)


async def ask_over_http(url: str, count: int) -> None:
    port = int(url.split(":")[2].split("/")[0])
    begun: list[object] = []

    async def ask_and_leave(number: int) -> None:
        begun.append(await ask(port, number))

    async with trio.open_nursery() as asking:
        for number in range(count):
            asking.start_soon(ask_and_leave, number)
    print(most_memory(), flush=True)  # while nobody has taken an answer


async def main(how: str, count: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(range(256)) * (1 << 15))
        file.flush()
        server = Server("files")
        server.add_file(file.name, uri="file:///large")
        async with trio.open_nursery() as nursery:
            if how == "tcp":
                addresses = await nursery.start(partial(serve_tcp, server, port=0))
                await ask_over_tcp(str(addresses[0]), count)
                print(most_memory(), flush=True)
            else:
                urls = await nursery.start(partial(serve_http, server, port=0))
                await ask_over_http(urls[0], count)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    trio.run(main, sys.argv[1], int(sys.argv[2]))
