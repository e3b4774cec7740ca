"""Requests that ask for a WebSocket, byte by byte: in which form, what comes before and behind, and who may."""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from http_raw import call_tool
from http_wire import request_for
from inside_core import HttpHost
from watching import ENOUGH, Watcher, answer, authenticate, call
from websocket_raw import EVERYWHERE, PING, PONG, TEXT, RawSocket, frame, raw_socket, served

from trio_mcp import HttpCall, HttpServerSettings

BESIDE_HTTP = pytest.mark.parametrize("http", ["lean", "hypercorn"])
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
FIELDS = (
    ("Host", "localhost"),
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Protocol", "mcp"),
)


def head(line: str = "GET /mcp HTTP/1.1", *more: tuple[str, str], **changed: str | None) -> bytes:
    """Return the head of a handshake with other or further fields."""
    fields = [(name, changed.get(name.replace("-", "_"), value)) for name, value in FIELDS]
    lines = [f"{name}: {value}\r\n" for name, value in (*fields, *more) if value is not None]
    return f"{line}\r\n{''.join(lines)}\r\n".encode("latin-1")


@asynccontextmanager
async def connected(port: int, *data: bytes) -> AsyncGenerator[RawSocket]:
    """Connect, and send bytes in one piece."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"".join(data))
        yield RawSocket(stream)


async def response(socket: RawSocket) -> tuple[int, bytes]:
    """Read one response of HTTP: its status and its body."""
    while b"\r\n\r\n" not in socket.buffer:
        await socket._receive_more()
    first, _, rest = bytes(socket.buffer).partition(b"\r\n\r\n")
    lines = first.decode("latin-1").lower().split("\r\n")
    length = next((int(line.partition(":")[2]) for line in lines if line.startswith("content-length:")), 0)
    socket.buffer = bytearray(rest)
    body = await socket._exactly(length)
    return int(lines[0].split()[1]), body


async def everything(socket: RawSocket) -> bytes:
    """Read until the server ends the connection."""
    await socket.wait_end()
    return bytes(socket.buffer)


@EVERYWHERE
async def test_the_forms_that_clients_use(http: HttpHost | None, subtests: pytest.Subtests) -> None:
    """RFC 6455, section 4.2.1: tokens in lists, in any case. Firefox sends ``keep-alive, Upgrade``."""
    async with served(Watcher().server, http) as port:
        for connection, upgrade in (
            ("Upgrade", "websocket"),
            ("keep-alive, Upgrade", "websocket"),
            ("Upgrade,keep-alive", "WebSocket"),
            ("upgrade , close", "h2c, websocket"),
            ("UPGRADE", " websocket , foo/2"),
        ):
            data = head(Connection=connection, Upgrade=upgrade), call("add", a=20, b=22)
            with subtests.test(connection=connection, upgrade=upgrade), trio.fail_after(ENOUGH):
                async with connected(port, *data) as socket:
                    assert (await response(socket))[0] == 101
                    assert (await answer(socket))["id"] == 1


@EVERYWHERE
async def test_frames_that_come_with_the_handshake_are_served(http: HttpHost | None) -> None:
    """In the same packet, more of them than are read ahead, and a half one at its end."""
    calls = [call("add", number, a=number, b=0) for number in range(300)]
    data = b"".join(calls) + frame(PING, b"?")
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http) as port, connected(port, head(), data[:-3]) as socket:
            assert (await response(socket))[0] == 101
            seen = {(await answer(socket))["id"] for _ in calls}
            assert seen == set(range(300))
            await socket.send(data[-3:])
            assert (await socket.receive()).payload == b"?"


@BESIDE_HTTP
async def test_a_request_before_it_is_answered_first(http: HttpHost) -> None:
    """Both in one packet, also if the first takes long; nothing of the second is lost meanwhile."""
    watcher = Watcher()
    go_on = trio.Event()

    @watcher.server.tool
    async def wait() -> str:
        watcher.begun.set()
        await go_on.wait()
        return "done"

    with trio.fail_after(ENOUGH):
        async with served(watcher.server, http) as port:
            requests = request_for(call_tool("add", a=1, b=1)), request_for(call_tool("wait"))
            async with connected(port, *requests, head(), frame(PING, b"ahead")) as socket:
                assert json.loads((await response(socket))[1])["result"]["content"][0]["text"] == "2"
                await watcher.begun.wait()
                await socket.send(frame(PING, b"later"))
                go_on.set()
                assert b"done" in (await response(socket))[1]
                assert (await response(socket))[0] == 101
                assert (await socket.receive()).payload == b"ahead"
                assert (await socket.receive()).payload == b"later"


@EVERYWHERE
async def test_a_request_behind_it_is_no_request(http: HttpHost | None) -> None:
    """Its bytes are frames: what a proxy takes for a second request is never answered as one."""
    with trio.fail_after(ENOUGH):
        async with (
            served(Watcher().server, http) as port,
            connected(port, head(), b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n") as socket,
        ):
            assert (await response(socket))[0] == 101
            assert await socket.closed_with() == 1002


@EVERYWHERE
async def test_nothing_behind_a_refused_one_is_served(http: HttpHost | None, subtests: pytest.Subtests) -> None:
    """Neither as a request nor as frames: the connection ends."""
    watcher = Watcher()
    async with served(watcher.server, http) as port:
        for refused in (
            head("GET /mcp HTTP/1.1", ("Origin", "https://evil.example")),
            head(Sec_WebSocket_Key="short"),
            head(Sec_WebSocket_Version="7"),
        ):
            with subtests.test(refused=refused), trio.fail_after(ENOUGH):
                async with connected(port, refused, request_for(call_tool("hang")), call("hang")) as socket:
                    said = await everything(socket)
                assert said.count(b"HTTP/1.1 ") == 1
                assert b" 101 " not in said
                assert not watcher.begun.is_set()


CHUNKED = "Transfer-Encoding", "chunked"


@BESIDE_HTTP
async def test_what_must_not_become_one_stays_a_request(http: HttpHost, subtests: pytest.Subtests) -> None:
    """The body is a body, and what follows is a request of its own: there are no two ways to read it."""
    follows = request_for(call_tool("add", a=20, b=22))
    async with served(Watcher().server, http) as port:
        for data in (
            head("GET /mcp HTTP/1.1", ("Content-Length", "5")) + b"12345",
            head("GET /mcp HTTP/1.1", CHUNKED) + b"5\r\n12345\r\n0\r\n\r\n",
            head("POST /mcp HTTP/1.1", ("Content-Length", "5")) + b"12345",
            head("OPTIONS /mcp HTTP/1.1"),
            head("GET /mcp HTTP/1.1", Upgrade="websocket/13"),
            head("GET /mcp HTTP/1.1", Upgrade="h2c"),
        ):
            with subtests.test(data=data), trio.fail_after(ENOUGH):
                async with connected(port, data, follows) as socket:
                    status, _ = await response(socket)
                    assert 400 <= status < 500
                    with suppress(EOFError, trio.BrokenResourceError):  # the connection may end after it
                        status, body = await response(socket)
                        assert status == 200
                        assert b"42" in body


@EVERYWHERE
async def test_old_http_is_never_upgraded(http: HttpHost | None) -> None:
    """RFC 9110, section 7.8."""
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http) as port, connected(port, head("GET /mcp HTTP/1.0")) as socket:
            assert b" 101 " not in await everything(socket)


NOT_FROM_HERE = [
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    "http://evil.example/http://localhost",
    "http://evil.example#localhost",
    "http://localhost:80:80",
    "http://localhost:*",
    "http://127.1",
    "http://[::1",
    "localhost",
    "file://",
    "null",
    "",
    "http://localhost, http://evil.example",
]


@EVERYWHERE
async def test_origins_that_look_like_ours_are_others(http: HttpHost | None) -> None:
    """HttpServerSettings.allowed_origins; so is a second field."""
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http) as port:
            for origins in [[each] for each in NOT_FROM_HERE] + [["http://localhost", "http://evil.example"]]:
                data = head("GET /mcp HTTP/1.1", *(("Origin", origin) for origin in origins))
                async with connected(port, data) as socket:
                    assert (await response(socket))[0] == 403, origins
            async with connected(port, head("GET /mcp HTTP/1.1", ("Origin", "http://LOCALHOST:1"))) as socket:
                assert (await response(socket))[0] == 101


@EVERYWHERE
async def test_hosts_that_look_like_ours_are_others(http: HttpHost | None) -> None:
    """HttpServerSettings.allowed_hosts, RFC 9112, section 3.2: one host, and the same in the target."""
    cases = [
        (head(Host="localhost.evil.example"), 421),
        (head(Host="localhost@evil.example"), 421),
        (head(Host="evil.example, localhost"), 421),
        (head(Host=""), 421),
        (head(Host=None), 400),
        (head("GET /mcp HTTP/1.1", ("Host", "evil.example")), 400),
        (head("GET http://evil.example/mcp HTTP/1.1"), 400),
        (head("GET ws://localhost/mcp HTTP/1.1"), 400),
        (head("GET http://localhost/mcp HTTP/1.1"), 101),
        (head("GET /mcp?token=x HTTP/1.1"), 101),
        (head("GET /%6dcp HTTP/1.1"), 101),
        (head("GET /mcp%00 HTTP/1.1"), 404),
        (head("GET //mcp HTTP/1.1"), 404),
    ]
    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http) as port:
            for data, status in cases:
                async with connected(port, data) as socket:
                    assert (await response(socket))[0] == status, data


@EVERYWHERE
async def test_authenticating_ends_when_its_client_leaves(http: HttpHost | None) -> None:
    """Whether it goes in good order or not, and whatever it has sent already."""
    begun, ended = trio.Event(), trio.Event()

    async def slow(call: HttpCall) -> str | None:
        if "x-slow" not in call.headers:
            return await authenticate(call)
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    with trio.fail_after(ENOUGH):
        async with served(Watcher().server, http, authenticate=slow) as port:
            for data in (b"", call("add"), call("add") * 500):
                for polite in (True, False):
                    async with connected(
                        port, head("GET /mcp HTTP/1.1", ("X-Slow", "1")), data[:16_000]
                    ) as socket:
                        await begun.wait()
                        stream = socket.stream
                        assert isinstance(stream, trio.SocketStream)
                        if not polite:
                            stream.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset
                    await ended.wait()
                    begun, ended = trio.Event(), trio.Event()
            async with raw_socket(port, {"Authorization": "Bearer good"}) as socket:
                await socket.send(call("add", a=20, b=22))
                assert (await answer(socket))["id"] == 1


@EVERYWHERE
async def test_who_floods_is_closed_and_disturbs_nobody(http: HttpHost | None) -> None:
    """Control frames without end, and a message of very many empty fragments."""
    floods = {
        1008: frame(PONG) * 12_000,
        1009: frame(TEXT, is_last=False) + frame(0, is_last=False) * 20_000,
    }
    with trio.fail_after(ENOUGH):
        async with served(Watcher(goodbye_timeout=10).server, http) as port, raw_socket(port) as other:
            for code, data in floods.items():
                async with raw_socket(port) as socket, trio.open_nursery() as nursery:

                    async def flood(socket: RawSocket = socket, data: bytes = data) -> None:
                        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                            await socket.send(data)

                    nursery.start_soon(flood)
                    assert (await socket.receive()).code == code
                    nursery.cancel_scope.cancel()
            await other.send(call("add", a=20, b=22))
            assert (await answer(other))["id"] == 1


@EVERYWHERE
async def test_answers_that_are_not_read_are_counted(http: HttpHost | None) -> None:
    """max_kept_bytes_per_principal: further ones are refused, and given back when the client goes."""
    watcher = Watcher(max_kept_bytes=8_000_000, max_kept_bytes_per_principal=4_000_000)

    def lent() -> int:
        (kept,) = watcher.server.statistics()
        return kept["bytes"].lent

    settings = HttpServerSettings(send_timeout=60)
    with trio.fail_after(ENOUGH):
        async with served(watcher.server, http, settings=settings) as port, raw_socket(port) as socket:
            before = lent()
            await socket.send(*(call("large", number, size=900_000) for number in range(30)))
            answers = [await answer(socket) for _ in range(30)]
            refused = [each for each in answers if "error" in each]
            assert 0 < len(refused) < 30
            assert {each["error"]["code"] for each in refused} == {-31002}
            while lent() > before:
                await trio.sleep(0.01)
            await socket.send(call("large", 99, size=900_000))
            assert "result" in await answer(socket)
