"""HTTP over real sockets: who is let in, who is slow, who leaves, and how it all ends."""
# trustme takes the contexts of a library that is not here as well.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
import trustme
from descriptors import open_files
from http_raw import Events, call_tool, modern
from http_wire import Served, Wire, request_for, serving
from inside_base import LEGACY, repetitions
from inside_transports import open_streamable_http
from patient_clock import STILL, pass_time
from raw import initialize
from shared.http_server_hosting import make_server

from trio_mcp import (
    HttpServerParameters,
    HttpServerSettings,
    HttpSettings,
    Limits,
    Revision,
    Server,
    Shutdown,
    open_client,
    serve_http,
)

pytestmark = [pytest.mark.usefixtures("host")]


LOGGING = {"io.modelcontextprotocol/logLevel": "debug"}


async def until(condition: Any) -> None:
    while not condition():
        await trio.sleep(0.01)


@pytest.mark.spec("basic/transports", "Backwards Compatibility", revisions=tuple(Revision))
@pytest.mark.spec("basic/transports/streamable-http", "Backward Compatibility", revisions=tuple(Revision))
@pytest.mark.spec(
    "basic/transports/streamable-http", "Earlier Streamable HTTP Revisions", revisions=tuple(Revision)
)
@pytest.mark.spec(
    "basic/transports/streamable-http", "HTTP+SSE Transport (2024-11-05)", revisions=tuple(Revision)
)
@pytest.mark.spec("basic/transports/index", "Backward Compatibility", revisions=tuple(Revision))
async def test_clients_of_every_revision_use_one_endpoint(subtests: pytest.Subtests) -> None:
    """The era and the revision are told apart request by request; the oldest has a transport of its own."""
    async with serving(make_server(), HttpServerSettings(sse=True)) as served:
        for revision in Revision:
            url, transport = served.urls[0], "streamable-http"
            if revision == "2024-11-05":
                url, transport = url.replace("/mcp", "/sse"), "sse"
            parameters = HttpServerParameters(url, transport=transport)  # type: ignore[arg-type]
            with subtests.test(revision=revision):
                async with (
                    open_streamable_http(parameters, Limits()) as channel,
                    open_client(channel, revision=revision) as client,
                ):
                    result = await client.call_tool("add", {"a": 1, "b": 2})
                    assert [getattr(block, "text", None) for block in result.content] == ["3"]


@pytest.mark.spec("basic/transports/streamable-http", "Security & Endpoint", revisions="2026-07-28")
async def test_who_is_let_in(caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests) -> None:
    """ "Security & Endpoint": the answer and the log name the field and the setting, and nothing inside."""
    cases: list[tuple[dict[str, str], int, str]] = [
        ({}, 200, ""),
        ({"Host": "127.0.0.1:1"}, 200, ""),
        ({"Host": "evil.example.com"}, 421, "Host 'evil.example.com' is not in allowed_hosts"),
        ({"Origin": "http://localhost:6274"}, 200, ""),
        ({"Origin": "http://evil.example.com"}, 403, "is not in allowed_origins"),
        ({"Origin": "null"}, 403, "allowed_origins"),
        ({"Content-Type": "text/plain"}, 415, "Content-Type"),
        ({"Accept": "text/html"}, 406, "Accept"),
        ({"X-Long": "x" * 33_000}, 431, "32768 are allowed"),
    ]
    async with serving(make_server()) as served:
        for headers, status, named in cases:
            with subtests.test(headers=headers):
                repetitions.forget()
                caplog.clear()
                async with served.wire() as wire:
                    await wire.stream.send_all(wire.request(call_tool("add", a=1, b=1), headers))
                    received, body = await wire.answer()
                assert received == status
                assert named in body.decode()
                if status in (421, 403):
                    assert named in caplog.text


@pytest.mark.spec("basic/transports", "Security Warning", revisions=LEGACY)
async def test_web_pages_of_other_origins_begin_no_session() -> None:
    """Neither by their own name nor by one that they have made to point here (DNS rebinding)."""
    origin, host = {"Origin": "http://evil.example.com"}, {"Host": "evil.example.com"}
    async with serving(make_server(), HttpServerSettings(sse=True)) as served:
        for revision, (headers, status) in product(LEGACY, ((origin, 403), (host, 421))):
            body = json.dumps(initialize(revision)).encode()
            async with served.wire() as wire:
                request = wire.head(len(body), headers) + body
                if revision == "2024-11-05":
                    request = wire.head(0, headers, "GET").replace(b"GET /mcp", b"GET /sse")
                await wire.stream.send_all(request)
                refused, said = await wire.answer()
            assert refused == status, revision
            assert b"allowed_" in said, revision


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_has_its_limit_while_it_is_read(*, declared: bool) -> None:
    """413 as soon as it is clear, whether the length was said before or not."""
    settings = HttpServerSettings(max_body_bytes=10_000)
    async with serving(make_server(), settings) as served, served.wire() as wire:
        if declared:
            await wire.stream.send_all(wire.head(10_001))
        else:
            head = wire.head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            await wire.stream.send_all(head + b"2711\r\n%b\r\n" % (b"x" * 10_001))
        status, body = await wire.answer()
        assert (status, b"max_body_bytes" in body) == (413, True)
        await wire.wait_closed()


async def test_slow_senders_are_cut() -> None:
    """A head has half of `message_timeout`, a body all of it, and both cost only their own connection."""
    settings = HttpServerSettings(message_timeout=40, idle_timeout=1_000)
    async with serving(make_server(), settings) as served:
        async with served.wire() as head, served.wire() as body:
            await head.stream.send_all(b"POST /mcp HT")
            await body.stream.send_all(body.head(100) + b"{")
            await pass_time(20)
            assert await head.wait_closed() == b""
            await pass_time(20)
            status, said = await body.answer()
            assert (status, b"message_timeout" in said) == (408, True)
            await body.wait_closed()
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


async def test_a_body_that_stops_short_costs_only_itself() -> None:
    """The client goes in the middle of its own request."""
    async with serving(make_server()) as served:
        for _ in range(5):
            async with served.wire() as wire:
                await wire.stream.send_all(wire.head(100) + b'{"jsonrpc":')
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


@pytest.mark.spec("basic/transports/streamable-http", "Cancellation", revisions="2026-07-28")
@pytest.mark.parametrize("text", ["", "hello"])
async def test_a_disconnect_cancels_the_handler(text: str) -> None:
    """ "Cancellation", as JSON and as a stream, over a real connection."""
    log: list[str] = []
    async with serving(make_server(log)) as served:
        async with served.wire() as wire:
            await wire.stream.send_all(wire.request(call_tool("hang", _meta=LOGGING, text=text)))
            await until(lambda: log == ["began"])
        await until(lambda: log == ["began", "ended"])


async def test_a_client_that_does_not_read_holds_up_no_other() -> None:
    """Not another call, and not the shutdown; in the end its connection is cut."""
    log: list[str] = []
    server = make_server(log, limits=Limits(drain_timeout=20, goodbye_timeout=20))
    async with serving(server) as served, served.wire() as wire:
        await wire.stream.send_all(wire.request(call_tool("flood", _meta=LOGGING)))
        await until(lambda: log == ["began"])
        await trio.testing.wait_all_tasks_blocked(STILL)  # the socket takes no more
        for _ in range(3):
            assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200
        served.shutdown.drain()
        for _ in range(2):
            await pass_time(20)
        await served.ended.wait()
    assert log == ["began", "ended"]


async def test_a_reader_that_never_reads_is_cut_after_the_send_timeout() -> None:
    """So that its handler ends, too."""
    log: list[str] = []
    async with (
        serving(make_server(log), HttpServerSettings(send_timeout=20)) as served,
        served.wire() as wire,
    ):
        await wire.stream.send_all(wire.request(call_tool("flood", _meta=LOGGING)))
        await until(lambda: log == ["began"])
        await pass_time(20)
        await until(lambda: log == ["began", "ended"])


async def test_odd_clients_cost_only_themselves(subtests: pytest.Subtests) -> None:
    """What ends a whole server elsewhere; nobody can talk it into HTTP/2 or a WebSocket."""
    cases: list[bytes] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        (
            b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        ),
        (
            b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ),
        b"CONNECT x:1 HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%00%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"\r\n\r\n\r\n" * 1000,
    ]
    async with serving(make_server(), HttpServerSettings(idle_timeout=20)) as served:
        for junk in cases:
            with subtests.test(junk=junk):
                async with served.wire() as wire:
                    await wire.stream.send_all(junk)
                    await pass_time(20)  # for who would wait for more
                    answer = await wire.wait_closed() if b"GET" not in junk else await wire.stream.receive_some()
                assert b" 101 " not in answer
                assert b"Traceback" not in answer
                assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


@pytest.mark.parametrize("use", ["unused", "half a head", "one request", "a session's stream"])
async def test_a_connection_ends_when_its_client_goes(use: str) -> None:
    """And not `idle_timeout` later: looking whether a port is open must not cost a place."""
    async with serving(make_server()) as served:
        began = await served.raw.send(initialize("2025-11-25"))
        session = {"Mcp-Session-Id": began.headers["mcp-session-id"]}
        files = open_files()
        for _ in range(3):
            async with served.wire() as wire:
                if use == "half a head":
                    await wire.stream.send_all(b"POST /mcp HT")
                elif use == "one request":
                    await wire.stream.send_all(wire.request(call_tool("add", a=1, b=1)))
                    assert (await wire.answer())[0] == 200
                elif use == "a session's stream":
                    await wire.stream.send_all(wire.head(0, session, "GET"))
                    assert b"200" in await wire.stream.receive_some()
        await until(lambda: not open_files() - files)


async def test_connections_are_bounded() -> None:
    """Further ones are refused while all are at work, and let in when there is room."""
    log: list[str] = []
    async with (
        serving(make_server(log), HttpServerSettings(max_connections=2)) as served,
        served.wire() as first,
        served.wire() as second,
    ):
        for wire in (first, second):
            await wire.stream.send_all(wire.request(call_tool("hang")))
        await until(lambda: len(log) == 2)
        async with served.wire() as third:
            refusal = await third.wait_closed()
            assert refusal.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1\r\n" in refusal
            assert b"max_connections" in refusal
        await first.stream.aclose()
        await until(lambda: log[-1] == "ended")
        async with served.wire() as fourth:
            await fourth.stream.send_all(fourth.request(call_tool("add", a=1, b=1)))
            assert (await fourth.answer())[0] == 200


@asynccontextmanager
async def wire_from(served: Served, address: str) -> AsyncGenerator[Wire]:
    """Open a connection from another address of this machine."""
    stream = await trio.open_tcp_stream("127.0.0.1", served.port, local_address=address)
    try:
        yield Wire(stream)
    finally:
        await trio.aclose_forcefully(stream)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere this machine has one address")
@pytest.mark.parametrize("use", ["silent", "half a head"])
async def test_two_addresses_cannot_take_all_connections(use: str) -> None:
    """What has been silent for longest gives way."""
    settings = HttpServerSettings(max_connections=20)
    async with serving(make_server(), settings) as served, AsyncExitStack() as stack:
        for n in range(20):
            wire = await stack.enter_async_context(wire_from(served, f"127.0.0.{n % 2 + 2}"))
            if use == "half a head":
                await wire.stream.send_all(b"POST /mcp HT")
        for n in range(3):
            async with wire_from(served, f"127.0.0.{n + 4}") as honest:
                await honest.stream.send_all(honest.request(call_tool("add", a=1, b=1)))
                assert (await honest.answer())[0] == 200


async def test_who_rests_gives_way(caplog: pytest.LogCaptureFixture) -> None:
    """To others of its address, which gets only so many places; the longest first. The log says so once."""
    log: list[str] = []
    settings = HttpServerSettings(max_connections=20)
    async with (
        serving(make_server(log), settings) as served,
        served.wire() as silent,
        AsyncExitStack() as stack,
        served.wire() as kept,
    ):
        for _ in range(8):
            working = await stack.enter_async_context(served.wire())
            await working.stream.send_all(working.request(call_tool("hang")))
        await until(lambda: log == ["began"] * 8)
        for _ in range(2):
            await kept.stream.send_all(kept.request(call_tool("add", a=1, b=1)))
            assert (await kept.answer())[0] == 200
        async with served.wire() as fourth:
            await fourth.stream.send_all(fourth.request(call_tool("hang")))
            assert await silent.wait_closed() == b""
            async with served.wire() as fifth:
                await fifth.stream.send_all(fifth.request(call_tool("hang")))
                assert await kept.wait_closed() == b""
                await until(lambda: log == ["began"] * 10)
                async with served.wire() as sixth:
                    assert b"max_connections_per_address" in await sixth.wait_closed()
    assert log == ["began"] * 10 + ["ended"] * 10
    assert caplog.text.count("max_connections_per_address") == 1


async def test_who_has_gone_takes_no_place() -> None:
    """At once, and not when the connection would have been idle for too long."""
    async with serving(make_server(), HttpServerSettings(max_connections=2)) as served:
        for sent in (b"", b"POST /mcp HT", request_for(call_tool("add", a=1, b=1))):
            for _ in range(5):
                async with served.wire() as wire:
                    await wire.stream.send_all(sent)
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


async def test_a_shutdown_answers_what_came() -> None:
    """A call in flight, a subscription and a session; idle connections are closed at once."""
    log: list[str] = []
    server = make_server(log, limits=Limits(drain_timeout=30))
    async with serving(server) as served, trio.open_nursery() as nursery:
        raw = served.raw
        answers: dict[str, Any] = {}

        async def nap() -> None:
            answers["nap"] = await raw.send(call_tool("nap", seconds=20))

        async def listen() -> None:
            async with raw.open(modern("subscriptions/listen", notifications={"toolsListChanged": True})) as got:
                events = Events(got)
                await events.message()
                answers["listen"] = await events.message()

        session = (await raw.send(initialize("2025-11-25"))).headers["mcp-session-id"]

        async def get() -> None:
            answers["get"] = await raw.send(
                None, {"Mcp-Session-Id": session, "Accept": "text/event-stream"}, method="GET"
            )

        for task in (nap, listen, get):
            nursery.start_soon(task)
        await until(lambda: log == ["napping"])
        await trio.testing.wait_all_tasks_blocked(STILL)  # and the others have begun
        served.shutdown.drain()
        await pass_time(20)
        await served.ended.wait()
    assert answers["nap"].message["result"]["content"][0]["text"] == "rested"
    assert answers["listen"]["result"]["resultType"] == "complete"
    assert answers["get"].status == 200


async def test_cancelling_the_server_leaves_nothing() -> None:
    """Its handlers' cleanup runs, and nobody is waited for."""
    log: list[str] = []
    async with trio.open_nursery() as nursery:
        urls: tuple[str, ...] = await nursery.start(partial(serve_http, make_server(log), port=0))
        stream = await trio.open_tcp_stream("127.0.0.1", int(urls[0].split(":")[2].split("/")[0]))
        wire = Wire(stream)
        await stream.send_all(wire.request(call_tool("hang", _meta=LOGGING, text="x")))
        await until(lambda: log == ["began"])
        nursery.cancel_scope.cancel()
    assert log == ["began", "ended"]
    await trio.aclose_forcefully(stream)


async def test_an_aborted_shutdown_waits_for_nothing() -> None:
    """`Shutdown.abort`: every handler is cancelled now."""
    log: list[str] = []
    async with serving(make_server(log)) as served, served.wire() as wire:
        await wire.stream.send_all(wire.request(call_tool("hang")))
        await until(lambda: log == ["began"])
        served.shutdown.abort()
        await served.ended.wait()
    assert log == ["began", "ended"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
async def test_a_server_that_ends_leaves_the_socket_of_the_one_that_took_its_place(tmp_path: Path) -> None:
    """While one drains, or hangs, the next one may be there already. What is not its own it does not touch."""
    path = tmp_path / "mcp.sock"
    async with serving(make_server(), unix_path=path) as first:
        path.unlink()  # as a supervisor does, or a script that starts the next one
        async with serving(make_server(), unix_path=path):
            made = path.lstat()
            first.shutdown.drain()
            await first.ended.wait()
            assert path.lstat().st_ino == made.st_ino
            await trio.aclose_forcefully(await trio.open_unix_socket(str(path)))
        assert not path.exists(), "its own"
    async with serving(make_server(), unix_path=path):
        path.unlink()
        path.write_bytes(b"something else")
    assert path.read_bytes() == b"something else"


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
async def test_the_socket_of_a_server_is_gone_before_it_has_drained(tmp_path: Path) -> None:
    """So that the next one can be started while it finishes, and its file cannot be mistaken for the old one's."""
    path = tmp_path / "mcp.sock"
    log: list[str] = []
    async with serving(make_server(log, limits=Limits(drain_timeout=60)), unix_path=path) as first:
        stream = await trio.open_unix_socket(str(path))
        await stream.send_all(request_for(call_tool("nap", seconds=20)))
        await until(lambda: log == ["napping"])
        first.shutdown.drain()
        await until(lambda: not path.exists())
        async with serving(make_server(), unix_path=path):
            assert not first.ended.is_set()
            await pass_time(20)
            answer = b""
            while b"rested" not in answer:
                answer += await stream.receive_some()
            await first.ended.wait()
            again = await trio.open_unix_socket(str(path))
            await again.send_all(request_for(call_tool("add", a=1, b=1)))
            assert b" 200 " in await again.receive_some()
            await trio.aclose_forcefully(again)
        await trio.aclose_forcefully(stream)
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
async def test_a_server_that_listens_keeps_its_unix_socket(tmp_path: Path) -> None:
    """The second one that is started by mistake fails, and says why; the first goes on."""
    path = tmp_path / "mcp.sock"
    async with serving(make_server(), unix_path=path):
        made = path.lstat()
        with pytest.raises(OSError, match="another server listens there") as caught:
            await serve_http(make_server(), unix_path=path)
        assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, str(path))
        assert path.lstat().st_ino == made.st_ino
        stream = await trio.open_unix_socket(str(path))
        await stream.send_all(request_for(call_tool("add", a=1, b=1)))
        assert b" 200 " in await stream.receive_some()
        await trio.aclose_forcefully(stream)


@pytest.mark.skipif(sys.platform == "win32", reason="there are none")
@pytest.mark.parametrize("what", ["file", "folder", "link", "datagrams"])
async def test_what_is_not_a_dead_socket_is_left_where_it_is(tmp_path: Path, what: str) -> None:
    """Somebody needs it."""
    path = tmp_path / "mcp.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        if what == "file":
            path.write_bytes(b"precious")
        elif what == "folder":
            path.mkdir()
        elif what == "link":
            path.symlink_to("nowhere")
        else:
            other.bind(str(path))
        made = path.lstat()
        with pytest.raises(OSError, match=r"no socket|cannot be told"):
            await serve_http(make_server(), unix_path=path)
    assert path.lstat().st_ino == made.st_ino


async def test_unix_sockets(tmp_path: Path) -> None:
    """For proxies and clients of one machine; nothing is left of it."""
    path = tmp_path / "mcp.sock"
    for _ in range(2):
        async with serving(make_server(), unix_path=path) as served:
            assert served.urls[0].startswith("http+unix://")
            assert path.stat().st_mode & 0o777 == 0o600
            async with (
                open_streamable_http(HttpServerParameters(served.urls[0]), Limits()) as channel,
                open_client(channel) as client,
            ):
                assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == 3
        assert not path.exists()


async def test_tls_and_certificates_of_clients() -> None:
    """HTTPS, and who has no certificate is not served when one is demanded."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)
    untrusting = ssl.create_default_context()
    authority.configure_trust(untrusting)
    authority.issue_cert("client@example.com").configure_cert(client_context)
    async with serving(
        make_server(), ssl_context=context, http=HttpSettings(ssl_context=client_context)
    ) as served:
        assert served.urls[0].startswith("https://")
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200
        async with served.wire() as wire:
            await wire.stream.send_all(b"POST /mcp HTTP/1.1\r\n\r\n")
            await wire.wait_closed()
        plain = await trio.open_ssl_over_tcp_stream("127.0.0.1", served.port, ssl_context=untrusting)
        with pytest.raises(trio.BrokenResourceError):
            await plain.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await plain.receive_some()
            await plain.receive_some()
        await trio.aclose_forcefully(plain)
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


PROGRAM = """
import sys, trio
from trio_mcp import Server
server = Server("program")
assert "hypercorn" not in sys.modules

@server.tool
async def nap() -> str:
    print("napping", flush=True)
    try:
        await trio.lowlevel.wait_readable(0)
    finally:
        print("woke", flush=True)
    return "rested"

import logging
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
server.run("streamable-http", port=0)
print("left", flush=True)
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_program_serves_until_a_signal(number: signal.Signals, status: int) -> None:
    """SIGTERM answers what came; SIGINT cancels it. Either way cleanup runs. Stdio needs no HTTP library."""
    async with trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        assert process.stdin is not None
        out = b""
        while b"/mcp" not in out:
            data = await process.stdout.receive_some()
            assert data, out.decode()
            out += data
        url = out.decode().split("serving at ")[1].split()[0]
        port = int(url.split(":")[2].split("/")[0])
        answers: list[bytes] = []

        async def call() -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            wire = Wire(stream)
            await stream.send_all(wire.request(call_tool("nap")))
            answers.append(await wire.wait_closed())
            await stream.aclose()

        nursery.start_soon(call)
        while b"napping" not in out:
            out += await process.stdout.receive_some()
        process.send_signal(number)
        if number == signal.SIGTERM:
            with suppress(OSError):
                while True:  # until it listens no more
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            await process.stdin.send_all(b"\n")
        while data := await process.stdout.receive_some():
            out += data
        assert await process.wait() == status
    assert (b"rested" in answers[0]) == (number == signal.SIGTERM)
    assert b"woke" in out
    assert b"Traceback" not in out


BROKEN = {errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOTSOCK}


def fail_to_accept(monkeypatch: pytest.MonkeyPatch, errors: list[int]) -> None:
    """Let accepting fail with each of these, the last first."""
    accept = trio.SocketListener.accept

    async def fail(self: trio.SocketListener) -> trio.SocketStream:
        if errors:
            await trio.lowlevel.checkpoint()
            raise OSError(error := errors.pop(), os.strerror(error))
        return await accept(self)

    monkeypatch.setattr(trio.SocketListener, "accept", fail)


async def test_what_goes_wrong_with_one_connection_ends_no_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Linux hands over what the network had to say about a peer; whatever it is, others are accepted. One line."""
    errors = sorted(set(errno.errorcode) - BROKEN, reverse=True)
    fail_to_accept(monkeypatch, errors)
    async with serving(make_server()) as served:
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200
    assert not errors
    assert len([record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]) == 1


async def test_accepting_that_does_nothing_but_fail_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It pauses now and then, and the log has one line."""
    pauses: list[float] = []
    sleep = trio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(trio, "sleep", note)
    fail_to_accept(monkeypatch, [errno.EPERM] * 350)
    async with serving(make_server()) as served:
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200
    assert pauses == [0.1] * 3
    assert len([record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]) == 1


@pytest.mark.parametrize("error", sorted(BROKEN))
async def test_a_listener_that_is_broken_ends_the_server(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Nobody could ever connect again; that must not stay unknown."""
    fail_to_accept(monkeypatch, [error])
    with pytest.raises(OSError, match=re.escape(os.strerror(error))):
        await serve_http(make_server(), port=0)


async def test_a_connection_is_served_of_which_the_system_says_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its client went before it was accepted: some systems do not even know its family then."""
    real = socket.socket

    class Forgetful(real):  # type: ignore[valid-type, misc]
        def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
            if fileno is not None and -1 in (family, type, proto):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            super().__init__(family, type, proto, fileno)

    async with serving(make_server()) as served:
        monkeypatch.setattr(socket, "socket", Forgetful)
        assert (await served.raw.send(call_tool("add", a=1, b=1))).status == 200


def test_shutdown_objects_end_several_servers() -> None:
    """One object for HTTP and stdio at once."""

    async def main() -> None:
        shutdown = Shutdown()
        async with trio.open_nursery() as nursery:
            for name in ("one", "two"):
                await nursery.start(partial(serve_http, Server(name), port=0, shutdown=shutdown))
            shutdown.drain()

    trio.run(main)
