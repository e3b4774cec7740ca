"""The client that means harm, a program of its own: ``python attacker.py ATTACK PORT SECONDS``.

It writes bytes to sockets, shares no code with the library, and comes from an address of its own. It does its worst
for so many seconds, then goes, and prints what it has done and what it was answered, as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

import h11
import trio

THEIRS: Final = "127.0.0.2"
KIB: Final = 1024
MIB: Final = 1024 * KIB
MOST: Final = 4 * MIB - 2 * KIB
"""What fits into a body with what is around it."""

META: Final[dict[str, Any]] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
LOGGED: Final = {**META, "io.modelcontextprotocol/logLevel": "debug"}
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
GONE: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError, EOFError, h11.RemoteProtocolError)

Attack: TypeAlias = "Callable[[Attacker], Awaitable[None]]"
ATTACKS: Final[dict[str, Attack]] = {}


def attack(function: Attack) -> Attack:
    """Register an attack, under the function's name."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


def head(
    length: int | None, headers: Mapping[str, str] | None = None, method: str = "POST", path: str = "/mcp"
) -> bytes:
    """Return the head of a request with a body of so many bytes."""
    fields = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **({} if length is None else {"Content-Length": str(length)}),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


def post(message: Any, headers: Mapping[str, str] | None = None, path: str = "/mcp") -> bytes:
    """Return a POST of a message, or of the bytes that are given."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return head(len(body), headers, path=path) + body


def request(method: str, /, id: object = 1, **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def modern(method: str, /, id: object = 1, **params: Any) -> bytes:
    """Return the POST of a request of the modern era."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = params.get("name", params.get("uri"))
    if name is not None and len(name) < 8 * KIB:
        headers["Mcp-Name"] = name
    return post(request(method, id, **{"_meta": META, **params}), headers)


def call(name: str, id: object = 1, meta: Mapping[str, Any] = META, **arguments: Any) -> bytes:
    """Return the POST of a modern request that calls a tool."""
    return modern("tools/call", id, name=name, arguments=arguments, _meta=meta)


def call_with(name: str, arguments: str) -> bytes:
    """Return the same, with the arguments as they are."""
    hole = "<arguments>"
    body = json.dumps(request("tools/call", name=name, arguments=hole, _meta=META)).replace(
        f'"{hole}"', arguments
    )
    return post(body.encode(), {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name})


class Attacker:
    """Somebody with one address.

    Attributes:
        port: Where the server is.
        counts: What was sent, and what came back.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.counts: Counter[str] = Counter()

    @asynccontextmanager
    async def connection(self, *, slow_reader: bool = False) -> AsyncGenerator[Connection]:
        """Connect, and close the connection when the block is left."""
        bare = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if slow_reader:
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
            await bare.bind((THEIRS, 0))
            await bare.connect(("127.0.0.1", self.port))
            stream = trio.SocketStream(bare)
        except BaseException:
            bare.close()
            raise
        self.counts["connections"] += 1
        try:
            yield Connection(self, stream)
        finally:
            await trio.aclose_forcefully(stream)

    async def again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do something again and again, also after having been cut."""
        while True:
            try:
                await work()
            except GONE as error:
                self.counts[f"cut: {type(error).__name__}"] += 1
                await trio.sleep(0.05)
            except BaseExceptionGroup as group:
                _, rest = group.split(GONE)
                if rest is not None:
                    raise rest from None
                self.counts["cut"] += 1
                await trio.sleep(0.05)
            await trio.lowlevel.checkpoint()

    async def many(self, count: int, work: Callable[[], Awaitable[object]]) -> None:
        """Let so many do something, again and again."""
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(self.again, work)

    async def ask_once(self, data: bytes) -> Answer:
        """Connect, send a request, and return the answer."""
        async with self.connection() as connection:
            return await connection.ask(data)

    async def flood(self, data: bytes, count: int = 4) -> None:
        """Ask the same over so many connections, again and again, and read the answers."""

        async def work() -> None:
            async with self.connection() as connection:
                while (await connection.ask(data)).goes_on:
                    pass

        await self.many(count, work)

    async def pile(self, data: bytes, count: int, *, is_read: bool = True) -> None:
        """Send the same over so many connections, and leave these open."""

        async def work() -> None:
            async with self.connection(slow_reader=not is_read) as connection:
                await connection.send(data)
                if is_read:
                    await connection.read_to_end()
                else:
                    await trio.sleep_forever()

        await self.many(count, work)

    async def begin_session(
        self, connection: Connection, *, is_initialized: bool = True, version: str = LEGACY
    ) -> dict[str, str]:
        """Begin a session, and return the header fields of what is sent in it.

        Raises:
            EOFError: It was refused.
        """
        begin = request(
            "initialize",
            protocolVersion=version,
            capabilities={"elicitation": {}},
            clientInfo={"name": "x", "version": "1"},
        )
        answer = await connection.ask(post(begin))
        if "mcp-session-id" not in answer.headers:
            await trio.sleep(0.05)
            raise EOFError("refused")
        mine = {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": version}
        self.counts["sessions"] += 1
        if is_initialized:
            await connection.ask(post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mine))
        return mine


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, *, goes_on: bool) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.goes_on = goes_on


class Connection:
    """A connection of the attacker's."""

    def __init__(self, attacker: Attacker, stream: trio.SocketStream) -> None:
        self._attacker = attacker
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * MIB)

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self._attacker.counts["bytes"] += len(data)
        await self._stream.send_all(data)

    async def send_slowly(self, data: bytes, pause: float) -> None:
        """Send byte after byte."""
        for byte in data:
            await self.send(bytes([byte]))
            await trio.sleep(pause)

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some(1 * MIB))
        if isinstance(event, h11.ConnectionClosed):
            raise EOFError("closed")
        return event

    async def ask(self, data: bytes) -> Answer:
        """Send a request and return the answer."""
        # What is sent is not h11's to judge; it need only know that something was, to read what comes back.
        self._http.send(h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
        self._http.send(h11.EndOfMessage())
        self._attacker.counts["requests"] += 1
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                with suppress(*GONE):  # answered before it was read
                    await self.send(data)

            nursery.start_soon(send)
            answer = await self._answer()
            nursery.cancel_scope.cancel()
        return answer

    async def _answer(self) -> Answer:
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        self._attacker.counts[f"status {event.status_code}"] += 1
        told = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        body = bytearray()
        while not isinstance(part := await self._event(), h11.EndOfMessage):
            body += part.data
        goes_on = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if goes_on:
            self._http.start_next_cycle()
        return Answer(event.status_code, told, bytes(body), goes_on=goes_on)

    async def read_to_end(self) -> None:
        """Read, and forget, whatever comes."""
        first = await self._stream.receive_some(64 * KIB)
        if first.startswith(b"HTTP/1.1 "):
            self._attacker.counts[f"status {first[9:12].decode('latin-1')}"] += 1
        while first:
            first = await self._stream.receive_some(64 * KIB)
        raise EOFError("closed")

    async def read_some(self) -> bytes:
        """Read something."""
        return bytes(await self._stream.receive_some(64 * KIB))

    def reset(self) -> None:
        """Let closing be a reset."""
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


# What costs time: heads.


@attack
async def host_of_dots(me: Attacker) -> None:
    """Names of 31 KB of dots."""
    await me.flood(head(0, {"Host": "." * 31_000}))


@attack
async def long_fields(me: Attacker) -> None:
    """Every header field that is looked at, 31 KB long, in the forms that parsers dislike."""
    pieces = (
        ",",
        ";",
        ", ;",
        "a,",
        "a;q=",
        '"',
        '\\"',
        '";"',
        " ",
        "=?",
        "a/b;c=d,",
        "%",
        "://",
        "[",
        "a.",
        ":",
        "=?base64?",
    )
    names = (
        "Accept", "Content-Type", "Origin", "Authorization", "Cookie", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
        "Mcp-Session-Id", "Last-Event-ID", "X-Forwarded-For", "Forwarded", "Connection", "Expect", "Mcp-Param-A",
        "Access-Control-Request-Headers", "Host",
    )  # fmt: skip
    body = json.dumps(request("tools/list", _meta=META)).encode()
    requests = itertools.cycle(
        [head(len(body), {name: (piece * 30_000)[:30_000].strip()}) + body for name in names for piece in pieces]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def many_fields(me: Attacker) -> None:
    """Thousands of short header fields."""
    await me.flood(head(0, {f"A{number}": "" for number in range(4_000)}))


@attack
async def odd_paths(me: Attacker) -> None:
    """Paths of 30 KB, and such as forge lines of the log."""
    paths = (
        "/" * 30_000,
        "/%2e%2e" * 4_000,
        "/mcp" + "/" * 30_000,
        "/x%0a2026-01-01 00:00:00 CRITICAL the server is on fire",
        "/x%1b[2J%0d%0a",
        "/mcp?" + "a=b&" * 7_000,
        "/sse?" + "%" * 30_000,
    )
    requests = itertools.cycle([head(0, {}, "GET", path.replace(" ", "%20")) for path in paths])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


# What costs time: bodies.


@attack
async def schema_errors(me: Attacker) -> None:
    """4 MB of arguments, of which each is wrong, against a raw schema."""
    await me.flood(call_with("check", '{{"numbers":[{}]}}'.format(",".join(['""'] * (MOST // 3)))))


@attack
async def schema_alternatives(me: Attacker) -> None:
    """The same against alternatives."""
    await me.flood(call_with("check", '{{"either":[{}]}}'.format(",".join(["{}"] * (MOST // 3)))))


@attack
async def schema_unique(me: Attacker) -> None:
    """Hundreds of thousands of objects that must be unlike each other."""
    await me.flood(
        call_with("check", '{{"unlike":[{}]}}'.format(",".join(f'{{"a":{n}}}' for n in range(MOST // 14))))
    )


@attack
async def schema_unevaluated(me: Attacker) -> None:
    """Hundreds of thousands of members that nothing has evaluated, and a great value that is none of an enumeration."""
    rest = ",".join(f'"{n}":0' for n in range(MOST // 22))
    chosen = ",".join(["[0]"] * (MOST // 9))
    await me.flood(call_with("check", f'{{"rest":{{{rest}}},"chosen":{{"a":[{chosen}]}}}}'))


@attack
async def typed_errors(me: Attacker) -> None:
    """4 MB of wrong arguments for a typed tool."""
    await me.flood(
        call_with(
            "order", '{{"order":{{"title":"a","copies":1}},"notes":[{}]}}'.format(",".join(["0"] * (MOST // 2)))
        )
    )


@attack
async def colliding_numbers(me: Attacker) -> None:
    """Numbers that are all the same to a hash table."""
    step = 2**61 - 1
    numbers = ",".join(str(step * n) for n in range(1, MOST // 26))
    named = ",".join(f'"{step * n}":""' for n in range(1, MOST // 32))
    requests = itertools.cycle(
        [call_with("pick", f'{{"numbers":[{numbers}]}}'), call_with("pick", f'{{"named":{{{named}}}}}')]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(2, work)


@attack
async def empty_arrays(me: Attacker) -> None:
    """4 MB of empty arrays, which weigh thirty times as much once they are decoded."""
    await me.flood(call_with("wait", '{{"seconds":0,"note":[{}]}}'.format(",".join(["[]"] * (MOST // 3)))))


@attack
async def deep_arrays(me: Attacker) -> None:
    """Arrays in arrays, two million deep; and a thousand deep, many times."""
    bodies = (
        b"[" * MOST,
        b"[" * (MOST // 2) + b"]" * (MOST // 2),
        b'{"a":' * (MOST // 5),
        b"[%s]" % b",".join([b"[" * 900 + b"]" * 900] * (MOST // 1801)),
    )
    requests = itertools.cycle([post(body) for body in bodies])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def long_numbers(me: Attacker) -> None:
    """A number of four million digits, as an argument, as an id, and with a great exponent."""
    digits = "9" * MOST
    body = '{"jsonrpc":"2.0","id":%s,"method":"ping","params":{}}'
    requests = itertools.cycle(
        [
            call_with("add", f'{{"a":{digits},"b":1}}'),
            call_with("check", f'{{"numbers":[{digits}]}}'),
            call_with("check", '{{"numbers":[{}]}}'.format(",".join(["1e308"] * (MOST // 6)))),
            post((body % digits).encode()),
            post((body % ("1e" + "9" * 1_000_000)).encode()),
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def odd_uris(me: Attacker) -> None:
    """URIs that templates have to look at for long, and that climb."""
    uris = (
        "book://" + "/line/" * 1_300,
        "book://" + "a" * 8_000 + "/line/x",
        "shelf://" + "../" * 2_600,
        "shelf://" + "%2e%2e%2f" * 900,
        "book://%00/line/1",
        "book://" + "%" * 8_000,
        "x" * MOST,
    )
    requests = itertools.cycle([modern("resources/read", uri=uri) for uri in uris])

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(4, work)


@attack
async def forged_states(me: Attacker) -> None:
    """States that were never given out, up to 4 MB."""
    states = ["A" * size for size in (10, 1_000, 60_000, MOST)]
    requests = itertools.cycle(
        [
            modern("tools/call", name="ask", arguments={}, requestState=state, inputResponses={})
            for state in states
        ]
    )

    async def work() -> None:
        await me.ask_once(next(requests))

    await me.many(8, work)


# What takes memory, or places.


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
    """Sessions whose handshake is never finished."""

    async def work() -> None:
        async with me.connection() as connection:
            while True:
                await me.begin_session(connection, is_initialized=False)

    await me.many(8, work)


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
    """The same, of what weighs thirty times as much once it is decoded."""
    arrays = ",".join(["[]"] * (MOST // 3 - 100))
    body = json.dumps(request("tools/call", name="wait", arguments={"seconds": 600}, _meta={**META, "x/y": "<>"}))
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
    await me.pile(post(body.replace('"<>"', f"[{arrays}]").encode(), headers), 100)


@attack
async def heavy_session_requests(me: Attacker) -> None:
    """The same in sessions of the legacy era."""
    arrays = ",".join(["[]"] * (MOST // 3 - 100))
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
            while b"session_id=" not in said or not said.endswith(b"\n\n"):
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


# What comes in numbers.


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
    await me.flood(call("think", steps=20_000), 150)


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


async def main(name: str, port: int, seconds: float) -> None:
    """Attack for so many seconds."""
    me = Attacker(port)
    print("ready", flush=True)
    with trio.move_on_after(seconds):
        await ATTACKS[name](me)
    print(json.dumps(dict(me.counts)), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
