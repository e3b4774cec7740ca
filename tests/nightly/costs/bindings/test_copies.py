"""How often a large message is in memory while it goes in or out: copies take longer than all else that is done."""

from __future__ import annotations

import json
import os
import socket
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
import trio
from inside_core import LineReader
from raw import META

from trio_mcp import Context, Server, StreamChannel, serve_http

if sys.platform == "win32":
    pytest.skip("Windows has no such descriptors", allow_module_level=True)

SIZE: Final = 1 << 20
TEXT: Final = "x" * SIZE
ANSWER: Final = memoryview(bytearray(2 * SIZE))
"""Where answers are read to, so that the other end allocates nothing."""

Exchange: TypeAlias = Callable[[bytes], int]
"""Sends what was prepared, and returns how long the answer is, which is in `ANSWER`. Blocks."""

server = Server("large")


@server.tool
async def swallow(text: str) -> int:
    """Return the length of a text."""
    return len(text)


@server.tool
async def blob(ctx: Context, *, reports: bool = False) -> str:
    """Return a text, perhaps on a stream."""
    if reports:
        await ctx.report_progress(1)
    return TEXT


def call(name: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": name, "arguments": arguments, "_meta": {**META, "progressToken": 1}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def exchange_lines(to_server: int, from_server: int, line: bytes) -> int:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(to_server, rest) :]
    size = 0
    while not size or ANSWER[size - 1] != ord("\n"):
        size += os.readv(from_server, [ANSWER[size:]])
    return size


@asynccontextmanager
async def lines() -> AsyncGenerator[tuple[Exchange, Callable[[bytes], bytes]]]:
    """Serve over pipes."""
    from_client, to_server = os.pipe()
    from_server, to_client = os.pipe()
    incoming, outgoing = trio.lowlevel.FdStream(from_client), trio.lowlevel.FdStream(to_client)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.serve_channel, StreamChannel(incoming, outgoing))  # noqa: ASYNC113 - pipes keep what comes
        yield partial(exchange_lines, to_server, from_server), lambda body: body + b"\n"
        os.close(to_server)
    os.close(from_server)


def exchange_posts(connection: socket.socket, post: bytes) -> int:
    connection.sendall(post)
    size = 0
    while True:
        size += connection.recv_into(ANSWER[size:])
        head, found, _ = bytes(ANSWER[: min(size, 1000)]).partition(b"\r\n\r\n")
        _, has_length, length = head.partition(b"content-length: ")
        if found and has_length and size == len(head) + 4 + int(length.split(b"\r\n")[0]):
            return size
        if found and not has_length and bytes(ANSWER[max(0, size - 7) : size]) == b"\r\n0\r\n\r\n":
            return size


def post_of(host: str, body: bytes) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {host}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {json.loads(body)['params']['name']}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def posts() -> AsyncGenerator[tuple[Exchange, Callable[[bytes], bytes]]]:
    """Serve over HTTP, without an HTTP library."""
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(partial(serve_http, server, port=0, http="lean"))
        host = url.removeprefix("http://").removesuffix("/mcp")
        with socket.create_connection((host.rpartition(":")[0], int(host.rpartition(":")[2]))) as connection:
            yield partial(exchange_posts, connection), partial(post_of, host)
        nursery.cancel_scope.cancel()


@contextmanager
def measured() -> Generator[list[int]]:
    """Yield a list that will have how many bytes were allocated at once, at most, while the block ran."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("transport", "arguments", "most"),
    [
        (lines, {"text": TEXT}, 2.2),
        (posts, {"text": TEXT}, 2.2),
        (lines, {}, 1.8),
        (posts, {}, 1.8),
        (posts, {"reports": True}, 3.0),
    ],
    ids=[
        "argument of a line",
        "argument of a POST",
        "result in a line",
        "result of a POST",
        "result on a stream",
    ],
)
async def test_a_large_message_is_in_memory_so_often_at_most(
    transport: Callable[[], Any], arguments: dict[str, Any], most: float
) -> None:
    """In: the message, and the text in it. Out: the message, for which room is made in advance; on a stream as an
    event, too.
    """
    body = call("swallow" if "text" in arguments else "blob", arguments)
    with trio.fail_after(30):
        async with transport() as (exchange, prepare):
            data = prepare(body)
            await trio.to_thread.run_sync(exchange, data)  # whatever is done once is done
            with measured() as peak:
                size = await trio.to_thread.run_sync(exchange, data)
    assert (size > SIZE) == ("text" not in arguments)
    assert peak[0] < most * SIZE


def test_a_line_in_pieces_is_joined_once() -> None:
    """However large the last piece of it is, and what is behind that."""
    reader = LineReader(4 * SIZE)
    first, last = b"x" * SIZE, b"y" * SIZE + b"\nz"
    assert reader.feed(b"w") == reader.feed(first) == []
    with measured() as peak:
        lines = reader.feed(last)
    assert lines == [b"w" + first + last[:-2]]
    assert peak[0] < 2.1 * SIZE
