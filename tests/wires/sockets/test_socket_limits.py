"""What connections at sockets may cost: how many, how long, how much; and clients that mean harm."""

from __future__ import annotations

import json
import logging
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest
import trio
from descriptors import open_files
from inside_base import SERVER_BUSY
from line_sockets import KINDS, Kind, Line, connect, serving_at
from patient_clock import pass_time
from raw import initialize, modern
from shared.sockets_socket_limits import MIB, kept, make_server, none_kept

from trio_mcp import Limits, SocketServerSettings, open_client

SHORT = 1_000.0
"""Seconds after which a limit of time is meant to act in these tests, which let them pass."""

LONG = 100_000.0
"""The same of a limit that is not meant to."""

TIMED = SocketServerSettings(message_timeout=SHORT, idle_timeout=SHORT, send_timeout=SHORT)


# Time.


@KINDS
@pytest.mark.parametrize("said", [b"", b"\n\n \n", b'{"jsonrpc": "2.0",'], ids=["nothing", "blanks", "half"])
async def test_who_does_not_begin_is_ended(said: bytes, kind: Kind, tmp_path: Path) -> None:
    """`message_timeout`: from the beginning of the connection, so blank lines do not help."""
    settings = attrs.evolve(TIMED, idle_timeout=LONG)
    async with serving_at(kind, make_server(), tmp_path, settings) as url, connect(url) as line:
        await pass_time(SHORT * 0.75)
        await line.stream.send_all(said)
        await pass_time(SHORT * 0.25)
        assert await line.wait_end() == b""


@KINDS
async def test_half_a_message_is_not_waited_for_for_ever(kind: Kind, tmp_path: Path) -> None:
    """Of a client that has been served before."""
    settings = attrs.evolve(TIMED, idle_timeout=LONG)
    async with serving_at(kind, make_server(), tmp_path, settings) as url, connect(url) as line:
        assert "result" in await line.ask(1, "server/discover")
        await pass_time(2 * SHORT)
        assert "result" in await line.ask(2, "server/discover")
        await line.stream.send_all(b"{")
        await pass_time(SHORT)
        assert await line.wait_end() == b""


@KINDS
async def test_half_a_message_is_not_waited_for_while_a_request_is_open(kind: Kind, tmp_path: Path) -> None:
    """Nor if it comes drop by drop; and what is whole begins the time anew."""
    settings = attrs.evolve(TIMED, idle_timeout=LONG)
    async with serving_at(kind, make_server(), tmp_path, settings) as url, connect(url) as line:
        await line.send(modern(1, "tools/call", name="sleep", arguments={"seconds": LONG}))
        message = json.dumps(modern(2, "tools/call", name="echo", arguments={"text": "x"})).encode()
        for drop in (message[:1], message[1:2], message[2:3]):
            await line.stream.send_all(drop)
            await pass_time(SHORT / 4)
        await line.stream.send_all(message[3:] + b"\n")
        assert (await line.receive())["id"] == 2
        for drop in (b"{", b" ", b" ", b" "):
            await line.stream.send_all(drop)
            await pass_time(SHORT / 4)
        assert await line.wait_end() == b""


@KINDS
@pytest.mark.parametrize("how", ["answered", "cancelled", "notified", "refused", "waited", "large", "handshake"])
async def test_who_says_nothing_any_more_is_ended(how: str, kind: Kind, tmp_path: Path) -> None:
    """`idle_timeout`, however the last request has ended: nothing refers to it any more."""
    settings = attrs.evolve(TIMED, message_timeout=LONG)
    async with serving_at(kind, make_server(), tmp_path, settings) as url, connect(url) as line:
        if how == "answered":
            await line.ask(1, "tools/call", name="echo", arguments={"text": "x"})
        elif how == "waited":
            await line.send(modern(1, "tools/call", name="sleep", arguments={"seconds": 2 * SHORT}))
            await pass_time(2 * SHORT)
            await line.receive()
        elif how == "large":
            await line.ask(1, "tools/call", name="blob", arguments={"size": 3_000_000})
        elif how == "refused":
            await line.ask(1, "no/such")
        elif how == "handshake":
            await line.send(initialize("2025-11-25"))
            await line.receive()
            await line.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        elif how == "notified":
            await line.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        else:
            await line.send(modern(1, "tools/call", name="sleep", arguments={"seconds": 60}))
            await line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await pass_time(SHORT)
        assert await line.wait_end() == b""


@KINDS
async def test_who_waits_for_an_answer_or_a_change_is_not_idle(kind: Kind, tmp_path: Path) -> None:
    async with (
        serving_at(kind, make_server(), tmp_path, TIMED) as url,
        connect(url) as one,
        connect(url) as other,
    ):
        filter = {"toolsListChanged": True}
        await other.send(modern("l", "subscriptions/listen", notifications=filter))
        await other.receive()
        await one.send(modern(1, "tools/call", name="sleep", arguments={"seconds": 3 * SHORT}))
        await pass_time(2 * SHORT)  # more than each limit, and all that would end for it has ended
        await pass_time(SHORT)
        answer = await one.receive()
        assert answer["result"]["content"][0]["text"] == "slept"
        assert "result" in await other.ask(2, "server/discover")


@KINDS
async def test_who_does_not_read_is_cut(kind: Kind, tmp_path: Path) -> None:
    """`send_timeout`; its handlers are cancelled, and nothing is kept for it."""
    server, settings = make_server(), SocketServerSettings(send_timeout=SHORT, idle_timeout=LONG)
    async with serving_at(kind, server, tmp_path, settings) as url, connect(url) as line, connect(url) as other:
        await line.send(*(modern(n, "tools/call", name="blob", arguments={"size": 4_000_000}) for n in range(8)))
        while not kept(server):
            await trio.sleep(0.01)
        assert "result" in await other.ask(1, "server/discover")
        await pass_time(SHORT)
        assert await none_kept(server)
        assert "result" in await other.ask(2, "server/discover")
        with pytest.raises((trio.BrokenResourceError, AssertionError)):
            while True:
                await line.receive()


# Numbers.


@KINDS
async def test_one_address_has_only_so_many(kind: Kind, tmp_path: Path) -> None:
    """A new connection takes the place of the oldest that is idle; if none is, it is closed."""
    settings = SocketServerSettings(max_connections_per_address=2)
    async with serving_at(kind, make_server(), tmp_path, settings) as url, trio.open_nursery() as nursery:
        async with connect(url) as one, connect(url) as other:
            for line in (one, other):
                await line.ask(1, "server/discover")
            async with connect(url) as third:
                await third.ask(1, "server/discover")
                assert await one.wait_end() == b""
                for line in (other, third):
                    await line.send(modern(2, "tools/call", name="sleep", arguments={"seconds": 60}))
                    await line.ask(3, "server/discover")
                async with connect(url) as fourth:
                    assert await fourth.wait_end() == b""
                await other.ask(4, "server/discover")
        nursery.cancel_scope.cancel()


TIGHT = Limits(max_kept_bytes=4 * MIB, max_kept_bytes_per_principal=3 * MIB)


@KINDS
async def test_a_begun_message_is_lent_and_given_back(kind: Kind, tmp_path: Path) -> None:
    server = make_server()
    async with serving_at(kind, server, tmp_path) as url, connect(url) as line, connect(url) as other:
        await line.ask(1, "server/discover")
        assert kept(server) == 0
        data = json.dumps(modern(2, "tools/call", name="echo", arguments={"text": "x" * MIB})).encode()
        await line.stream.send_all(data)
        while kept(server) < MIB:
            await trio.sleep(0.01)
        await line.stream.send_all(b"\n")
        assert "result" in await line.receive()
        await other.ask(1, "server/discover")
        assert await none_kept(server)


@KINDS
async def test_who_begins_more_than_there_is_room_for_is_cut(kind: Kind, tmp_path: Path) -> None:
    """And costs no other connection."""
    server = make_server(TIGHT)
    async with serving_at(kind, server, tmp_path) as url, connect(url) as line, connect(url) as other:
        await line.ask(1, "server/discover")
        await other.ask(1, "server/discover")
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await line.stream.send_all(b"{" + b" " * MIB)
        await other.ask(2, "server/discover")
        assert await none_kept(server)


@KINDS
async def test_a_request_without_room_is_refused_and_the_connection_goes_on(kind: Kind, tmp_path: Path) -> None:
    """With the code that says "later"; and an answer without room is replaced by it."""
    server = make_server(TIGHT)
    async with serving_at(kind, server, tmp_path) as url, connect(url) as line:
        answer = await line.ask(1, "tools/call", name="echo", arguments={"text": [[]] * 60_000})
        assert answer["error"]["code"] == SERVER_BUSY
        assert answer["id"] == 1
        answer = await line.ask(2, "tools/call", name="blob", arguments={"size": 4 * MIB})
        assert answer["error"]["code"] == SERVER_BUSY
        assert answer["id"] == 2
        assert "result" in await line.ask(3, "tools/call", name="echo", arguments={"text": "x"})
        assert await none_kept(server)


# Clients that mean harm.

Attack: TypeAlias = Callable[[Line], Awaitable[object]]


async def vanishes(line: Line) -> None:
    await line.send(modern(1, "tools/call", name="sleep", arguments={"seconds": 60}))


async def resets(line: Line) -> None:
    await line.send(modern(1, "tools/call", name="sleep", arguments={"seconds": 60}))
    line.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def begins_and_vanishes(line: Line) -> None:
    await line.stream.send_all(b'{"jsonrpc": "2.0", "id"')


async def talks_http(line: Line) -> None:
    call = json.dumps(modern(1, "tools/call", name="echo", arguments={"text": "smuggled"}))
    await line.stream.send_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n\n" + call.encode() + b"\n")
    assert b"smuggled" not in await line.wait_end()


async def talks_tls(line: Line) -> None:
    await line.stream.send_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100) + b"\n")
    await line.wait_end()


async def sends_garbage(line: Line) -> None:
    await line.stream.send_all(b'{\n[1, 2\n\xff\xfe\n\0\0\n[[[[\n""\n' * 1000)
    await line.receive()


async def repeats_an_id(line: Line) -> None:
    await line.send(*[modern(1, "tools/call", name="sleep", arguments={"seconds": 60})] * 300)
    await line.receive()


async def does_not_read(line: Line) -> None:
    meta = {"io.modelcontextprotocol/logLevel": "debug"}
    request = modern(1, "tools/call", name="chatter", arguments={})
    request["params"]["_meta"] = {**request["params"]["_meta"], **meta}
    await line.send(request)


async def is_too_long(line: Line) -> None:
    await line.stream.send_all(b"{" + b" " * 300_000 + b"}\n")
    await line.receive()


@KINDS
@pytest.mark.parametrize(
    "attack",
    [
        vanishes,
        resets,
        begins_and_vanishes,
        talks_http,
        talks_tls,
        sends_garbage,
        repeats_an_id,
        does_not_read,
        is_too_long,
    ],
    ids=lambda attack: attack.__name__,
)
async def test_an_attack_costs_only_itself(
    attack: Attack, kind: Kind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others are served meanwhile, nothing is left, and nothing is worth an error in the log."""
    server = make_server(Limits(max_message_bytes=200_000, drain_timeout=SHORT))
    async with serving_at(kind, server, tmp_path) as url, open_client(url) as client:
        await client.call_tool("echo", {"text": "first"})
        files = open_files()
        answered = trio.Event()

        async def play() -> None:
            async with connect(url) as line:
                await attack(line)
                if attack is does_not_read:
                    await answered.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(play)
            for number in range(20):
                assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)
            answered.set()
        await pass_time(SHORT)  # `drain_timeout`, for the handlers of those who have gone
        while open_files() - files:
            await trio.sleep(0.01)
        assert await none_kept(server)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


@asynccontextmanager
async def _crowd(url: str, count: int) -> AsyncGenerator[list[Line]]:
    lines: list[Line] = []
    async with trio.open_nursery() as nursery:

        async def stay() -> None:
            async with connect(url) as line:
                lines.append(line)
                await trio.sleep_forever()

        for _ in range(count):
            nursery.start_soon(stay)
        while len(lines) < count:
            await trio.sleep(0.01)
        yield lines
        nursery.cancel_scope.cancel()


@KINDS
async def test_a_crowd_of_silent_ones_keeps_nobody_out(kind: Kind, tmp_path: Path) -> None:
    """All places are taken, and those that say nothing give way."""
    settings = SocketServerSettings(max_connections=10, max_connections_per_address=8)
    async with (
        serving_at(kind, make_server(), tmp_path, settings) as url,
        _crowd(url, 40),
        open_client(url) as client,
    ):
        assert (await client.call_tool("echo", {"text": "here"})).text == "here"
