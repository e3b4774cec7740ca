"""Attacks that take memory, or places: what a server keeps for its clients."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from functools import partial

import trio
from attacking import (
    GONE,
    LEGACY,
    LOGGED,
    META,
    MODERN,
    MOST,
    THEIRS,
    Attacker,
    attack,
    call,
    head,
    modern,
    post,
    request,
)


@attack
async def sessions(me: Attacker) -> None:
    """Sessions, as many as there are to have."""

    async def work() -> None:
        async with me.connection() as connection:
            while True:
                await me.begin_session(connection)

    await me.many(8, work)


@attack
async def uninitialised_sessions(me: Attacker) -> None:
    """Sessions whose handshake is never finished, as fast as they can be asked for."""
    me_too = {"name": "x", "version": "1"}
    begin = request("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=me_too)
    data = post(begin) * 20

    async def work() -> None:
        async with me.connection() as connection:
            for _ in range(10):
                await connection.send(data)
                with trio.move_on_after(0.2):
                    await connection.read_to_end()

    await me.many(16, work)


@attack
async def great_handshakes(me: Attacker) -> None:
    """Handshakes of 4 MB."""
    begin = request(
        "initialize",
        protocolVersion=LEGACY,
        capabilities={"experimental": {"a": {str(n): [] for n in range(MOST // 16)}}},
        clientInfo={"name": "x", "version": "1"},
    )
    await me.flood(post(begin))


@attack
async def parked_handlers(me: Attacker) -> None:
    """Handlers that wait for an answer which never comes."""
    await me.flood(call("ask"), 16)


@attack
async def great_parked_handlers(me: Attacker) -> None:
    """The same, with 4 MB of arguments and of metadata each."""
    requests = itertools.cycle(
        [
            call("ask", note="x" * MOST),
            call("ask", meta={**META, "com.example/x": [[]] * (MOST // 4)}),
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def great_requests(me: Attacker) -> None:
    """Requests of 4 MB that stay in flight."""
    await me.pile(call("wait", seconds=600, note="x" * MOST), 200)


@attack
async def heavy_requests(me: Attacker) -> None:
    """The same, of a megabyte that weighs thirty times as much once it is decoded."""
    arrays = ",".join(["[]"] * (MOST // 12))
    body = json.dumps(request("tools/call", name="wait", arguments={"seconds": 600}, _meta={**META, "x/y": "<>"}))
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
    await me.pile(post(body.replace('"<>"', f"[{arrays}]").encode(), headers), 100)


@attack
async def heavy_session_requests(me: Attacker) -> None:
    """The same in sessions of the legacy era."""
    arrays = ",".join(["[]"] * (MOST // 12))
    body = json.dumps(request("tools/call", name="wait", arguments={"seconds": 600}, _meta={"x/y": "<>"}))
    data = body.replace('"<>"', f"[{arrays}]").encode()

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            await connection.send(post(data, mine))
            await connection.read_to_end()

    await me.many(100, work)


@attack
async def unfinished_bodies(me: Attacker) -> None:
    """Bodies of 4 MB that lack their last byte."""
    await me.pile(head(MOST) + b" " * (MOST - 1), 400)


@attack
async def unfinished_chunks(me: Attacker) -> None:
    """The same in chunks of one byte, and in one without an end."""
    chunked = head(None, {"Transfer-Encoding": "chunked"})

    async def small() -> None:
        async with me.connection() as connection:
            await connection.send(chunked)
            while True:
                await connection.send(b"1\r\n \r\n" * 10_000)

    async def trailing() -> None:
        async with me.connection() as connection:
            await connection.send(chunked + b"1\r\n \r\n0\r\n")
            while True:
                await connection.send(b"X-Trailer: x\r\n" * 1_000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(me.many, 4, small)
        nursery.start_soon(me.many, 4, trailing)


@attack
async def slow_bodies(me: Attacker) -> None:
    """Bodies that come byte by byte."""

    async def work() -> None:
        async with me.connection() as connection:
            await connection.send(head(10_000))
            await connection.send_slowly(b" " * 10_000, 0.2)

    await me.many(450, work)


@attack
async def slow_heads(me: Attacker) -> None:
    """Heads that come byte by byte."""

    async def work() -> None:
        async with me.connection() as connection:
            await connection.send_slowly(head(0, {"X": "x" * 10_000}), 0.2)

    await me.many(600, work)


@attack
async def silent_connections(me: Attacker) -> None:
    """Connections over which nothing comes, more than there are places."""
    await me.pile(b"", 1_200)


@attack
async def connections_of_two(me: Attacker) -> None:
    """Two addresses with as many connections as they can have, none of which rests."""
    data = head(10_000) + b" " * 9_000

    async def work(address: str) -> None:
        async with me.connection(address=address) as connection:
            await connection.send(data)
            await connection.read_to_end()

    async with trio.open_nursery() as nursery:
        for address in (THEIRS, "127.0.0.3"):
            nursery.start_soon(me.many, 600, partial(work, address))


@attack
async def great_subscriptions(me: Attacker) -> None:
    """Subscriptions to many resources and to great ones."""

    def listen(uris: list[str]) -> bytes:
        filter = {"resourceSubscriptions": uris, "toolsListChanged": True}
        return modern("subscriptions/listen", notifications=filter)

    requests = itertools.cycle(
        [
            listen([f"book://{n}/line/1" for n in range(900)]),
            listen(["shelf://" + "x" * 8_000 + str(n) for n in range(MOST // 8_100)]),
            listen(["book://about"]),
            listen(["shelf://" + "x" * (MOST - 500)]),
            listen([""] * (MOST // 5)),
        ]
    )

    async def work() -> None:
        async with me.connection() as connection:
            await connection.send(next(requests))
            await connection.read_to_end()

    await me.many(100, work)


@attack
async def session_subscriptions(me: Attacker) -> None:
    """Sessions that subscribe to as much as they may."""
    numbers = itertools.count()

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            for _ in range(150):
                uri = f"shelf://{next(numbers)}" + "x" * 8_000
                if not (await connection.ask(post(request("resources/subscribe", uri=uri), mine))).goes_on:
                    break

    await me.many(8, work)


@attack
async def unread_answers(me: Attacker) -> None:
    """Answers of 8 MB that nobody reads."""
    await me.pile(call("much"), 100, is_read=False)


@attack
async def unread_session_answers(me: Attacker) -> None:
    """The same in sessions of the legacy era, many in each; their streams break and are not taken up."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            for id in range(40):
                async with me.connection(slow_reader=True) as other:
                    await other.send(post(request("tools/call", id, name="much", arguments={}), mine))
                    await trio.sleep(0.05)

    await me.many(8, work)


@attack
async def unread_streams(me: Attacker) -> None:
    """Streams of sessions, over which there is much to say, and which nobody reads."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            await connection.ask(post(request("logging/setLevel", level="debug"), mine))
            async with me.connection(slow_reader=True) as stream:
                await stream.send(head(None, mine, "GET"))
                for id in range(5):
                    answer = me.connection(slow_reader=True)
                    async with answer as other:
                        await other.send(post(request("tools/call", id, name="chatter", arguments={}), mine))
                        await trio.sleep(1)
                await trio.sleep_forever()

    await me.many(60, work)


@attack
async def unread_logs(me: Attacker) -> None:
    """Calls that ask for logs, and do not read them."""
    await me.pile(call("chatter", meta=LOGGED), 300, is_read=False)


@attack
async def stored_events(me: Attacker) -> None:
    """What is kept for clients that come back: they do not."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            await connection.ask(post(request("logging/setLevel", level="debug"), mine))
            for id in range(10):
                async with me.connection() as other:
                    arguments = {"count": 200, "size": 100_000}
                    await other.send(post(request("tools/call", id, name="chatter", arguments=arguments), mine))
                    await other.read_some()

    await me.many(30, work)


@attack
async def absurd_event_ids(me: Attacker) -> None:
    """Streams that are taken up where there never was one."""
    ids = (
        "0",
        "1-" + "9" * 25_000,
        "9" * 30_000,
        "-1--1",
        "1-1-1",
        "0-18446744073709551616",
        "\xb2-\xb2",
        "," * 30_000,
    )

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
        for id in ids:
            async with me.connection() as connection:
                await connection.send(head(None, {**mine, "Last-Event-ID": id}, "GET"))
                with trio.move_on_after(0.2):
                    await connection.read_some()
                    me.counts["requests"] += 1

    await me.many(8, work)


@attack
async def get_streams(me: Attacker) -> None:
    """Streams of one session and of many, again and again."""

    async def work() -> None:
        async with me.connection() as connection:
            mine = await me.begin_session(connection)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(partial(listen, mine))

    async def listen(mine: Mapping[str, str]) -> None:
        try:
            async with me.connection() as connection:
                await connection.send(head(None, mine, "GET"))
                await connection.read_to_end()
        except GONE:
            me.counts["cut: a stream"] += 1

    await me.many(40, work)


@attack
async def sse_sessions(me: Attacker) -> None:
    """Sessions of HTTP+SSE."""
    await me.pile(head(None, {}, "GET", "/sse"), 600)


@attack
async def unread_sse_sessions(me: Attacker) -> None:
    """The same, with much to say, unread."""

    async def work() -> None:
        async with me.connection(slow_reader=True) as stream:
            await stream.send(head(None, {}, "GET", "/sse"))
            said = b""
            while b"\n" not in said.partition(b"session_id=")[2]:
                more = await stream.read_some()
                if not more:
                    raise EOFError("closed")
                said += more
            path = "/messages" + said.partition(b"/messages")[2].split()[0].decode()
            begin = request(
                "initialize",
                protocolVersion="2024-11-05",
                capabilities={},
                clientInfo={"name": "x", "version": "1"},
            )
            async with me.connection() as connection:
                await connection.ask(post(begin, path=path))
                await connection.ask(post({"jsonrpc": "2.0", "method": "notifications/initialized"}, path=path))
                await connection.ask(post(request("logging/setLevel", level="debug"), path=path))
                for id in range(200):
                    tool = "much" if id % 2 else "chatter"
                    await connection.ask(post(request("tools/call", id, name=tool, arguments={}), path=path))
            await trio.sleep_forever()

    await me.many(40, work)
