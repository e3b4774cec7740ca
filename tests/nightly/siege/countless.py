"""Attacks by numbers: what costs little, again and again."""

from __future__ import annotations

import itertools
import os
from typing import Any

import trio
from attacking import LEGACY, MODERN, Attacker, attack, call, head, modern, post, request


@attack
async def useless_messages(me: Attacker) -> None:
    """Messages that mean nothing, in a session and outside, thousands of them."""
    useless: list[Any] = [
        {"jsonrpc": "2.0", "id": 99_999, "result": {}},
        {"jsonrpc": "2.0", "id": 99_999, "error": {"code": 1, "message": "\n2026 CRITICAL \x1b[2J forged"}},
        {"jsonrpc": "2.0", "method": "notifications/\nforged\x1b[2J"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "x\n", "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nothing\n"}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7},
        {"jsonrpc": "1.0", "id": 1},
        7,
        b"\xff\xfe",
        request("\nno/such/method\x1b[2J"),
        request("tools/call", name="\nno such tool", arguments={}),
        request("tools/call", name="add", arguments={"a": "\nx", "b": []}),
    ]

    async def in_session() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            for message in itertools.cycle(useless):
                if not (await connection.ask(post(message, mine))).goes_on:
                    break

    async def outside() -> None:
        async with me.connection() as connection:
            for message in itertools.cycle(useless):
                if not (await connection.ask(post(message, {"MCP-Protocol-Version": MODERN}))).goes_on:
                    break

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 4, in_session)
        nursery.start_soon(me.many, 4, outside)


@attack
async def refused_hosts(me: Attacker) -> None:
    """Names and pages that are not let in, again and again."""
    requests = itertools.cycle([head(0, {"Host": "evil.example"}), head(0, {"Origin": "https://evil.example"})])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(8, work)


@attack
async def malformed_heads(me: Attacker) -> None:
    """What is no HTTP, or two kinds at once."""
    one = head(0).replace(b"\r\n\r\n", b"")
    lines = (
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        one + b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
        one + b"\r\nContent-Length: 7\r\n\r\n{}",
        one + b"\r\nX: a\r\n b\r\n\r\n",
        one.replace(b"\r\n", b"\n") + b"\n\n",
        one + b"\r\nX\x00: a\r\n\r\n",
        b"\r\n" * 10_000,
        b"\x00" * 10_000,
    )
    cycle = itertools.cycle(lines)

    async def work() -> None:
        async with me.connection() as connection:
            await connection.send(next(cycle))
            with trio.move_on_after(0.5):
                await connection.read_to_end()

    await me.many(8, work)


@attack
async def refused_credentials(me: Attacker) -> None:
    """Wrong credentials, by every method."""
    requests = itertools.cycle(
        [
            head(0, {"Authorization": f"Bearer {n}"}, method)
            for n in range(50)
            for method in ("POST", "GET", "DELETE")
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(16, work)


@attack
async def slow_authentication(me: Attacker) -> None:
    """Credentials that take long to look at."""
    await me.pile(head(0, {"Authorization": "Bearer slow"}), 450)


@attack
async def batches(me: Attacker) -> None:
    """Batches of a thousand calls."""
    calls = [request("tools/call", n, name="add", arguments={"a": n, "b": 1}) for n in range(1_000)]
    wrong = [request("tools/call", n, name="check", arguments={"numbers": [""] * 500}) for n in range(500)]

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection, version="2025-03-26")
            for batch in itertools.cycle([calls, wrong]):
                if not (await connection.ask(post(batch, mine))).goes_on:
                    break

    await me.many(8, work)


@attack
async def small_requests(me: Attacker) -> None:
    """Small requests over all the connections that one may have."""
    await me.flood(call("add", a=1, b=2), 200)


@attack
async def unread_small_requests(me: Attacker) -> None:
    """The same, sent ahead without end, and nothing read."""
    data = call("add", a=1, b=2) * 50

    async def work() -> None:
        async with me.connection(slow_reader=True) as connection:
            while True:
                await connection.send(data)

    await me.many(100, work)


@attack
async def pipelined_requests(me: Attacker) -> None:
    """The same, and everything read, so that there is always a next one."""
    data = call("add", a=1, b=2) * 50

    async def work() -> None:
        async with me.connection() as connection:

            async def send() -> None:
                while True:
                    await connection.send(data)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                await connection.read_to_end()

    await me.many(100, work)


@attack
async def pings(me: Attacker) -> None:
    """The cheapest requests there are, in a session."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            while (await connection.ask(post(request("ping"), mine))).goes_on:
                pass

    await me.many(50, work)


@attack
async def lists(me: Attacker) -> None:
    """Lists with cursors that were never given out."""
    requests = itertools.cycle(
        [
            modern(f"{what}/list", cursor="A" * size)
            for what in ("tools", "resources", "prompts")
            for size in (10, 100_000)
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(16, work)


@attack
async def threads(me: Attacker) -> None:
    """Plain functions, which run in threads, more at once than there are threads."""
    await me.flood(call("nap", seconds=2), 150)


@attack
async def given_up_requests(me: Attacker) -> None:
    """Requests that are given up as soon as they are made: by a reset, by closing, by a notification."""
    data = call("wait", seconds=600)

    async def closing() -> None:
        async with me.connection() as connection:
            await connection.send(data)
            await trio.sleep(0.01)
            connection.reset()

    async def saying() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            for id in itertools.count():
                async with me.connection() as other:
                    await other.send(
                        post(request("tools/call", id, name="wait", arguments={"seconds": 600}), mine)
                    )
                    cancelled = {
                        "jsonrpc": "2.0",
                        "method": "notifications/cancelled",
                        "params": {"requestId": id},
                    }
                    if not (await connection.ask(post(cancelled, mine))).goes_on:
                        break

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 30, closing)
        nursery.start_soon(me.many, 10, saying)


@attack
async def abandoned_calls(me: Attacker) -> None:
    """Calls in sessions whose clients go, and which go on."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            for id in range(100):
                async with me.connection() as other:
                    note = "x" * 40_000
                    arguments = {"seconds": 600, "note": note}
                    await other.send(post(request("tools/call", id, name="wait", arguments=arguments), mine))
                    await trio.sleep(0.005)

    await me.many(20, work)


@attack
async def random_ids(me: Attacker) -> None:
    """Sessions of others, guessed, to use, to listen to and to end."""

    async def work() -> None:
        async with me.connection() as connection:
            goes_on = True
            while goes_on:
                mine = {"Mcp-Session-Id": os.urandom(18).hex(), "MCP-Protocol-Version": LEGACY}
                data = [post(request("ping"), mine), head(0, mine, "DELETE"), head(0, mine, "GET")]
                goes_on = (await connection.ask(data[os.urandom(1)[0] % 3])).goes_on

    await me.many(20, work)


@attack
async def begun_and_ended(me: Attacker) -> None:
    """Sessions that are begun and ended, again and again."""

    async def work() -> None:
        async with me.connection() as connection:
            while True:
                mine = await me.begin_session(connection, is_initialized=False)
                if not (await connection.ask(head(0, mine, "DELETE"))).goes_on:
                    break

    await me.many(16, work)


@attack
async def new_connections(me: Attacker) -> None:
    """Connections that are opened and reset, again and again."""

    async def work() -> None:
        async with me.connection() as connection:
            await connection.send(b"P")
            connection.reset()

    await me.many(16, work)
