"""Our HTTP client against servers that follow a script: regular ones, slow ones, broken ones, hostile ones."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from http_script import ReceivedRequest, ServerConnection, serve_http_script
from inside_http import (
    HttpClient,
    HttpRequest,
    HttpTarget,
    open_http_client,
    parse_target,
    send_following,
)
from patient_clock import STILL, pass_time

from trio_mcp import ConnectionLost, HttpSettings, LocalProtocolError, RemoteProtocolError

pytestmark = [pytest.mark.usefixtures("read_fields")]

MIB: Final = 1024 * 1024


def post(target: HttpTarget, body: bytes = b"{}", *headers: tuple[bytes, bytes]) -> HttpRequest:
    return HttpRequest(method="POST", target=target, headers=headers, body=body)


def get(target: HttpTarget) -> HttpRequest:
    return HttpRequest(method="GET", target=target)


async def fetch(client: HttpClient, request: HttpRequest, max_bytes: int = MIB) -> tuple[int, bytes]:
    async with await send_following(client, request, max_redirects=0) as response:
        return response.status, await response.read(max_bytes)


async def echo(connection: ServerConnection) -> None:
    """Answer each request with its body."""
    while (request := await connection.read()) is not None:
        await connection.answer(request.body)


def scripted(data: bytes, *, close: bool = True) -> Callable[[ServerConnection], Awaitable[None]]:
    """Read one request, write these bytes, and hang up or say nothing more."""

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.write(data)
        if not close:
            await connection.wait_gone()

    return handler


@asynccontextmanager
async def limits_time() -> AsyncGenerator[None]:
    """Fail what hangs, here and not in the runner."""
    yield


@asynccontextmanager
async def deaf_target() -> AsyncGenerator[HttpTarget]:
    """A port that accepts no connections and refuses none: its backlog is full."""
    sockets = [trio.socket.socket() for _ in range(20)]
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1)
    try:
        address = listener.socket.getsockname()
        for socket in sockets:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(socket.connect, address)
                await trio.testing.wait_all_tasks_blocked(STILL)
                nursery.cancel_scope.cancel()
        yield parse_target(f"http://127.0.0.1:{address[1]}/")
    finally:
        for socket in sockets:
            socket.close()
        with trio.CancelScope(shield=True):
            await listener.aclose()


async def test_a_request_arrives_as_it_was_asked() -> None:
    """One `Host`, a length, no compression, and what the caller says."""
    received: list[ReceivedRequest] = []

    async def handler(connection: ServerConnection) -> None:
        while (request := await connection.read()) is not None:
            received.append(request)
            await connection.answer(b"done", "202 Fine by me", "X-Answer: yes", "X-Answer: again")

    async with serve_http_script(handler) as server, open_http_client() as client:
        async with await client.send(post(server.target, b"hello", (b"X-Question", b"why"))) as response:
            assert (response.status, response.reason) == (202, "Fine by me")
            assert response.headers.get_all("x-answer") == ["yes", "again"]
            assert await response.receive_some() == b"done"
            assert await response.receive_some() == b""
            with trio.testing.assert_checkpoints():
                assert await response.receive_some() == b""
        await fetch(client, get(server.target))
    first, second = received
    assert (first.method, first.target, first.body) == ("POST", "/mcp", b"hello")
    assert first.headers.get("host") == server.target.authority
    assert first.headers.get("content-length") == "5"
    assert first.headers.get("accept-encoding") == "identity"
    assert first.headers.get("x-question") == "why"
    assert (second.method, second.body) == ("GET", b"")
    assert "content-length" not in second.headers


async def test_bodies_of_any_size_go_both_ways() -> None:
    """Also those that fill every buffer between the two."""
    async with serve_http_script(echo) as server, open_http_client() as client:
        for size in (0, 0, 1, 1, 65_000, 65_000, 70_000, 70_000, 5 * MIB, 5 * MIB, 0):
            assert await fetch(client, post(server.target, bytes(size)), 10 * MIB) == (200, bytes(size)), size
        assert server.connections == 1


async def test_a_body_in_chunks_streams() -> None:
    """What the server has sent is here before it sends more."""
    more = trio.Event()

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.start_chunked()
        await connection.chunk(b"one")
        await more.wait()
        await connection.chunk(b"two")
        await connection.chunk(b"")

    async with (
        serve_http_script(handler) as server,
        open_http_client() as client,
        await client.send(post(server.target)) as response,
    ):
        assert await response.receive_some() == b"one"
        more.set()
        assert await response.receive_some() == b"two"
        assert await response.receive_some() == b""


async def test_interim_responses_are_passed_over() -> None:
    """RFC 9110, section 15.2: 100 although nobody asked, 103, and whatever comes."""
    wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
    async with serve_http_script(scripted(wire)) as server, open_http_client() as client:
        assert await fetch(client, post(server.target)) == (200, b"a")


async def test_every_way_to_frame_a_response_is_read(subtests: pytest.Subtests) -> None:
    """RFC 9112, section 6.3."""
    cases: list[tuple[bytes, int, bytes]] = [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", 200, b"a"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", 200, b"old"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
            200,
            b"abc",
        ),
        (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", 999, b""),
    ]
    for wire, status, body in cases:
        with subtests.test(wire=wire):
            async with serve_http_script(scripted(wire)) as server, open_http_client() as client:
                assert await fetch(client, post(server.target)) == (status, body)


# Servers that break the rules.


async def test_a_broken_response_costs_one_request(subtests: pytest.Subtests) -> None:
    """It says what is wrong and with whom, and the next request has a connection of its own."""
    cases: list[tuple[bytes, type[Exception]]] = [
        (b"", ConnectionLost),
        (b"HTTP/1.1 200 O", ConnectionLost),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", ConnectionLost),
        (b"220 smtp.example.com ESMTP\r\n\r\n", RemoteProtocolError),
        (b"\x15\x03\x01\x00\x02\x02\x50\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\nContent-Length: 1\r\n\r\nx", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", RemoteProtocolError),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000, RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 17_000 + b"\r\nContent-Length: 0\r\n\r\n", RemoteProtocolError),
    ]
    wires: list[bytes] = []

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.write(wires.pop(0))

    settings = HttpSettings(max_head_bytes=16 * 1024)
    async with serve_http_script(handler) as server, open_http_client(settings) as client:
        for wire, error in cases:
            wires[:] = [wire, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]
            with subtests.test(wire=wire):
                async with limits_time():
                    with pytest.raises(error, match=r"http://127\.0\.0\.1"):
                        await fetch(client, post(server.target))
                    await server.wait_all_gone()  # nobody can know that the server is about to hang up
                    assert await fetch(client, post(server.target)) == (200, b"ok")
                    await server.wait_all_gone()
                    (statistics,) = client.statistics().values()
                    assert (statistics.idle, statistics.in_use) == (1, 0)


@pytest.mark.parametrize("framing", ["Content-Length: 2000000", "Transfer-Encoding: chunked", "X-Until: the end"])
async def test_a_body_that_is_too_large_is_not_read(framing: str) -> None:
    """Whether the server says so before or not."""

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.write(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode())
        while True:
            if "chunked" in framing:
                await connection.chunk(b"x" * 10_000)
            else:
                await connection.write(b"x" * 10_000)

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        with pytest.raises(RemoteProtocolError, match="more than 1000000 bytes"):
            await fetch(client, post(server.target), 1_000_000)
        await server.wait_all_gone()
        async with await client.send(post(server.target)) as response:
            assert await response.read_excerpt(1000) == b"x" * 1000
        await server.wait_all_gone()


async def test_a_request_that_is_no_http_is_not_sent() -> None:
    """A line break in a header field would be a field of its own."""
    async with serve_http_script(echo) as server, open_http_client() as client:
        with pytest.raises(LocalProtocolError):
            await fetch(client, post(server.target, b"", (b"X", b"a\r\nEvil: yes")))
        assert client.statistics() == {}


async def test_a_server_may_refuse_before_it_has_read_everything() -> None:
    """Its answer counts, and what it did not want is not sent on (413)."""

    async def handler(connection: ServerConnection) -> None:
        await connection.stream.receive_some(1000)
        await connection.answer(b"too much", "413 Content Too Large")
        await trio.sleep_forever()

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        assert await fetch(client, post(server.target, bytes(50 * MIB))) == (413, b"too much")
        assert client.statistics() == {}


async def test_a_server_may_refuse_and_hang_up() -> None:
    """Writing fails then, and the reason can still be read."""

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        await connection.answer(b"no", "403 Forbidden", "Connection: close")

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        for _ in range(3):
            assert await fetch(client, post(server.target)) == (403, b"no")
        assert server.connections == 3


async def test_a_server_that_reads_slowly_is_answered_by_the_callers_deadline() -> None:
    """There is no hidden timeout: not for sending, not for the head, not for the body."""

    async def handler(connection: ServerConnection) -> None:
        await trio.sleep_forever()

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        for size in (1, 50 * MIB):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pass_time, 10_000)
                with trio.move_on_after(10_000) as scope:
                    await fetch(client, post(server.target, bytes(size)))
            assert scope.cancelled_caught
        assert client.statistics() == {}


async def test_bytes_that_trickle_in_are_put_together() -> None:
    """A head and a body, one byte at a time."""

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc":
            await connection.write(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()  # it is read

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        assert await fetch(client, post(server.target)) == (200, b"abc")


# Which connection.


async def test_a_connection_is_used_again_after_a_complete_response() -> None:
    """Also if its end, which was there, was never asked for."""
    async with serve_http_script(echo) as server, open_http_client() as client:
        for _ in range(3):
            assert await fetch(client, post(server.target)) == (200, b"{}")
        async with await client.send(post(server.target, b"")):
            pass
        async with await client.send(post(server.target, b"abc")) as response:
            await response.receive_some()
        await fetch(client, post(server.target))
        assert server.connections == 1
        (statistics,) = client.statistics().values()
        assert (statistics.idle, statistics.in_use) == (1, 0)
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_dropping_a_request_whose_response_is_complete_costs_no_connection() -> None:
    """It may be dropped later than it ends: between a refusal and the next attempt lies a person's consent."""
    drops: list[Callable[[], object]] = []
    async with serve_http_script(echo) as server, open_http_client() as client:
        await fetch(client, attrs.evolve(post(server.target), on_sent=drops.append))
        drops[0]()
        async with await client.send(post(server.target, b"abc")) as response:
            drops[0]()
            assert await response.read(MIB) == b"abc"
        assert server.connections == 1


async def test_leaving_a_response_early_hangs_up() -> None:
    """That is how a server learns it (2026-07-28, basic/patterns/cancellation), whatever the reason for leaving."""
    gone = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal gone
        await connection.read()
        await connection.start_chunked()
        await connection.chunk(b"one")
        await connection.wait_gone()
        gone += 1

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        async with await client.send(post(server.target)) as response:
            assert await response.receive_some() == b"one"
        await server.wait_all_gone()
        with pytest.raises(ZeroDivisionError):
            async with await client.send(post(server.target)) as response:
                raise ZeroDivisionError
        await server.wait_all_gone()
        with trio.CancelScope() as scope:
            async with await client.send(post(server.target)) as response:
                await response.receive_some()
                scope.cancel()
                await response.receive_some()
        await server.wait_all_gone()
    assert gone == server.connections == 3


@pytest.mark.parametrize("stage", ["connect", "send", "head", "body"])
async def test_a_cancelled_request_leaves_nothing(stage: str) -> None:
    """At each stage: the connection is closed at once, its turn is free, and the next request gets an answer."""
    reached, given_up = trio.Event(), trio.Event()
    first = True

    async def handler(connection: ServerConnection) -> None:
        nonlocal first
        if first:
            first = False
            if stage == "send":
                await trio.testing.wait_all_tasks_blocked(STILL)  # the socket takes no more
                reached.set()
                await given_up.wait()
                await connection.wait_gone()
            elif stage == "head":
                await connection.read()
                await connection.write(b"HTTP/1.1 200 OK\r\nContent-")
                reached.set()
                await connection.wait_gone()
            else:
                await connection.read()
                await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
                reached.set()
                await connection.wait_gone()
            return
        await echo(connection)

    settings = HttpSettings(max_connections=1)
    async with (
        limits_time(),
        deaf_target() as deaf,
        serve_http_script(handler) as server,
        open_http_client(settings) as client,
    ):
        async with trio.open_nursery() as nursery:
            body = bytes(50 * MIB) if stage == "send" else b"{}"
            if stage == "connect":
                first = False
                nursery.start_soon(fetch, client, post(deaf, body))
                await trio.testing.wait_all_tasks_blocked(STILL)
            else:
                nursery.start_soon(fetch, client, post(server.target, body))
                await reached.wait()
            nursery.cancel_scope.cancel()
        given_up.set()
        assert client.statistics() == {}
        assert await fetch(client, post(server.target)) == (200, b"{}")


async def test_a_connection_that_the_server_closed_is_not_used() -> None:
    """Nothing of the request has been sent, so another one may carry it; the server saw no request twice."""
    requests = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal requests
        await connection.read()
        requests += 1
        await connection.answer(b"bye")  # it does not say that it will hang up

    async with serve_http_script(handler) as server, open_http_client() as client:
        for _ in range(3):
            assert await fetch(client, post(server.target)) == (200, b"bye")
            await server.wait_all_gone()
        assert server.connections == requests == 3


async def test_a_connection_that_speaks_unasked_is_not_used() -> None:
    """The next request would take that for its answer, in the same read or in a later one."""

    async def handler(connection: ServerConnection) -> None:
        await connection.read()
        late = connection.number == 2
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
        if late:
            await connection.write(answer)
            await trio.testing.wait_all_tasks_blocked()  # the client has it
            await connection.write(answer)
        else:
            await connection.write(answer * 2)
        await connection.wait_gone()

    async with limits_time(), serve_http_script(handler) as server, open_http_client() as client:
        for _ in range(3):
            assert await fetch(client, post(server.target)) == (200, b"a")
            await trio.testing.wait_all_tasks_blocked(STILL)
        assert server.connections == 3


async def test_a_post_is_never_sent_twice() -> None:
    """A connection that dies with the request on it: it may have been processed, and the caller has to know."""
    requests = 0

    async def handler(connection: ServerConnection) -> None:
        nonlocal requests
        await connection.read()
        await connection.answer(b"first")
        if await connection.read() is not None:
            requests += 1

    async with serve_http_script(handler) as server, open_http_client() as client:
        await fetch(client, post(server.target))
        with pytest.raises(ConnectionLost, match="in place of a response"):
            await fetch(client, post(server.target))
        assert (requests, server.connections) == (1, 1)


async def test_idle_connections_grow_old_and_are_few(mock_clock: trio.testing.MockClock) -> None:
    """Below the time a server keeps them, and not more than a few."""
    settings = HttpSettings(max_idle_connections=2)

    async def wait_open(connections: int) -> None:
        while server.open > connections:
            await trio.testing.wait_all_tasks_blocked(0.001)

    async with serve_http_script(echo) as server, open_http_client(settings) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(fetch, client, post(server.target))
        await wait_open(2)
        (statistics,) = client.statistics().values()
        assert statistics.idle == 2
        opened = server.connections
        mock_clock.jump(settings.idle_timeout + 1)
        await fetch(client, post(server.target))
        assert server.connections == opened + 1
        await wait_open(1)


async def test_requests_beyond_the_limit_wait_in_line() -> None:
    """First come, first served; one that gives up leaves the line; an urgent one does not stand in it."""
    order: list[bytes] = []
    go = trio.Event()

    async def handler(connection: ServerConnection) -> None:
        while (request := await connection.read()) is not None:
            order.append(request.body)
            if request.body == b"first":
                await go.wait()
            await connection.answer(b"")

    settings = HttpSettings(max_connections=1)
    async with (
        limits_time(),
        serve_http_script(handler) as server,
        open_http_client(settings) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(fetch, client, post(server.target, b"first"))
        while not order:
            await trio.sleep(0.001)
        scope = trio.CancelScope()

        async def impatient() -> None:
            with scope:
                await fetch(client, post(server.target, b"impatient"))

        for body in (b"second", b"third"):
            nursery.start_soon(fetch, client, post(server.target, body))
            await trio.testing.wait_all_tasks_blocked()
            if body == b"second":
                nursery.start_soon(impatient)
                await trio.testing.wait_all_tasks_blocked()
        (statistics,) = client.statistics().values()
        assert (statistics.in_use, statistics.waiting) == (1, 3)
        scope.cancel()
        async with await client.send(post(server.target, b"urgent"), urgent=True) as response:
            assert response.status == 200
        go.set()
    assert order == [b"first", b"urgent", b"second", b"third"]


async def test_hundreds_of_cancelled_requests_wedge_nothing() -> None:
    """What other clients' pools do not survive: most requests cancelled at any moment, on few connections."""

    async def handler(connection: ServerConnection) -> None:
        while (request := await connection.read()) is not None:
            await trio.sleep(0.001)
            await connection.answer(request.body)

    settings = HttpSettings(max_connections=5)
    answered = 0

    async def ask(n: int) -> None:
        nonlocal answered
        with trio.move_on_after((n % 23) / 100 or math.inf):  # some get through on any machine
            assert await fetch(client, post(server.target, b"%d" % n)) == (200, b"%d" % n)
            answered += 1

    async with limits_time(), serve_http_script(handler) as server, open_http_client(settings) as client:
        async with trio.open_nursery() as nursery:
            for n in range(600):
                nursery.start_soon(ask, n)
        for n in range(20):
            assert await fetch(client, post(server.target, b"%d" % n)) == (200, b"%d" % n)
        (statistics,) = client.statistics().values()
        assert (statistics.in_use, statistics.waiting) == (0, 0)
        while server.open > statistics.idle:
            await trio.sleep(0.001)
    assert 0 < answered < 600


# Where to.


async def test_a_refused_connection_is_reported_in_one_sentence() -> None:
    """With the address and the reason, not the exceptions of three address families."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    async with open_http_client() as client:
        with pytest.raises(ConnectionLost, match=rf"could not connect to http://127\.0\.0\.1:{port}: .*refused"):
            await fetch(client, post(parse_target(f"http://127.0.0.1:{port}/")))
        with pytest.raises(ConnectionLost, match=r"could not connect to http://nobody\.invalid: "):
            await fetch(client, post(parse_target("http://nobody.invalid/")))
        with pytest.raises(ConnectionLost, match="No such file"):
            await fetch(client, post(parse_target("http+unix://%2Fnowhere.sock/")))
        assert client.statistics() == {}


async def test_connecting_ends_by_itself() -> None:
    """Promise 7: a peer that accepts nothing."""
    settings = HttpSettings(connect_timeout=20)
    async with deaf_target() as target, open_http_client(settings) as client, trio.open_nursery() as nursery:
        nursery.start_soon(pass_time, 20)
        with pytest.raises(ConnectionLost, match=r"within 20 s \(connect_timeout\)"):
            await fetch(client, post(target))


async def test_a_unix_socket_is_asked_like_any_other(tmp_path: Path) -> None:
    """`Host` says localhost."""
    path = tmp_path / "mcp.sock"
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await socket.bind(str(path))
    socket.listen()
    hosts: list[str | None] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            connection = ServerConnection(stream, 1)
            request = await connection.read()
            assert request is not None
            hosts.append(request.headers.get("host"))
            await connection.answer(request.target.encode())

    target = parse_target(f"http+unix://{str(path).replace('/', '%2F')}/mcp?a=b")
    async with trio.open_nursery() as nursery, open_http_client() as client:
        await nursery.start(trio.serve_listeners, serve, [trio.SocketListener(socket)])
        assert await fetch(client, post(target)) == (200, b"/mcp?a=b")
        nursery.cancel_scope.cancel()
    assert hosts == ["localhost"]


async def test_leaving_the_client_closes_everything() -> None:
    """Idle connections too, and also when it is cancelled."""
    async with limits_time(), serve_http_script(echo) as server:
        async with open_http_client() as client:
            await fetch(client, post(server.target))
            assert server.open == 1
        await server.wait_all_gone()
        with trio.CancelScope() as scope:
            async with open_http_client() as client:
                await fetch(client, post(server.target))
                scope.cancel()
        await server.wait_all_gone()


# Redirects.


def redirecting(*answers: tuple[str, str]) -> tuple[list[str], Callable[[ServerConnection], Awaitable[None]]]:
    seen: list[str] = []
    left = list(answers)

    async def handler(connection: ServerConnection) -> None:
        while (request := await connection.read()) is not None:
            seen.append(f"{request.method} {request.target} {request.body.decode()}".rstrip())
            if left:
                status, location = left.pop(0)
                await connection.answer(b"over there", status, f"Location: {location}")
            else:
                await connection.answer(b"here")

    return seen, handler


async def follow(client: HttpClient, request: HttpRequest) -> tuple[int, bytes, str]:
    async with await send_following(client, request) as response:
        return response.status, await response.read(MIB), response.request.target.path


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_keeps_the_post(status: str) -> None:
    """RFC 9110, sections 15.4.8 and 15.4.9: mounted applications redirect to the path with a slash."""
    seen, handler = redirecting((status, "/mcp/"), (status, "?x"))
    async with serve_http_script(handler) as server, open_http_client() as client:
        assert await follow(client, post(server.target, b"{}")) == (200, b"here", "/mcp/?x")
        assert seen == ["POST /mcp {}", "POST /mcp/ {}", "POST /mcp/?x {}"]
        assert server.connections == 1


async def test_a_redirect_that_would_lose_the_body_is_not_followed(subtests: pytest.Subtests) -> None:
    """A GET of the new place is not what was asked."""
    for status in ("301 Moved", "302 Found", "303 See Other", "300 Choices", "304 No"):
        with subtests.test(status=status):
            seen, handler = redirecting((status, "/mcp/"))
            async with serve_http_script(handler) as server, open_http_client() as client:
                code, _, path = await follow(client, post(server.target))
                assert (code, path) == (int(status[:3]), "/mcp")
                assert len(seen) == 1


async def test_a_get_is_followed_whatever_the_redirect(subtests: pytest.Subtests) -> None:
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"):
        with subtests.test(status=status):
            seen, handler = redirecting((status, "/mcp/"))
            async with serve_http_script(handler) as server, open_http_client() as client:
                assert await follow(client, get(server.target)) == (200, b"here", "/mcp/")
                assert seen == ["GET /mcp", "GET /mcp/"]


async def test_a_redirect_elsewhere_is_not_followed(subtests: pytest.Subtests) -> None:
    """The server there has no right to what the request says."""
    cases: list[str] = ["http://evil.example/", "//evil.example/mcp", "https://127.0.0.1/mcp", "http://user@127.0.0.1/", "ftp://x/", "http://localhost/"]  # fmt: skip
    for location in cases:
        with subtests.test(location=location):
            seen, handler = redirecting(("307 Temporary Redirect", location))
            async with serve_http_script(handler) as server, open_http_client() as client:
                assert (await follow(client, post(server.target)))[0] == 307
                assert len(seen) == 1


async def test_redirects_end() -> None:
    """Two places that point at each other."""
    seen, handler = redirecting(*[("307 Temporary Redirect", "/a")] * 100)
    async with serve_http_script(handler) as server, open_http_client() as client:
        assert (await follow(client, post(server.target)))[0] == 307
        assert len(seen) == 6
