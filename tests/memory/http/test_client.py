"""Our HTTP client against servers that follow a script: regular ones, slow ones, broken ones, hostile ones."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from inside_core import ReadFields
from inside_http import (
    ConnectionPool,
    HttpClient,
    HttpConnection,
    HttpRequest,
    HttpTarget,
    parse_target,
    send_following,
)

from trio_mcp import ConnectionLost, HttpSettings

pytestmark = pytest.mark.timeout(60)

MIB: Final = 1024 * 1024


def post(target: HttpTarget, body: bytes = b"{}", *headers: tuple[bytes, bytes]) -> HttpRequest:
    return HttpRequest(method="POST", target=target, headers=headers, body=body)


# What goes out and what comes back.


class CountingStream(trio.abc.Stream):
    """Takes everything, and answers that it is fine."""

    def __init__(self) -> None:
        self.taken = 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.taken += len(data)
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("size", [0, 1, 60_000, 70_000, MIB])
async def test_a_request_counts_as_sent_before_the_server_can_have_it(size: int, read_fields: ReadFields) -> None:
    """A caller that gives it up must not take it for unsent, however late the task runs that has sent it."""
    stream = CountingStream()
    connection = HttpConnection(stream, "it", max_head_bytes=10_000, read_fields=read_fields)
    taken: list[int] = []
    await connection.start(
        HttpRequest(
            method="POST",
            target=parse_target("http://localhost/"),
            body=bytes(size),
            on_sent=lambda _: taken.append(stream.taken),
        )
    )
    assert stream.taken - 64 * 1024 <= taken[0] < stream.taken
    assert len(taken) == 1


async def test_a_response_that_does_not_come_leaves_nothing_of_its_request(read_fields: ReadFields) -> None:
    """The error has frames that have the request. It is no cycle with one of them, which only the collector would end."""
    ours, theirs = trio.testing.memory_stream_pair()
    connection = HttpConnection(ours, "it", max_head_bytes=10_000, read_fields=read_fields)
    await theirs.send_stream.aclose()
    kept: list[weakref.ref[Exception]] = []
    gc.collect()
    gc.disable()
    try:
        try:
            await connection.start(post(parse_target("http://localhost/"), bytes(200_000)))
        except ConnectionLost as error:
            kept.append(weakref.ref(error))
        assert [each() for each in kept] == [None]
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["refused", "cancelled"])
async def test_a_place_in_the_pool_comes_back_when_there_is_no_connection(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Promise 10: or a server that is down for a while would never be asked again."""
    attempts = 0

    async def connect() -> HttpConnection:
        nonlocal attempts
        attempts += 1
        if how == "cancelled":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        raise ConnectionLost("nobody there")

    unused: list[float] = []
    pool = ConnectionPool(connect, HttpSettings(max_connections=2), lambda: unused.append(trio.current_time()))
    failed = 0

    async def ask() -> None:
        nonlocal failed
        with trio.move_on_after(10):
            try:
                await pool.send(post(parse_target("http://localhost/mcp")), urgent=False)
            except ConnectionLost:
                failed += 1

    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(ask)
    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(ask)
    assert attempts == (12 if how == "refused" else 8), "the last four have waited for as long as they would"
    assert failed == (12 if how == "refused" else 0)
    statistics = pool.statistics()
    assert (statistics.idle, statistics.in_use, statistics.waiting) == (0, 0, 0)
    assert unused[-1] == trio.current_time(), "nothing is kept of a server that nothing is asked of"


async def follow(client: HttpClient, request: HttpRequest) -> tuple[int, bytes, str]:
    async with await send_following(client, request) as response:
        return response.status, await response.read(MIB), response.request.target.path


def test_the_settings_say_what_they_are_and_hide_what_they_must() -> None:
    """Keys may be loaded into a context."""
    assert "ssl_context" not in repr(HttpSettings())
    for name in ("max_connections", "connect_timeout", "max_head_bytes"):
        with pytest.raises(ValueError, match=name):
            HttpSettings(**{name: 0})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert attrs.evolve(HttpSettings(), connect_timeout=math.inf).connect_timeout == math.inf
