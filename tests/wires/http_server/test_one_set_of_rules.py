"""Whatever reads and writes HTTP: the same requests are refused, and the same are served, byte for byte of them.

Behind each request that is refused comes one that would be served. Whoever sends both through a proxy that reads the
first one differently must not get an answer to the second.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest
import trio
from hostile_requests import HOST, ODD_CHUNKS, REFUSED_CHUNKS, REFUSED_HEADS, head
from http_raw import call_tool
from http_wire import Served, head_for, request_for, serving
from patient_clock import pass_time

from trio_mcp import HttpServerSettings, Server

pytestmark = [pytest.mark.usefixtures("host")]

GOOD: Final = request_for(call_tool("add", a=1, b=2))
CHUNKED: Final = (
    head_for(0)
    .replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    .replace(
        b"\r\n\r\n", b"\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add\r\n\r\n"
    )
)
BODY: Final = json.dumps(call_tool("add", a=1, b=2)).encode()
WHOLE: Final = 1 << 20


@asynccontextmanager
async def adding(settings: HttpServerSettings | None = None) -> AsyncGenerator[tuple[Served, list[int]]]:
    """Serve a tool, and note how often it is called."""
    server: Server[Any] = Server("adding")
    calls: list[int] = []

    @server.tool
    async def add(a: int, b: int) -> int:
        calls.append(a)
        return a + b

    async with serving(server, settings) as served:
        yield served, calls


async def said_to(served: Served, data: bytes, step: int) -> list[int]:
    """Send some bytes, so many at a time, and return the statuses of all answers until the connection ends."""
    answers = b""
    async with served.wire() as wire, trio.open_nursery() as nursery:

        async def send() -> None:
            try:
                for at in range(0, len(data), step):
                    await wire.stream.send_all(data[at : at + step])
            except trio.BrokenResourceError:
                pass

        nursery.start_soon(send)
        answers = await wire.wait_closed()
        nursery.cancel_scope.cancel()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answers)]


@pytest.mark.parametrize("step", [WHOLE, 11], ids=["at once", "in pieces"])
async def test_a_head_that_can_be_read_in_two_ways_ends_the_connection(step: int) -> None:
    """RFC 9112, section 11.2: nothing behind it is answered, or done."""
    found: dict[str, object] = {}
    async with adding() as (served, calls):
        for what, (data, _) in REFUSED_HEADS.items():
            found[what] = await said_to(served, data + GOOD, step)
    assert found == {what: [status] for what, (_, status) in REFUSED_HEADS.items()}
    assert calls == []


@pytest.mark.parametrize("step", [WHOLE, 1], ids=["at once", "by bytes"])
async def test_a_head_that_has_no_end_for_us_is_refused_before_its_time_is_over(step: int) -> None:
    """Who ends lines with a bare LF has ended the head, and waits."""
    async with adding() as (served, _):
        for what in ("no CR at all", "a bare LF at the end"):
            assert await said_to(served, REFUSED_HEADS[what][0], step) == [400]


@pytest.mark.parametrize("step", [WHOLE, 11], ids=["at once", "in pieces"])
async def test_a_body_that_can_be_read_in_two_ways_ends_the_connection(step: int) -> None:
    """The same behind a good head."""
    found: dict[str, object] = {}
    async with adding() as (served, calls):
        for what, chunks in REFUSED_CHUNKS.items():
            found[what] = await said_to(served, CHUNKED + chunks + GOOD, step)
    assert found == {what: [400] for what in REFUSED_CHUNKS}
    assert calls == []


@pytest.mark.parametrize("step", [WHOLE, 11], ids=["at once", "in pieces"])
async def test_a_head_behind_a_good_request_is_held_to_the_same(step: int) -> None:
    """It is looked at when its turn comes, and the request before it is answered."""
    found: dict[str, object] = {}
    async with adding() as (served, calls):
        for what, (data, _) in REFUSED_HEADS.items():
            found[what] = await said_to(served, GOOD + data + GOOD, step)
    assert found == {what: [200, status] for what, (_, status) in REFUSED_HEADS.items()}
    assert calls == [1] * len(REFUSED_HEADS)


@pytest.mark.parametrize("step", [WHOLE, 11, 1], ids=["at once", "in pieces", "by bytes"])
async def test_chunks_are_read_however_they_are_written(step: int) -> None:
    """Their extensions and their trailers are passed over, and the connection is used again."""
    found: dict[str, object] = {}
    last = GOOD.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    async with adding() as (served, calls):
        for what, chunks in ODD_CHUNKS.items():
            data = CHUNKED + chunks % (len(BODY), BODY)
            found[what] = await said_to(served, data * 2 + last, step)
    assert found == {what: [200, 200, 200] for what in ODD_CHUNKS}
    assert len(calls) == 3 * len(ODD_CHUNKS)


async def test_a_body_in_chunks_of_one_byte_is_refused_long_before_it_is_too_large() -> None:
    """It costs what hundreds of times its size costs: 64 KiB around the data are more than anybody needs."""
    data = CHUNKED + b"1\r\nx\r\n" * 50_000
    async with adding() as (served, calls), served.wire() as wire, trio.open_nursery() as nursery:

        async def send() -> None:
            with suppress(trio.BrokenResourceError):
                await wire.stream.send_all(data)

        nursery.start_soon(send)
        answer = await wire.wait_closed()
        nursery.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"its chunks are too short" in answer
    assert calls == []


def with_line(line: bytes) -> bytes:
    return GOOD.replace(b"POST /mcp HTTP/1.1", line)


def with_field(field: bytes) -> bytes:
    return GOOD.replace(b"\r\n", b"\r\n" + field + b"\r\n", 1)


LAST: Final = with_field(b"Connection: close")
ODD: Final = {
    "a whole URL": (with_line(b"POST http://localhost/mcp HTTP/1.1"), [200, 200]),
    "a whole URL, encoded": (with_line(b"POST http://localhost/%6dcp HTTP/1.1"), [200, 200]),
    "a whole URL, encoded twice": (with_line(b"POST http://localhost/%256dcp HTTP/1.1"), [404, 200]),
    "a path that is encoded twice": (with_line(b"POST /%256dcp HTTP/1.1"), [404, 200]),
    "a path with two slashes": (with_line(b"POST //mcp HTTP/1.1"), [404, 200]),
    "a query": (with_line(b"POST /mcp?x=/..;y HTTP/1.1"), [200, 200]),
    "HTTP/1.0": (with_line(b"POST /mcp HTTP/1.0"), [200]),
    "a method in small letters": (with_line(b"post /mcp HTTP/1.1"), [405, 200]),
    "no method that anybody knows": (with_line(b"BREW /mcp HTTP/1.1"), [405, 200]),
    "an asterisk": (head(HOST, b"Content-Length: 0", line=b"OPTIONS * HTTP/1.1"), [404, 200]),
    "another protocol": (with_field(b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA"), [200, 200]),
    "a WebSocket": (
        with_field(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13"), [200, 200]
    ),
    "a body that waits": (with_field(b"Expect: 100-continue"), [200, 200]),
    "something else that is expected": (with_field(b"Expect: the unexpected"), [200, 200]),
    "a field without a value": (with_field(b"X:"), [200, 200]),
    "a value that is not ASCII": (with_field(b"X: \xff\x80"), [200, 200]),
    "Connection among others": (with_field(b"Connection: x, CLOSE"), [200]),
    "a connection that is kept": (with_field(b"Connection: keep-alive"), [200, 200]),
    "no body": (head(HOST, line=b"POST /mcp HTTP/1.1"), [415, 200]),
    "a body where there is none": (
        head(HOST, b"Content-Length: 3", b"Accept: text/event-stream", line=b"GET /mcp HTTP/1.1") + b"abc", [400, 200]
    ),
    "an empty line before": (b"\r\n" + GOOD, [200, 200]),
    "an empty line behind": (GOOD + b"\r\n", [200, 200]),
    "another host": (GOOD.replace(b"Host: localhost", b"Host: elsewhere"), [421]),
    "fields of 40 KB": (with_field(b"X: " + b"x" * 40_000), [431]),
    "fields that have no end": (b"POST /mcp HTTP/1.1\r\nX: " + b"x" * 40_000, [431]),
}  # fmt: skip
"""Requests, and the statuses of the answers to them and to one more."""


@pytest.mark.parametrize("step", [WHOLE, 1_001], ids=["at once", "in pieces"])
async def test_what_is_odd_is_answered_alike(step: int) -> None:
    """What is served, what is refused, and whether the connection is used again."""
    found: dict[str, object] = {}
    async with adding() as (served, _):
        for what, (data, _) in ODD.items():
            found[what] = await said_to(served, data + LAST, step)
    assert found == {what: statuses for what, (_, statuses) in ODD.items()}


@pytest.mark.parametrize("step", [WHOLE, 1], ids=["at once", "by bytes"])
async def test_one_empty_line_before_each_request_is_passed_over(step: int) -> None:
    """RFC 9112, section 2.2: old clients send it behind a body. More of them are no request."""
    async with adding() as (served, calls):
        assert await said_to(served, (b"\r\n" + GOOD) * 3 + b"\r\n" + LAST, step) == [200] * 4
        assert await said_to(served, GOOD + b"\r\n\r\n" + GOOD, step) == [200, 400]
        assert await said_to(served, b"\r\n" * 2, step) == [400]
    assert len(calls) == 5


async def test_a_connection_rests_behind_an_empty_line() -> None:
    """It is no part of a head, which would have to go on within half of `message_timeout`."""
    settings = HttpServerSettings(message_timeout=40, idle_timeout=1_000)
    async with adding(settings) as (served, calls), served.wire() as wire:
        for sent in ((GOOD, b"\r\n"), (GOOD + b"\r\n",), (GOOD,)):
            for data in sent:
                await wire.stream.send_all(data)
                await pass_time(40)
            assert (await wire.stream.receive_some()).startswith(b"HTTP/1.1 200 ")
    assert len(calls) == 3


async def test_a_body_is_asked_for_when_it_is_wanted() -> None:
    """RFC 9110, section 10.1.1: a client that is refused need not send it."""
    waiting = {"Expect": "100-continue"}
    async with adding(HttpServerSettings(max_body_bytes=1_000)) as (served, _), served.wire() as wire:
        await wire.stream.send_all(head_for(5_000, waiting))
        assert (await wire.stream.receive_some()).startswith(b"HTTP/1.1 413 ")
        async with served.wire() as other:
            begin, end = GOOD.partition(b"\r\n\r\n")[::2]
            await other.stream.send_all(begin + b"\r\nExpect: 100-continue\r\n\r\n")
            assert (await other.stream.receive_some()).startswith(b"HTTP/1.1 100 ")
            await other.stream.send_all(end)
            assert (await other.stream.receive_some()).startswith(b"HTTP/1.1 200 ")
